//! Graphs: nodes with packed parameters, instantiation, launches and changes. Values come in, C's structs go out. Handles
//! are this driver's; what a node may do is the driver's to judge.

use super::launch::with_parameters;
use crate::Driver;
use crate::driver::missing;
use crate::requests::{Conditional, NodeBodies};
use floe_abi::{
    BatchMemOpNodeParams, ConditionalNodeParams, Context, CudaError, CudaResult, Function, Graph, GraphEdge, GraphExec,
    GraphNode, GraphNodeParams, KernelNodeParams, KernelNodeParamsV1, LaunchAttribute, Memcpy3d, MemsetNodeParams,
    StreamMemoryOperation, graph_node_type,
};

/// A kernel as a node has it.
#[derive(Debug, Clone, Copy)]
pub struct GraphKernel<'a> {
    /// What runs.
    pub function: Function,
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes per block.
    pub shared_bytes: u32,
    /// The parameter block, every parameter at its offset.
    pub parameters: &'a [u8],
}

impl GraphKernel<'_> {
    /// Calls `act` with C's struct, whose addresses are valid until it returns.
    fn with_params<R>(&self, act: impl FnOnce(&KernelNodeParams) -> R) -> R {
        with_parameters(self.parameters, |extra| {
            act(&KernelNodeParams {
                first: KernelNodeParamsV1 {
                    function: self.function,
                    grid: self.grid,
                    block: self.block,
                    shared_bytes: self.shared_bytes,
                    parameters: 0,
                    extra: extra as u64,
                },
                ..KernelNodeParams::default()
            })
        })
    }
}

macro_rules! find {
    ($driver:ident, $name:ident) => {
        $driver.calls.$name.ok_or_else(|| missing(stringify!($name)))?
    };
}

// All methods: what the driver answers, and NOT_SUPPORTED where the library lacks the function.
#[allow(clippy::missing_errors_doc, reason = "said above, once for all")]
impl Driver {
    /// A graph without nodes. `cuGraphCreate`.
    pub fn graph_create(&self) -> CudaResult<Graph> {
        let (call, mut graph) = (find!(self, cuGraphCreate), Graph::NULL);
        // SAFETY: the output is our own.
        unsafe { call(&raw mut graph, 0) }.into_result()?;
        Ok(graph)
    }

    /// Adds a kernel. `cuGraphAddKernelNode_v2`, and `cuGraphKernelNodeSetAttribute` for each attribute.
    pub fn graph_add_kernel(
        &self,
        graph: Graph,
        after: &[GraphNode],
        kernel: &GraphKernel<'_>,
        attributes: &[LaunchAttribute],
    ) -> CudaResult<GraphNode> {
        let (call, mut node) = (find!(self, cuGraphAddKernelNode_v2), GraphNode::NULL);
        kernel
            .with_params(|params| {
                // SAFETY: the output is our own, the struct lives through the call, which copies the parameters.
                unsafe { call(&raw mut node, graph, after.as_ptr(), after.len(), params) }
            })
            .into_result()?;
        for attribute in attributes {
            let call = find!(self, cuGraphKernelNodeSetAttribute);
            // SAFETY: the value lives through the call.
            unsafe { call(node, attribute.id, &raw const attribute.value) }.into_result()?;
        }
        Ok(node)
    }

    /// Adds a copy within the device. `cuGraphAddMemcpyNode`.
    pub fn graph_add_copy(
        &self,
        graph: Graph,
        after: &[GraphNode],
        copy: &Memcpy3d,
        context: Context,
    ) -> CudaResult<GraphNode> {
        is_on_device(copy)?;
        let (call, mut node) = (find!(self, cuGraphAddMemcpyNode), GraphNode::NULL);
        // SAFETY: the output is our own; both ends are the device's, so no memory of this process is meant.
        unsafe { call(&raw mut node, graph, after.as_ptr(), after.len(), copy, context) }.into_result()?;
        Ok(node)
    }

