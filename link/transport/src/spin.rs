//! How long a thread looks again before it sleeps, and where it waits for a moment.
//! In: the number of processors, or what `FLOE_SPIN` says. Out: a time, and a loop that ends with it.
//! A sleeping thread takes several microseconds to wake; one that looks again takes a fraction of one, and a processor.

use std::num::{NonZero, NonZeroU64};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The variable that sets the time, in microseconds.
pub const SPIN_VARIABLE: &str = "FLOE_SPIN";
/// The time where there are processors to spare: longer than the gaps between the calls of a busy program, shorter than
/// anything a person would call load.
const DEFAULT: Duration = Duration::from_micros(100);
/// Processors from which on some are spared. Client and worker on one machine have up to four threads that wait.
const ENOUGH_PROCESSORS: usize = 4;
/// The longest time that can be set.
const LONGEST: Duration = Duration::from_secs(1);
/// Looks between two readings of the clock.
const LOOKS: u32 = 8;

/// How many times that time a thread looks for what the program waits for, as CUDA's own waits do; longer, as a wake takes
/// hundreds of microseconds on a virtual machine whose processors have gone to sleep.
const PATIENCE: u32 = 1_000;
/// Pauses of the processor between two looks of the patient part, of about 45 ns each.
const PAUSES: u32 = 100;
/// So many times that time a wait is short, and the patient part has no pauses: a copy of 16 MiB takes 0.3 ms, and each of
/// the two that look for its end would add half of what lies between two looks.
const SHORT: u32 = 10;

/// How many processors the calling thread may run on. To ask reads a dozen files.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// How long a thread looks again before it sleeps; zero: not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spin {
    /// It does nothing else.
    time: Duration,
}

impl Spin {
    /// What `setting` (microseconds) says, or what suits this process's processors.
    #[must_use]
    pub fn new(setting: Option<&str>) -> Self {
        match setting.and_then(|text| text.trim().parse().ok()) {
            Some(micros) => Self { time: Duration::from_micros(micros).min(LONGEST) },
            None if processors() >= ENOUGH_PROCESSORS => Self { time: DEFAULT },
            None => Self::default(),
        }
    }

    /// What this process's environment says.
    #[must_use]
    pub fn of_process() -> Self {
        Self::new(std::env::var(SPIN_VARIABLE).ok().as_deref())
    }

    /// Whether threads look again at all.
    #[must_use]
    pub fn is_on(self) -> bool {
        !self.time.is_zero()
    }

    /// Lets the moment between two looks for what the program waits for pass, when the first was so long ago; where that is
    /// no short time it leaves the processor to others. False: it is time to sleep, a hundred milliseconds where nothing is set.
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

    /// Looks until there is something, or the time is over: then `None`.
    pub fn look<T>(self, look: impl FnMut() -> Option<T>) -> Option<T> {
        self.look_while(look, |_| false)
    }

    /// As [`Spin::look`], and patiently while something is expected, which is when the time begins anew; that is asked every
    /// few looks, with the time it is.
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

/// Says to who waits that what it waits for is expected.
#[derive(Clone, Debug, Default)]
pub struct Expected(Arc<AtomicBool>);

impl Expected {
    /// From now on it is, or is not.
    pub fn set(&self, is: bool) {
        self.0.store(is, Ordering::Release);
    }

    /// Whether it is.
    #[must_use]
    pub fn is(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Whether this machine has processors to spare just now.
mod spare {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    /// How long an answer holds.
    const HOLDS: Duration = Duration::from_millis(2);

    /// Whether fewer threads run or want to than there are processors, or were so a moment ago: then nobody waits for the
    /// one that asks.
    pub(super) fn are_processors() -> bool {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        static ASKED: AtomicU64 = AtomicU64::new(u64::MAX);
        static SPARE: AtomicBool = AtomicBool::new(false);
        let now = BEGAN.get_or_init(Instant::now).elapsed().as_micros().try_into().unwrap_or(u64::MAX - 1);
        let asked = ASKED.load(Ordering::Relaxed);
        let holds = asked != u64::MAX && u128::from(now.saturating_sub(asked)) < HOLDS.as_micros();
        // One thread asks anew, the others go by what is known.
        if !holds && ASKED.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            SPARE.store(ask(), Ordering::Relaxed);
        }
        SPARE.load(Ordering::Relaxed)
    }

    /// A system that says nothing has none.
    fn ask() -> bool {
        // It does not change while a program waits.
        static PROCESSORS: OnceLock<usize> = OnceLock::new();
        let processors = *PROCESSORS.get_or_init(crate::spin::processors);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        running(&load).is_some_and(|running| running <= processors)
    }

    /// Threads that run or want to: `0.20 0.18 0.12 RUNNING/ALL LAST`.
    pub(super) fn running(load: &str) -> Option<usize> {
        load.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
    }
}

/// Makes short sleeps of the calling thread as short as they are asked for; Linux adds 50 µs otherwise.
pub fn sleep_precisely() {
    // A system that refuses sleeps longer, that is all.
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
    fn what_is_expected_is_looked_for_until_it_is_not_expected_any_more() {
        let left = std::cell::Cell::new(3);
        let expected = |_| left.replace(left.get().max(1) - 1) > 1;
        assert_eq!(Spin::new(Some("1000")).look_while(|| None::<()>, expected), None);
        assert_eq!(left.get(), 0, "it was asked until it said no");
    }

    #[test]
    fn looking_ends_with_what_is_found_or_with_the_time() {
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
