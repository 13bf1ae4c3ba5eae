//! What workers report of their memory and ask of it, and the end of sessions that hold more than their quotas.
//! In: reports and requests, with the time. Out: shares; the ends of sessions whose memory somebody misses, each with the reason.

use std::time::{Duration, Instant};

use super::Sessions;
use crate::usage::accounting::Share;

/// So long a session has more than its quota before that counts against it. A worker may read two sums while a block passes from one
/// to the other; it reports every second.
const LASTS: Duration = Duration::from_secs(3);

impl Sessions {
    /// A worker reports its bytes.
    pub(crate) fn uses(&mut self, number: u64, bytes: u64, now: Instant) {
        let used = self.accounting.uses(number, bytes);
        let exceeds = self.accounting.exceeds(number);
        if let Some(worker) = self.worker_mut(number) {
            worker.used = used;
            worker.exceeds = exceeds.then(|| worker.exceeds.unwrap_or(now));
        }
    }

    /// A worker asks for so many bytes in all.
    pub(crate) fn want(&mut self, number: u64, bytes: u64, now: Instant) -> Share {
        let share = self.accounting.want(number, bytes);
        if let Some(gpu) = self.worker(number).map(|worker| worker.gpu).filter(|_| share.total < bytes) {
            self.end_excess(gpu, bytes.saturating_sub(share.total.saturating_add(share.left)), now);
        }
        share
    }

    /// Somebody misses so many bytes of this GPU. Sessions that have more than their quotas give theirs up, if that would do.
    pub(crate) fn end_excess(&mut self, gpu: u32, missing: u64, now: Instant) {
        for (session, bytes) in self.accounting.beyond(gpu, missing) {
            let since = self.worker(session).and_then(|worker| worker.exceeds);
            if since.is_some_and(|since| now.saturating_duration_since(since) >= LASTS) {
                let why =
                    format!("others need the {bytes} bytes that it has beyond its quota, of sessions that have ended");
                self.end_at_once(session, why);
            }
        }
    }
}
