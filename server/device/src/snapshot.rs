//! A device library's offer: its version, and for each GPU the facts that clients get.
//! In and out: plain data, which `floe-worker --probe` prints as JSON and the daemon reads.
//! It asks no device; `gpu` fills it in.

use serde::{Deserialize, Serialize};

/// The output of `floe-worker --probe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
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

/// What a GPU can do with its own memory. Drivers refuse to compare a GPU with itself.
pub(crate) const ITSELF: [i32; 4] = [0, 1, 1, 1];

/// Where a process finds a GPU. The index is the one that everybody knows it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Among all of the driver's.
    Among(i32),
    /// CUDA shows this process no other one.
    Alone(i32),
}

impl Place {
    /// The driver's index.
    pub(crate) fn of_driver(self) -> i32 {
        if let Self::Among(index) = self { index } else { 0 }
    }
}

/// What a GPU that is shown alone can do with the memory of the one with this index: CUDA shows no process both.
pub(crate) fn alone(own: i32, peer: i32) -> [i32; 4] {
    if own == peer { ITSELF } else { [0; 4] }
}

impl Probe {
    /// The GPUs that processes are shown one by one, in this order: for each the `CUDA_VISIBLE_DEVICES` of a process and what
    /// that has seen. None reaches another's memory.
    ///
    /// # Errors
    /// The first that shows no GPU, or more than one.
    pub fn of_alone(seen: Vec<(String, Self)>) -> Result<Self, String> {
        let indices = 0..i32::try_from(seen.len()).unwrap_or(i32::MAX);
        let mut all = Self::default();
        for (own, (visible, probe)) in indices.clone().zip(seen) {
            let Ok([gpu]) = <[Snapshot; 1]>::try_from(probe.gpus) else { return Err(visible) };
            let peers = indices.clone().map(|peer| alone(own, peer)).collect();
            all.gpus.push(Snapshot { alone: Some(visible), peers, ..gpu });
            (all.library, all.kind, all.driver) = (probe.library, probe.kind, probe.driver);
        }
        Ok(all)
    }

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
    /// The `CUDA_VISIBLE_DEVICES` of processes that use it, where CUDA shows them no other beside it; it is their device 0 then.
    #[serde(default)]
    pub alone: Option<String>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_that_are_shown_alone_reach_their_own_memory_only() {
        let seen = |name: &str, gpus| {
            let gpu = Snapshot { name: name.into(), peers: vec![ITSELF], ..Snapshot::default() };
            let probe = Probe { library: "l".into(), kind: "nvidia".into(), driver: 13_000, gpus: vec![gpu; gpus] };
            (format!("MIG-{name}"), probe)
        };
        let all = Probe::of_alone(vec![seen("a", 1), seen("b", 1)]).expect("one each");
        assert_eq!((all.library.as_str(), all.kind.as_str(), all.driver), ("l", "nvidia", 13_000));
        let [a, b] = &all.gpus[..] else { panic!("{all:?}") };
        assert_eq!((a.alone.as_deref(), &a.peers[..]), (Some("MIG-a"), &[ITSELF, [0; 4]][..]));
        assert_eq!((b.alone.as_deref(), &b.peers[..]), (Some("MIG-b"), &[[0; 4], ITSELF][..]));
        for gpus in [0, 2] {
            assert_eq!(Probe::of_alone(vec![seen("a", 1), seen("b", gpus)]), Err("MIG-b".into()));
        }
    }
}
