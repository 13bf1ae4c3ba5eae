//! A device library's offer: its version, and for each GPU the facts that clients get.
//! In and out: plain data, which `floe-worker --probe` prints as JSON and the daemon reads.
//! It asks no device; `gpu` fills it in.

use serde::{Deserialize, Serialize};

/// The output of `floe-worker --probe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The library that is the device, as an absolute path or a name for the loader.
    pub library: String,
    /// `nvidia`, `cpu`, or `other` for a library that was named.
    pub kind: String,
    /// The driver's version: 1000 × major + 10 × minor.
    pub driver: i32,
    /// Its GPUs, by index.
    pub gpus: Vec<Snapshot>,
}

impl Probe {
    /// `DeviceSnapshot.code`: what of a fat binary the library's devices take.
    #[must_use]
    pub fn code(&self) -> u32 {
        match self.kind.as_str() {
            "nvidia" => 1,
            "cpu" => 2,
            _ => 0,
        }
    }
}

/// All that a client answers locally about a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// Its 16-byte id.
    pub uuid: Vec<u8>,
    /// `domain:bus:device.function`.
    pub pci_bus: String,
    /// Total bytes of memory.
    pub memory: u64,
    /// Free bytes when it was probed.
    pub free: u64,
    /// Device attributes by number.
    pub attributes: Vec<(i32, i32)>,
    /// Context limits by number.
    pub limits: Vec<(i32, u64)>,
    /// Least and greatest stream priority.
    pub priorities: (i32, i32),
    /// Physical memory comes in multiples of this many bytes.
    pub granularity: u64,
    /// For each GPU of the library by index, this one among them: what this one can do with its memory, as the values
    /// of `CUdevice_P2PAttribute` 1 to 4.
    pub peers: Vec<[i32; 4]>,
    /// Whether memory may be made for fabric handles.
    pub fabric: bool,
}

impl Snapshot {
    /// A device attribute; 0 when the device does not know it.
    #[must_use]
    pub fn attribute(&self, number: i32) -> i32 {
        self.attributes.iter().find(|(its, _)| *its == number).map_or(0, |(_, value)| *value)
    }
}
