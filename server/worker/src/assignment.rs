//! What daemon and worker process say to each other, as JSON.
//! In: the daemon's assignment in the environment variable `FLOE_ASSIGNMENT`; the session's socket is the worker's stdin.
//! Out: on the worker's stdout, one line of JSON each: a probe's answer, or what a session uses. Never anything else there.

use serde::{Deserialize, Serialize};

/// The environment variable that holds the [`Assignment`].
pub const ASSIGNMENT: &str = "FLOE_ASSIGNMENT";

/// What a worker process is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assignment {
    /// Load the device library, print one [`Probe`] and end.
    Probe {
        /// See [`Assignment::Session`].
        device_library: String,
    },
    /// Serve the session whose socket is stdin.
    Session(SessionAssignment),
}

/// One session as the daemon admitted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAssignment {
    /// The session's number at this server.
    pub session: u64,
    /// `auto`, `nvidia`, `cpu`, or the path of a `libcuda.so.1`.
    pub device_library: String,
    /// The device's index in that library.
    pub gpu: u32,
    /// First address of the session's window.
    pub window: u64,
    /// Its length in bytes.
    pub window_bytes: u64,
    /// The quota in bytes; 0 for all there is.
    pub memory: u64,
    /// Frames the daemon sent on the socket before it gave it away.
    pub sent: u64,
    /// Frames it received.
    pub received: u64,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The library that was loaded.
    pub library: String,
    /// Its devices, by index.
    pub gpus: Vec<GpuSnapshot>,
}

/// All that a client answers locally about a device (`DeviceSnapshot` of the wire), and what `floe gpus` shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuSnapshot {
    /// Its name.
    pub name: String,
    /// `nvidia` or `cpu`.
    pub kind: String,
    /// 16 bytes.
    pub uuid: Vec<u8>,
    /// `0000:01:00.0`.
    pub pci_bus: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of memory free at the probe.
    pub free: u64,
    /// As `cuDriverGetVersion`.
    pub driver: i32,
    /// `CUdevice_attribute` numbers with their values.
    pub attributes: Vec<(i32, i32)>,
    /// `CUlimit` numbers with their values.
    pub limits: Vec<(i32, u64)>,
    /// Numerically greatest stream priority number, the least urgent.
    pub priority_least: i32,
    /// Numerically least, the most urgent.
    pub priority_greatest: i32,
    /// Granularity of physical memory in bytes.
    pub granularity: u64,
}

/// What a session's worker reports when it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes of device memory in blocks.
    pub used: u64,
}
