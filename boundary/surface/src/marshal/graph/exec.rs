//! Instantiated graphs: made of a graph's plan, launched, changed node by node or as a whole. C's structs come in; the plan
//! is kept by the surface, what runs it by the implementation.

use super::node_params as make;
use super::nodes::{widened, with_attributes};
use crate::graph::{ExecFlags, Plan, Work, instantiate_result, place_for, settle, updated};
use crate::marshal::marshallers;
use crate::prelude::*;

/// How many more times a graph is made, where its number is another graph's.
const MORE_NUMBERS: usize = 8;

/// Two drivers may give the same number. The graph that has it is made again then: as long as the first one is there, its
/// driver gives another number.
fn instantiate<D: crate::Driver>(driver: &D, graph: Graph, flags: u64) -> CudaResult<GraphExec> {
    let flags = ExecFlags::new(flags)?;
    let mut unnamed = Vec::new();
    let made = loop {
        match made(driver, graph, flags) {
            Ok(Ok(exec)) => break Ok(exec),
            Ok(Err(own)) if unnamed.len() < MORE_NUMBERS => unnamed.push(own),
            Ok(Err(own)) => {
                unnamed.push(own);
                break Err(CudaError::UNKNOWN);
            }
            Err(error) => break Err(error),
        }
    };
    for own in unnamed {
        let _ = driver.graph_exec_destroy(own);
    }
    made
}

/// The program's handle of a graph that was made, or the implementation's of one whose number is another graph's.
fn made<D: crate::Driver>(driver: &D, graph: Graph, flags: ExecFlags) -> CudaResult<Result<GraphExec, GraphExec>> {
    let graphs = driver.graphs();
    let plan = graphs.plan(graph)?;
    let (own, effects) = graphs.name_exec(graph, &plan)?;
    let kernels = driver.graph_instantiate(own, &plan, flags)?;
    let kept = graphs.keep_exec((own, kernels), graph, plan, flags, effects).inspect_err(|_| {
        let _ = driver.graph_exec_destroy(own);
    })?;
    Ok(kept.ok_or(own))
}

/// The graph, uploaded where the program wishes it; one that cannot be is none.
fn uploaded<D: crate::Driver>(
    driver: &D,
    exec: GraphExec,
    wish: &GraphInstantiation,
    default_stream: Stream,
) -> CudaResult<GraphExec> {
    if wish.flags & u64::from(graph_instantiate_flags::UPLOAD) != 0 {
        let own = driver.graphs().exec(exec)?.own();
        driver.graph_upload(own, wish.upload_stream.or(default_stream)).inspect_err(|_| {
            let _ = destroy(driver, exec);
        })?;
    }
    Ok(exec)
}

/// Ends an instantiated graph.
fn destroy<D: crate::Driver>(driver: &D, exec: GraphExec) -> CudaResult<()> {
    let own = driver.graphs().drop_exec(exec)?;
    let result = driver.graph_exec_destroy(own);
    settle(driver);
    result
}

/// One node of an instantiated graph does something else from the next launch on.
pub(super) fn set<D: crate::Driver>(
    driver: &D,
    exec: GraphExec,
    node: GraphNode,
    work: impl FnOnce(&Work) -> CudaResult<Work>,
) -> CudaResult<()> {
    let kept = driver.graphs().exec(exec)?;
    let mut plan = kept.plan();
    let at = plan.place(node)?;
    let work = work(&plan.nodes[at].work)?;
    let at = place_for(&plan, node, &work)?;
    let place = &mut plan.nodes[at];
    if place.enabled && !work.is_same_move(&place.work) {
        driver.graph_exec_set(kept.own(), at, &work)?;
    }
    place.work = work;
    Ok(())
}

/// Whether a node can be disabled: only what a kernel or a copy engine does.
fn can_be_disabled(work: &Work) -> bool {
    matches!(work, Work::Kernel(_) | Work::Copy(_) | Work::Fill(_))
}

