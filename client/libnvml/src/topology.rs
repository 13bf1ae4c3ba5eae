//! PCIe and neighbours. Handles come in, relations between vGPUs go out, as the server of both said them at `nvmlInit`;
//! vGPUs of different servers have none. No CPU of this machine is nearer to a vGPU than another.

use floe_nvml::{Base, Device, NvmlError, NvmlResult, Reading, TopologyCalls};

use crate::vgpus::Vgpus;

/// `NVML_P2P_STATUS_OK` and `…_NOT_SUPPORTED`.
const P2P: (u32, u32) = (0, 5);
/// `NVML_P2P_STATUS_UNKNOWN`, the last status.
const P2P_UNKNOWN: u32 = 6;
/// `NVML_P2P_CAPS_INDEX_…` in their order.
const P2P_CAPABILITIES: [Reading; 5] =
    [Reading::PeerRead, Reading::PeerWrite, Reading::PeerNvlink, Reading::PeerAtomics, Reading::PeerPci];
/// `NVML_TOPOLOGY_INTERNAL` to `…_SYSTEM`.
const LEVELS: [u32; 6] = [0, 10, 20, 30, 40, 50];

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
        let reading = usize::try_from(capability).ok().and_then(|capability| P2P_CAPABILITIES.get(capability));
        let reading = *reading.ok_or(NvmlError::INVALID_ARGUMENT)?;
        self.of_pair(device, peer, |one, other| {
            if one.shares_gpu(other) {
                return P2P.0;
            }
            let told = one.pair(other, reading).map_or(Ok(P2P.1), u32::try_from);
            told.unwrap_or(P2P_UNKNOWN).min(P2P_UNKNOWN)
        })
    }

    fn device_get_topology_common_ancestor(&self, device: Device, peer: Device) -> NvmlResult<u32> {
        let [internal, .., system] = LEVELS;
        self.of_pair(device, peer, |one, other| {
            if one.shares_gpu(other) {
                return internal;
            }
            let told = one.pair(other, Reading::PeerLevel);
            LEVELS.into_iter().find(|level| Some(u64::from(*level)) == told).unwrap_or(system)
        })
    }

    fn device_on_same_board(&self, device: Device, peer: Device) -> NvmlResult<i32> {
        self.of_pair(device, peer, |one, other| i32::from(one.shares_gpu(other)))
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
    use floe_wire::{GpuTelemetry, PeerTelemetry, ReadTelemetryReply, Reading as Told};

    use super::*;
    use crate::server::Answer;
    use crate::vgpus::tests::{handle, library_of};

    /// A GPU that says this of others, each by its index.
    fn gpu(index: u32, peers: &[(u32, &[(Reading, u64)])]) -> GpuTelemetry<'static> {
        let told = |(reading, value): &(Reading, u64)| Told { number: reading.number(), value: *value };
        let peers = peers
            .iter()
            .map(|(index, readings)| PeerTelemetry { index: *index, readings: readings.iter().map(told).collect() });
        GpuTelemetry { index, peers: peers.collect(), ..GpuTelemetry::default() }
    }

    /// The first answer of a server, by one byte that tells it from others.
    fn answer(server: Option<u8>, gpus: Vec<GpuTelemetry<'_>>) -> Answer {
        let identity = server.map(|byte| [byte; 32]);
        Answer { identity, ..Answer::new(&ReadTelemetryReply { gpus, ..ReadTelemetryReply::default() }) }
    }

    /// The statuses of all capabilities.
    fn statuses(library: &Vgpus, one: usize, other: usize) -> [u32; 5] {
        let (one, other) = (handle(library, one), handle(library, other));
        [0, 1, 2, 3, 4].map(|capability| library.device_get_p2p_status(one, other, capability).expect("it is one"))
    }

    const READ_AND_WRITE: [(Reading, u64); 3] =
        [(Reading::PeerRead, 0), (Reading::PeerWrite, 0), (Reading::PeerNvlink, 1)];

    #[test]
    fn vgpus_of_one_server_reach_each_other_as_its_driver_says() {
        let library = library_of(vec![answer(Some(1), vec![gpu(0, &[(1, &READ_AND_WRITE)]), gpu(1, &[])])]);
        assert_eq!(statuses(&library, 0, 1), [0, 0, 1, 5, 5]);
        assert_eq!(statuses(&library, 1, 0), [5; 5], "nobody said anything of that direction");
        let (one, other) = (handle(&library, 0), handle(&library, 1));
        assert_eq!(library.device_get_p2p_status(one, other, 5), Err(NvmlError::INVALID_ARGUMENT));
        assert_eq!(library.device_get_p2p_status(one, Device(3), 0), Err(NvmlError::INVALID_ARGUMENT));
    }

    #[test]
    fn vgpus_of_one_gpu_reach_each_other_by_whatever_address() {
        let library = library_of(vec![answer(Some(1), vec![gpu(4, &[])]), answer(Some(1), vec![gpu(4, &[])])]);
        assert_eq!(statuses(&library, 0, 1), [0; 5]);
        assert_eq!(statuses(&library, 0, 0), [0; 5]);
        let (one, other) = (handle(&library, 0), handle(&library, 1));
        assert_eq!(library.device_on_same_board(one, other), Ok(1));
        assert_eq!(library.device_get_topology_common_ancestor(one, other), Ok(0));
    }

    #[test]
    fn vgpus_of_different_servers_reach_each_other_nowhere() {
        // What a server says of its own GPU 1 says nothing of another server's.
        let told = [READ_AND_WRITE[0], READ_AND_WRITE[1], (Reading::PeerLevel, 10)];
        for identities in [[Some(1), Some(2)], [None, None]] {
            let [a, b] = identities;
            let library =
                library_of(vec![answer(a, vec![gpu(0, &[(1, &told)])]), answer(b, vec![gpu(1, &[(0, &told)])])]);
            assert_eq!(statuses(&library, 0, 1), [5; 5]);
            let (one, other) = (handle(&library, 0), handle(&library, 1));
            assert_eq!(library.device_get_topology_common_ancestor(one, other), Ok(50));
            assert_eq!(library.device_on_same_board(one, other), Ok(0));
        }
    }

    #[test]
    fn what_is_no_status_is_an_unknown_one() {
        let told = [(Reading::PeerRead, 7), (Reading::PeerWrite, 1 << 32), (Reading::PeerNvlink, u64::MAX)];
        let library = library_of(vec![answer(Some(1), vec![gpu(0, &[(1, &told)]), gpu(1, &[])])]);
        assert_eq!(statuses(&library, 0, 1), [6, 6, 6, 5, 5]);
    }

    #[test]
    fn what_is_no_level_is_the_system() {
        for (told, level) in [(20, 20), (51, 50), (1 << 32, 50)] {
            let told = [(Reading::PeerLevel, told)];
            let library = library_of(vec![answer(Some(1), vec![gpu(0, &[(1, &told)]), gpu(1, &[])])]);
            let (one, other) = (handle(&library, 0), handle(&library, 1));
            assert_eq!(library.device_get_topology_common_ancestor(one, other), Ok(level));
        }
    }

    #[test]
    fn cpus_are_bits() {
        let mut set = [u64::MAX; 2];
        assert_eq!(fill(&mut set, "0-2,64\n"), Ok(()));
        assert_eq!(set, [0b111, 1]);
        assert_eq!(fill(&mut set[..1], "0-2,64\n"), Err(NvmlError::INSUFFICIENT_SIZE));
    }
}
