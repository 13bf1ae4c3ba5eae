//! The driver API's calls, a file for each noun: handles are turned into objects and checked, then the objects do what is asked. The
//! surface says where each call begins and ends, which is counted, and where the process ends. A call that waits says so where it
//! does; nothing below knows of a call.

mod capture;
pub(crate) mod collective;
mod context;
mod copy;
mod device;
mod event;
pub(crate) mod graph;
mod kernel;
mod launch;
mod library;
mod link;
pub(crate) mod memory;
mod module;
mod occupancy;
mod profiler;
mod stream;

use floe_abi::{Context, CuResult, CudaResult, Device};
use floe_surface::Beyond;

use crate::client::Client;
use crate::vgpu::tally;

impl Beyond for Client {
    fn primary_context(&self, device: Device) -> CudaResult<Context> {
        Ok(self.device(device)?.primary.handle())
    }

    fn exiting(&self) {
        self.end();
    }

    #[inline]
    fn call_begins(&self, name: &'static str) {
        if tally::begin() && self.activities.is_on() {
            self.activities.call_begins(name);
        }
    }

    #[inline]
    fn call_ends(&self, answer: CuResult) {
        let number = tally::end(&self.statistics);
        if number != 0 {
            self.activities.call_ends(number, answer.0);
        }
    }
}
