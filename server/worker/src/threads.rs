//! The threads of a session.
//! In: what each does. Out: why the session is over, from whichever knows it first.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::device::Device;
use crate::ending::Ending;

/// Starts threads that report why the session is over when they are the first to know, also when they panic.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    endings: Sender<Ending>,
}

impl Threads {
    /// None yet; where the first to know reports.
    pub(crate) fn new() -> (Self, Receiver<Ending>) {
        let (endings, first) = channel();
        (Self { endings }, first)
    }

    /// Starts a thread. One that ends because the others do knows no reason.
    ///
    /// # Errors
    /// [`Ending::Bug`] where the system gives no thread.
    pub(crate) fn start(
        &self,
        name: &str,
        body: impl FnOnce() -> Option<Ending> + Send + 'static,
    ) -> Result<(), Ending> {
        let endings = self.endings.clone();
        let run = move || {
            let ending = std::panic::catch_unwind(AssertUnwindSafe(body))
                .unwrap_or_else(|panic| Some(Ending::Bug(panic_words(&*panic))));
            // Another thread may have ended the session before.
            let _ = ending.map(|ending| endings.send(ending));
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
        body: impl FnOnce() -> Option<Ending> + Send + 'static,
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
