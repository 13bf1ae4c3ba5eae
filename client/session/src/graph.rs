//! Graphs of this process. The surface keeps them; kernels, copies and fills come in to be checked, plans to be run.
//! Nothing of that is done yet: every call says NOT_SUPPORTED.

use floe_abi::{Context, CudaError, CudaResult, Event, GraphExec, MemsetNodeParams, Stream};
use floe_surface::graph::{ExecFlags, Graphs, KernelWork, Plan, Work};
use floe_surface::{CopyBox, GraphCalls, Launch};

use crate::client::Client;
use crate::log::log;

fn missing<T>(what: &str) -> CudaResult<T> {
    log!(Warn, "{what} is not supported");
    Err(CudaError::NOT_SUPPORTED)
}

impl GraphCalls for Client {
    fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    fn graph_kernel(&self, _launch: &Launch<'_>, _context: Context) -> CudaResult<KernelWork> {
        missing("cuGraphAddKernelNode")
    }

    fn graph_copy(&self, _copy: &CopyBox, _context: Context) -> CudaResult<CopyBox> {
        missing("cuGraphAddMemcpyNode")
    }

    fn graph_fill(&self, _fill: &MemsetNodeParams, _context: Context) -> CudaResult<()> {
        missing("cuGraphAddMemsetNode")
    }

    fn graph_event(&self, _event: Event) -> CudaResult<()> {
        missing("cuGraphAddEventRecordNode")
    }

    fn graph_instantiate(&self, _exec: GraphExec, _plan: &Plan, _flags: ExecFlags) -> CudaResult<()> {
        missing("cuGraphInstantiate")
    }

    fn graph_launch(&self, _exec: GraphExec, _plan: &Plan, _stream: Stream) -> CudaResult<()> {
        missing("cuGraphLaunch")
    }

    fn graph_upload(&self, _exec: GraphExec, _stream: Stream) -> CudaResult<()> {
        missing("cuGraphUpload")
    }

    fn graph_exec_destroy(&self, _exec: GraphExec) -> CudaResult<()> {
        missing("cuGraphExecDestroy")
    }

    fn graph_exec_update(&self, _exec: GraphExec, _plan: &Plan) -> CudaResult<()> {
        missing("cuGraphExecUpdate")
    }

    fn graph_exec_set(&self, _exec: GraphExec, _at: usize, _work: &Work) -> CudaResult<()> {
        missing("cuGraphExecKernelNodeSetParams")
    }
}
