//! The threads of a session.
//! In: what each does. Out: why the session is over, from whichever knows it first.
//! A thread that ended a session drops nothing that it holds: the driver may wait in a release for work that never
//! ends. The process ends with it.

use std::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use floe_device::Device;

use super::ending::Ending;
use super::watchdog::Watchdog;

/// Starts threads that report why the session is over when they are the first to know, also when they panic.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    endings: Sender<Ending>,
    watchdog: Watchdog,
}

impl Threads {
    /// None yet; where the first to know reports.
    pub(crate) fn new(watchdog: Watchdog) -> (Self, Receiver<Ending>) {
        let (endings, first) = channel();
        (Self { endings, watchdog }, first)
    }

    /// The watchdog, which makes sure that the process ends.
    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// Waits for why the session is over: what the first to know says, or why the threads were not `started`.
    pub(crate) fn await_ending(self, first: &Receiver<Ending>, started: Result<(), Ending>) -> Ending {
        // The threads hold its copies.
        drop(self);
        match started {
            Ok(()) => first.recv().unwrap_or_else(|_| Ending::Bug("every thread is gone".into())),
            Err(ending) => ending,
        }
    }

    /// Starts a thread. One that ends because the others do knows no reason. It is called once, by reference. So its
    /// captures are still there when the reason is reported; it takes out those that may go before.
    ///
    /// # Errors
    /// [`Ending::Bug`] where the system gives no thread.
    pub(crate) fn start(
        &self,
        name: &str,
        body: impl FnMut() -> Option<Ending> + Send + 'static,
    ) -> Result<(), Ending> {
        let (endings, watchdog) = (self.endings.clone(), self.watchdog.clone());
        let run = move || {
            let mut body = ManuallyDrop::new(body);
            let ending = std::panic::catch_unwind(AssertUnwindSafe(&mut *body))
                .unwrap_or_else(|panic| Some(Ending::Bug(panic_words(&*panic))));
            let Some(ending) = ending else { return drop(ManuallyDrop::into_inner(body)) };
            watchdog.is_over();
            // Another thread may have ended the session before.
            let _ = endings.send(ending);
        };
        let started = std::thread::Builder::new().name(name.into()).spawn(run);
        started.map(|_| ()).map_err(|error| Ending::no_thread(&error))
    }

    /// As [`Threads::start`], with the device's context.
    ///
    /// # Errors
    /// As [`Threads::start`].
    pub(crate) fn start_on<D: Device>(
        &self,
        device: &Arc<D>,
        name: &str,
        mut body: impl FnMut() -> Option<Ending> + Send + 'static,
    ) -> Result<(), Ending> {
        let device = Arc::clone(device);
        self.start(name, move || match device.enter() {
            Ok(()) => body(),
            Err(error) => Some(Ending::Device { what: "entering the context".into(), error }),
        })
    }
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::time::Duration;

    use super::*;

    /// An object that the driver frees only behind work that never ends.
    struct Held;

    impl Drop for Held {
        fn drop(&mut self) {
            loop {
                std::thread::park();
            }
        }
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn an_ending_is_reported_whatever_the_thread_holds() {
        let (threads, first) = Threads::new(Watchdog::nobody());
        let (mut held, over) = (Some(Held), Ending::ProtocolViolation("broken".into()));
        let ending = over.clone();
        threads
            .start("test", move || {
                assert!(held.as_mut().is_some());
                Some(ending.clone())
            })
            .unwrap();
        assert_eq!(first.recv_timeout(PATIENCE).unwrap(), over);
    }

    #[test]
    fn a_panic_is_reported_whatever_the_thread_holds() {
        let (threads, first) = Threads::new(Watchdog::nobody());
        let held = Held;
        threads
            .start("test", move || {
                let _held = &held;
                panic!("in a thread of a test")
            })
            .unwrap();
        assert_eq!(first.recv_timeout(PATIENCE).unwrap(), Ending::Bug("in a thread of a test".into()));
    }

    #[test]
    fn a_thread_that_ends_no_session_leaves_nothing() {
        let (threads, first) = Threads::new(Watchdog::nobody());
        let (held, gone) = channel::<()>();
        threads
            .start("test", move || {
                let _held = &held;
                None
            })
            .unwrap();
        assert!(
            gone.recv_timeout(PATIENCE).is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Disconnected)
        );
        drop(threads);
        assert!(first.recv_timeout(PATIENCE).is_err());
    }
}