/// A node of an instantiated graph does its work from the next launch on, or nothing.
fn enable<D: crate::Driver>(driver: &D, exec: GraphExec, node: GraphNode, enabled: bool) -> CudaResult<()> {
    let kept = driver.graphs().exec(exec)?;
    let mut plan = kept.plan();
    let at = plan.place(node)?;
    let place = &mut plan.nodes[at];
    if !can_be_disabled(&place.work) {
        return Err(CudaError::INVALID_VALUE);
    }
    if place.enabled != enabled {
        driver.graph_exec_set(kept.own(), at, if enabled { &place.work } else { &Work::Empty })?;
        place.enabled = enabled;
    }
    Ok(())
}

/// All nodes of an instantiated graph do what those of another plan do.
fn update<D: crate::Driver>(driver: &D, exec: GraphExec, new: &Plan) -> Result<(), GraphUpdate> {
    let refused = |_| GraphUpdate { result: graph_update_result::ERROR, ..GraphUpdate::default() };
    let kept = driver.graphs().exec(exec).map_err(refused)?;
    let mut plan = kept.plan();
    let next = updated(&plan, new)?;
    driver.graph_exec_update(kept.own(), &next).map_err(|error| {
        let result = match error {
            CudaError::NOT_SUPPORTED => graph_update_result::ERROR_NOT_SUPPORTED,
            _ => graph_update_result::ERROR,
        };
        GraphUpdate { result, ..GraphUpdate::default() }
    })?;
    *plan = next;
    let disabled = plan.nodes.iter().enumerate().filter(|(_, node)| !node.enabled);
    for (at, _) in disabled {
        driver.graph_exec_set(kept.own(), at, &Work::Empty).map_err(refused)?;
    }
    Ok(())
}

