//! The contract of daemon and worker: the worker's task in its environment, lines of JSON on its standard output.
//! In and out: plain data.
//! The worker's standard input is where it is handed connections (`descriptor_passing`); the daemon's log is its standard error.

use floe_transport::Transport;
use serde::{Deserialize, Serialize};

pub use crate::daemon::move_notices::{Arrival, MoveReport};
pub use crate::daemon::peer_notices::{Dial, Import, NodeWish, Returned};
pub use crate::daemon::turn_notices::{TurnOrder, TurnReport, TurnSaid, Word};
pub use crate::sandbox::{Demand, Protection, Standing};

/// The environment variable that holds a [`Task`] as JSON.
pub const TASK_VARIABLE: &str = "FLOE_WORKER_TASK";

/// The exit status of a worker that did not come to its end in time, and ended at once.
pub const STUCK: u8 = 3;

/// The session a worker is started for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The session's number, for the log.
    pub session: u64,
    /// The library that is the device.
    pub library: String,
    /// The NCCL that it may load, if the server has one.
    #[serde(default)]
    pub nccl: Option<String>,
    /// Whether the daemon says which node of NCCL's it is of; an older one does not.
    #[serde(default)]
    pub nodes: bool,
    /// Whether the daemon takes [`Report::Carried`]; an older one does not.
    #[serde(default)]
    pub counts: bool,
    /// The CUPTI that it may load, if the server has one; of a CPU device the device library.
    #[serde(default)]
    pub cupti: Option<String>,
    /// The GPU's index in the library.
    pub gpu: i32,
    /// Whether CUDA shows this process the GPU alone, as its device 0, and `gpu` is the index that others know it by.
    #[serde(default)]
    pub alone: bool,
    /// The vGPU's ordinal in the client.
    pub ordinal: u32,
    /// Bytes of device memory; 0: all there is.
    pub memory: u64,
    /// Physical memory comes in multiples of this many bytes.
    pub granularity: u64,
    /// Whether it asks the daemon for device memory.
    #[serde(default)]
    pub asks: Asks,
    /// Bytes of host memory the worker may have, without what is shared; 0: all there is.
    #[serde(default)]
    pub host_memory: u64,
    /// The most bytes of host memory it may share with its client; 0: none.
    pub shared_memory: u64,
    /// The most bytes of host memory it may mirror.
    pub mirrored_memory: u64,
    /// Bytes of pinned memory for its data on their way.
    pub transport_memory: u64,
    /// The transport to which client and worker change first of all.
    #[serde(with = "by_name")]
    pub transport: Transport,
    /// Milliseconds for which the session outlives its connections; 0: it ends with any of them.
    pub grace_ms: u64,
    /// Milliseconds for which its client may send nothing; 0: for ever.
    pub idle_ms: u64,
    /// The most connections that carry its bulk data.
    pub bulk_connections: u32,
    /// The client's process, where that is of this machine.
    pub client: Option<i32>,
    /// The part of the sandbox that the operator demands.
    pub sandbox: Demand,
    /// Whether addresses are the same in every worker, which migration needs and an attacker welcomes.
    pub fixed_addresses: bool,
    /// Whether its driver is a client of NVIDIA's MPS, which it finds by variables. Then the context stays when the session has it
    /// reset, and the process ends when its work is over.
    pub mps: bool,
    /// The driver places nothing at this address or above; 0: anywhere. It is the session's, so that another worker's driver
    /// places the same at the same addresses.
    #[serde(default)]
    pub ceiling: u64,
    /// The move by which the session comes to this worker. It then gets its end of the move stream instead of the session's own
    /// connection.
    #[serde(default)]
    pub arrives: Option<Arrival>,
}

/// Whether a session asks the daemon before it takes device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// It does not: its quota is kept for it, or it has no device.
    #[default]
    Never,
    /// It does, since no driver divides the device's memory among processes: the daemon does.
    OfDividedDevice,
    /// It does, since it may have only what others were not promised.
    BestEffort,
}

/// A transport, by its name.
mod by_name {
    use floe_transport::Transport;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(super) fn serialize<S: Serializer>(transport: &Transport, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(transport.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Transport, D::Error> {
        let name = String::deserialize(from)?;
        Transport::named(&name).ok_or_else(|| D::Error::custom(format!("unknown transport: {name}")))
    }
}

/// The most reports of a worker in one second, and messages of its own accord: an import has one report, and takes 100 µs
/// and more. The daemon ends a worker that sends more.
pub const MOST_REPORTS: u32 = 20_000;

/// What a worker has counted of its session's link. No count falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Bytes of frames from the client.
    pub received: u64,
    /// Bytes of frames to the client.
    pub sent: u64,
    /// Requests that were answered.
    pub waits: u64,
}

impl Counts {
    /// The sum of both, at most the largest number of each.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            received: self.received.saturating_add(other.received),
            sent: self.sent.saturating_add(other.sent),
            waits: self.waits.saturating_add(other.waits),
        }
    }
}

/// A line of a worker that serves a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The session can be used: the context exists and the window is reserved.
    Ready,
    /// Bytes of the device's memory the session holds.
    Used(u64),
    /// What the session's link has carried since this worker has it.
    Carried(Counts),
    /// Bytes of device memory that the session wants in all; it waits for the daemon's grant.
    Wants(u64),
    /// It keeps no more than these bytes of what it was granted.
    Keeps(u64),
    /// Whether the session waits for its client to make connections again.
    Broken(bool),
    /// It wants to import what another session has a ticket for; the answer is a notice.
    Import(Import),
    /// It wants a connection to another server; the answer is a notice.
    Dial(Dial),
    /// It asks for its node of NCCL's; the answer is a notice.
    Node(NodeWish),
    /// It has let go of these imports.
    Returned(Vec<Returned>),
    /// Its word about a move.
    Move(MoveReport),
    /// Its word about its turn on the GPU.
    Turn(TurnReport),
    /// The session is over, and why.
    Ended(String),
}
