//! Links and neighbours. Handles come in, relations between vGPUs go out. All vGPUs are equally far apart, wherever
//! their GPUs are. No CPU of this machine is nearer to them than another.

use floe_nvml::{Base, Device, NvmlError, NvmlResult, Reading, TopologyCalls};

use crate::vgpus::Vgpus;

/// `NVML_P2P_STATUS_OK` and `…_NOT_SUPPORTED`.
const P2P: (u32, u32) = (0, 5);
/// `NVML_P2P_CAPS_INDEX_UNKNOWN`: the first number without a meaning.
const P2P_CAPABILITIES: u32 = 5;
/// `NVML_TOPOLOGY_SYSTEM`.
const SYSTEM: u32 = 50;

impl TopologyCalls for Vgpus {
    fn device_get_pcie_throughput(&self, device: Device, direction: u32) -> NvmlResult<u32> {
        let reading = match direction {
            0 => Reading::LinkTransmit,
            1 => Reading::LinkReceive,
            _ => return Err(NvmlError::INVALID_ARGUMENT),
        };
        u32::try_from(self.reading(device, reading)?).map_err(|_| NvmlError::UNKNOWN)
    }

    fn device_get_p2p_status(&self, device: Device, peer: Device, capability: u32) -> NvmlResult<u32> {
        self.check(device)?;
        self.check(peer)?;
        if capability >= P2P_CAPABILITIES {
            return Err(NvmlError::INVALID_ARGUMENT);
        }
        Ok(if device == peer { P2P.0 } else { P2P.1 })
    }

    fn device_get_topology_common_ancestor(&self, device: Device, peer: Device) -> NvmlResult<u32> {
        self.check(device)?;
        self.check(peer)?;
        Ok(SYSTEM)
    }

    fn device_on_same_board(&self, device: Device, peer: Device) -> NvmlResult<i32> {
        let ready = self.ready()?;
        let place = |device| -> NvmlResult<_> {
            let vgpu = &ready.vgpus[ready.index(device)?];
            Ok((vgpu.server, vgpu.gpu))
        };
        Ok(i32::from(place(device)? == place(peer)?))
    }

    fn device_get_cpu_affinity(&self, device: Device, set: &mut [u64]) -> NvmlResult<()> {
        self.check(device)?;
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").map_err(|_| NvmlError::UNKNOWN)?;
        fill(set, &online)
    }

    fn device_get_cpu_affinity_within_scope(&self, device: Device, set: &mut [u64], scope: u32) -> NvmlResult<()> {
        // For node and socket: all CPUs are equally near.
        if scope > 1 { Err(NvmlError::INVALID_ARGUMENT) } else { self.device_get_cpu_affinity(device, set) }
    }
}

/// Sets the bits of a list of CPUs in the kernel's form, such as `0-3,8`.
fn fill(set: &mut [u64], online: &str) -> NvmlResult<()> {
    set.fill(0);
    for range in online.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) => (first, last),
            _ => return Err(NvmlError::UNKNOWN),
        };
        for cpu in first..=last {
            *set.get_mut(cpu / 64).ok_or(NvmlError::INSUFFICIENT_SIZE)? |= 1 << (cpu % 64);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_bits() {
        let mut set = [u64::MAX; 2];
        assert_eq!(fill(&mut set, "0-2,64\n"), Ok(()));
        assert_eq!(set, [0b111, 1]);
        assert_eq!(fill(&mut set[..1], "0-2,64\n"), Err(NvmlError::INSUFFICIENT_SIZE));
    }
}
