//! How long a thread looks again before it sleeps, and where it waits for a moment.
//! In: the number of processors, or what `FLOE_SPIN` says. Out: a time, and a loop that ends with it.
//! A sleeping thread takes several microseconds to wake; one that looks again takes a fraction of one, and a processor.

use std::num::NonZeroU64;
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
/// Pauses of the processor between two looks of the patient part.
const PAUSES: u32 = 100;

/// How long a thread looks again before it sleeps; zero: not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spin {
    /// It does nothing else.
    time: Duration,
    /// It leaves the processor to others between two looks.
    patience: Duration,
}

impl Spin {
    /// What `setting` (microseconds) says, or what suits this process's processors.
    #[must_use]
    pub fn new(setting: Option<&str>) -> Self {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        match setting.and_then(|text| text.trim().parse().ok()) {
            Some(micros) => Self::of(Duration::from_micros(micros).min(LONGEST)),
            None if processors() >= ENOUGH_PROCESSORS => Self::of(DEFAULT),
            None => Self::default(),
        }
    }

    fn of(time: Duration) -> Self {
        Self { time, patience: time }
    }

    /// The same for what the program waits for: a hundred milliseconds where nothing is set.
    #[must_use]
    pub fn patient(self) -> Self {
        Self { patience: self.time * PATIENCE, ..self }
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

    /// Lets the moment between two looks pass, when the first was so long ago. False: it is time to sleep.
    pub fn pass(self, waited: Duration) -> bool {
        if waited >= self.patience {
            return false;
        }
        if waited >= self.time {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            std::thread::yield_now();
        }
        true
    }

    /// Looks until there is something, or the time is over: then `None`.
    pub fn look<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        if let Some(found) = look() {
            return Some(found);
        }
        if !self.is_on() {
            return None;
        }
        let began = Instant::now();
        loop {
            for _ in 0..LOOKS {
                std::hint::spin_loop();
                if let Some(found) = look() {
                    return Some(found);
                }
            }
            if !self.pass(began.elapsed()) {
                return None;
            }
        }
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
    fn the_setting_is_in_microseconds_and_nonsense_is_the_default() {
        assert_eq!(Spin::new(Some("250")).time, Duration::from_micros(250));
        assert!(!Spin::new(Some("0")).is_on());
        assert_eq!(Spin::new(Some("a lot")), Spin::new(None));
    }

    #[test]
    fn patience_is_longer_and_nothing_where_nothing_is_spun() {
        let (short, patient) = (Spin::new(Some("100")), Spin::new(Some("100")).patient());
        let after = |micros| [short, patient].map(|spin| spin.pass(Duration::from_micros(micros)));
        assert_eq!([after(99), after(100), after(99_999)], [[true, true], [false, true], [false, true]]);
        assert_eq!(after(100_000), [false, false]);
        assert!(!Spin::new(Some("0")).patient().pass(Duration::ZERO));
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
