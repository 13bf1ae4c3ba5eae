//! Telemetry samples of GPUs, from NVIDIA's management library, or from the machine for CPU devices. GPUs and workers
//! come in, numbers go out, at most 100 ms old. It never loads CUDA. It omits what it cannot read, and makes up
//! nothing.

mod machine;
mod nvidia;
mod nvlink;
mod sample;
mod topology;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use floe_device::Snapshot;
use machine::Machine;
use nvidia::Nvidia;
pub(crate) use sample::{Target, TelemetrySample, to_wire};
pub(crate) use topology::Topology;

/// The age up to which numbers are reused: monitors ask several times for one sample.
const FRESH: Duration = Duration::from_millis(100);

/// The source of the numbers.
#[derive(Debug)]
enum Source {
    Nvidia(Box<Nvidia>),
    Machine(Machine),
    /// The device is of another kind.
    None,
}

/// The readings of all GPUs.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// `nvidia`, `cpu` or `other`.
    kind: String,
    /// Opened at the first question: most daemons' clients never ask.
    source: OnceLock<Source>,
    samples: Mutex<BTreeMap<u32, Taken>>,
    /// Each GPU's surroundings, read once: they are constant.
    topologies: Mutex<BTreeMap<u32, Arc<Topology>>>,
}

#[derive(Debug)]
struct Taken {
    at: Instant,
    slow: bool,
    sample: TelemetrySample,
}

impl Telemetry {
    /// Telemetry of devices of this kind, as the probe named it.
    pub(crate) fn new(kind: &str) -> Self {
        Self { kind: kind.to_owned(), source: OnceLock::new(), samples: Mutex::default(), topologies: Mutex::default() }
    }

    fn source(&self) -> &Source {
        self.source.get_or_init(|| match self.kind.as_str() {
            "nvidia" => match Nvidia::open() {
                Ok(nvidia) => Source::Nvidia(Box::new(nvidia)),
                Err(error) => {
                    crate::warn(format_args!("power, temperature and the like cannot be read: {error}"));
                    Source::None
                }
            },
            "cpu" => Source::Machine(Machine::new()),
            _ => Source::None,
        })
    }

    /// The version of NVIDIA's driver; empty for other devices.
    pub(crate) fn driver(&self) -> &str {
        match self.source() {
            Source::Nvidia(nvidia) => nvidia.driver(),
            Source::Machine(_) | Source::None => "",
        }
    }

    /// A sample of a GPU. `slow` adds readings that take a driver tens of milliseconds.
    pub(crate) fn read(&self, target: &Target<'_>, slow: bool) -> TelemetrySample {
        let mut samples = self.samples();
        let fresh = |taken: &&Taken| taken.at.elapsed() < FRESH && (taken.slow || !slow);
        if let Some(taken) = samples.get(&target.index).filter(fresh) {
            return taken.sample.clone();
        }
        let sample = match self.source() {
            Source::Nvidia(nvidia) => nvidia.read(target, slow),
            Source::Machine(machine) => machine.read(target),
            Source::None => TelemetrySample::default(),
        };
        samples.insert(target.index, Taken { at: Instant::now(), slow, sample: sample.clone() });
        sample
    }

    /// The surroundings of a GPU among those that are offered, which are always the same.
    pub(crate) fn topology(&self, index: u32, gpus: &[Snapshot], offered: &[u32]) -> Arc<Topology> {
        let row = |&index: &u32| Some((index, gpus.get(usize::try_from(index).ok()?)?));
        let read = || Arc::new(self.read_topology(index, &offered.iter().filter_map(row).collect()));
        floe_lock::lock(&self.topologies).entry(index).or_insert_with(read).clone()
    }

    fn read_topology(&self, index: u32, offered: &BTreeMap<u32, &Snapshot>) -> Topology {
        let Some(gpu) = offered.get(&index) else { return Topology::default() };
        let links = match self.source() {
            Source::Nvidia(nvidia) => nvidia.links(&gpu.uuid),
            Source::Machine(_) | Source::None => Vec::new(),
        };
        let pair = |(peer, its): (&u32, &&Snapshot)| {
            let told = match self.source() {
                Source::Nvidia(nvidia) => nvidia.pair(&gpu.uuid, &its.uuid),
                Source::Machine(_) | Source::None => Vec::new(),
            };
            let attributes = usize::try_from(*peer).ok().and_then(|peer| gpu.peers.get(peer));
            (*peer, topology::pair(told, attributes))
        };
        let peers = offered.iter().filter(|(peer, _)| **peer != index).map(pair).collect();
        Topology { links, peers }
    }

    /// Bytes of each process on a GPU, by process id; `None` if unknown.
    pub(crate) fn processes(&self, uuid: &[u8]) -> Option<BTreeMap<u32, u64>> {
        match self.source() {
            Source::Nvidia(nvidia) => nvidia.processes(uuid),
            Source::Machine(_) | Source::None => None,
        }
    }

    /// Per cent of the time since then for which a GPU computed for each process, by process id, as far as that is known.
    pub(crate) fn computing(&self, uuid: &[u8], since: SystemTime) -> BTreeMap<u32, u32> {
        match self.source() {
            Source::Nvidia(nvidia) => nvidia.computing(uuid, since),
            Source::Machine(_) | Source::None => BTreeMap::new(),
        }
    }

    /// A panic cannot leave a sample inconsistent.
    fn samples(&self) -> MutexGuard<'_, BTreeMap<u32, Taken>> {
        floe_lock::lock(&self.samples)
    }
}

#[cfg(test)]
mod tests {
    use floe_nvml::Reading;

    use super::*;

    #[test]
    fn an_unknown_library_gives_no_numbers() {
        let telemetry = Telemetry::new("other");
        let target = Target { index: 0, uuid: &[0; 16], workers: vec![std::process::id()] };
        assert_eq!(telemetry.read(&target, true), TelemetrySample::default());
        assert_eq!(telemetry.driver(), "");
    }

    #[test]
    fn a_gpus_surroundings_are_the_other_gpus_that_are_offered() {
        let gpu = Snapshot { peers: vec![[0, 1, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]], ..Snapshot::default() };
        let (gpus, offered) = (vec![gpu; 4], [0, 2, 3, 9]);
        let topology = Telemetry::new("other").topology(0, &gpus, &offered);
        let reads: Vec<_> = topology.peers.iter().map(|(peer, readings)| (*peer, readings[0])).collect();
        assert_eq!(reads, [(2, (Reading::PeerRead, 0)), (3, (Reading::PeerRead, 5))]);
        assert_eq!(topology.links, []);
        assert_eq!(*Telemetry::new("other").topology(1, &gpus, &offered), Topology::default());
    }

    #[test]
    fn a_fresh_picture_is_not_taken_again() {
        let telemetry = Telemetry::new("cpu");
        let target = Target { index: 0, uuid: &[0; 16], workers: vec![std::process::id()] };
        let first = telemetry.read(&target, false);
        // Fresh however long this thread is kept from reading again.
        telemetry.samples().values_mut().for_each(|taken| taken.at += Duration::from_secs(3600));
        assert_eq!(first, telemetry.read(&Target { workers: Vec::new(), ..target.clone() }, false));
        assert_eq!(first.readings.len(), 1);
        assert!(first.workers.contains_key(&std::process::id()));
    }
}
