//! Launches of graphs that do more than device work: parts and steps one after another, each as an operation of the
//! stream. Work comes in as the plan has it now, so that copies read and write the program's memory at every launch.
//! Launches of one graph follow one another, on whatever stream.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult};
use floe_surface::graph::{Plan, Work};

use crate::client::Client;
use crate::objects::exec::ExecState;
use crate::objects::parts::Part;
use crate::objects::stream::StreamState;
use crate::vgpu::connection::HostWork;

impl Client {
    pub(super) fn launch_in_parts(&self, exec: &ExecState, plan: &Plan, stream: &Arc<StreamState>) -> CudaResult<()> {
        exec.wait_for_last(stream)?;
        for part in &exec.parts.list {
            match part {
                Part::Device { graph, .. } => {
                    stream.vgpu.send_mirrors()?;
                    self.post_graph(exec, plan, stream, *graph)?;
                }
                Part::Steps(nodes) => {
                    let steps = nodes.iter().filter_map(|index| plan.nodes.get(*index)).filter(|node| node.enabled);
                    for node in steps {
                        self.step(stream, &node.work)?;
                    }
                }
            }
        }
        exec.launched_on(stream)
    }

    fn step(&self, stream: &Arc<StreamState>, work: &Work) -> CudaResult<()> {
        // The step before may have written memory in this process, which the device reads or writes in this one.
        stream.vgpu.send_mirrors()?;
        match work {
            Work::Empty | Work::Alloc(_) | Work::Free(_) => Ok(()),
            Work::Host(host) => stream.vgpu.host_function(stream.progress(), HostWork::Function(host.function)),
            Work::Copy(copy) => self.copy_recorded(stream, &copy.copy),
            Work::Fill(fill) => self.fill_recorded(stream, &fill.fill),
            Work::Record(event) => self.event(*event)?.record_on(stream),
            Work::Wait(event) => Self::wait_on(stream, &*self.event(*event)?),
            Work::Own(work) => self.group_recorded(stream, work),
            Work::Kernel(_) | Work::Words(_) | Work::Child(_) | Work::Conditional(_) => Err(CudaError::NOT_SUPPORTED),
        }
    }
}
