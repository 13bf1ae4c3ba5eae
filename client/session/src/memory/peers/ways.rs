//! How bytes go between two vGPUs of different servers. It is data, and knows no vGPU.

use floe_wire::PeerLinkId;

/// The way of bytes from one vGPU to another.
#[derive(Debug)]
pub(super) enum Way {
    /// From worker to worker.
    Link(Link),
    /// Through this process, since the servers do not connect.
    None,
}

/// A link, as the vGPU of the lower ordinal has it.
#[derive(Debug)]
pub(super) struct Link {
    /// Its numbers at both vGPUs.
    pub(super) lower: PeerLinkId,
    pub(super) higher: PeerLinkId,
    /// The vGPUs' epochs when it was made: a reset ends it.
    pub(super) epochs: [u64; 2],
    /// Transfers so far, up and down.
    pub(super) transfers: [u64; 2],
}
