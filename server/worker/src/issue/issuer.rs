//! The issuer: what a client's commands do, in their order.
//! In: commands as they were read. Out: driver calls, replies, tasks for the completer; or the end of the session.
//! It never waits for the GPU, except for room in a transfer buffer and when the context is reset. It believes nothing:
//! it looks ids up, checks ranges, and leaves the rest to the driver's judgement.

#[path = "activity.rs"]
mod activity;
mod array;
mod context;
mod copy;
mod event;
mod graph;
mod launch;
mod library;
mod link;
mod memory;
mod mirror;
pub(crate) mod moving;
#[path = "pace.rs"]
mod pace;
mod peer;
mod sharing;
mod stream;
mod stream_memory;
mod tensor_map;
mod texture;

use std::collections::BTreeMap;
use std::sync::Arc;

use floe_abi::{CudaError, LaunchAttribute, SurfaceObject, TextureObject};
use floe_device::Device;
use floe_transport::{LinkError, Spin};
use floe_wire::{Class, Field, Handler, Recipient, Request, StreamId};

use super::apart::ApartStream;
use super::aside::Aside;
use super::cache::Cache;
use super::errands::Errands;
use super::fault::Fault;
use super::host_functions::HostFunctions;
use super::inline_wait::{InlineWait, Next};
use super::objects::Objects;
use super::objects::array::ArrayObject;
use super::objects::block::{Adopted, Block, Mapping};
use super::objects::contents::Contents;
use super::objects::departed::Departed;
use super::objects::event::{EventObject, Line};
use super::objects::graph::GraphObject;
use super::objects::library::{Kernel, Loaded};
use super::objects::linked::Linked;
use super::objects::sharing::Sharing;
use super::objects::signals::Signals;
use super::objects::stream::StreamObject;
use super::recipes::Recipes;
use super::stands::Stands;
use super::turn::Pace;
use crate::complete::completer::{Action, Lane, Task, Tasks};
use crate::complete::events::{CompletionEvent, Pool};
use crate::life::shared::Shared;
use crate::memory::budget::{Budget, cost};
use crate::memory::ledger::Ledger;
use crate::memory::transfer_buffers::{BufferBytes, Downloads, UploadRange, Uploads};
use crate::memory::window::Windows;
use crate::wire_in::batch::Command;
use crate::wire_in::queue::Issuing;

/// The session's limits and its memory.
pub(crate) struct Allowance {
    pub(crate) windows: Windows,
    /// Of device memory.
    pub(crate) ledger: Ledger,
    /// Of host memory.
    pub(crate) budget: Budget,
    /// Physical memory comes in multiples of this.
    pub(crate) granularity: u64,
    /// The most bytes of host memory it may share with its client.
    pub(crate) shared_memory: u64,
    pub(crate) buffers: BufferBytes,
}

/// The session's objects and how to reach everything else.
pub(crate) struct Issuer<D: Device> {
    shared: Arc<Shared<D>>,
    tasks: Tasks<D>,
    /// The wait that the issuer polls itself, as no command is queued behind it.
    inline_wait: InlineWait<D>,
    functions: Arc<HostFunctions>,
    pool: Arc<Pool<D>>,
    uploads: Arc<Uploads<D>>,
    /// For copies whose bytes the client reads when their stream gets there.
    late: Arc<Uploads<D>>,
    /// The sequence of the present command.
    sequence: u64,
    /// The transfer buffer's range with the present command's data, if these are not in its payload.
    upload_range: Option<UploadRange>,
    downloads: Arc<Downloads<D>>,
    allowance: Allowance,
    blocks: Objects<Block>,
    mappings: BTreeMap<u64, Mapping>,
    libraries: Objects<Loaded>,
    departed: Departed,
    contents: Contents,
    linked: Linked,
    kernels: Objects<Kernel>,
    /// Room for the attributes of a launch.
    attributes: Vec<LaunchAttribute>,
    streams: Objects<StreamObject<D>>,
    /// The one among them that is in a context apart.
    apart: Option<ApartStream<D>>,
    legacy_used: bool,
    /// Completion events of destroyed streams whose work may be unfinished.
    orphans: Vec<Arc<CompletionEvent<D>>>,
    events: Objects<EventObject<D>>,
    graphs: Objects<GraphObject>,
    arrays: Objects<ArrayObject>,
    textures: Objects<TextureObject>,
    surfaces: Objects<SurfaceObject>,
    sharing: Sharing<D::Mapped>,
    signals: Objects<Signals<D::Mapped>>,
    recipes: Recipes,
    /// Whether the device reaches memory of other GPUs, by their index.
    reaches: BTreeMap<i32, bool>,
    /// What other threads have it do between two commands.
    errands: Arc<Errands<Self>>,
    /// Commands that it has taken over and not begun, because it was interrupted.
    aside: Aside,
    /// Where it stands until the session has moved.
    pub(crate) stands: Stands,
    /// It stops for this as soon as it goes on.
    stopped: Option<Stop>,
    /// Memory of the worker that the session leaves, by the numbers of the blocks that are made of it.
    adopted: BTreeMap<u64, Adopted>,
    /// The session's line of time, where another worker began it.
    line: Option<Line<D>>,
    /// How much it keeps in flight while others wait for its turn.
    pace: Pace<D>,
    /// The marks of a drain that has begun.
    draining: Vec<Arc<CompletionEvent<D>>>,
}

