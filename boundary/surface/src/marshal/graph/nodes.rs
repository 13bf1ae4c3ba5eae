//! Nodes: added, asked, changed. C's structs come in and go out; what a node does is made of them in `node_params`.

use super::lists::edges;
use super::node_params as make;
use crate::graph::{Edge, Target, Work, settle, wish};
use crate::marshal::marshallers;
use crate::prelude::*;

/// Adds a node and tells C its handle.
///
/// # Safety
/// `dependencies` has `count` values or is NULL; `node` is the program's variable.
pub(super) unsafe fn add<D: crate::Driver>(
    driver: &D,
    node: *mut GraphNode,
    graph: Graph,
    dependencies: *const GraphNode,
    count: usize,
    work: impl FnOnce() -> CudaResult<Work>,
) -> CudaResult<()> {
    c::present(node)?;
    // SAFETY: our caller vouches for the array.
    let after = unsafe { edges(dependencies, std::ptr::null(), count) }?;
    let made = driver.graphs().add(graph, &after, work()?)?;
    // SAFETY: the program's variable.
    unsafe { c::put(node, made) };
    Ok(())
}

/// Adds a node that allocates; gives its parameters with the address.
///
/// # Safety
/// `asked` has as many accesses as it says.
pub(in crate::marshal) unsafe fn add_alloc<D: crate::Driver>(
    driver: &D,
    graph: Graph,
    after: &[Edge],
    asked: &MemAllocNodeParams,
) -> CudaResult<(GraphNode, MemAllocNodeParams)> {
    // SAFETY: our caller vouches for the array.
    let access = unsafe { c::slice(asked.access as *const MemAccess, asked.access_count) }?;
    let wish = wish(asked, access)?;
    let reserve = |device, bytes| driver.graph_memory_reserve(device, bytes);
    let made = driver.graphs().add_alloc(Target::Graph(graph, after), wish, reserve);
    settle(driver);
    let (node, address) = made?;
    Ok((node, MemAllocNodeParams { address, ..*asked }))
}

/// Adds a node of any kind.
///
/// # Safety
/// The program's contract of `cuGraphAddNode`.
unsafe fn add_any<D: crate::Driver>(
    driver: &D,
    node: *mut GraphNode,
    graph: Graph,
    after: &[Edge],
    params: *mut GraphNodeParams,
) -> CudaResult<()> {
    c::present(node)?;
    // SAFETY: the program's struct.
    let known = unsafe { c::reference(params.cast_const()) }?;
    make::check_reserved(known)?;
    let made = match known.kind {
        graph_node_type::GRAPH => {
            let child: ChildGraphNodeParams = make::part(known);
            driver.graphs().add_child(graph, after, child.graph, child.ownership)?
        }
        graph_node_type::MEM_ALLOC => {
            let mut told = *known;
            // SAFETY: the program's contract of an allocation node.
            let (made, alloc) = unsafe { add_alloc(driver, graph, after, &make::part(known)) }?;
            make::put_part(&mut told, alloc);
            // SAFETY: the program's struct, which CUDA writes the address to.
            unsafe { c::put(params, told) };
            made
        }
        graph_node_type::CONDITIONAL => {
            let mut told = *known;
            let (made, conditional) = driver.graphs().add_conditional(graph, after, &make::part(known))?;
            make::put_part(&mut told, conditional);
            // SAFETY: the program's struct, which CUDA writes the address of the bodies to.
            unsafe { c::put(params, told) };
            made
        }
        graph_node_type::MEM_FREE => {
            let freed: MemFreeNodeParams = make::part(known);
            driver.graphs().add_free(Target::Graph(graph, after), freed.address)?
        }
        // SAFETY: the program's contract for a node of this kind.
        _ => driver.graphs().add(graph, after, unsafe { make::any(driver, known) }?)?,
    };
    // SAFETY: the program's variable.
    unsafe { c::put(node, made) };
    Ok(())
}

/// Asks a node of one kind and tells C.
///
/// # Safety
/// `target` is the program's variable.
pub(in crate::marshal) unsafe fn ask<D: crate::Driver, T>(
    driver: &D,
    node: GraphNode,
    target: *mut T,
    read: impl FnOnce(&Work) -> Option<T>,
) -> CudaResult<()> {
    c::present(target)?;
    let value = read(&driver.graphs().work(node)?).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: our caller vouches for it.
    unsafe { c::put(target, value) };
    Ok(())
}

/// Kernel work with the attributes of the node it is to replace.
pub(super) fn with_attributes(mut work: Work, old: &Work) -> Work {
    if let (Work::Kernel(new), Work::Kernel(old)) = (&mut work, old) {
        new.attributes.clone_from(&old.attributes);
    }
    work
}

/// A kernel node's parameters from before CUDA 12, in today's form.
pub(super) fn widened(params: &KernelNodeParamsV1) -> KernelNodeParams {
    KernelNodeParams { first: *params, ..KernelNodeParams::default() }
}

