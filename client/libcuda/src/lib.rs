//! The client's `libcuda.so.1`: every name NVIDIA's library exports, over this process's client. C's calls come in, the
//! surface types them, the session answers. There is no logic here, and loading the library does nothing: `cuInit` connects.

use floe_session::Client;

floe_surface::export_driver! { driver: Client = Client::of_process(), marker: floe_client_marker }
