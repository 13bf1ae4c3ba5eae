//! Moves frames between client and server over TCP, TLS, Unix sockets and rings in shared memory.
//! In: an address or an open socket, and messages. Out: messages in order, or the reason why the link is over.
//! It knows frames, sequences and buffers; what a message means is for others.
#![forbid(unsafe_code)]

mod address;
mod bulk;
mod connect;
mod error;
mod flusher;
mod lasting;
mod link;
mod listener;
#[cfg(test)]
mod noting;
mod outgoing;
mod pages;
mod pipe;
mod reading;
mod receiver;
mod rings;
mod sender;
mod socket;
mod spin;
mod stripes;
mod tls;

pub use address::{Address, AddressError, DEFAULT_PORT, RingsWish};
pub use bulk::Bulk;
pub use connect::connect;
pub use error::LinkError;
pub use lasting::{ACKNOWLEDGEMENTS_PLACE, Heard, OWN_PLACE, Places, Standing};
pub use link::{Link, Parts, Sealer};
pub use listener::{Listener, Peer};
pub use outgoing::{Giving, Lent};
pub use receiver::{Arrival, Frame, Now, Readiness, Receiver};
pub use rings::{RING_BYTES, Rings};
pub use sender::Sender;
pub use socket::{receive_with, send_with};
pub use spin::{Expected, SPIN_VARIABLE, Spin, processors, sleep_precisely};
pub use stripes::{Help, Load, MOST_CONNECTIONS, STRIPED_FROM, Stripes};
pub use stripes::{Taken, Target, Transfers, pull, suitable_connections, suitable_copiers, transfer_bytes, transfers};
pub use tls::{ClientTls, Identity, ServerTls, TlsError, kernel_tls};
