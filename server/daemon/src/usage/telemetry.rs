//! Telemetry samples of GPUs, from NVIDIA's management library, or from the machine for CPU devices. GPUs and workers
//! come in, numbers go out, at most 100 ms old. It never loads CUDA. It omits what it cannot read, and makes up
//! nothing.

mod machine;
mod nvidia;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use floe_nvml::Reading;

use machine::Machine;
use nvidia::Nvidia;

/// The age up to which numbers are reused: monitors ask several times for one sample.
const FRESH: Duration = Duration::from_millis(100);

/// Numbers that were read.
pub(crate) type Readings = Vec<(Reading, u64)>;

/// A sample of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TelemetrySample {
    pub(crate) readings: Readings,
    /// Per worker process.
    pub(crate) workers: BTreeMap<u32, Readings>,
    /// The device's constant texts.
    pub(crate) labels: Labels,
}

/// Texts about a device; empty if unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) serial: String,
    pub(crate) part: String,
    pub(crate) firmware: String,
}

/// A GPU to be read.
#[derive(Debug, Clone)]
pub(crate) struct Target<'a> {
    pub(crate) index: u32,
    /// Its 16-byte id.
    pub(crate) uuid: &'a [u8],
    /// Process ids of the workers on it.
    pub(crate) workers: Vec<u32>,
}

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
        Self { kind: kind.to_owned(), source: OnceLock::new(), samples: Mutex::default() }
    }

    fn source(&self) -> &Source {
        self.source.get_or_init(|| match self.kind.as_str() {
            "nvidia" => match Nvidia::open() {
                Ok(nvidia) => Source::Nvidia(Box::new(nvidia)),
                Err(error) => {
                    crate::log(format_args!("power, temperature and the like cannot be read: {error}"));
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

    /// Bytes of each process on a GPU, by process id; `None` if unknown.
    pub(crate) fn processes(&self, uuid: &[u8]) -> Option<BTreeMap<u32, u64>> {
        match self.source() {
            Source::Nvidia(nvidia) => nvidia.processes(uuid),
            Source::Machine(_) | Source::None => None,
        }
    }

    /// A panic cannot leave a sample inconsistent.
    fn samples(&self) -> MutexGuard<'_, BTreeMap<u32, Taken>> {
        floe_lock::lock(&self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_library_gives_no_numbers() {
        let telemetry = Telemetry::new("other");
        let target = Target { index: 0, uuid: &[0; 16], workers: vec![std::process::id()] };
        assert_eq!(telemetry.read(&target, true), TelemetrySample::default());
        assert_eq!(telemetry.driver(), "");
    }

    #[test]
    fn a_fresh_picture_is_not_taken_again() {
        let telemetry = Telemetry::new("cpu");
        let target = Target { index: 0, uuid: &[0; 16], workers: vec![std::process::id()] };
        let first = telemetry.read(&target, false);
        assert_eq!(first, telemetry.read(&Target { workers: Vec::new(), ..target.clone() }, false));
        assert_eq!(first.readings.len(), 1);
        assert!(first.workers.contains_key(&std::process::id()));
    }
}
