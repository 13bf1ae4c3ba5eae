//! What surrounds a GPU: its NVLinks and the other GPUs offered beside it. Readings of NVIDIA's library and the probe's
//! attributes come in, readings of links and pairs go out. It asks no device itself, and calls no pair reachable of which
//! nobody said so.

use floe_nvml::Reading;
use floe_wire::{LinkTelemetry, PeerTelemetry};

use super::sample::{Readings, to_wire};

/// `NVML_P2P_STATUS_OK` and `…_NOT_SUPPORTED`.
const STATUS: (u64, u64) = (0, 5);

/// The surroundings of a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    pub(crate) links: Vec<Link>,
    /// By index.
    pub(crate) peers: Vec<(u32, Readings)>,
}

/// An NVLink of a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its number at the GPU.
    pub(crate) number: u32,
    /// The PCI bus id of its other end; empty if the library shows none.
    pub(crate) remote: String,
    pub(crate) readings: Readings,
}

impl Topology {
    pub(crate) fn links_to_wire(&self) -> Vec<LinkTelemetry<'_>> {
        let rows = self.links.iter();
        rows.map(|Link { number, remote, readings }| LinkTelemetry {
            link: *number,
            remote,
            readings: to_wire(readings),
        })
        .collect()
    }

    pub(crate) fn peers_to_wire(&self) -> Vec<PeerTelemetry> {
        let rows = self.peers.iter();
        rows.map(|(index, readings)| PeerTelemetry { index: *index, readings: to_wire(readings) }).collect()
    }
}

/// The readings of a pair: NVIDIA's library's, else what CUDA's driver told the probe.
pub(super) fn pair(told: Readings, attributes: Option<&[i32; 4]>) -> Readings {
    if told.iter().any(|(reading, _)| *reading == Reading::PeerRead) {
        return told;
    }
    let status = |yes: i32| if yes == 1 { STATUS.0 } else { STATUS.1 };
    let [_, access, atomics, _] = attributes.copied().unwrap_or_default();
    let known = [
        (Reading::PeerRead, status(access)),
        (Reading::PeerWrite, status(access)),
        (Reading::PeerAtomics, status(atomics)),
    ];
    told.into_iter().filter(|(reading, _)| known.iter().all(|(its, _)| its != reading)).chain(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_answers_where_the_library_does_not() {
        let told = pair(vec![(Reading::PeerLevel, 40)], Some(&[0, 1, 0, 1]));
        let expected = [
            (Reading::PeerLevel, 40),
            (Reading::PeerRead, STATUS.0),
            (Reading::PeerWrite, STATUS.0),
            (Reading::PeerAtomics, STATUS.1),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn the_librarys_word_goes_before_the_probes() {
        let told = vec![(Reading::PeerRead, 4), (Reading::PeerWrite, 4)];
        assert_eq!(pair(told.clone(), Some(&[0, 1, 1, 1])), told);
    }

    #[test]
    fn a_pair_nobody_answers_for_is_not_reachable() {
        assert!(pair(Vec::new(), None).iter().all(|(_, status)| *status == STATUS.1));
    }
}
