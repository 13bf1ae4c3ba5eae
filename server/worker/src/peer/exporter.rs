//! The threads that take the daemon's notices and answer importers.
//! In: notices. Out: descriptors of what a ticket admits, by the reserved way to the daemon.
//! They wait for no command of the session: a notice that another session is over is never held up by the driver.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use floe_device::{Device, Mapped};

use super::exports::Granted;
use super::hub::Hub;
use super::page::{PAGE_BYTES, Page};
use crate::daemon::descriptor_passing::Noticed;
use crate::daemon::peer_notices::{Answer, Answers, Question, Refused};
use crate::life::shared::Shared;

/// Takes notices, and passes questions on, until there are none any more.
pub(crate) fn take_notices<M: Mapped>(hub: &Hub<M>, notices: &Receiver<Noticed>, questions: &Sender<Question>) {
    while let Ok((notice, descriptor)) = notices.recv() {
        if let Some(question) = hub.notice(notice, descriptor) {
            // Without the other thread the session is over.
            let _ = questions.send(question);
        }
    }
}

/// Answers importers.
pub(crate) struct Exporter<D: Device> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) answers: Answers,
    pub(crate) questions: Receiver<Question>,
}

/// A descriptor that goes out: of the driver's, or a page's.
enum Exported<M> {
    Block(Arc<OwnedFd>, u64),
    Page(Arc<Page<M>>),
    File(Arc<OwnedFd>),
}

impl<D: Device> Exporter<D> {
    /// Runs until nobody can ask any more.
    pub(crate) fn run(&self) {
        while let Ok(question) = self.questions.recv() {
            self.answer(&question);
        }
    }

    fn answer(&self, question: &Question) {
        let Question { importer, ref import } = *question;
        let answer = |outcome| Answer { importer, request: import.request, outcome };
        let given = match self.export(question) {
            Ok(Exported::Block(file, bytes)) => self.answers.give(&answer(Ok(bytes)), Some(file.as_fd())),
            Ok(Exported::Page(page)) => {
                self.answers.give(&answer(Ok(PAGE_BYTES as u64)), page.file.as_ref().map(|file| file.as_fd()))
            }
            Ok(Exported::File(file)) => self.answers.give(&answer(Ok(0)), Some(file.as_fd())),
            Err(refused) => return drop(self.answers.give(&answer(Err(refused)), None)),
        };
        if given.is_err() {
            // The kernel takes no more descriptors of this user now, or the daemon is gone.
            self.shared.hub.take_back(question);
            drop(self.answers.give(&answer(Err(Refused::OutOfMemory)), None));
        }
    }

    fn export(&self, question: &Question) -> Result<Exported<D::Mapped>, Refused> {
        let (handle, bytes, file) = match self.shared.hub.grant(question)? {
            Granted::Signals(page) => return Ok(Exported::Page(page)),
            Granted::File(file) => return Ok(Exported::File(file)),
            Granted::Block(handle, bytes, file) => (handle, bytes, file),
        };
        let memory = floe_lock::lock(&handle);
        let exported = match (*memory, file) {
            (Some(_), Some(file)) => Ok(file),
            // After a reset the context is another one.
            (Some(memory), None) => self
                .shared
                .device
                .enter()
                .and_then(|()| self.shared.device.export_memory(memory))
                .map(Arc::new)
                .map_err(|_| Refused::NotSupported),
            // It was released just now.
            (None, _) => Err(Refused::Unknown),
        };
        drop(memory);
        match exported {
            Ok(file) => Ok(Exported::Block(file, bytes)),
            Err(refused) => {
                self.shared.hub.take_back(question);
                Err(refused)
            }
        }
    }
}

/// Answers importers of a session without a device: it has files only. Runs until nobody can ask any more.
pub(crate) fn give_files<M: Mapped>(hub: &Hub<M>, answers: &Answers, questions: &Receiver<Question>) {
    while let Ok(question) = questions.recv() {
        let answer = |outcome| Answer { importer: question.importer, request: question.import.request, outcome };
        let given = match hub.grant(&question) {
            Ok(Granted::File(file)) => answers.give(&answer(Ok(0)), Some(file.as_fd())),
            Ok(_) => answers.give(&answer(Err(Refused::NotSupported)), None),
            Err(refused) => answers.give(&answer(Err(refused)), None),
        };
        if given.is_err() {
            // As where a session answers: the importer hears that there is no room, or that the daemon is gone.
            drop(answers.give(&answer(Err(Refused::OutOfMemory)), None));
        }
    }
}
