//! Graphs of this process: the surface keeps them, here is what only the client knows. Nodes come in to be checked, and
//! launches to be posted. Plans are split into parts for the server and steps on the stream between them. A graph of
//! device work alone is one part, so that its launch is one message.

pub(crate) mod conditional;
mod memory;
mod send;
mod split;
mod steps;
mod words;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use floe_abi::{
    Context, CudaError, CudaResult, Event, Function, Graph, GraphExec, LaunchAttribute, LaunchAttributeValue,
    MemsetNodeParams, Stream, StreamMemoryOperation, launch_attribute,
};
use floe_surface::graph::{ExecFlags, Graphs, KernelWork, ParameterBlock, Plan, Work};
use floe_surface::{CopyBox, GraphCalls, Launch, check_preferred_cluster};
use floe_wire::{DestroyGraph, EnableGraphNode, GraphId, UploadGraph};

use crate::client::Client;
use crate::log::log;
use crate::objects::exec::ExecState;
use crate::objects::parts::{NodeLocation, Part};
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use crate::vgpu::attributes::{self, Attributes};
use floe_lock::lock;

impl Client {
    fn exec(&self, exec: GraphExec) -> CudaResult<Arc<ExecState>> {
        self.execs.get(exec.0).ok_or(CudaError::INVALID_VALUE)
    }

    /// The context a node is of: the one it names, or the current one.
    fn context_of_node(&self, context: Context) -> CudaResult<Arc<crate::objects::context::ContextState>> {
        if context.is_null() { self.current() } else { self.context(context) }
    }

    /// A launch as a node does it, checked as a launch on a stream is.
    pub(crate) fn kernel_work(&self, launch: &Launch<'_>, context: Context) -> CudaResult<KernelWork> {
        let vgpu = &self.context(context)?.vgpu;
        let function = self.function_on(launch.function, vgpu)?;
        function.check_launch(&vgpu.limits, launch.grid, launch.block, launch.shared_bytes)?;
        if launch.cooperative {
            function.check_cooperative(launch.grid, launch.block, launch.shared_bytes)?;
        }
        // An attribute that cannot travel is refused now, while the program can see which call it was.
        Attributes::of_launch(launch)?;
        check_preferred_cluster(launch.attributes, function.cluster())?;
        if attributes::events(launch.attributes).next().is_some() {
            log!(Warn, "a launch that records an event by an attribute is not supported in a graph");
            return Err(CudaError::NOT_SUPPORTED);
        }
        let mut attributes = launch.attributes.to_vec();
        attributes.retain(|attribute| attribute.id != launch_attribute::IGNORE);
        if launch.cooperative && !attributes.iter().any(|it| it.id == launch_attribute::COOPERATIVE) {
            attributes.push(attribute(launch_attribute::COOPERATIVE, 1));
        }
        let parameters = launch.arguments.pack(function.layout().parameters())?;
        self.mirror_named(&parameters, &function.vgpu);
        Ok(KernelWork {
            function: launch.function,
            kernel: function.kernel(),
            context,
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            parameters: Arc::new(ParameterBlock::new(parameters, function.layout().parameters())),
            attributes,
        })
    }

    /// A launch on a stream that is captured. The node has the stream's priority, as CUDA gives it.
    pub(crate) fn record_launch(&self, stream: &StreamState, launch: &Launch<'_>) -> CudaResult<()> {
        let mut work = self.kernel_work(launch, stream.context())?;
        let priority = stream.priority();
        if priority != 0 && !work.attributes.iter().any(|it| it.id == launch_attribute::PRIORITY) {
            work.attributes.push(attribute(launch_attribute::PRIORITY, priority.cast_unsigned()));
        }
        self.record_work(stream, Work::Kernel(work))
    }

    /// Has kernels of a graph reach the registered memory that they name, where any has been unregistered since that was seen to.
    fn reach_again(&self, exec: &ExecState, plan: &Plan) {
        let endings = self.host_memory.endings();
        if exec.endings.swap(endings, Ordering::AcqRel) == endings {
            return;
        }
        for node in &plan.nodes {
            if let Work::Kernel(kernel) = &node.work {
                self.mirror_named(kernel.parameters.bytes(), &exec.vgpu);
            }
        }
    }

    /// The function of a handle on a vGPU.
    fn function_on(
        &self,
        function: Function,
        vgpu: &Arc<Vgpu>,
    ) -> CudaResult<Arc<crate::objects::function::FunctionState>> {
        let function = self.function_for(function, vgpu)?;
        if function.vgpu.ordinal == vgpu.ordinal { Ok(function) } else { Err(CudaError::INVALID_HANDLE) }
    }
}

fn attribute(id: u32, value: u32) -> LaunchAttribute {
    LaunchAttribute { id, value: LaunchAttributeValue::from_u32(value), ..LaunchAttribute::default() }
}

impl GraphCalls for Client {
    fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    fn graph_kernel(&self, launch: &Launch<'_>, context: Context) -> CudaResult<KernelWork> {
        let context = self.context_of_node(context)?.handle();
        self.kernel_work(launch, context)
    }

    fn graph_copy(&self, copy: &CopyBox, context: Context) -> CudaResult<CopyBox> {
        self.settled_box(copy, &self.context_of_node(context)?.vgpu)
    }

    fn graph_fill(&self, fill: &MemsetNodeParams, context: Context) -> CudaResult<()> {
        self.check_fill(fill, &self.context_of_node(context)?.vgpu)
    }

    fn graph_words(&self, operations: &[StreamMemoryOperation], context: Context) -> CudaResult<()> {
        self.checked_operations(operations, &self.context(context)?.vgpu).map(drop)
    }

