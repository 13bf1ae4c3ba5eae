//! Copies to the device that are read only when their stream has got there. Their bytes and those of the copies issued
//! meanwhile come in; who would fill the server's staging memory waits here until no such copy is outstanding. It knows
//! nothing of streams: any copy may stand behind a late one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use floe_wire::PIECE_BYTES;

use crate::table::lock;
use crate::tally;

/// Bytes in one direction that may be issued while a late copy is outstanding. The server stages eight pieces in each
/// direction and issues nothing while they are full, not even the late copy that what fills them waits for.
const LIMIT: u64 = 4 * PIECE_BYTES as u64;

/// The late copies of one session.
#[derive(Debug, Default)]
pub(crate) struct Late {
    state: Mutex<State>,
    none: Condvar,
}

/// All zero while no late copy is outstanding.
#[derive(Debug, Default)]
struct State {
    copies: usize,
    late: u64,
    uploads: u64,
    downloads: u64,
}

/// A late copy that is outstanding until this is dropped.
#[derive(Debug)]
pub(crate) struct LateCopy {
    late: Arc<Late>,
}

impl Late {
    /// A late copy is about to be issued. It passes through what staging memory the others leave.
    pub(crate) fn begin(self: &Arc<Self>, bytes: u64) -> LateCopy {
        let mut state = self.wait_while(|state| {
            let staged = state.uploads.saturating_add(state.late).saturating_add(bytes);
            state.uploads > 0 && staged > LIMIT
        });
        state.copies += 1;
        state.late = state.late.saturating_add(bytes);
        LateCopy { late: Arc::clone(self) }
    }

    /// A copy to the device is about to be issued at once.
    pub(crate) fn admit_upload(&self, bytes: u64) {
        let mut state = self.wait_while(|state| state.uploads.saturating_add(state.late).saturating_add(bytes) > LIMIT);
        if state.copies > 0 {
            state.uploads = state.uploads.saturating_add(bytes);
        }
    }

    /// A copy to the host is about to be issued.
    pub(crate) fn admit_download(&self, bytes: u64) {
        let mut state = self.wait_while(|state| state.downloads.saturating_add(bytes) > LIMIT);
        if state.copies > 0 {
            state.downloads = state.downloads.saturating_add(bytes);
        }
    }

    /// Waits until no late copy is outstanding, where `is_too_much` says so while one is.
    fn wait_while(&self, is_too_much: impl Fn(&State) -> bool) -> std::sync::MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        while state.copies > 0 && is_too_much(&state) {
            tally::waited();
            state = self.none.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

impl Drop for LateCopy {
    fn drop(&mut self) {
        let mut state = lock(&self.late.state);
        state.copies -= 1;
        if state.copies == 0 {
            *state = State::default();
            self.late.none.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_while_no_late_copy_is_outstanding() {
        let late = Arc::new(Late::default());
        late.admit_upload(u64::MAX);
        late.admit_download(u64::MAX);
        drop(late.begin(u64::MAX));
        late.admit_upload(u64::MAX);
    }

    #[test]
    fn what_would_fill_the_staging_memory_waits_for_the_last_late_copy() {
        let late = Arc::new(Late::default());
        let (first, second) = (late.begin(LIMIT), late.begin(LIMIT));
        late.admit_download(LIMIT);
        std::thread::scope(|scope| {
            let waiting = [scope.spawn(|| late.admit_upload(1)), scope.spawn(|| late.admit_download(1))];
            drop(first);
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(waiting.iter().all(|thread| !thread.is_finished()));
            drop(second);
        });
    }
}
