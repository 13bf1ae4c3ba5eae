//! The threads by which a session shares with others: one takes the daemon's notices, one answers importers.
//! In: the session's ways to the daemon. Out: its hub, and the threads. It knows nothing of commands.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;

use floe_device::{Device, Mapped};

use super::ending::Ending;
use super::shared::Shared;
use super::threads::Threads;
use crate::daemon::descriptor_passing::Noticed;
use crate::daemon::peer_notices::{Answers, Question};
use crate::memory::budget::Budget;
use crate::peer::ends::PeerEnds;
use crate::peer::exporter::{Exporter, give_files, take_notices};
use crate::peer::hub::Hub;

/// The threads' ends of what a session shares.
pub(crate) struct Exports {
    /// `None`: a thread takes them already.
    notices: Option<Receiver<Noticed>>,
    answers: Answers,
    asked: mpsc::Sender<Question>,
    questions: Receiver<Question>,
}

impl Exports {
    /// Starts the thread that takes the daemon's notices.
    pub(super) fn take_notices<M: Mapped + 'static>(
        &mut self,
        hub: &Arc<Hub<M>>,
        threads: &Threads,
    ) -> Result<(), Ending> {
        let Some(notices) = self.notices.take() else { return Ok(()) };
        let (hub, asked) = (Arc::clone(hub), self.asked.clone());
        threads.start("floe-notices", move || {
            take_notices(&hub, &notices, &asked);
            None
        })
    }
}

/// Starts the threads of a session without a device.
pub(crate) fn start_files<M: Mapped + 'static>(
    hub: &Arc<Hub<M>>,
    threads: &Threads,
    mut exports: Exports,
) -> Result<(), Ending> {
    exports.take_notices(hub, threads)?;
    let (hub, Exports { answers, questions, .. }) = (Arc::clone(hub), exports);
    threads.start("floe-export", move || {
        give_files(&hub, &answers, &questions);
        None
    })
}

/// The hub of a session that has ways to the daemon, or of one that shares nothing.
pub(crate) fn share<M: Mapped>(
    ends: Option<PeerEnds>,
    beside: &Arc<AtomicU64>,
    budget: &Budget,
) -> (Hub<M>, Option<Exports>) {
    let Some(PeerEnds { session, reports, notices, answers, patience, .. }) = ends else {
        return (Hub::alone(Arc::clone(beside), budget), None);
    };
    let hub = Hub::new(session, Some(reports), Arc::clone(beside), patience, budget);
    let (asked, questions) = mpsc::channel();
    (hub, Some(Exports { notices: Some(notices), answers, asked, questions }))
}

/// Starts the threads that take the daemon's notices and answer importers.
pub(super) fn start_exports<D: Device>(
    shared: &Arc<Shared<D>>,
    threads: &Threads,
    mut exports: Exports,
) -> Result<(), Ending> {
    exports.take_notices(&shared.hub, threads)?;
    let Exports { answers, questions, .. } = exports;
    let exporter = Exporter { shared: Arc::clone(shared), answers, questions };
    threads.start_on(&shared.device, "floe-export", move || {
        exporter.run();
        None
    })
}
