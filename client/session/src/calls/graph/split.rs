//! Plans split by where their work runs: which vGPU has a plan, which work the device does alone, and so where the plan
//! is cut. It sends nothing.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult};
use floe_surface::CopyPlace;
use floe_surface::graph::{Plan, Work};

use crate::client::Client;
use crate::log::log;
use crate::objects::parts::{Parts, cut};
use crate::vgpu::Vgpu;

impl Client {
    /// The vGPU a plan runs on: that of its kernels, or of the current context.
    pub(super) fn vgpu_of_plan(&self, plan: &Plan) -> CudaResult<Arc<Vgpu>> {
        let mut found: Option<Arc<Vgpu>> = None;
        for node in &plan.nodes {
            let Work::Kernel(kernel) = &node.work else { continue };
            let vgpu = &self.context(kernel.context)?.vgpu;
            if found.as_ref().is_some_and(|found| !Arc::ptr_eq(found, vgpu)) {
                log!(Warn, "a graph with kernels on several GPUs is not supported");
                return Err(CudaError::NOT_SUPPORTED);
            }
            found = Some(Arc::clone(vgpu));
        }
        found.map_or_else(|| Ok(Arc::clone(&self.current()?.vgpu)), Ok)
    }

    /// Whether work is done by this vGPU alone, without the program's process.
    pub(super) fn is_device_work(&self, work: &Work, vgpu: &Arc<Vgpu>) -> CudaResult<bool> {
        let here = |at| self.owner(at, Some(vgpu)).is_some_and(|window| Arc::ptr_eq(self.holder(window, at), vgpu));
        Ok(match work {
            Work::Empty | Work::Alloc(_) | Work::Free(_) => true,
            Work::Kernel(_) | Work::Words(_) | Work::Conditional(_) => true,
            Work::Fill(fill) => here(fill.fill.at),
            Work::Copy(copy) => match (copy.copy.source.place, copy.copy.destination.place) {
                (CopyPlace::Device(from, _), CopyPlace::Device(to, _)) => here(from) && here(to),
                _ => false,
            },
            Work::Host(_) | Work::Record(_) | Work::Wait(_) | Work::Own(_) => false,
            Work::Child(_) => return Err(CudaError::INVALID_VALUE),
        })
    }

    /// Cuts a plan for a vGPU.
    pub(super) fn split(&self, plan: &Plan, vgpu: &Arc<Vgpu>) -> CudaResult<Parts> {
        let told = |node: &floe_surface::graph::PlanNode| self.is_device_work(&node.work, vgpu);
        let is_device = plan.nodes.iter().map(told).collect::<CudaResult<Vec<_>>>()?;
        let Some(graph) = plan.conditions else {
            return Ok(cut(plan, &is_device, || vgpu.next_id()));
        };
        if plan.nodes.iter().zip(&is_device).any(|(node, is_device)| node.within.is_some() && !is_device) {
            log!(Warn, "a copy from or to the host in a body of a conditional node is not supported");
            return Err(CudaError::NOT_SUPPORTED);
        }
        let mut home = Some(self.home(graph, vgpu)?);
        let parts = cut(plan, &is_device, || home.take().unwrap_or_else(|| vgpu.next_id()));
        if parts.graphs().count() > 1 {
            log!(
                Warn,
                "copies from or to the host, host functions or events between the device work of a graph with conditional nodes are not supported"
            );
            return Err(CudaError::NOT_SUPPORTED);
        }
        Ok(parts)
    }
}