/// How a command is answered.
pub(crate) enum Answer {
    /// Not at all.
    Nothing,
    /// Now, with these reply fields.
    Body(Vec<u8>),
    /// By the completer.
    Later,
}

/// Why the issuer stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A protocol violation by the client.
    ProtocolViolation(String),
    /// The link to the client is gone.
    Link(LinkError),
}

fn body<'a>(fields: &impl Field<'a>) -> Result<Answer, Fault> {
    let mut bytes = Vec::new();
    fields.write(&mut bytes);
    Ok(Answer::Body(bytes))
}

impl<D: Device> Handler for Issuer<D> {
    type Answer = Answer;
    type Fault = Fault;

    fn misplaced(recipient: Recipient) -> Fault {
        Fault::ProtocolViolation(recipient.to_string())
    }
}

impl<D: Device> Issuer<D> {
    pub(crate) fn new(
        shared: Arc<Shared<D>>,
        tasks: Tasks<D>,
        functions: Arc<HostFunctions>,
        uploads: Arc<Uploads<D>>,
        allowance: Allowance,
        cache: Option<Cache>,
        spin: Spin,
    ) -> Self {
        let pool = Pool::new(Arc::clone(&shared.device));
        let contents = Contents::new(cache, shared.log.clone(), &allowance.budget);
        let budget = allowance.budget.clone();
        let interrupted = Arc::clone(&shared);
        Self {
            errands: Errands::new(move |is| interrupted.queue.interrupt(is)),
            aside: Aside::default(),
            stands: Stands::default(),
            stopped: None,
            pace: Pace::default(),
            draining: Vec::new(),
            line: None,
            adopted: BTreeMap::new(),
            shared,
            tasks,
            inline_wait: InlineWait::new(spin),
            functions,
            pool,
            uploads,
            late: Uploads::new(allowance.buffers.late, &budget),
            sequence: 0,
            upload_range: None,
            downloads: Downloads::new(allowance.buffers.download, &budget),
            allowance,
            blocks: Objects::new("block", cost::BLOCK, &budget),
            mappings: BTreeMap::new(),
            libraries: Objects::new("library", cost::LIBRARY, &budget),
            departed: Departed::default(),
            contents,
            linked: Linked::new(&budget),
            kernels: Objects::new("kernel", cost::KERNEL, &budget),
            attributes: Vec::new(),
            streams: Objects::new("stream", cost::STREAM, &budget),
            apart: None,
            legacy_used: false,
            orphans: Vec::new(),
            events: Objects::new("event", cost::EVENT, &budget),
            graphs: Objects::new("graph", cost::GRAPH, &budget),
            arrays: Objects::new("array", cost::ARRAY, &budget),
            textures: Objects::new("texture", cost::TEXTURE, &budget),
            surfaces: Objects::new("surface", cost::TEXTURE, &budget),
            sharing: Sharing::default(),
            signals: Objects::new("signal page", cost::SIGNALS, &budget),
            recipes: Recipes::new(&budget),
            reaches: BTreeMap::new(),
        }
    }

    /// The way to have it do something between two commands.
    pub(crate) fn errands(&self) -> Arc<Errands<Self>> {
        Arc::clone(&self.errands)
    }

    /// Carries commands out until the queue is closed.
    pub(crate) fn run(&mut self) -> Result<(), Stop> {
        let outcome = self.carry_all_out();
        self.errands.close();
        outcome
    }

