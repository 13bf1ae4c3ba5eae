//! One vGPU of the settings: its place, its constant facts, and the meaning of its server's answer for this process.
//! Answers come in, bytes and rows of this vGPU go out. It never asks a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use floe_nvml::{NvmlError, NvmlResult, Reading};

use crate::bus::BusId;
use crate::server::{Answer, Gpu, Tenant};

/// A vGPU of the settings.
#[derive(Debug)]
pub(crate) struct Vgpu {
    /// Position in the list of servers.
    pub(crate) server: usize,
    /// Index at the server.
    pub(crate) gpu: u32,
    /// The quota that the settings ask for; 0: all of the GPU.
    pub(crate) wanted: u64,
    /// Its ordinal in CUDA, if the program may see it.
    pub(crate) ordinal: Option<u32>,
    /// The server's first answers.
    pub(crate) facts: Facts,
    /// The position of the first server that is the same daemon.
    pub(crate) home: usize,
    /// The server's first answer, the only one with what surrounds the GPU.
    pub(crate) first: Arc<Answer>,
}

/// The facts of a vGPU that do not change.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) name: String,
    /// `GPU-…`
    pub(crate) uuid: String,
    pub(crate) uuid_bytes: [u8; 16],
    pub(crate) bus: Option<BusId>,
    pub(crate) compute_capability: (i32, i32),
    pub(crate) serial: String,
    pub(crate) part: String,
    pub(crate) firmware: String,
    pub(crate) pci_device: u32,
    pub(crate) pci_subsystem: u32,
}

/// Memory of a vGPU in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) total: u64,
    pub(crate) free: u64,
}

impl Vgpu {
    /// The GPU as the server's first answer had it.
    pub(crate) fn first(&self) -> NvmlResult<&Gpu> {
        self.first.gpus.get(&self.gpu).ok_or(NvmlError::UNKNOWN)
    }

    /// A reading that does not change.
    pub(crate) fn lasting(&self, reading: Reading) -> NvmlResult<u64> {
        self.first()?.readings.get(&reading).copied().ok_or(NvmlError::NOT_SUPPORTED)
    }

    /// Whether both are on one GPU.
    pub(crate) fn shares_gpu(&self, other: &Self) -> bool {
        (self.home, self.gpu) == (other.home, other.gpu)
    }

    /// What the server says of this GPU and the other's, if both are of one server and differ.
    pub(crate) fn pair(&self, other: &Self, reading: Reading) -> Option<u64> {
        if self.home != other.home {
            return None;
        }
        self.first().ok()?.peers.get(&other.gpu)?.get(&reading).copied()
    }

