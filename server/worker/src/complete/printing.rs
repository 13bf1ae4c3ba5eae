//! Whether kernels of the session may print.
//! In: the contents of every library that is loaded. Out: whether one of them calls `printf`, or may, as far as is known.
//! The client must have a kernel's output before it learns that the work is over. Asking the driver for output costs
//! more than a microsecond. Contents are looked through by a thread of their own, since what is compressed takes long;
//! until one is known not to print, it may. A library that is unloaded may have printed: it counts to the end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use floe_device::Content;
use floe_image::{Limits, may_print};

/// Bytes of a library up to which it is looked through. A library that expands to hundreds of megabytes would take
/// processor and memory for seconds. That saves a microsecond where such programs spend many.
const SMALL: usize = 1 << 20;
/// Libraries that wait to be looked through: one more stays under suspicion.
const WAITING: usize = 64;
/// The most bytes to which a searched library may expand: it comes from a client.
const LIMITS: Limits = Limits { image_bytes: SMALL, entry_bytes: 16 << 20, entries: 16 };

/// Whether kernels of the session's libraries may print.
#[derive(Debug, Default)]
pub(crate) struct Printing {
    /// Libraries that print or may, the device's own among them.
    suspects: Arc<AtomicUsize>,
    /// To the thread that looks through them, once there is one.
    looking: Mutex<Option<SyncSender<Vec<Content>>>>,
}

impl Printing {
    /// Of a session without libraries, whose device's own library says things by itself or not.
    pub(crate) fn new(device_speaks: bool) -> Self {
        Self { suspects: Arc::new(AtomicUsize::new(device_speaks.into())), looking: Mutex::default() }
    }

    /// Whether work that is over may have printed something.
    pub(crate) fn is_possible(&self) -> bool {
        self.suspects.load(Ordering::Acquire) > 0
    }

    /// A library of these contents is about to be loaded.
    pub(crate) fn watch(&self, contents: &[Content]) {
        self.suspects.fetch_add(1, Ordering::AcqRel);
        let bytes: usize = contents.iter().map(|content| content.len()).sum();
        if bytes <= SMALL {
            self.look_through(contents.to_vec());
        }
    }

    /// A library that cannot be searched stays under suspicion.
    fn look_through(&self, contents: Vec<Content>) {
        let mut looking = floe_lock::lock(&self.looking);
        if looking.is_none() {
            let (sender, receiver) = sync_channel(WAITING);
            let suspects = Arc::clone(&self.suspects);
            let body = move || clear_those_that_do_not_print(&receiver, &suspects);
            if thread::Builder::new().name("floe-printing".into()).spawn(body).is_ok() {
                *looking = Some(sender);
            }
        }
        if let Some(sender) = &*looking {
            let _ = sender.try_send(contents);
        }
    }
}

fn clear_those_that_do_not_print(libraries: &Receiver<Vec<Content>>, suspects: &AtomicUsize) {
    for contents in libraries {
        if !contents.iter().any(|content| may_print(content, &LIMITS)) {
            suspects.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn content(text: &[u8]) -> [Content; 1] {
        [Content::from(text)]
    }

    fn comes_clear(printing: &Printing) -> bool {
        comes_clear_within(printing, Duration::from_secs(20))
    }

    fn comes_clear_within(printing: &Printing, time: Duration) -> bool {
        let began = Instant::now();
        while printing.is_possible() && began.elapsed() < time {
            thread::sleep(Duration::from_millis(1));
        }
        !printing.is_possible()
    }

    #[test]
    fn a_device_that_speaks_and_a_large_library_may_print() {
        assert!(Printing::new(true).is_possible());
        let printing = Printing::default();
        printing.watch(&[Content::from(&vec![0; SMALL + 1][..])]);
        assert!(!comes_clear_within(&printing, Duration::from_millis(50)), "it is too large");
    }

    #[test]
    fn libraries_come_clear_once_they_are_looked_through_and_one_that_prints_never_does() {
        let printing = Printing::default();
        assert!(!printing.is_possible(), "without a library nothing prints");
        printing.watch(&content(b".version 7.0 .entry quiet"));
        assert!(comes_clear(&printing));
        printing.watch(&[content(b"quiet"), content(b"call (x), vprintf")].concat());
        printing.watch(&content(b"quiet again"));
        let after = content(b"the last of them");
        printing.watch(&after);
        // The thread has its own until it has looked through all of them.
        drop(printing.looking.lock().expect("no test panics with it").take());
        let began = Instant::now();
        while Arc::strong_count(&printing.suspects) > 1 && began.elapsed() < Duration::from_secs(300) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(printing.suspects.load(Ordering::Acquire), 1);
    }
}
