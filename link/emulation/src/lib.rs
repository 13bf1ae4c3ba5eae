//! A network that is slower than this machine's own, for the question what a program would cost over it.
//! In: a round-trip time, a bandwidth, a server's address. Out: an address of this machine that leads to the server, with
//! every byte as late and as slow as over such a network.
//! It emulates delay and bandwidth; loss, reordering and the growth of a TCP window over distance it does not.
#![forbid(unsafe_code)]

mod line;
mod network;
mod relay;

pub use line::Line;
pub use network::{Network, NetworkError};
pub use relay::Relay;
