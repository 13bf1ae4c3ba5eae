//! An event as this process knows it: what it records of which stream, and what the server last said about that.
//! Records are posted; replies tell whether one is over. It knows no handle but its context's.

pub(crate) mod shared;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{Context, CudaError, CudaResult, event_flags};
use floe_wire::{DestroyEvent, EventId, QueryEvent, RecordEvent};

use crate::memory::ipc::exporting::Part;
use crate::memory::ipc::passport::{Passport, Subject};
use crate::memory::peers::ticket::Scope;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::{NotReady, Ticket};
use crate::vgpu::far::Until;
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;
use shared::SharedEvent;

/// One event.
#[derive(Debug)]
pub(crate) struct EventState {
    pub(crate) vgpu: Arc<Vgpu>,
    id: u64,
    context: Context,
    flags: u32,
    record: Mutex<Option<Record>>,
    /// Whether the record was queried before it was known to be over: the next one will be, too.
    is_queried: AtomicBool,
    /// A question about the record of this frame that is not waited for.
    question: Mutex<Option<(u64, Ticket)>>,
    /// What other processes have of it, from when it is exported; from the start, if it is another process's.
    shared: OnceLock<SharedEvent>,
}

/// The work that an event records: everything on a stream up to a frame.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    progress: Arc<StreamProgress>,
    sequence: u64,
    /// A launch's own record: it may be over before the launch is, so it says nothing about the stream's work.
    within_launch: bool,
    /// The server's last answer about it.
    pub(crate) asked: Option<NotReady>,
}

impl Record {
    /// Whether what it stands for is known to be over.
    pub(crate) fn is_complete(&self) -> bool {
        self.progress.completed() >= self.sequence
    }

    /// Whether it is, as far as the program can tell.
    pub(crate) fn seems_over(&self) -> bool {
        self.progress.seems_over(self.sequence)
    }
}

impl EventState {
    /// A new event, which records nothing yet.
    pub(crate) fn new(vgpu: Arc<Vgpu>, id: u64, context: Context, flags: u32) -> Self {
        let (record, question, shared) = (Mutex::default(), Mutex::default(), OnceLock::new());
        Self { vgpu, id, context, flags, record, is_queried: AtomicBool::new(false), question, shared }
    }

    /// Another process's event.
    pub(crate) fn opened(vgpu: Arc<Vgpu>, id: u64, context: Context, passport: &Passport) -> CudaResult<Self> {
        let flags = event_flags::INTERPROCESS | event_flags::DISABLE_TIMING;
        let signals = vgpu.open_signals(passport)?;
        Ok(Self { shared: OnceLock::from(SharedEvent::opened(signals)), ..Self::new(vgpu, id, context, flags) })
    }

    /// What other processes have of it, as long as all of them are there: from then on an event of this process's is its own
    /// alone.
    pub(crate) fn shared(&self) -> CudaResult<Option<&SharedEvent>> {
        let Some(shared) = self.shared.get() else { return Ok(None) };
        let is_alone = !shared.is_opened() && shared.is_over(&self.vgpu)?;
        Ok((!is_alone).then_some(shared))
    }

    /// What the program passes on, so that another process can open it.
    ///
    /// # Errors
    /// INVALID_HANDLE of an event that was not made for that; INVALID_VALUE where another process has made it.
    pub(crate) fn export(&self) -> CudaResult<Passport> {
        if self.flags & event_flags::INTERPROCESS == 0 {
            return Err(CudaError::INVALID_HANDLE);
        }
        // Held so that no record goes the old way meanwhile.
        let record = lock(&self.record);
        if let Some(shared) = self.shared.get() {
            return shared.passport().copied().ok_or(CudaError::INVALID_VALUE);
        }
        let signals = self.vgpu.create_signals()?;
        let issued = self.vgpu.issue(Subject::Event, Scope::Signals(signals), Part::WHOLE);
        let passport = match issued {
            Ok(passport) => passport,
            Err(error) => return self.vgpu.drop_signals(signals).and(Err(error)),
        };
        let shared = SharedEvent::exported(signals, passport);
        if record.as_ref().is_some_and(|record| !record.is_complete()) {
            shared.record_earlier(&self.vgpu, self.id)?;
        }
        self.shared.get_or_init(|| shared);
        Ok(passport)
    }

    /// It is destroyed, here and at the server.
    pub(crate) fn abandon(&self) -> CudaResult<()> {
        match self.shared.get() {
            Some(shared) if shared.is_opened() => return shared.abandon(&self.vgpu),
            Some(shared) => shared.abandon(&self.vgpu)?,
            None => {}
        }
        self.vgpu.connection.post(&DestroyEvent { event: EventId(self.id) }).map(drop)
    }

    /// Its id on the wire.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Its context's handle.
    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// Whether nothing is left to wait for, as far as is known here: never recorded, or what it records is over.
    pub(crate) fn is_known_complete(&self) -> bool {
        lock(&self.record).as_ref().is_none_or(Record::is_complete)
    }

