//! Limits of the lines that peers cause in the log.
//! In: the peer that causes a line, the line's bytes, the time. Out: whether it is written, and the number of lines
//! omitted before it.
//! It keeps one row for each peer that has used a part of its share.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Source;

/// The time in which a share refills.
const MINUTE: Duration = Duration::from_secs(60);

/// Whether a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// It is written, after a note on this number of omitted lines.
    Write { left_out: u64 },
    /// It is omitted.
    LeaveOut,
}

/// A token bucket: bytes that refill at an even rate.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    bytes: f64,
    at: Instant,
    left_out: u64,
}

impl Bucket {
    fn full(bytes: u32, now: Instant) -> Self {
        Self { bytes: f64::from(bytes), at: now, left_out: 0 }
    }

    fn fill(&mut self, most: u32, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64() / MINUTE.as_secs_f64();
        self.bytes = (self.bytes + passed * f64::from(most)).min(f64::from(most));
        self.at = now;
    }

    fn is_untouched(&self, most: u32) -> bool {
        self.bytes >= f64::from(most)
    }
}

/// Limits of what peers' sessions write, in bytes per minute.
#[derive(Debug)]
pub(crate) struct Words {
    each: u32,
    all: u32,
    together: Option<Bucket>,
    peers: BTreeMap<Source, Bucket>,
    /// Omitted lines of peers that have been quiet since, and that no note has counted.
    unsaid: u64,
}

impl Words {
    /// Limits in bytes per minute for all sessions of one peer, and for all sessions.
    pub(crate) fn new(each: u32, all: u32) -> Self {
        Self { each, all, together: None, peers: BTreeMap::new(), unsaid: 0 }
    }

    /// A line of a peer's session.
    pub(crate) fn line(&mut self, source: Source, bytes: usize, now: Instant) -> Permit {
        let (each, all) = (self.each, self.all);
        let together = self.together.get_or_insert_with(|| Bucket::full(all, now));
        together.fill(all, now);
        self.peers.values_mut().for_each(|bucket| bucket.fill(each, now));
        let unsaid = &mut self.unsaid;
        self.peers.retain(|other, bucket| {
            let stays = *other == source || !bucket.is_untouched(each);
            *unsaid += if stays { 0 } else { bucket.left_out };
            stays
        });
        let its = self.peers.entry(source).or_insert_with(|| Bucket::full(each, now));
        let bytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        if its.bytes < bytes || together.bytes < bytes {
            its.left_out += 1;
            return Permit::LeaveOut;
        }
        its.bytes -= bytes;
        together.bytes -= bytes;
        Permit::Write { left_out: std::mem::take(&mut its.left_out) }
    }

    /// The number of omitted lines of peers that have been quiet since. It is returned once.
    pub(crate) fn take_unsaid(&mut self) -> u64 {
        std::mem::take(&mut self.unsaid)
    }

    /// The number of peers that have used a part of their share.
    #[cfg(test)]
    fn peers(&self) -> usize {
        self.peers.len()
    }
}

/// Lines about refused connections: one per second.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    last: Option<Instant>,
    left_out: u64,
}

impl Refusals {
    /// Between two lines.
    const BETWEEN: Duration = Duration::from_secs(1);

    /// A line about a connection.
    pub(crate) fn line(&mut self, now: Instant) -> Permit {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < Self::BETWEEN) {
            self.left_out += 1;
            return Permit::LeaveOut;
        }
        self.last = Some(now);
        Permit::Write { left_out: std::mem::take(&mut self.left_out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISY: Source = Source::User(1);
    const QUIET: Source = Source::User(2);

    fn written(words: &mut Words, source: Source, lines: usize, now: Instant) -> usize {
        (0..lines).filter(|_| words.line(source, 100, now) != Permit::LeaveOut).count()
    }

    #[test]
    fn all_sessions_of_a_peer_share_its_bytes_and_leave_others_theirs() {
        let (mut words, now) = (Words::new(1000, 1_000_000), Instant::now());
        assert_eq!(written(&mut words, NOISY, 5000, now), 10);
        assert_eq!(written(&mut words, QUIET, 5, now), 5);
        let later = now + MINUTE / 2;
        assert_eq!(words.line(NOISY, 100, later), Permit::Write { left_out: 4990 });
        assert_eq!(written(&mut words, NOISY, 5000, later), 4);
    }

    #[test]
    fn all_peers_together_have_a_limit() {
        let (mut words, now) = (Words::new(1000, 2500), Instant::now());
        let lines: usize = (0..100).map(|user| written(&mut words, Source::User(user), 10, now)).sum();
        assert_eq!(lines, 25);
    }

    #[test]
    fn who_has_been_quiet_for_a_minute_is_forgotten() {
        let (mut words, now) = (Words::new(1000, 1_000_000), Instant::now());
        for user in 0..100 {
            words.line(Source::User(user), 100, now);
        }
        assert_eq!(words.peers(), 100);
        words.line(NOISY, 100, now + MINUTE);
        assert_eq!(words.peers(), 1);
    }

    #[test]
    fn what_was_left_out_of_a_peer_that_is_quiet_since_is_said_all_the_same() {
        let (mut words, now) = (Words::new(1000, 1_000_000), Instant::now());
        assert_eq!(written(&mut words, NOISY, 25, now), 10);
        assert_eq!(words.take_unsaid(), 0, "it may say so itself");
        assert_eq!(words.line(QUIET, 100, now + MINUTE), Permit::Write { left_out: 0 });
        assert_eq!((words.peers(), words.take_unsaid(), words.take_unsaid()), (1, 15, 0));
    }

    #[test]
    fn refusals_are_one_line_a_second_and_say_how_many_there_were() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.line(now), Permit::Write { left_out: 0 });
        assert!((0..1000).all(|_| refusals.line(now + Duration::from_millis(999)) == Permit::LeaveOut));
        assert_eq!(refusals.line(now + Duration::from_secs(1)), Permit::Write { left_out: 1000 });
    }
}