marshallers! {
    /// `cuGraphInstantiateWithFlags`.
    fn cuGraphInstantiateWithFlags(driver, exec: *mut GraphExec, graph: Graph, flags: u64) {
        c::present(exec)?;
        // CUDA uploads in the stream that `cuGraphInstantiateWithParams` names, and here none is named.
        if flags & u64::from(graph_instantiate_flags::UPLOAD) != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let made = instantiate(driver, graph, flags)?;
        // SAFETY: the program's variable.
        unsafe { c::put(exec, made) };
        Ok(())
    }

    /// `cuGraphInstantiate` before CUDA 12.
    fn cuGraphInstantiate_v2(
        driver, exec: *mut GraphExec, graph: Graph, error_node: *mut GraphNode, log: *mut c_char, log_bytes: usize,
    ) {
        if !log.is_null() && log_bytes > 0 {
            // SAFETY: the program's buffer.
            unsafe { c::put(log, 0) };
        }
        // SAFETY: as the program passed it.
        unsafe {
            c::put(error_node, GraphNode::NULL);
            cuGraphInstantiateWithFlags(driver, exec, graph, 0)
        }
    }

    /// `cuGraphInstantiateWithParams`.
    fn cuGraphInstantiateWithParams(
        driver, default_stream: Stream, exec: *mut GraphExec, graph: Graph, params: *mut GraphInstantiation,
    ) {
        c::present(exec)?;
        // SAFETY: the program's struct.
        let wish = *unsafe { c::reference(params.cast_const()) }?;
        let result = instantiate(driver, graph, wish.flags);
        let result = result.and_then(|exec| uploaded(driver, exec, &wish, default_stream));
        let reason = match result {
            Err(CudaError::INVALID_VALUE) if driver.graphs().has_unused_condition(graph) => {
                graph_instantiate_result::CONDITIONAL_HANDLE_UNUSED
            }
            result => result.map_or_else(instantiate_result, |_| graph_instantiate_result::SUCCESS),
        };
        let told = GraphInstantiation { error_node: GraphNode::NULL, result: reason, ..wish };
        // SAFETY: the program's struct and variable.
        unsafe {
            c::put(params, told);
            c::put(exec, result?);
        }
        Ok(())
    }

    /// `cuGraphExecGetFlags`.
    fn cuGraphExecGetFlags(driver, exec: GraphExec, flags: *mut u64) {
        c::present(flags)?;
        let found = driver.graphs().exec(exec)?.flags().bits();
        // SAFETY: the program's variable.
        unsafe { c::put(flags, found) };
        Ok(())
    }

    /// `cuGraphLaunch`.
    fn cuGraphLaunch(driver, default_stream: Stream, exec: GraphExec, stream: Stream) {
        let (graphs, stream) = (driver.graphs(), stream.or(default_stream));
        let kept = graphs.exec(exec)?;
        let plan = kept.plan();
        if graphs.is_watching() {
            let stream = driver.stream_for_capture(stream)?;
            if graphs.is_capturing(&stream)? {
                return graphs.record_plan(&stream, &plan);
            }
        }
        graphs.check_launch(&kept)?;
        let effects = kept.effects();
        if !effects.memory().is_empty() && !driver.graph_memory_holds(effects.memory()) {
            return Err(CudaError::INVALID_VALUE);
        }
        driver.graph_launch(kept.own(), &plan, stream)?;
        if graphs.launched(&kept) {
            settle(driver);
        }
        Ok(())
    }

    /// `cuGraphUpload`.
    fn cuGraphUpload(driver, default_stream: Stream, exec: GraphExec, stream: Stream) {
        let own = driver.graphs().exec(exec)?.own();
        driver.graph_upload(own, stream.or(default_stream))
    }

    /// `cuGraphExecDestroy`.
    fn cuGraphExecDestroy(driver, exec: GraphExec) {
        destroy(driver, exec)
    }

    /// `cuGraphExecUpdate_v2`.
    fn cuGraphExecUpdate_v2(driver, exec: GraphExec, graph: Graph, info: *mut GraphUpdate) {
        c::present(info)?;
        // SAFETY: the program's variable.
        unsafe { c::put(info, GraphUpdate::default()) };
        let graphs = driver.graphs();
        let (kept, plan) = (graphs.exec(exec)?, graphs.plan(graph)?);
        let effects = graphs.effects_of_update(exec, graph, &plan)?;
        let result = update(driver, exec, &plan);
        // SAFETY: the program's variable.
        unsafe { c::put(info, result.err().unwrap_or_default()) };
        result.map_err(|_| CudaError::GRAPH_EXEC_UPDATE_FAILURE)?;
        graphs.adopt(exec, &kept, graph, effects)?;
        settle(driver);
        Ok(())
    }

    /// `cuGraphExecUpdate` before CUDA 12.
    fn cuGraphExecUpdate(driver, exec: GraphExec, graph: Graph, error_node: *mut GraphNode, result: *mut u32) {
        c::present(result)?;
        let mut info = GraphUpdate::default();
        // SAFETY: as the program passed it.
        unsafe {
            let updated = cuGraphExecUpdate_v2(driver, exec, graph, &raw mut info);
            c::put(error_node, info.error_node);
            c::put(result, info.result);
            updated
        }
    }

    /// `cuGraphNodeSetEnabled`.
    fn cuGraphNodeSetEnabled(driver, exec: GraphExec, node: GraphNode, enabled: u32) {
        enable(driver, exec, node, enabled != 0)
    }

    /// `cuGraphNodeGetEnabled`.
    fn cuGraphNodeGetEnabled(driver, exec: GraphExec, node: GraphNode, enabled: *mut u32) {
        c::present(enabled)?;
        let kept = driver.graphs().exec(exec)?;
        let plan = kept.plan();
        let place = &plan.nodes[plan.place(node)?];
        if !can_be_disabled(&place.work) {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the program's variable.
        unsafe { c::put(enabled, u32::from(place.enabled)) };
        Ok(())
    }

    /// `cuGraphExecKernelNodeSetParams_v2`.
    fn cuGraphExecKernelNodeSetParams_v2(driver, exec: GraphExec, node: GraphNode, params: *const KernelNodeParams) {
        // SAFETY: as the program passed it.
        let new = unsafe { make::kernel(driver, c::reference(params)?) }?;
        set(driver, exec, node, |old| Ok(with_attributes(new, old)))
    }

    /// `cuGraphExecKernelNodeSetParams` before CUDA 12.
    fn cuGraphExecKernelNodeSetParams(driver, exec: GraphExec, node: GraphNode, params: *const KernelNodeParamsV1) {
        // SAFETY: as the program passed it.
        unsafe {
            let params = widened(c::reference(params)?);
            cuGraphExecKernelNodeSetParams_v2(driver, exec, node, &raw const params)
        }
    }

    /// `cuGraphExecMemcpyNodeSetParams`.
    fn cuGraphExecMemcpyNodeSetParams(
        driver, exec: GraphExec, node: GraphNode, copy: *const Memcpy3d, context: Context,
    ) {
        // SAFETY: as the program passed it.
        let new = unsafe { make::copy(driver, c::reference(copy)?, context) }?;
        set(driver, exec, node, |_| Ok(new))
    }

    /// `cuGraphExecMemsetNodeSetParams`.
    fn cuGraphExecMemsetNodeSetParams(
        driver, exec: GraphExec, node: GraphNode, params: *const MemsetNodeParams, context: Context,
    ) {
        // SAFETY: the program's struct.
        let new = make::fill(driver, unsafe { c::reference(params) }?, context)?;
        set(driver, exec, node, |_| Ok(new))
    }

    /// `cuGraphExecHostNodeSetParams`.
    fn cuGraphExecHostNodeSetParams(driver, exec: GraphExec, node: GraphNode, params: *const HostNodeParams) {
        // SAFETY: as the program passed it.
        let new = unsafe { make::host(c::reference(params)?) }?;
        set(driver, exec, node, |_| Ok(new))
    }

    /// `cuGraphExecChildGraphNodeSetParams`.
    fn cuGraphExecChildGraphNodeSetParams(driver, exec: GraphExec, node: GraphNode, child: Graph) {
        let graphs = driver.graphs();
        let Work::Child(own) = graphs.work(node)? else {
            return Err(CudaError::INVALID_VALUE);
        };
        let (own, new) = (graphs.plan(own)?, graphs.plan(child)?);
        if own.has_memory() || new.has_memory() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        own.accepts(&new).map_err(|_| CudaError::GRAPH_EXEC_UPDATE_FAILURE)?;
        // The node's own graph tells which nodes of the instantiated one are meant.
        own.nodes.iter().zip(new.nodes).try_for_each(|(own, new)| set(driver, exec, own.node, |_| Ok(new.work)))
    }

    /// `cuGraphExecEventRecordNodeSetEvent`.
    fn cuGraphExecEventRecordNodeSetEvent(driver, exec: GraphExec, node: GraphNode, event: Event) {
        let event = make::event(driver, event)?;
        set(driver, exec, node, |_| Ok(Work::Record(event)))
    }

    /// `cuGraphExecEventWaitNodeSetEvent`.
    fn cuGraphExecEventWaitNodeSetEvent(driver, exec: GraphExec, node: GraphNode, event: Event) {
        let event = make::event(driver, event)?;
        set(driver, exec, node, |_| Ok(Work::Wait(event)))
    }

    /// `cuGraphExecNodeSetParams`.
    fn cuGraphExecNodeSetParams(driver, exec: GraphExec, node: GraphNode, params: *mut GraphNodeParams) {
        // SAFETY: as the program passed it.
        let params = unsafe { c::reference(params.cast_const()) }?;
        make::check_reserved(params)?;
        if params.kind == graph_node_type::GRAPH {
            let child: ChildGraphNodeParams = make::part(params);
            // SAFETY: no pointer is passed on.
            return unsafe { cuGraphExecChildGraphNodeSetParams(driver, exec, node, child.graph) };
        }
        // SAFETY: the program's contract for a node of this kind.
        let new = unsafe { make::any(driver, params) }?;
        set(driver, exec, node, |old| Ok(with_attributes(new, old)))
    }
}
