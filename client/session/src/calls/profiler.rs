//! The profiler switches, which mark a region for a profiler that watches the process. None can watch a device across the
//! network, so the calls succeed and do nothing, as they do without a profiler.

use floe_abi::CudaResult;
use floe_surface::ProfilerCalls;

use crate::client::Client;

impl ProfilerCalls for Client {
    fn profiler_start(&self) -> CudaResult<()> {
        self.current().map(drop)
    }

    fn profiler_stop(&self) -> CudaResult<()> {
        self.current().map(drop)
    }
}
