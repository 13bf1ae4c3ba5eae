//! What the surface asks beyond exported functions: a primary context's handle before it is active. The beginning and end of
//! every call, which are counted, and the process's end come in. Nothing here waits for the server.

use floe_abi::{Context, CudaResult, Device};
use floe_surface::Beyond;

use crate::client::Client;
use crate::tally;

impl Beyond for Client {
    fn primary_context(&self, device: Device) -> CudaResult<Context> {
        Ok(self.device(device)?.primary.handle())
    }

    fn exiting(&self) {
        self.end();
    }

    #[inline]
    fn call_begins(&self) {
        tally::begin();
    }

    #[inline]
    fn call_ends(&self) {
        tally::end(&self.statistics);
    }
}
