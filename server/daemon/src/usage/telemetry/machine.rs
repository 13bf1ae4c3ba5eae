//! The CPU device's readings: how busy its workers keep the cores. Process ids come in, percents go out, each over the
//! last second or so. Nothing else of a machine is a GPU's: no power, no temperature, no clock is made up.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use floe_nvml::Reading;

use super::sample::{Target, TelemetrySample};

/// A sample compares two looks at the workers' times. A look older than this is too old. One of a second ago is not,
/// since monitors ask once a second.
const OLD: Duration = Duration::from_millis(1500);
/// The least time between two looks: several of the kernel's ticks. In less time a worker had all of a tick or nothing.
const SPAN: Duration = Duration::from_millis(50);

/// The cores that this machine's workers use.
#[derive(Debug)]
pub(super) struct Machine {
    cores: usize,
    ticks_per_second: u64,
    /// Per GPU: the latest look that can be compared with one now, and those after it.
    looks: Mutex<BTreeMap<u32, Vec<Look>>>,
}

/// Each worker's time on the cores so far, in ticks.
#[derive(Debug, Clone)]
struct Look {
    at: Instant,
    ticks: BTreeMap<u32, u64>,
}

impl Machine {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { cores, ticks_per_second: rustix::param::clock_ticks_per_second(), looks: Mutex::default() }
    }

    pub(super) fn read(&self, target: &Target<'_>) -> TelemetrySample {
        let mut looks = floe_lock::lock(&self.looks);
        let looks = looks.entry(target.index).or_default();
        if !forget(looks, Instant::now()) {
            looks.push(look(&target.workers));
            std::thread::sleep(SPAN);
        }
        let now = look(&target.workers);
        let sample = self.compare(&looks[0], &now);
        looks.push(now);
        sample
    }

    fn compare(&self, before: &Look, now: &Look) -> TelemetrySample {
        let span = now.at.duration_since(before.at);
        let mut workers = BTreeMap::new();
        let mut sum = 0;
        for (worker, ticks) in &now.ticks {
            // A worker that is new began in between, so all its time belongs to this span.
            let spent = ticks.saturating_sub(before.ticks.get(worker).copied().unwrap_or_default());
            sum += spent;
            workers.insert(*worker, vec![(Reading::GpuUtilization, self.percent(spent, span))]);
        }
        let readings = vec![(Reading::GpuUtilization, self.percent(sum, span))];
        TelemetrySample { readings, workers, ..TelemetrySample::default() }
    }

    /// The share of all cores that `ticks` in `span` are.
    fn percent(&self, ticks: u64, span: Duration) -> u64 {
        let whole = span.as_millis() * u128::from(self.ticks_per_second) * self.cores as u128;
        let part = u128::from(ticks) * 1000 * 100;
        u64::try_from(part.checked_div(whole).unwrap_or_default()).unwrap_or(100).min(100)
    }
}

/// Keeps the latest look that can be compared with `now`, and those after it. Returns whether there is one.
fn forget(looks: &mut Vec<Look>, now: Instant) -> bool {
    let age = |look: &Look| now.saturating_duration_since(look.at);
    looks.retain(|look| age(look) < OLD);
    let settled = looks.iter().rposition(|look| age(look) >= SPAN);
    looks.drain(..settled.unwrap_or_default());
    settled.is_some()
}

fn look(workers: &[u32]) -> Look {
    let ticks = workers.iter().filter_map(|worker| Some((*worker, ticks(*worker)?))).collect();
    Look { at: Instant::now(), ticks }
}

/// A process's time on the cores; `None` if it has ended.
fn ticks(process: u32) -> Option<u64> {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks_of(&line)
}

/// User and system time of a line of `/proc/PID/stat`.
fn ticks_of(line: &str) -> Option<u64> {
    // The name is in parentheses and may contain anything, so fields count from the last parenthesis. The state is the
    // line's third field, the two times are the fourteenth and fifteenth.
    let mut fields = line.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine { cores: 2, ticks_per_second: 100, looks: Mutex::default() }
    }

    #[test]
    fn times_are_found_behind_any_name() {
        let line = "7 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0 1 0";
        assert_eq!(ticks_of(line), Some(42));
        assert_eq!(ticks_of("7 (a"), None);
    }

    #[test]
    fn a_worker_on_one_of_two_cores_keeps_half_of_them_busy() {
        let at = Instant::now();
        let before = Look { at, ticks: BTreeMap::from([(1, 1000), (2, 0)]) };
        let now = Look { at: at + Duration::from_secs(1), ticks: BTreeMap::from([(1, 1100), (2, 0), (3, 50)]) };
        let sample = machine().compare(&before, &now);
        assert_eq!(sample.readings, [(Reading::GpuUtilization, 75)]);
        let shares: Vec<u64> = sample.workers.values().map(|readings| readings[0].1).collect();
        assert_eq!(shares, [50, 0, 25]);
    }

    #[test]
    fn looks_within_a_few_ticks_of_now_are_kept_but_not_compared_with() {
        let now = Instant::now();
        let looks = |ages: &[u64]| -> Vec<Look> {
            let look = |age: &u64| Look { at: now - Duration::from_millis(*age), ticks: BTreeMap::new() };
            ages.iter().map(look).collect()
        };
        let left = |ages: &[u64]| {
            let mut looks = looks(ages);
            let settled = forget(&mut looks, now);
            (settled, looks.iter().map(|look| (now - look.at).as_millis()).collect::<Vec<_>>())
        };
        assert_eq!(left(&[2000, 1100, 1000, 10, 1]), (true, vec![1000, 10, 1]));
        assert_eq!(left(&[2000, 10]), (false, vec![10]));
        assert_eq!(left(&[]), (false, vec![]));
    }

    #[test]
    fn a_question_right_behind_another_is_over_a_whole_span_too() {
        let machine = machine();
        let target = Target { index: 0, uuid: &[0; 16], workers: vec![std::process::id()] };
        for _ in 0..3 {
            machine.read(&target);
            let looks = machine.looks.lock().expect("no thread panics with it");
            let [first, .., last] = looks[&0].as_slice() else { panic!("one look tells nothing") };
            assert!(last.at - first.at >= SPAN);
        }
    }

    #[test]
    fn ticks_that_came_late_do_not_exceed_the_whole() {
        assert_eq!(machine().percent(1000, Duration::from_millis(100)), 100);
        assert_eq!(machine().percent(1, Duration::ZERO), 0);
    }
}
