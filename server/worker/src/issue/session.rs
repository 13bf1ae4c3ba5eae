//! The issuer: what a client's commands do, in their order.
//! In: commands as they were read. Out: driver calls, replies, tasks for the completer; or the end of the session.
//! It never waits for the GPU, except for room in a staging ring and when the context is reset. Nothing it is told is
//! believed: ids are looked up, ranges checked, the rest is left to the driver's judgement.

mod array;
mod contents;
mod context;
mod copy;
mod event;
mod graph;
mod launch;
mod library;
mod link;
mod memory;
mod mirror;
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
use floe_wire::{Class, Field, Request, StreamId};

use super::cache::Cache;
use super::fault::{Fault, broken};
use super::host_functions::HostFunctions;
use super::objects::Objects;
use super::vigil::{Next, Vigil};
use crate::complete::completer::{Action, Lane, Task, Tasks};
use crate::complete::events::{Mark, Pool};
use crate::life::shared::Shared;
use crate::memory::budget::{Budget, cost};
use crate::memory::ledger::Ledger;
use crate::memory::staging::{Downloads, RingBytes, Staged, Uploads};
use crate::memory::window::Window;
use crate::wire_in::batch::Command;
use crate::wire_in::queue::Issuing;

/// What the session may have.
pub(crate) struct Allowance {
    pub(crate) window: Window,
    /// Of device memory.
    pub(crate) ledger: Ledger,
    /// Of host memory.
    pub(crate) budget: Budget,
    /// Physical memory comes in multiples of this.
    pub(crate) granularity: u64,
    /// The most bytes of host memory it may share with its client.
    pub(crate) shared_memory: u64,
    pub(crate) rings: RingBytes,
}

/// The session's objects and how to reach everything else.
pub(crate) struct Session<D: Device> {
    shared: Arc<Shared<D>>,
    tasks: Tasks<D>,
    /// The wait behind which nothing stands in line.
    vigil: Vigil<D>,
    functions: Arc<HostFunctions>,
    pool: Arc<Pool<D>>,
    uploads: Arc<Uploads<D>>,
    /// For copies whose bytes the client reads when their stream gets there.
    late: Arc<Uploads<D>>,
    /// Where the data of the present command lie, if not in its payload.
    staged: Option<Staged>,
    downloads: Arc<Downloads<D>>,
    allowance: Allowance,
    blocks: Objects<memory::Block>,
    mappings: BTreeMap<u64, memory::Mapping>,
    libraries: Objects<library::Loaded>,
    contents: contents::Contents,
    linked: link::Linked,
    kernels: Objects<library::Kernel>,
    /// Room for the attributes of a launch.
    attributes: Vec<LaunchAttribute>,
    streams: Objects<stream::StreamObject<D>>,
    legacy_used: bool,
    /// Marks of destroyed streams whose work may be unfinished.
    orphans: Vec<Arc<Mark<D>>>,
    events: Objects<event::EventObject<D>>,
    graphs: Objects<graph::GraphObject>,
    arrays: Objects<array::ArrayObject>,
    textures: Objects<TextureObject>,
    surfaces: Objects<SurfaceObject>,
    sharing: sharing::Sharing<D::Mapped>,
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
    /// The client broke the contract.
    Contract(String),
    /// The client cannot be told any more.
    Link(LinkError),
}

fn body<'a>(fields: &impl Field<'a>) -> Result<Answer, Fault> {
    let mut bytes = Vec::new();
    fields.write(&mut bytes);
    Ok(Answer::Body(bytes))
}

