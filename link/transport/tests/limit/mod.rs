//! An end for what the threads of a test wait for: when one of them fails, the others fail too instead of waiting for
//! it. In: what ends their waits. Out: that, done when a thread panics or a minute is over. It does nothing to a test
//! that goes well.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use floe_transport::Sender;

/// Far longer than any of these tests takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Held by every thread of a test that another waits for, each with a clone of its own.
#[derive(Clone)]
pub(crate) struct Limit {
    end: Arc<dyn Fn() + Send + Sync>,
    is_late: Arc<AtomicBool>,
    /// Wakes the timekeeper when no thread holds it any more.
    _held: mpsc::Sender<()>,
}

impl Limit {
    /// Ends the waits of a test by `end`, which may be called more than once and from any thread.
    pub(crate) fn new(end: impl Fn() + Send + Sync + 'static) -> Self {
        let (held, let_go) = channel();
        let limit = Self { end: Arc::new(end), is_late: Arc::default(), _held: held };
        let (end, is_late) = (Arc::clone(&limit.end), Arc::clone(&limit.is_late));
        std::thread::spawn(move || {
            if let_go.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                is_late.store(true, Ordering::SeqCst);
                end();
            }
        });
        limit
    }

    /// Closes a link, which ends it at its other side as well.
    pub(crate) fn of(sender: &Sender) -> Self {
        let sender = sender.clone();
        Self::new(move || sender.close())
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.end)();
        } else {
            // A wait that only this has ended may look like the end that a test expects.
            assert!(!self.is_late.load(Ordering::SeqCst), "this took longer than {PATIENCE:?}");
        }
    }
}

/// Joins a thread that is over soon; one that is not is left behind.
pub(crate) fn join<T>(thread: JoinHandle<T>) -> T {
    let until = Instant::now() + PATIENCE;
    while !thread.is_finished() {
        assert!(Instant::now() < until, "a thread is not over after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
}