    /// Adds a fill. `cuGraphAddMemsetNode`.
    pub fn graph_add_fill(
        &self,
        graph: Graph,
        after: &[GraphNode],
        fill: &MemsetNodeParams,
        context: Context,
    ) -> CudaResult<GraphNode> {
        let (call, mut node) = (find!(self, cuGraphAddMemsetNode), GraphNode::NULL);
        // SAFETY: the output is our own, the struct lives through the call.
        unsafe { call(&raw mut node, graph, after.as_ptr(), after.len(), fill, context) }.into_result()?;
        Ok(node)
    }

    /// Adds operations on words. `cuGraphAddBatchMemOpNode`.
    pub fn graph_add_words(
        &self,
        graph: Graph,
        after: &[GraphNode],
        operations: &[StreamMemoryOperation],
        context: Context,
    ) -> CudaResult<GraphNode> {
        let (call, mut node) = (find!(self, cuGraphAddBatchMemOpNode), GraphNode::NULL);
        let params = words(operations, context)?;
        // SAFETY: the output is our own; struct and operations live through the call, which copies them.
        unsafe { call(&raw mut node, graph, after.as_ptr(), after.len(), &raw const params) }.into_result()?;
        Ok(node)
    }

    /// Adds a node that does nothing. `cuGraphAddEmptyNode`.
    pub fn graph_add_empty(&self, graph: Graph, after: &[GraphNode]) -> CudaResult<GraphNode> {
        let (call, mut node) = (find!(self, cuGraphAddEmptyNode), GraphNode::NULL);
        // SAFETY: the output is our own.
        unsafe { call(&raw mut node, graph, after.as_ptr(), after.len()) }.into_result()?;
        Ok(node)
    }

    /// A handle of a conditional node. `cuGraphConditionalHandleCreate`.
    pub fn graph_condition(&self, graph: Graph, context: Context, value: u32, flags: u32) -> CudaResult<u64> {
        let (call, mut handle) = (find!(self, cuGraphConditionalHandleCreate), 0);
        // SAFETY: the output is our own.
        unsafe { call(&raw mut handle, graph, context, value, flags) }.into_result()?;
        Ok(handle)
    }

    /// Adds a conditional node; gives it with its bodies. `cuGraphAddNode_v2`.
    pub fn graph_add_conditional(
        &self,
        graph: Graph,
        after: &[GraphNode],
        node: &Conditional,
        context: Context,
    ) -> CudaResult<NodeBodies> {
        let call = find!(self, cuGraphAddNode_v2);
        let (asked, mut made) = (node.to_params(context), GraphNode::NULL);
        let mut params =
            GraphNodeParams { kind: graph_node_type::CONDITIONAL, reserved0: [0; 3], words: [0; 29], reserved2: 0 };
        let own = params.words.as_mut_ptr().cast::<ConditionalNodeParams>();
        // SAFETY: the struct of a conditional node begins at the first word, is plain numbers, and is shorter than the words.
        unsafe { own.write(asked) };
        // SAFETY: the outputs are our own, the dependencies live through the call.
        unsafe { call(&raw mut made, graph, after.as_ptr(), std::ptr::null(), after.len(), &raw mut params) }
            .into_result()?;
        // SAFETY: as above; every value is one of its numbers.
        let told = unsafe { params.words.as_ptr().cast::<ConditionalNodeParams>().read() };
        let bodies = told.bodies as *const Graph;
        if bodies.is_null() || !bodies.is_aligned() {
            return Err(CudaError::UNKNOWN);
        }
        // SAFETY: the driver has made an array of as many graphs, which lives as long as the node.
        let bodies = unsafe { std::slice::from_raw_parts(bodies, node.size as usize) };
        Ok((made, bodies.to_vec()))
    }

