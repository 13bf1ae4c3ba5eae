//! Emulates a slower network than this machine's own, to find what a program would cost over it.
//! In: a round-trip time, a bandwidth, a server's address. Out: an address of this machine that leads to the server,
//! with the delay and bandwidth of such a network. It does not emulate loss, reordering, or the growth of a TCP window
//! over distance.
#![forbid(unsafe_code)]

mod line;
mod network;
mod relay;

pub use line::Line;
pub use network::{Network, NetworkError};
pub use relay::Relay;