impl<D: Device> Session<D> {
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
        let contents = contents::Contents::new(cache, shared.log.clone(), &allowance.budget);
        let budget = allowance.budget.clone();
        Self {
            shared,
            tasks,
            vigil: Vigil::new(spin),
            functions,
            pool,
            uploads,
            late: Uploads::new(allowance.rings.late, &budget),
            staged: None,
            downloads: Downloads::new(allowance.rings.download, &budget),
            allowance,
            blocks: Objects::new("block", cost::BLOCK, &budget),
            mappings: BTreeMap::new(),
            libraries: Objects::new("library", cost::LIBRARY, &budget),
            contents,
            linked: link::Linked::new(&budget),
            kernels: Objects::new("kernel", cost::KERNEL, &budget),
            attributes: Vec::new(),
            streams: Objects::new("stream", cost::STREAM, &budget),
            legacy_used: false,
            orphans: Vec::new(),
            events: Objects::new("event", cost::EVENT, &budget),
            graphs: Objects::new("graph", cost::GRAPH, &budget),
            arrays: Objects::new("array", cost::ARRAY, &budget),
            textures: Objects::new("texture", cost::TEXTURE, &budget),
            surfaces: Objects::new("surface", cost::TEXTURE, &budget),
            sharing: sharing::Sharing::default(),
        }
    }

    /// Carries commands out until the queue is closed.
    pub(crate) fn run(&mut self) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let mut issuing = Issuing::default();
        while let Some(batch) = shared.queue.next(&mut issuing) {
            for command in batch.commands() {
                self.carry_out(command)?;
            }
            if self.vigil.is_kept() {
                shared.queue.give_back(&mut issuing);
                self.keep_vigil(&issuing).map_err(Stop::Link)?;
            }
        }
        Ok(())
    }

    /// Sees to what is kept until it is over, a command comes or the completer is the one to see to it.
    fn keep_vigil(&mut self, issuing: &Issuing) -> Result<(), LinkError> {
        let shared = Arc::clone(&self.shared);
        let mut finished = false;
        while !shared.queue.has_more(issuing) {
            match self.vigil.look() {
                Next::Finish(task) => {
                    self.tasks.finish(&shared, task)?;
                    finished = true;
                }
                Next::Look => {}
                Next::HandOver => self.end_vigil(),
                Next::Nothing => break,
            }
        }
        if finished {
            shared.queue.expect(self.vigil.is_kept());
            shared.sender.flush()?;
        }
        Ok(())
    }

    /// The completer sees to what is kept.
    fn end_vigil(&mut self) {
        for task in self.vigil.give_up() {
            self.tasks.hand_over(task);
        }
    }

    /// Carries one command out and answers it, if it is to be answered now.
    pub(crate) fn carry_out(&mut self, command: Command<'_>) -> Result<(), Stop> {
        let sequence = command.sequence;
        let request = Request::decode(command.kind, command.payload)
            .map_err(|error| Stop::Contract(format!("command {sequence}: {error}")))?;
        let (name, posted) = (request.name(), request.class() == Class::Post);
        self.staged = command.staged;
        self.end_vigil();
        let outcome = self.dispatch(sequence, request);
        if let Some(unused) = self.staged.take() {
            self.uploads.drop_range(unused);
        }
        let shared = &self.shared;
        match outcome {
            Ok(Answer::Nothing | Answer::Later) => Ok(()),
            Ok(Answer::Body(body)) => shared.reply(sequence, 0, "", &body).map_err(Stop::Link),
            Err(Fault::Contract(words)) => Err(Stop::Contract(format!("{name} (command {sequence}): {words}"))),
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

    fn dispatch(&mut self, sequence: u64, request: Request<'_>) -> Result<Answer, Fault> {
        match request {
            Request::CreateBlock(message) => self.create_block(message),
            Request::ReleaseBlock(message) => self.release_block(message),
            Request::MapBlock(message) => self.map_block(message),
            Request::SetAccess(message) => self.set_access(message),
            Request::UnmapRange(message) => self.unmap_range(message),
            Request::MemoryInfo(_) => self.memory_info(),
            Request::CopyToDevice(message) => self.copy_to_device(message),
            Request::CopyBulkToDevice(message) => self.copy_bulk_to_device(sequence, message),
            Request::CopyLate(message) => self.copy_late(sequence, message),
            Request::CopyFromDevice(message) => self.copy_from_device(sequence, message),
            Request::CopyOnDevice(message) => self.copy_on_device(message),
            Request::CopyBoxToDevice(message) => self.copy_box_to_device(message),
            Request::CopyBoxFromDevice(message) => self.copy_box_from_device(sequence, message),
            Request::CopyBoxOnDevice(message) => self.copy_box_on_device(message),
            Request::Fill(message) => self.fill(message),
            Request::LibraryPart(message) => self.library_part(message),
            Request::LoadLibrary(message) => self.load_library(&message),
            Request::LinkLibrary(message) => self.link_library(&message),
            Request::ReadLinked(message) => self.read_linked(message),
            Request::UnloadLibrary(message) => self.unload_library(message),
            Request::ListKernels(message) => self.list_kernels(message),
            Request::FindKernel(message) => self.find_kernel(message),
            Request::FindGlobal(message) => self.find_global(message),
            Request::SetKernelAttribute(message) => self.set_kernel_attribute(message),
            Request::Launch(message) => self.launch(&message),
            Request::HostFunction(message) => self.host_function(sequence, message),
            Request::MaxActiveBlocks(message) => self.max_active_blocks(message),
            Request::AvailableShared(message) => self.available_shared(message),
            Request::CreateStream(message) => self.create_stream(message),
            Request::DestroyStream(message) => self.destroy_stream(message),
            Request::WaitEvent(message) => self.wait_event(message),
            Request::SynchronizeStream(message) => self.synchronize_stream(sequence, message),
            Request::QueryStream(message) => self.query_stream(sequence, message),
            Request::MemoryOperations(message) => self.memory_operations(sequence, &message),
            Request::CreateEvent(message) => self.create_event(message),
            Request::RecordEvent(message) => self.record_event(sequence, message),
            Request::SynchronizeEvent(message) => self.synchronize_event(sequence, message),
            Request::QueryEvent(message) => self.query_event(sequence, message),
            Request::ElapsedTime(message) => self.elapsed_time(message),
            Request::DestroyEvent(message) => self.destroy_event(message),
            Request::SynchronizeContext(_) => self.synchronize_context(sequence),
            Request::SetLimit(message) => self.set_limit(message),
            Request::ResetContext(_) => self.reset_context(),
            Request::SetCacheConfig(message) => Self::set_cache_config(message),
            Request::MirrorMemory(message) => self.mirror_memory(message),
            Request::UnmirrorMemory(message) => self.unmirror_memory(message),
            Request::WriteMirror(message) => self.write_mirror(&message),
            Request::ShareMemory(message) => self.share_memory(message),
            Request::MapShared(message) => self.map_shared(message),
            Request::UnmapShared(message) => self.unmap_shared(sequence, message),
            Request::ClusterOccupancy(message) => self.cluster_occupancy(&message),
            Request::CreateArray(message) => self.create_array(message),
            Request::DestroyArray(message) => self.destroy_array(message),
            Request::CreateTexture(message) => self.create_texture(&message),
            Request::DestroyTexture(message) => self.destroy_texture(message),
            Request::CreateSurface(message) => self.create_surface(message),
            Request::DestroySurface(message) => self.destroy_surface(message),
            Request::EncodeTensorMap(message) => self.encode_tensor_map(&message),
            Request::CreateGraph(message) => self.create_graph(message),
            Request::AddGraphKernel(message) => self.add_graph_kernel(&message),
            Request::AddGraphCopy(message) => self.add_graph_copy(&message),
            Request::AddGraphFill(message) => self.add_graph_fill(&message),
            Request::AddGraphEmpty(message) => self.add_graph_empty(&message),
            Request::InstantiateGraph(message) => self.instantiate_graph(message),
            Request::AddGraphWords(message) => self.add_graph_words(&message),
            Request::LaunchGraph(message) => self.launch_graph(sequence, message),
            Request::UploadGraph(message) => self.upload_graph(message),
            Request::SetGraphKernel(message) => self.set_graph_kernel(&message),
            Request::SetGraphCopy(message) => self.set_graph_copy(&message),
            Request::SetGraphFill(message) => self.set_graph_fill(&message),
            Request::SetGraphWords(message) => self.set_graph_words(&message),
            Request::EnableGraphNode(message) => self.enable_graph_node(message),
            Request::UpdateGraph(message) => self.update_graph(message),
            Request::DestroyGraph(message) => self.destroy_graph(message),
            // The reader takes these out of the line.
            Request::HostFunctionDone(_) | Request::LateBytes(_) => {
                broken("a host function's end stands in the line of commands")
            }
            Request::Chunk(_) => broken("only a bulk connection carries a chunk"),
            Request::Salt(_) => broken("only a place of a session that outlives its connections has salt"),
            Request::Acknowledge(_) | Request::Leave(_) | Request::Beat(_) => {
                broken("only the connection with acknowledgements carries these")
            }
            Request::Hello(_)
            | Request::Authenticate(_)
            | Request::ListGpus(_)
            | Request::ListSessions(_)
            | Request::ReadTelemetry(_)
            | Request::Attach(_)
            | Request::UseRings(_)
            | Request::Continue(_)
            | Request::Join(_) => broken("only a connection without a session may say this"),
        }
    }

    fn device(&self) -> &D {
        &self.shared.device
    }

    /// Has the client told when the mark behind frame `reached` of a stream has completed.
    fn report_when(&self, sequence: u64, mark: Arc<Mark<D>>, stream: StreamId, reached: u64) {
        let action = Action::Report { stream, reached };
        self.tasks.hand_over(Task { sequence, lane: Lane::Alone(sequence), marks: vec![mark], action });
    }

    /// Has the request answered when the marks have completed; when there are none because marking failed, at once.
    fn answer_after(&mut self, sequence: u64, lane: Lane, marks: Result<Vec<Arc<Mark<D>>>, CudaError>) -> Answer {
        let (marks, failed) = match marks {
            Ok(marks) => (marks, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        self.hand_over(Task { sequence, lane, marks, action: Action::Reply { failed } });
        Answer::Later
    }

    /// Has a task seen to: by this thread, where nothing else is to be done, or the completer.
    fn hand_over(&mut self, task: Task<D>) {
        // What a mirror has changed may be as much as a reader takes its time for.
        let left = if self.shared.mirrors.any() { Some(task) } else { self.vigil.keep(task, &self.tasks) };
        match left {
            None => self.shared.queue.expect(true),
            Some(task) => {
                self.end_vigil();
                self.tasks.hand_over(task);
            }
        }
    }
}
