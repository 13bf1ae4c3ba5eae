//! What comes before a process is killed: it may have work where others would suffer from its death.
//! In: the process's id, who ends its work, and the kill. Out: the kill, once, behind that. The id is named to nobody when the
//! process may have been waited for.

use std::sync::{Arc, Condvar, Mutex};

use floe_lock::{lock, wait};

/// Who ends the work of a process that is to be killed.
pub(crate) trait BeforeKill: std::fmt::Debug + Send + Sync {
    /// Ends the work of the process of this id. This may take seconds.
    fn end_work_of(&self, process: u32);
}

/// What is to be done before one process is killed.
#[derive(Debug)]
pub(super) struct Before {
    ends: Arc<dyn BeforeKill>,
    /// The process's id, which is its own until the process has been waited for.
    process: u32,
    work: Mutex<Work>,
    changed: Condvar,
}

/// The work of a process that is to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Nobody ends it.
    Runs,
    IsEnding,
    /// It was ended as far as that could be done, or its process has ended.
    IsOver,
}

impl Before {
    /// Of the process of this id.
    pub(super) fn of(process: u32, ends: Arc<dyn BeforeKill>) -> Self {
        Self { ends, process, work: Mutex::new(Work::Runs), changed: Condvar::new() }
    }

    /// Ends the work, then kills, on a thread of its own; only the first caller's kill counts.
    pub(super) fn then(self: &Arc<Self>, kill: impl Fn() + Clone + Send + 'static) {
        if !self.begins() {
            return;
        }
        let (own, kills) = (Arc::clone(self), kill.clone());
        let ending = std::thread::Builder::new().name("end-work".into()).spawn(move || {
            own.ends.end_work_of(own.process);
            kills();
            own.is_over();
        });
        if ending.is_err() {
            kill();
            self.is_over();
        }
    }

    /// To be called before the process is waited for: its id may be another's then. Nobody names it from here on.
    pub(super) fn await_end(&self) {
        let mut work = lock(&self.work);
        while *work == Work::IsEnding {
            work = wait(&self.changed, work);
        }
        *work = Work::IsOver;
    }

    fn begins(&self) -> bool {
        let mut work = lock(&self.work);
        let is_first = *work == Work::Runs;
        if is_first {
            *work = Work::IsEnding;
        }
        is_first
    }

    fn is_over(&self) {
        *lock(&self.work) = Work::IsOver;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    /// Says that it was asked, and ends the work when it is told to.
    #[derive(Debug)]
    struct Slow(Mutex<(Sender<u32>, Receiver<()>)>);

    impl BeforeKill for Slow {
        fn end_work_of(&self, process: u32) {
            let both = lock(&self.0);
            both.0.send(process).expect("heard");
            both.1.recv().expect("told");
        }
    }

    #[test]
    fn nobody_waits_for_a_process_whose_id_is_still_named() {
        let ((asks, asked), (tell, told)) = (channel(), channel());
        let before = Arc::new(Before::of(7, Arc::new(Slow(Mutex::new((asks, told))))));
        let (kills, killed) = channel();
        for _ in 0..3 {
            let kills = kills.clone();
            before.then(move || kills.send(()).expect("heard"));
        }
        assert_eq!(asked.recv(), Ok(7));
        let (reaps, reaped) = channel();
        let waits = Arc::clone(&before);
        let waiting = std::thread::spawn(move || {
            waits.await_end();
            reaps.send(()).expect("heard");
        });
        assert!(reaped.recv_timeout(Duration::from_millis(50)).is_err(), "its work is being ended");
        tell.send(()).expect("heard");
        waiting.join().expect("no panic");
        assert_eq!((killed.recv(), killed.try_recv().is_err(), asked.try_recv().is_err()), (Ok(()), true, true));
        // Its id is another's by now.
        before.then(|| unreachable!());
        assert!(asked.try_recv().is_err());
    }
}