    /// Adds a dependency that waits for part of a node. `cuGraphAddDependencies_v2`.
    pub fn graph_add_edge(&self, graph: Graph, from: GraphNode, to: GraphNode, edge: GraphEdge) -> CudaResult<()> {
        let call = find!(self, cuGraphAddDependencies_v2);
        // SAFETY: each array has the one value that is counted.
        unsafe { call(graph, &raw const from, &raw const to, &raw const edge, 1) }.into_result()
    }

    /// Makes a graph ready to be launched. `cuGraphInstantiateWithFlags`.
    pub fn graph_instantiate(&self, graph: Graph, flags: u64) -> CudaResult<GraphExec> {
        let (call, mut exec) = (find!(self, cuGraphInstantiateWithFlags), GraphExec::NULL);
        // SAFETY: the output is our own.
        unsafe { call(&raw mut exec, graph, flags) }.into_result()?;
        Ok(exec)
    }

    /// Changes a kernel of an instantiated graph. `cuGraphExecKernelNodeSetParams_v2`.
    pub fn graph_exec_set_kernel(&self, exec: GraphExec, node: GraphNode, kernel: &GraphKernel<'_>) -> CudaResult<()> {
        let call = find!(self, cuGraphExecKernelNodeSetParams_v2);
        // SAFETY: the struct lives through the call, which copies the parameters.
        kernel.with_params(|params| unsafe { call(exec, node, params) }).into_result()
    }

    /// Changes a copy of an instantiated graph. `cuGraphExecMemcpyNodeSetParams`.
    pub fn graph_exec_set_copy(
        &self,
        exec: GraphExec,
        node: GraphNode,
        copy: &Memcpy3d,
        context: Context,
    ) -> CudaResult<()> {
        is_on_device(copy)?;
        let call = find!(self, cuGraphExecMemcpyNodeSetParams);
        // SAFETY: both ends are the device's, so no memory of this process is meant.
        unsafe { call(exec, node, copy, context) }.into_result()
    }

    /// Changes operations on words of an instantiated graph. `cuGraphExecBatchMemOpNodeSetParams`.
    pub fn graph_exec_set_words(
        &self,
        exec: GraphExec,
        node: GraphNode,
        operations: &[StreamMemoryOperation],
        context: Context,
    ) -> CudaResult<()> {
        let call = find!(self, cuGraphExecBatchMemOpNodeSetParams);
        let params = words(operations, context)?;
        // SAFETY: struct and operations live through the call, which copies them.
        unsafe { call(exec, node, &raw const params) }.into_result()
    }

    /// Changes a fill of an instantiated graph. `cuGraphExecMemsetNodeSetParams`.
    pub fn graph_exec_set_fill(
        &self,
        exec: GraphExec,
        node: GraphNode,
        fill: &MemsetNodeParams,
        context: Context,
    ) -> CudaResult<()> {
        let call = find!(self, cuGraphExecMemsetNodeSetParams);
        // SAFETY: the struct lives through the call.
        unsafe { call(exec, node, fill, context) }.into_result()
    }
}

impl Conditional {
    fn to_params(self, context: Context) -> ConditionalNodeParams {
        ConditionalNodeParams { handle: self.handle, kind: self.kind, size: self.size, bodies: 0, context }
    }
}

/// Operations as C has them, valid as long as they are.
fn words(operations: &[StreamMemoryOperation], context: Context) -> CudaResult<BatchMemOpNodeParams> {
    let count = u32::try_from(operations.len()).map_err(|_| CudaError::INVALID_VALUE)?;
    Ok(BatchMemOpNodeParams { context, count, operations: operations.as_ptr() as u64, flags: 0 })
}

/// Addresses of this process are not passed on.
fn is_on_device(copy: &Memcpy3d) -> CudaResult<()> {
    let device = floe_abi::memory_type::DEVICE;
    if copy.source_memory_type == device && copy.destination_memory_type == device {
        Ok(())
    } else {
        Err(CudaError::INVALID_VALUE)
    }
}