    /// This process's session on it, if there is one.
    pub(crate) fn own<'a>(&self, gpu: &'a Gpu, process: u32) -> Option<&'a Tenant> {
        let own: Vec<&Tenant> = gpu.tenants.iter().filter(|tenant| tenant.pid == process).collect();
        match own.as_slice() {
            // Only one is possible, even if CUDA_VISIBLE_DEVICES has changed since the settings were read.
            [only] => Some(only),
            several => several.iter().copied().find(|tenant| Some(tenant.ordinal) == self.ordinal),
        }
    }

    /// Its memory: the quota's if it has one, else the GPU's.
    pub(crate) fn bytes(&self, answer: &Answer, gpu: &Gpu, process: u32) -> Bytes {
        let own = self.own(gpu, process);
        let quota = match own {
            Some(tenant) => tenant.memory,
            None => [self.wanted, answer.memory_limit].into_iter().filter(|bytes| *bytes != 0).min().unwrap_or(0),
        };
        if quota == 0 {
            let free = gpu.readings.get(&Reading::MemoryFree).copied().unwrap_or(gpu.free);
            return Bytes { total: gpu.memory, free: free.min(gpu.memory) };
        }
        let total = quota.min(gpu.memory);
        // A monitor has no vGPU of its own: it sees what the other programs use of theirs.
        let used = match own {
            Some(tenant) => tenant.used,
            None => gpu.tenants.iter().fold(0, |sum: u64, tenant| sum.saturating_add(tenant.used)),
        };
        Bytes { total, free: total.saturating_sub(used) }
    }

    /// The programs of this machine on its GPU, by process. This process has only its use of this vGPU.
    pub(crate) fn tenants(&self, gpu: &Gpu, process: u32) -> Vec<Tenant> {
        let mut rows: BTreeMap<u32, Tenant> = BTreeMap::new();
        let own = self.own(gpu, process);
        for tenant in own.into_iter().chain(gpu.tenants.iter().filter(|tenant| tenant.pid != process)) {
            rows.entry(tenant.pid)
                .and_modify(|row| {
                    row.used = row.used.saturating_add(tenant.used);
                    for (reading, value) in &tenant.readings {
                        let sum = row.readings.entry(*reading).or_default();
                        *sum = sum.saturating_add(*value).min(100);
                    }
                })
                .or_insert_with(|| tenant.clone());
        }
        rows.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 7;

    fn vgpu(wanted: u64, ordinal: u32) -> Vgpu {
        let facts = Facts {
            name: String::new(),
            uuid: String::new(),
            uuid_bytes: [0; 16],
            bus: None,
            compute_capability: (9, 0),
            serial: String::new(),
            part: String::new(),
            firmware: String::new(),
            pci_device: 0,
            pci_subsystem: 0,
        };
        Vgpu { server: 0, gpu: 0, wanted, ordinal: Some(ordinal), facts, home: 0, first: Arc::default() }
    }

    fn tenant(pid: u32, ordinal: u32, memory: u64, used: u64) -> Tenant {
        Tenant { pid, ordinal, memory, used, readings: BTreeMap::from([(Reading::GpuUtilization, 60)]) }
    }

    fn gpu(tenants: Vec<Tenant>) -> Gpu {
        Gpu {
            name: String::new(),
            uuid: [0; 16],
            pci_bus: String::new(),
            memory: 1000,
            free: 900,
            compute_capability: (9, 0),
            serial: String::new(),
            part: String::new(),
            firmware: String::new(),
            readings: BTreeMap::new(),
            tenants,
            links: BTreeMap::new(),
            peers: BTreeMap::new(),
        }
    }

    fn bytes(vgpu: &Vgpu, limit: u64, gpu: &Gpu) -> (u64, u64) {
        let bytes = vgpu.bytes(&Answer { memory_limit: limit, ..Answer::default() }, gpu, OWN);
        (bytes.total, bytes.free)
    }

    #[test]
    fn a_session_of_its_own_says_quota_and_use() {
        let gpu = gpu(vec![tenant(OWN, 0, 100, 30), tenant(8, 0, 0, 500)]);
        assert_eq!(bytes(&vgpu(200, 0), 50, &gpu), (100, 70));
    }

    #[test]
    fn without_a_session_the_smaller_limit_counts() {
        let gpu = gpu(vec![tenant(8, 0, 100, 30)]);
        assert_eq!(bytes(&vgpu(200, 0), 50, &gpu), (50, 20));
        assert_eq!(bytes(&vgpu(200, 0), 0, &gpu), (200, 170));
    }

    #[test]
    fn without_a_quota_it_is_the_whole_gpu() {
        let mut gpu = gpu(vec![tenant(OWN, 0, 0, 30)]);
        assert_eq!(bytes(&vgpu(0, 0), 0, &gpu), (1000, 900));
        gpu.readings.insert(Reading::MemoryFree, 400);
        assert_eq!(bytes(&vgpu(0, 0), 0, &gpu), (1000, 400));
    }

    #[test]
    fn two_vgpus_of_one_gpu_differ_by_their_ordinals() {
        let gpu = gpu(vec![tenant(OWN, 0, 100, 30), tenant(OWN, 1, 100, 60)]);
        assert_eq!(bytes(&vgpu(0, 0), 0, &gpu), (100, 70));
        assert_eq!(bytes(&vgpu(0, 1), 0, &gpu), (100, 40));
        assert_eq!(vgpu(0, 1).tenants(&gpu, OWN).len(), 1);
    }

    #[test]
    fn another_programs_vgpus_of_one_gpu_are_one_row() {
        let gpu = gpu(vec![tenant(8, 0, 0, 30), tenant(8, 1, 0, 60), tenant(OWN, 0, 0, 1)]);
        let rows = vgpu(0, 0).tenants(&gpu, OWN);
        let rows: Vec<_> = rows.iter().map(|row| (row.pid, row.used, row.readings[&Reading::GpuUtilization])).collect();
        assert_eq!(rows, [(OWN, 1, 60), (8, 90, 100)]);
    }
}
