//! How long a thread spins before it parks.
//! In: the number of processors, or the value of `FLOE_SPIN`. Out: a time, and a loop that ends with it.
//! A parked thread takes several microseconds to wake; a spinning one reacts in a fraction of one, but occupies a
//! processor.

use std::num::{NonZero, NonZeroU64};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The variable that sets the time, in microseconds.
pub const SPIN_VARIABLE: &str = "FLOE_SPIN";
/// The default time where processors are spare: longer than the gaps between a busy program's calls, and too short to
/// count as load.
const DEFAULT: Duration = Duration::from_micros(100);
/// The fewest processors at which some count as spare: client and worker on one machine have up to four waiting
/// threads.
const ENOUGH_PROCESSORS: usize = 4;
/// The longest time that the variable can set.
const LONGEST: Duration = Duration::from_secs(1);
/// Polls between two readings of the clock.
const LOOKS: u32 = 8;

/// Factor on the time for results that the program waits for. CUDA's own waits spin too. It is large because a wake
/// takes hundreds of microseconds on a virtual machine whose processors are idle.
const PATIENCE: u32 = 1_000;
/// Processor pauses between two polls of the patient part, about 45 ns each.
const PAUSES: u32 = 100;
/// A wait up to this factor of the time is short, and polls without pauses. A copy of 16 MiB takes 0.3 ms, and each of
/// the two threads that poll for its end would add half an interval.
const SHORT: u32 = 10;

/// The number of processors that the calling thread may run on. Asking reads a dozen files.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// How long a thread spins before it parks; zero: not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spin {
    /// How long a thread spins.
    time: Duration,
}

impl Spin {
    /// The time of `setting` in microseconds, or the default for this process's processors.
    #[must_use]
    pub fn new(setting: Option<&str>) -> Self {
        match setting.and_then(|text| text.trim().parse().ok()) {
            Some(micros) => Self { time: Duration::from_micros(micros).min(LONGEST) },
            None if processors() >= ENOUGH_PROCESSORS => Self { time: DEFAULT },
            None => Self::default(),
        }
    }

    /// The time that this process's environment sets, or the default.
    #[must_use]
    pub fn of_process() -> Self {
        Self::new(std::env::var(SPIN_VARIABLE).ok().as_deref())
    }

    /// Whether threads spin at all.
    #[must_use]
    pub fn is_on(self) -> bool {
        !self.time.is_zero()
    }

    /// Passes the interval between two polls for a result that the program waits for, given the time since the first
    /// poll. After more than a short wait it yields the processor to others. False: it is time to park, by default
    /// after a hundred milliseconds.
    pub fn pass(self, waited: Duration) -> bool {
        if waited < self.time {
            return true;
        }
        if waited >= self.time * PATIENCE || !spare::are_processors() {
            return false;
        }
        if waited >= self.time * SHORT {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            std::thread::yield_now();
        }
        true
    }

    /// Polls until there is something. `None`: the time is over.
    pub fn look<T>(self, look: impl FnMut() -> Option<T>) -> Option<T> {
        self.look_while(look, |_| false)
    }

    /// As [`Spin::look`], and patiently while something is expected, which restarts the time. It asks every few polls
    /// whether that is so, and passes the current time.
    pub fn look_while<T>(
        self,
        mut look: impl FnMut() -> Option<T>,
        is_expected: impl Fn(Instant) -> bool,
    ) -> Option<T> {
        if let Some(found) = look() {
            return Some(found);
        }
        if !self.is_on() {
            return None;
        }
        let began = Instant::now();
        let mut expected_until = began;
        loop {
            for _ in 0..LOOKS {
                std::hint::spin_loop();
                if let Some(found) = look() {
                    return Some(found);
                }
            }
            let now = Instant::now();
            if is_expected(now) {
                expected_until = now;
            }
            let is_time = now.duration_since(expected_until) < self.time && self.pass(now.duration_since(began));
            if !is_time {
                return None;
            }
        }
    }
}

/// Tells a waiting thread that its result is expected.
#[derive(Clone, Debug, Default)]
pub struct Expected(Arc<AtomicBool>);

impl Expected {
    /// Sets whether it is expected.
    pub fn set(&self, is: bool) {
        self.0.store(is, Ordering::Release);
    }

    /// Whether it is expected.
    #[must_use]
    pub fn is(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Whether this machine has spare processors just now.
mod spare {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    /// How long an answer stays valid.
    const HOLDS: Duration = Duration::from_millis(2);

    /// Whether fewer threads are runnable than there are processors, now or a moment ago: then a spinning thread delays
    /// nobody.
    pub(super) fn are_processors() -> bool {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        static ASKED: AtomicU64 = AtomicU64::new(u64::MAX);
        static SPARE: AtomicBool = AtomicBool::new(false);
        let now = BEGAN.get_or_init(Instant::now).elapsed().as_micros().try_into().unwrap_or(u64::MAX - 1);
        let asked = ASKED.load(Ordering::Relaxed);
        let holds = asked != u64::MAX && u128::from(now.saturating_sub(asked)) < HOLDS.as_micros();
        // One thread asks again; the others use the last answer.
        if !holds && ASKED.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            SPARE.store(ask(), Ordering::Relaxed);
        }
        SPARE.load(Ordering::Relaxed)
    }

    /// Without an answer from the kernel, there are none.
    fn ask() -> bool {
        // It does not change while a program waits.
        static PROCESSORS: OnceLock<usize> = OnceLock::new();
        let processors = *PROCESSORS.get_or_init(crate::spin::processors);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        running(&load).is_some_and(|running| running <= processors)
    }

    /// Runnable threads, from `0.20 0.18 0.12 RUNNING/ALL LAST`.
    pub(super) fn running(load: &str) -> Option<usize> {
        load.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
    }
}

/// Makes short sleeps of the calling thread precise; Linux adds 50 µs otherwise.
pub fn sleep_precisely() {
    // Where the kernel refuses, sleeps are only longer.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_threads_are_read_from_what_linux_says() {
        assert_eq!(spare::running("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!([spare::running(""), spare::running("1 2 3 x/y 5")], [None, None]);
    }

    #[test]
    fn the_setting_is_in_microseconds_and_nonsense_is_the_default() {
        assert_eq!(Spin::new(Some("250")).time, Duration::from_micros(250));
        assert!(!Spin::new(Some("0")).is_on());
        assert_eq!(Spin::new(Some("a lot")), Spin::new(None));
    }

    #[test]
    fn patience_ends_and_is_none_where_nothing_is_spun() {
        let after = |setting, micros| Spin::new(Some(setting)).pass(Duration::from_micros(micros));
        // Between the two it depends on what else the machine does.
        assert_eq!((after("100", 99), after("100", 100_000)), (true, false));
        assert!(!after("0", 0));
    }

    #[test]
    fn spinning_continues_while_a_result_is_expected() {
        let left = std::cell::Cell::new(3);
        let expected = |_| left.replace(left.get().max(1) - 1) > 1;
        assert_eq!(Spin::new(Some("1000")).look_while(|| None::<()>, expected), None);
        assert_eq!(left.get(), 0, "it was asked until it said no");
    }

    #[test]
    fn spinning_ends_with_a_result_or_with_the_time() {
        let mut left = 100;
        let found = Spin::new(Some("1000000")).look(|| {
            left -= 1;
            (left == 0).then_some(7)
        });
        assert_eq!(found, Some(7));
        let mut looks = 0;
        let nothing: Option<()> = Spin::new(Some("0")).look(|| {
            looks += 1;
            None
        });
        assert_eq!((nothing, looks), (None, 1));
    }
}
