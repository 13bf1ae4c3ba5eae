//! One direction of the network: computes when bytes leave and arrive.
//! In: numbers of bytes, each with its send time. Out: the times at which they have left and arrived. Pure: it never
//! sleeps and reads no clock.

use std::time::{Duration, Instant};

/// A line of some bandwidth and length. Bytes leave one after the other, each as soon as those before it have left.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    bytes_per_second: Option<f64>,
    delay: Duration,
    /// The time at which all bytes so far have left.
    free: Instant,
}

/// The times of a group of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When the last of them has left the sender.
    pub left: Instant,
    /// When the last of them is at the receiver.
    pub arrived: Instant,
}

impl Line {
    /// An empty line. Without a bandwidth, bytes leave at once.
    #[must_use]
    pub fn new(bytes_per_second: Option<f64>, delay: Duration, now: Instant) -> Self {
        Self { bytes_per_second, delay, free: now }
    }

    /// Sends `bytes`.
    pub fn pass(&mut self, bytes: usize, now: Instant) -> Passage {
        #[allow(clippy::cast_precision_loss, reason = "a chunk is far below 2^52 bytes")]
        let takes = self.bytes_per_second.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate));
        self.free = self.free.max(now) + takes;
        Passage { left: self.free, arrived: self.free + self.delay }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn bytes_wait_for_those_before_them() {
        let start = Instant::now();
        let mut line = Line::new(Some(1e6), 5 * MILLISECOND, start);
        assert_eq!(line.pass(1000, start), Passage { left: start + MILLISECOND, arrived: start + 6 * MILLISECOND });
        assert_eq!(line.pass(1000, start).arrived, start + 7 * MILLISECOND);
        // The line has been free for a while: nothing is saved up.
        assert_eq!(line.pass(1000, start + 10 * MILLISECOND).left, start + 11 * MILLISECOND);
    }

    #[test]
    fn without_a_bandwidth_there_is_only_the_delay() {
        let start = Instant::now();
        let mut line = Line::new(None, MILLISECOND, start);
        assert_eq!(line.pass(1 << 30, start), Passage { left: start, arrived: start + MILLISECOND });
    }

    proptest! {
        #[test]
        fn never_more_than_the_bandwidth_and_never_out_of_order(chunks in proptest::collection::vec((1_usize..100_000, 0_u64..2_000), 1..50)) {
            let (start, rate) = (Instant::now(), 1e8);
            let mut line = Line::new(Some(rate), 3 * MILLISECOND, start);
            let (mut now, mut last, mut bytes) = (start, start, 0);
            for (chunk, pause) in chunks {
                now += Duration::from_micros(pause);
                let passage = line.pass(chunk, now);
                bytes += chunk;
                prop_assert!(passage.left >= last && passage.arrived == passage.left + 3 * MILLISECOND);
                let least = f64::from(u32::try_from(bytes).expect("few bytes")) / rate;
                prop_assert!((passage.left - start).as_secs_f64() >= least - 1e-6);
                last = passage.left;
            }
        }
    }
}
