//! The value that a taken-down link is: counts, digests and bytes, and no descriptor.
//! In: what `leaving` took, or checked bytes. Out: the same for `arriving`. It is plain data.

use std::time::Duration;

use floe_wire::PAYLOAD_LIMIT;

use crate::resumption::history::DigestImage;

/// The most bytes of an encoded image: the data that were sent and not acknowledged are in it.
pub const MOST_IMAGE_BYTES: usize = 1 << 30;
/// The most bytes read ahead of a frame that are carried: one frame, and what one read brings beyond it.
pub(super) const MOST_AHEAD: usize = PAYLOAD_LIMIT as usize + (1 << 20);
/// The most channels of a session.
pub(super) const MOST_CHANNELS: usize = 64;

/// What a link remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkImage {
    /// A resumable session's connections: the client makes them again.
    Channels(ChannelsImage),
    /// Rings in shared memory: their memory and socket go with [`crate::RingParts`], and the client does nothing.
    Rings(RingsImage),
}

/// What rings remember.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingsImage {
    /// The bytes that this side has written, and those that it has read.
    pub indices: [u64; 2],
    /// The frames.
    pub ends: EndsImage,
}

/// What a resumable session's connections remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelsImage {
    /// The epoch that has broken.
    pub epoch: u64,
    /// This side's last question of a heartbeat, and the peer's.
    pub questions: [u64; 2],
    /// The way to the peer and back, as long as it was lately.
    pub trip: Duration,
    /// The main channel first.
    pub channels: Vec<ChannelImage>,
}

/// What one channel remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelImage {
    /// Its number.
    pub index: u32,
    /// The bytes that have come.
    pub inbound: DigestImage,
    /// The bytes that the peer is known to have.
    pub acknowledged: DigestImage,
    /// The bytes behind these that were sent, too.
    pub kept: Vec<u8>,
    /// Its frames.
    pub ends: EndsImage,
}

/// The frames of a link's two directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndsImage {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that were received and given out.
    pub received: u64,
    /// Bytes that came behind these.
    pub ahead: Vec<u8>,
}