fn context_of(work: &Work) -> Context {
    match work {
        Work::Copy(copy) => copy.context,
        Work::Fill(fill) => fill.context,
        _ => Context::NULL,
    }
}

marshallers! {
    /// `cuGraphAddKernelNode_v2`.
    fn cuGraphAddKernelNode_v2(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        params: *const KernelNodeParams,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            let params = c::reference(params)?;
            add(driver, node, graph, dependencies, dependency_count, || make::kernel(driver, params))
        }
    }

    /// `cuGraphAddKernelNode` before CUDA 12.
    fn cuGraphAddKernelNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        params: *const KernelNodeParamsV1,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            let params = widened(c::reference(params)?);
            cuGraphAddKernelNode_v2(driver, node, graph, dependencies, dependency_count, &raw const params)
        }
    }

    /// `cuGraphKernelNodeGetParams_v2`.
    fn cuGraphKernelNodeGetParams_v2(driver, node: GraphNode, params: *mut KernelNodeParams) {
        let read = |work: &Work| if let Work::Kernel(kernel) = work { Some(kernel.to_params()) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, params, read) }
    }

    /// `cuGraphKernelNodeGetParams` before CUDA 12.
    fn cuGraphKernelNodeGetParams(driver, node: GraphNode, params: *mut KernelNodeParamsV1) {
        let read = |work: &Work| if let Work::Kernel(kernel) = work { Some(kernel.to_params().first) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, params, read) }
    }

    /// `cuGraphKernelNodeSetParams_v2`.
    fn cuGraphKernelNodeSetParams_v2(driver, node: GraphNode, params: *const KernelNodeParams) {
        let old = driver.graphs().work(node)?;
        // SAFETY: as the program passed it.
        let new = unsafe { make::kernel(driver, c::reference(params)?) }?;
        driver.graphs().set_work(node, with_attributes(new, &old))
    }

    /// `cuGraphKernelNodeSetParams` before CUDA 12.
    fn cuGraphKernelNodeSetParams(driver, node: GraphNode, params: *const KernelNodeParamsV1) {
        // SAFETY: as the program passed it.
        unsafe {
            let params = widened(c::reference(params)?);
            cuGraphKernelNodeSetParams_v2(driver, node, &raw const params)
        }
    }

    /// `cuGraphKernelNodeGetAttribute`.
    fn cuGraphKernelNodeGetAttribute(driver, node: GraphNode, attribute: u32, value: *mut LaunchAttributeValue) {
        c::present(value)?;
        let found = driver.graphs().attribute(node, attribute)?;
        // SAFETY: the program's variable.
        unsafe { c::put(value, found) };
        Ok(())
    }

    /// `cuGraphKernelNodeSetAttribute`.
    fn cuGraphKernelNodeSetAttribute(driver, node: GraphNode, attribute: u32, value: *const LaunchAttributeValue) {
        // SAFETY: the program's variable.
        let value = *unsafe { c::reference(value) }?;
        driver.graphs().set_attribute(node, attribute, value)
    }

    /// `cuGraphKernelNodeCopyAttributes`.
    fn cuGraphKernelNodeCopyAttributes(driver, destination: GraphNode, source: GraphNode) {
        driver.graphs().copy_attributes(destination, source)
    }

    /// `cuGraphAddMemcpyNode`.
    fn cuGraphAddMemcpyNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        copy: *const Memcpy3d, context: Context,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            let copy = c::reference(copy)?;
            add(driver, node, graph, dependencies, dependency_count, || make::copy(driver, copy, context))
        }
    }

    /// `cuGraphMemcpyNodeGetParams`.
    fn cuGraphMemcpyNodeGetParams(driver, node: GraphNode, copy: *mut Memcpy3d) {
        let read = |work: &Work| if let Work::Copy(copy) = work { Some(copy.asked) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, copy, read) }
    }

    /// `cuGraphMemcpyNodeSetParams`.
    fn cuGraphMemcpyNodeSetParams(driver, node: GraphNode, copy: *const Memcpy3d) {
        let context = context_of(&driver.graphs().work(node)?);
        // SAFETY: as the program passed it.
        let work = unsafe { make::copy(driver, c::reference(copy)?, context) }?;
        driver.graphs().set_work(node, work)
    }

    /// `cuGraphAddMemsetNode`.
    fn cuGraphAddMemsetNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        params: *const MemsetNodeParams, context: Context,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            let params = c::reference(params)?;
            add(driver, node, graph, dependencies, dependency_count, || make::fill(driver, params, context))
        }
    }

    /// `cuGraphMemsetNodeGetParams`.
    fn cuGraphMemsetNodeGetParams(driver, node: GraphNode, params: *mut MemsetNodeParams) {
        let read = |work: &Work| if let Work::Fill(fill) = work { Some(fill.fill) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, params, read) }
    }

    /// `cuGraphMemsetNodeSetParams`.
    fn cuGraphMemsetNodeSetParams(driver, node: GraphNode, params: *const MemsetNodeParams) {
        let context = context_of(&driver.graphs().work(node)?);
        // SAFETY: the program's struct.
        let work = make::fill(driver, unsafe { c::reference(params) }?, context)?;
        driver.graphs().set_work(node, work)
    }

    /// `cuGraphAddHostNode`.
    fn cuGraphAddHostNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        params: *const HostNodeParams,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            let params = c::reference(params)?;
            add(driver, node, graph, dependencies, dependency_count, || make::host(params))
        }
    }

    /// `cuGraphHostNodeGetParams`.
    fn cuGraphHostNodeGetParams(driver, node: GraphNode, params: *mut HostNodeParams) {
        let read = |work: &Work| if let Work::Host(host) = work { Some(host.asked) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, params, read) }
    }

    /// `cuGraphHostNodeSetParams`.
    fn cuGraphHostNodeSetParams(driver, node: GraphNode, params: *const HostNodeParams) {
        // SAFETY: as the program passed it.
        let work = unsafe { make::host(c::reference(params)?) }?;
        driver.graphs().set_work(node, work)
    }

    /// `cuGraphAddChildGraphNode`.
    fn cuGraphAddChildGraphNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        child: Graph,
    ) {
        c::present(node)?;
        // SAFETY: as the program passed it.
        let after = unsafe { edges(dependencies, std::ptr::null(), dependency_count) }?;
        let made = driver.graphs().add_child(graph, &after, child, child_graph_ownership::CLONE)?;
        // SAFETY: the program's variable.
        unsafe { c::put(node, made) };
        Ok(())
    }

    /// `cuGraphChildGraphNodeGetGraph`.
    fn cuGraphChildGraphNodeGetGraph(driver, node: GraphNode, child: *mut Graph) {
        let read = |work: &Work| if let Work::Child(child) = work { Some(*child) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, child, read) }
    }

    /// `cuGraphAddEmptyNode`.
    fn cuGraphAddEmptyNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
    ) {
        // SAFETY: as the program passed it.
        unsafe { add(driver, node, graph, dependencies, dependency_count, || Ok(Work::Empty)) }
    }

    /// `cuGraphAddEventRecordNode`.
    fn cuGraphAddEventRecordNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        event: Event,
    ) {
        let work = || make::event(driver, event).map(Work::Record);
        // SAFETY: as the program passed it.
        unsafe { add(driver, node, graph, dependencies, dependency_count, work) }
    }

    /// `cuGraphEventRecordNodeGetEvent`.
    fn cuGraphEventRecordNodeGetEvent(driver, node: GraphNode, event: *mut Event) {
        let read = |work: &Work| if let Work::Record(event) = work { Some(*event) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, event, read) }
    }

    /// `cuGraphEventRecordNodeSetEvent`.
    fn cuGraphEventRecordNodeSetEvent(driver, node: GraphNode, event: Event) {
        driver.graphs().set_work(node, Work::Record(make::event(driver, event)?))
    }

    /// `cuGraphAddEventWaitNode`.
    fn cuGraphAddEventWaitNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        event: Event,
    ) {
        let work = || make::event(driver, event).map(Work::Wait);
        // SAFETY: as the program passed it.
        unsafe { add(driver, node, graph, dependencies, dependency_count, work) }
    }

    /// `cuGraphEventWaitNodeGetEvent`.
    fn cuGraphEventWaitNodeGetEvent(driver, node: GraphNode, event: *mut Event) {
        let read = |work: &Work| if let Work::Wait(event) = work { Some(*event) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, event, read) }
    }

    /// `cuGraphEventWaitNodeSetEvent`.
    fn cuGraphEventWaitNodeSetEvent(driver, node: GraphNode, event: Event) {
        driver.graphs().set_work(node, Work::Wait(make::event(driver, event)?))
    }

    /// `cuGraphAddNode_v2`.
    fn cuGraphAddNode_v2(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, edges: *const GraphEdge,
        dependency_count: usize, params: *mut GraphNodeParams,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            let after = super::lists::edges(dependencies, edges, dependency_count)?;
            add_any(driver, node, graph, &after, params)
        }
    }

    /// `cuGraphAddNode` before CUDA 12.3.
    fn cuGraphAddNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        params: *mut GraphNodeParams,
    ) {
        // SAFETY: as the program passed it.
        unsafe { cuGraphAddNode_v2(driver, node, graph, dependencies, std::ptr::null(), dependency_count, params) }
    }

    /// `cuGraphNodeSetParams`.
    fn cuGraphNodeSetParams(driver, node: GraphNode, params: *mut GraphNodeParams) {
        let old = driver.graphs().work(node)?;
        // SAFETY: as the program passed it.
        let new = unsafe { make::any(driver, c::reference(params)?) }?;
        driver.graphs().set_work(node, with_attributes(new, &old))
    }

    /// `cuGraphDestroyNode`.
    fn cuGraphDestroyNode(driver, node: GraphNode) {
        driver.graphs().destroy_node(node)
    }

    /// `cuGraphNodeGetType`.
    fn cuGraphNodeGetType(driver, node: GraphNode, kind: *mut u32) {
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, kind, |work| Some(work.kind())) }
    }
}
