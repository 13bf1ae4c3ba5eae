//! Moves frames between client and server over TCP, TLS, Unix sockets and rings in shared memory.
//! In: an address or an open socket, and messages. Out: messages in order, or the reason why the link is over.
//! It knows frames, sequences and buffers; what a message means is for others.
#![forbid(unsafe_code)]

mod address;
mod bulk;
mod connect;
mod error;
mod flusher;
mod incoming;
mod lasting;
mod lent;
mod link;
mod listener;
#[cfg(test)]
mod noting;
mod opening;
mod outgoing;
mod pages;
mod peer;
mod pipe;
mod presence;
mod reading;
mod receiver;
mod rings;
mod salt;
mod sealed;
mod secret;
mod sender;
mod socket;
mod socket_options;
mod spin;
mod stripes;
mod tls;
mod writing;

pub use address::{Address, AddressError, DEFAULT_PORT, RingsWish};
pub use bulk::Bulk;
pub use connect::{Trust, connect};
pub use error::{LinkError, Unsealed, plain};
pub use lasting::{ACKNOWLEDGEMENTS_PLACE, Doubt, Heard, Mark, OWN_PLACE, Places, Standing, Wait};
pub use lent::{Giving, Lent};
pub use link::{Answering, Link, Parts, Sealer};
pub use listener::Listener;
pub use opening::{Opening, Speech, first_bytes_needed, is_stranger, look};
pub use peer::Peer;
pub use receiver::{Arrival, Frame, Now, Readiness, Receiver};
pub use rings::{RING_BYTES, Rings};
pub use sealed::SealedKeys;
pub use secret::{Channel, Secret, Side};
pub use sender::Sender;
pub use socket::{receive_with, send_with, try_send_with, write_without_descriptors};
pub use spin::{Expected, SPIN_VARIABLE, Spin, processors, sleep_precisely};
pub use stripes::{Help, Load, MOST_CONNECTIONS, STRIPED_FROM, Stripes};
pub use stripes::{Taken, Target, Transfers, pull, suitable_connections, suitable_copiers, transfer_bytes, transfers};
pub use tls::{ClientTls, Identity, ServerTls, TlsError, Tunnel, kernel_tls};