    fn carry_all_out(&mut self) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let mut issuing = Issuing::default();
        self.stand_aside(&mut issuing)?;
        loop {
            // Also behind what another worker had read: the client may wait for just that.
            if self.inline_wait.is_kept() {
                shared.queue.give_back(&mut issuing);
                self.poll_inline_wait(&issuing).map_err(Stop::Link)?;
            }
            if self.errands.is_over() {
                return Ok(());
            }
            let Some(batch) = shared.queue.next(&mut issuing) else { return Ok(()) };
            if self.is_interrupted_within(batch.commands())? {
                self.stand_aside(&mut issuing)?;
            }
        }
    }

    /// Polls the kept tasks until they are over, a command comes, or the completer takes them.
    fn poll_inline_wait(&mut self, issuing: &Issuing) -> Result<(), LinkError> {
        let shared = Arc::clone(&self.shared);
        let mut finished = false;
        while !shared.queue.has_more(issuing) {
            match self.inline_wait.poll() {
                Next::Finish(task) => {
                    self.tasks.finish(&shared, task)?;
                    finished = true;
                }
                Next::PollAgain => {}
                Next::ToCompleter => self.end_inline_wait(),
                Next::Nothing => break,
            }
        }
        if finished {
            shared.queue.expect(self.inline_wait.is_kept());
            shared.sender.flush()?;
        }
        Ok(())
    }

    /// Gives the kept tasks to the completer.
    fn end_inline_wait(&mut self) {
        for task in self.inline_wait.take_all() {
            self.tasks.add(task);
        }
    }

    /// Carries one command out and answers it, if it is to be answered now.
    pub(crate) fn carry_out(&mut self, command: Command<'_>) -> Result<(), Stop> {
        let sequence = command.sequence;
        let request = Request::decode(command.kind, command.payload)
            .map_err(|error| Stop::ProtocolViolation(format!("command {sequence}: {error}")))?;
        let (name, posted) = (request.name(), request.class() == Class::Post);
        self.sequence = sequence;
        self.upload_range = command.range;
        self.end_inline_wait();
        let recorded = self.shared.recording.begin_command(sequence);
        let outcome = self.dispatch(request, command.kind, command.payload);
        drop(recorded);
        self.keep_pace();
        if let Some(unused) = self.upload_range.take() {
            self.uploads.drop_range(unused);
        }
        let shared = &self.shared;
        match outcome {
            Ok(Answer::Nothing | Answer::Later) => Ok(()),
            Ok(Answer::Body(body)) => shared.reply(sequence, 0, "", &body).map_err(Stop::Link),
            Err(Fault::ProtocolViolation(words)) => {
                Err(Stop::ProtocolViolation(format!("{name} (command {sequence}): {words}")))
            }
            Err(ref fault @ (Fault::Program(error) | Fault::Explained(error, _))) if posted => {
                shared.note(name, sequence, error, fault);
                Ok(())
            }
            Err(Fault::Program(error)) => shared.reply(sequence, error.code(), "", &[]).map_err(Stop::Link),
            Err(Fault::Explained(error, words)) => {
                shared.reply(sequence, error.code(), &words, &[]).map_err(Stop::Link)
            }
        }
    }

    fn device(&self) -> &D {
        &self.shared.device
    }

    /// Reports to the client when the completion event behind frame `reached` of a stream has completed.
    fn report_when(&self, sequence: u64, completion: Arc<CompletionEvent<D>>, stream: StreamId, reached: u64) {
        let action = Action::Report { stream, reached };
        self.tasks.add(Task { sequence, lane: Lane::Reports(stream.0), completions: vec![completion], action });
    }

    /// Has the request answered when the completion events have completed; when there are none because recording failed, at once.
    fn answer_after(
        &mut self,
        sequence: u64,
        lane: Lane,
        completions: Result<Vec<Arc<CompletionEvent<D>>>, CudaError>,
    ) -> Answer {
        let (completions, failed) = match completions {
            Ok(completions) => (completions, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        self.wait_for(Task { sequence, lane, completions, action: Action::Reply { failed } });
        Answer::Later
    }

    /// Has the request answered behind what is to be sent of work that is complete: deliveries, and what kernels wrote into mirrors.
    fn answer_behind_complete<'a>(&mut self, sequence: u64, fields: &impl Field<'a>) -> Answer {
        let mut bytes = Vec::new();
        fields.write(&mut bytes);
        if self.tasks.is_idle() && !self.shared.mirrors.any() {
            return Answer::Body(bytes);
        }
        let action = Action::Answer(bytes);
        self.tasks.add(Task { sequence, lane: Lane::Alone(sequence), completions: Vec::new(), action });
        Answer::Later
    }

    /// Waits for a task: inline, where there is nothing else to do, or through the completer.
    fn wait_for(&mut self, task: Task<D>) {
        // The changes of a mirror may be more than a reply, so the completer sends them.
        let left = if self.shared.mirrors.any() { Some(task) } else { self.inline_wait.keep(task, &self.tasks) };
        match left {
            None => self.shared.queue.expect(true),
            Some(task) => {
                self.end_inline_wait();
                self.tasks.add(task);
            }
        }
    }
}
