//! Timing of one point: work comes in, the median of its timings goes out.
//! It knows nothing of copies or sockets.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Timings of one point, at least and at most.
const TIMINGS: std::ops::RangeInclusive<usize> = 3..=2000;

/// The median of several timings in seconds, as many as the budget allows. One before them is not counted.
pub(super) fn time(budget: Duration, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    work()?;
    let (mut times, begun) = (Vec::new(), Instant::now());
    while times.len() < *TIMINGS.start() || (begun.elapsed() < budget && times.len() < *TIMINGS.end()) {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_of_several_timings_and_failure_ends_them() {
        let mut calls = 0;
        let seconds = time(Duration::ZERO, || {
            calls += 1;
            Ok(())
        });
        assert!(seconds.expect("no failure") >= 0.0 && calls == 1 + TIMINGS.start());
        assert!(time(Duration::ZERO, || anyhow::bail!("no")).is_err());
    }
}