    /// Its record, unless that is known to be over.
    pub(crate) fn outstanding(&self) -> Option<Record> {
        lock(&self.record).clone().filter(|record| !record.is_complete())
    }

    /// Puts a question about its record by `begin`, unless that is over as far as the program can tell. No other record gets in
    /// between: the answer is about this one.
    pub(crate) fn ask<R>(&self, begin: impl FnOnce(&Record) -> CudaResult<R>) -> CudaResult<Option<(Record, R)>> {
        let record = lock(&self.record);
        let Some(record) = record.as_ref().filter(|record| !record.seems_over()) else { return Ok(None) };
        Ok(Some((record.clone(), begin(record)?)))
    }

    /// The program asks for it, and it is not known to be over.
    pub(crate) fn note_query(&self) {
        self.is_queried.store(true, Ordering::Relaxed);
    }

    /// The server said that the record is not over yet.
    pub(crate) fn note(&self, asked: &Record, answer: NotReady) {
        // Of what a launch records nothing is said unasked.
        if asked.within_launch {
            return;
        }
        if let Some(record) = lock(&self.record).as_mut().filter(|record| record.sequence == asked.sequence) {
            record.asked = Some(answer);
        }
    }

    /// The server said that the record is over.
    pub(crate) fn completed(&self, record: &Record) -> CudaResult<()> {
        let vgpu = &self.vgpu;
        if record.within_launch {
            return vgpu.errors.report();
        }
        vgpu.connection.wait_for_deliveries(&record.progress, record.sequence);
        vgpu.order.stream_completed(&record.progress, record.sequence);
        vgpu.errors.report()
    }

    /// Whether the program may go on as if it had waited for the record.
    pub(crate) fn goes_on(&self, record: &Record) -> CudaResult<bool> {
        let until = Until::Event(EventId(self.id), &record.progress, record.sequence);
        Ok(!record.within_launch && self.vgpu.goes_on(until)?)
    }

    /// Whether the record is over, by an answer that has come: it is asked for, and not waited for.
    pub(crate) fn query_ahead(&self, record: &Record) -> CudaResult<()> {
        let connection = &self.vgpu.connection;
        let mut question = lock(&self.question);
        let answered = question.as_ref().and_then(|(sequence, ticket)| Some((*sequence, connection.status(ticket)?)));
        if answered.is_some() {
            *question = None;
        }
        match answered {
            Some((sequence, Ok(()))) if sequence == record.sequence => return self.completed(record),
            Some((_, Err(error))) if error != CudaError::NOT_READY => return Err(error),
            _ if record.is_complete() => return self.completed(record),
            _ => {}
        }
        if question.is_none() {
            let asked = self.ask(|_| connection.ask_ahead(&QueryEvent { event: EventId(self.id) }))?;
            *question = asked.map(|(record, (ticket, _))| (record.sequence, ticket));
        }
        Err(CudaError::NOT_READY)
    }

    /// Whether a launch may record it: it must have no clock.
    pub(crate) fn is_for_launches(&self) -> bool {
        self.flags & event_flags::DISABLE_TIMING != 0 && self.flags & event_flags::INTERPROCESS == 0
    }

    /// Posts the launch that records the event by one of its attributes.
    pub(crate) fn record_by(
        &self,
        progress: &Arc<StreamProgress>,
        launch: impl FnOnce() -> CudaResult<u64>,
    ) -> CudaResult<()> {
        // As for a record of its own, the lock keeps the order of the wire.
        let mut record = lock(&self.record);
        let sequence = launch()?;
        progress.issue(sequence);
        *record = Some(Record { progress: Arc::clone(progress), sequence, within_launch: true, asked: None });
        Ok(())
    }

    /// Records what the stream holds so far.
    pub(crate) fn record_on(&self, stream: &StreamState) -> CudaResult<()> {
        if !Arc::ptr_eq(&self.vgpu, &stream.vgpu) {
            return Err(CudaError::INVALID_HANDLE);
        }
        let message = RecordEvent { event: EventId(self.id), stream: stream.id(), flags: 0 };
        // The lock is held over the post so that two threads' records end up here in the order of the wire.
        let mut record = lock(&self.record);
        if let Some(shared) = self.shared.get() {
            shared.record(stream)?;
            if shared.is_opened() {
                return Ok(());
            }
        }
        let (connection, progress) = (&stream.vgpu.connection, stream.progress());
        let sequence = connection.post_on(progress, &message)?;
        let is_followed = self.is_queried.swap(false, Ordering::Relaxed) && !self.vgpu.far.is_on();
        let asked = is_followed.then(|| connection.follow_event(message.event, progress, sequence)).transpose()?;
        *record = Some(Record { progress: Arc::clone(progress), sequence, within_launch: false, asked });
        Ok(())
    }

    /// Whether there is no time to ask it for.
    pub(crate) fn is_untimed(&self) -> bool {
        self.flags & event_flags::DISABLE_TIMING != 0 || lock(&self.record).is_none()
    }
}
