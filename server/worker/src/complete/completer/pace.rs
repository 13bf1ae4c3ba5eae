//! The pace at which the GPU's progress is polled.
//! In: how long nothing has completed. Out: how long to sleep before the next look.
//! A program's own driver looks as long as it takes; so does this, for as long as steps of programs take. Of a longer wait it
//! adds at most a small part, and takes a small part of a processor.

use std::time::{Duration, Instant};

use floe_transport::Spin;

/// Looks without sleeping where there are no processors to spare.
const EAGER_LOOKS: u32 = 50;
/// A sleep is this part of the time waited so far.
const PART: u32 = 64;
/// The shortest sleep.
const SHORT: Duration = Duration::from_micros(10);
/// The longest sleep.
const LONG: Duration = Duration::from_micros(200);
/// Pauses of the processor between two looks, which would otherwise fill the driver's locks.
const PAUSES: u32 = 10;

/// The pace of one wait.
#[derive(Debug)]
pub(crate) struct Pace {
    spin: Spin,
    began: Instant,
    looks: u32,
}

impl Pace {
    /// A wait begins.
    pub(crate) fn new(spin: Spin) -> Self {
        Self { spin, began: Instant::now(), looks: 0 }
    }

    /// The time to sleep before the next look; `None`: do not sleep.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Duration> {
        self.looks = self.looks.saturating_add(1);
        let waited = now.saturating_duration_since(self.began);
        if self.spin.pass(waited) {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            return None;
        }
        if !self.spin.is_on() && self.looks <= EAGER_LOOKS {
            std::thread::yield_now();
            return None;
        }
        Some((waited / PART).clamp(SHORT, LONG))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_patient_and_its_sleeps_stay_short() {
        let mut pace = Pace::new(Spin::new(Some("100")));
        let began = pace.began;
        let after = |pace: &mut Pace, micros| pace.next(began + Duration::from_micros(micros));
        assert_eq!(after(&mut pace, 99), None);
        assert_eq!(after(&mut pace, 100_000), Some(LONG));
    }

    #[test]
    fn without_processors_to_spare_it_sleeps_after_some_looks() {
        let mut pace = Pace::new(Spin::new(Some("0")));
        let began = pace.began;
        assert!((0..EAGER_LOOKS).all(|_| pace.next(began).is_none()));
        assert_eq!(pace.next(began), Some(SHORT));
    }
}
