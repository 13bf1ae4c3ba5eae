//! What the surface asks beyond exported functions: a primary context's handle before it is active, and the process's end.
//! Neither waits for the server.

use floe_abi::{Context, CudaResult, Device};
use floe_surface::Beyond;

use crate::client::Client;

impl Beyond for Client {
    fn primary_context(&self, device: Device) -> CudaResult<Context> {
        Ok(self.device(device)?.primary.handle())
    }

    fn exiting(&self) {
        self.end();
    }
}
