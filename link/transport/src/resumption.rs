//! Links that outlive their connections.
//! In: a session's connections, each on its channel, as often as they are made anew. Out: pipes that stay, and a pause where a
//! connection was.
//!
//! All connections of a session are of one epoch: when one breaks, all are left, and the client makes each of them again. At
//! every channel both sides first say how many bytes they have; the other goes on behind them. How many bytes have come is also
//! said meanwhile, on a connection of its own that carries nothing else and is always read: so it comes through whatever the
//! others are full of, and what the peer has need not be kept. What this side's process is told of a peer that is gone for
//! good is that connection's end, too: the system ends it when the peer's machine does not answer.
//!
//! The state is in `session`, `outbound`, `inbound`, `log`, `history` and `heartbeat`: no clock, thread, lock of its own or socket, so
//! that `stepped` tests it with a time of its own. `channels`, `shared`, `channel`, `pipe` and `waits` are the shell around it.

mod channel;
mod channels;
mod heartbeat;
mod history;
mod inbound;
mod log;
mod outbound;
mod pipe;
mod session;
mod shared;
#[cfg(test)]
mod stepped;
mod waits;

pub use channels::{ACKNOWLEDGEMENT_CHANNEL, Channels, Doubt, Heard, MAIN_CHANNEL};
pub use history::HistoryDigest;
pub use session::{Admission, LinkState};
pub use waits::Wait;
