//! Resumable sessions: pipes that survive their connections.
//! In: a session's connections, each for one channel, as often as the client makes them. Out: one pipe per channel, which
//! pauses while it has no connection. It makes no connection itself.
//!
//! All connections of a session belong to one epoch. When one breaks, both sides close all of them, and the client makes each
//! again. On every channel both sides first say how many bytes have come; each then sends what the other lacks.
//!
//! Both sides also acknowledge bytes meanwhile, on a connection that carries nothing else and is always read. So
//! acknowledgements arrive whatever the other connections are full of, and acknowledged bytes are kept no longer. The kernel
//! ends that connection when the peer's machine stops answering.
//!
//! The state is in `session`, `outbound`, `inbound`, `log`, `history` and `heartbeat`. It has no clock, thread or socket, so
//! `stepped` tests it with a time of its own. `channels`, `shared`, `channel`, `pipe` and `waits` are the shell around it.

mod channel;
mod channels;
mod handover;
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
pub use handover::{
    ArrivingLink, ChannelEnds, ChannelImage, ChannelsImage, EndsImage, ImageError, LinkImage, MOST_IMAGE_BYTES,
    NotTaken, RingsImage, SetUp, TakenLink, go_on, hold, ring_parts, take_down,
};
pub use history::{DigestImage, HistoryDigest};
pub use session::{Admission, LinkState};
pub use waits::Wait;
