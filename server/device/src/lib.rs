//! The device a worker drives: the CUDA driver API as a typed library, loaded from a named `libcuda.so.1`. NVIDIA's and
//! floe's CPU device look the same from here. On it `Gpu` keeps every address of this process behind safe calls. Typed
//! calls come in, C calls of the library go out. It knows nothing of sessions, and no number from the wire reaches it
//! without the worker's tables in between. NVIDIA's management library is found here too.

mod choice;
mod content;
pub mod cupti;
mod device;
mod driver;
mod generated;
mod gpu;
mod hash;
mod instances;
pub mod nccl;
mod nvml;
mod requests;
pub mod room;
mod snapshot;

pub use choice::{Kind, OpenLibraryError};
pub use content::Content;
pub use device::{Device, Mapped, MemoryEnd, PAGE, Pinned};
pub use driver::{
    Driver, GraphKernel, HostCall, HostMemory, LaunchRequest, LinkInput, LoadImage, LoadLog, LoadOption, OpenError,
    Tried,
};
pub use generated::{Calls, PlainCalls};
pub use gpu::{Gpu, MappedMemory, PinnedMemory, probe};
pub use hash::{HASH_KERNEL, HASH_UNIT, HashKey, UNIT_HASH_BYTES, UnitHash, hash_grid};
pub use instances::shown_alone;
pub use nvml::{confidential_settings, field_value, link_remote_kind, open_nvml};
/// The types of NVIDIA's management library.
pub use nvml_wrapper;
pub use requests::{
    ArrayPlace, ClusterQuestion, Code, Conditional, Costs, End, Global, Image, ImageKind, KernelFacts, KernelSetting,
    Limits, LoadFailure, Loading, NodeBodies, NodeCopy, NodeEdge, NodeWork, PageSize, Pattern, Rows, RowsEnd,
    RowsPlace, TextureReferenceRequest, TextureRequest,
};
pub use snapshot::{Place, Probe, Snapshot};
