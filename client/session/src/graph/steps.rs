//! Launches of graphs that do more than device work: parts and steps in turn, each as an operation of the stream. Work comes
//! in as the plan has it now, so that copies read and write the program's memory at every launch. Launches of one graph
//! follow one another, on whatever stream.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult};
use floe_surface::graph::{Plan, Work};
use floe_wire::{CreateEvent, EventId, RecordEvent, WaitEvent};

use super::ExecState;
use super::parts::Part;
use crate::client::Client;
use crate::connection::HostWork;
use crate::stream::StreamState;
use crate::table::lock;

impl Client {
    pub(super) fn launch_in_parts(&self, exec: &ExecState, plan: &Plan, stream: &Arc<StreamState>) -> CudaResult<()> {
        exec.wait_for_last(stream)?;
        for part in &exec.parts.list {
            match part {
                Part::Device { graph, .. } => self.post_graph(exec, plan, stream, *graph)?,
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
        match work {
            Work::Empty | Work::Alloc(_) | Work::Free(_) => Ok(()),
            Work::Host(host) => {
                let session = &stream.session;
                session.connection.host_function(stream.course(), session.next_id(), HostWork::Function(host.function))
            }
            Work::Copy(copy) => self.copy_recorded(stream, &copy.copy),
            Work::Fill(fill) => self.fill_recorded(stream, &fill.fill),
            Work::Record(event) => self.record_on(&*self.event(*event)?, stream),
            Work::Wait(event) => Self::wait_on(stream, &*self.event(*event)?),
            Work::Kernel(_) | Work::Words(_) | Work::Child(_) => Err(CudaError::NOT_SUPPORTED),
        }
    }
}

impl ExecState {
    /// The stream waits for the launch before, if that was on another.
    fn wait_for_last(&self, stream: &StreamState) -> CudaResult<()> {
        match *lock(&self.last) {
            Some((event, last)) if last != stream.id().0 => {
                stream.post(&WaitEvent { stream: stream.id(), event: EventId(event), flags: 0 })
            }
            _ => Ok(()),
        }
    }

    /// Remembers where the launch ends.
    fn launched_on(&self, stream: &StreamState) -> CudaResult<()> {
        let mut last = lock(&self.last);
        let event = match *last {
            Some((event, _)) => event,
            None => {
                let event = self.session.next_id();
                let flags = floe_abi::event_flags::DISABLE_TIMING;
                self.post(&CreateEvent { event: EventId(event), flags })?;
                event
            }
        };
        *last = Some((event, stream.id().0));
        drop(last);
        stream.post(&RecordEvent { event: EventId(event), stream: stream.id(), flags: 0 })
    }
}
