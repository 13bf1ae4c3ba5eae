//! Moves frames between client and server over TCP and Unix sockets.
//! In: an address or an open socket, and messages. Out: messages in order, or the reason why the link is over.
//! It knows frames, sequences and buffers; what a message means is for others.
#![forbid(unsafe_code)]

mod address;
mod connect;
mod error;
mod link;
mod listener;
mod receiver;
mod sender;

pub use address::{Address, AddressError, DEFAULT_PORT};
pub use connect::connect;
pub use error::LinkError;
pub use link::Link;
pub use listener::{Listener, Peer};
pub use receiver::{Frame, Receiver};
pub use sender::Sender;