    fn graph_event(&self, event: Event) -> CudaResult<()> {
        self.event(event).map(drop)
    }

    fn graph_condition(&self, graph: Graph, context: Context, default_value: u32, flags: u32) -> CudaResult<u64> {
        let vgpu = Arc::clone(&self.context_of_node(context)?.vgpu);
        self.create_condition(graph, &vgpu, default_value, flags)
    }

    fn graph_conditions_end(&self, graph: Graph) {
        self.end_home(graph);
    }

    fn graph_instantiate(&self, exec: GraphExec, plan: &Plan, flags: ExecFlags) -> CudaResult<Option<u64>> {
        let vgpu = self.vgpu_of_plan(plan)?;
        vgpu.errors.report()?;
        let mut parts = self.split(plan, &vgpu)?;
        self.spend_home(plan);
        // As cuGraphInstantiateWithFlags numbers them; the others concern what is no part of the server's graph.
        let mut kept = if flags.uses_node_priority() { 8 } else { 0 };
        if flags.is_for_kernels() {
            if !parts.is_one_graph() {
                log!(
                    Warn,
                    "a graph that kernels launch is not supported with copies of the host's own memory, or nothing to do"
                );
                return Err(CudaError::NOT_SUPPORTED);
            }
            kept |= 4;
        }
        let handle = self.send_parts(&mut parts, plan, &vgpu, kept).inspect_err(|error| {
            if flags.is_for_kernels() && *error == CudaError::NOT_SUPPORTED {
                log!(
                    Warn,
                    "the server's device has no graphs that kernels launch (CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)"
                );
            }
        })?;
        let epoch = vgpu.epoch();
        let state = ExecState {
            vgpu,
            epoch,
            parts,
            words: words::places(plan),
            endings: AtomicU64::new(self.host_memory.endings()),
            last: Mutex::default(),
            disabled: Mutex::default(),
            broken: Mutex::default(),
        };
        if flags.is_for_kernels() {
            // The driver gives a number again when the graph that had it went with its context.
            let is_gone = |old: &ExecState| Arc::ptr_eq(&old.vgpu, &state.vgpu) && !old.is_valid();
            let gone = self.graphs.renew_number(handle, |own| self.execs.get(own.0).is_some_and(|old| is_gone(&old)));
            let _ = gone.map(|own| self.execs.remove(own.0));
        }
        self.execs.insert(exec.0, Arc::new(state));
        Ok(flags.is_for_kernels().then_some(handle))
    }

    fn graph_launch(&self, exec: GraphExec, plan: &Plan, stream: Stream) -> CudaResult<()> {
        let (exec, stream) = (self.exec(exec)?, self.working_stream(stream)?);
        exec.check()?;
        if !Arc::ptr_eq(&exec.vgpu, &stream.vgpu) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.reach_again(&exec, plan);
        if let [Part::Device { graph, .. }] = exec.parts.list.as_slice() {
            return self.post_graph(&exec, plan, &stream, *graph);
        }
        self.launch_in_parts(&exec, plan, &stream)
    }

    fn graph_upload(&self, exec: GraphExec, stream: Stream) -> CudaResult<()> {
        let (exec, stream) = (self.exec(exec)?, self.working_stream(stream)?);
        exec.check()?;
        if !Arc::ptr_eq(&exec.vgpu, &stream.vgpu) {
            return Err(CudaError::INVALID_VALUE);
        }
        exec.parts.graphs().try_for_each(|graph| stream.post(&UploadGraph { graph, stream: stream.id() }))
    }

    fn graph_exec_destroy(&self, exec: GraphExec) -> CudaResult<()> {
        let exec = self.execs.remove(exec.0).ok_or(CudaError::INVALID_VALUE)?;
        if !exec.is_valid() {
            return Ok(());
        }
        exec.parts.graphs().try_for_each(|graph| exec.post(&DestroyGraph { graph }))?;
        match *lock(&exec.last) {
            Some((event, _)) => exec.post(&floe_wire::DestroyEvent { event: floe_wire::EventId(event) }),
            None => Ok(()),
        }
    }

    fn graph_exec_update(&self, exec: GraphExec, plan: &Plan) -> CudaResult<()> {
        let exec = self.exec(exec)?;
        exec.check()?;
        if plan.has_conditions() {
            return self.update_in_place(&exec, plan);
        }
        let mut new = self.split(plan, &exec.vgpu)?;
        if !new.has_shape_of(&exec.parts) {
            log!(Warn, "cuGraphExecUpdate: a copy that moves between host and device is not supported");
            return Err(CudaError::NOT_SUPPORTED);
        }
        self.send_nodes(&mut new, plan, &exec.vgpu)?;
        exec.update(&new)
    }

    fn graph_exec_set(&self, exec: GraphExec, at: usize, work: &Work) -> CudaResult<()> {
        let exec = self.exec(exec)?;
        exec.check()?;
        let is_device = self.is_device_work(work, &exec.vgpu)?;
        match exec.parts.places.get(at) {
            Some(NodeLocation::Node { graph, node }) if is_device => {
                let graph = GraphId(*graph);
                if matches!(work, Work::Empty) {
                    // So the surface says that the node does nothing for a while.
                    lock(&exec.disabled).insert(at);
                    return exec.post(&EnableGraphNode { graph, node: *node, enabled: false });
                }
                self.send_change(&exec.vgpu, graph, *node, work)?;
                if lock(&exec.disabled).remove(&at) {
                    exec.post(&EnableGraphNode { graph, node: *node, enabled: true })?;
                }
                Ok(())
            }
            Some(NodeLocation::Step) if !is_device || matches!(work, Work::Empty) => Ok(()),
            // A copy would change sides: the graph would have to be cut elsewhere.
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}
