//! What the GPU did, for the program's profiler.
//! In: kinds, and how much is wanted. Out: activities with the commands that issued them, in messages of a bounded size.
//! CUPTI is told by the issuer which command each call is for.

use std::collections::HashMap;
use std::sync::Arc;

use floe_device::Device;
use floe_device::cupti::{Activity, Work};
use floe_wire::{
    self as wire, ActivityRequests, StartActivities, StartActivitiesReply, StopActivities, TakeActivities,
    TakeActivitiesReply,
};

use super::{Answer, Issuer, body};
use crate::issue::fault::{Fault, violation};
use crate::life::recording::Recording;

/// The most activities of a reply.
const MOST: u32 = 8192;
/// Bytes of a reply, from which on it takes no more.
const ENOUGH: usize = 2 << 20;
/// Bytes of an activity, without its name.
const EACH: usize = 128;
/// `TakeActivities::flush`: also work that has not ended.
const FORCED: u32 = 2;

/// Names of kernels, each once.
#[derive(Default)]
struct Names {
    list: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, u32>,
    bytes: usize,
}

impl Names {
    fn index(&mut self, name: &Arc<str>) -> u32 {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        // A reply has at most MOST.
        let index = u32::try_from(self.list.len()).unwrap_or_default();
        self.bytes += name.len() + size_of::<u32>();
        self.list.push(Arc::clone(name));
        self.by_name.insert(Arc::clone(name), index);
        index
    }
}

fn on_wire(activity: &Activity, names: &mut Names) -> wire::Activity {
    let &Activity { command, begin, end, stream, graph, node, ref work } = activity;
    let plain = wire::Activity { command, begin, end, stream, graph, node, ..wire::Activity::default() };
    match *work {
        Work::Kernel { ref name, grid, block, registers, memory: [static_shared, dynamic_shared, local] } => {
            let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (grid, block);
            let name = names.index(name);
            wire::Activity {
                kind: 0,
                name,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                registers,
                static_shared,
                dynamic_shared,
                local,
                ..plain
            }
        }
        Work::Copy { kinds: [copy_kind, source_kind, target_kind], is_async, bytes } => {
            wire::Activity { kind: 1, copy_kind, source_kind, target_kind, is_async, bytes, ..plain }
        }
        Work::Fill { value, kind, is_async, bytes } => {
            wire::Activity { kind: 2, target_kind: kind, value, is_async, bytes, ..plain }
        }
    }
}

impl<D: Device> ActivityRequests for Issuer<D> {
    fn start_activities(&mut self, message: StartActivities) -> Result<Answer, Fault> {
        let version = self.shared.recording.start(message.wanted)?;
        body(&StartActivitiesReply { version })
    }

    fn stop_activities(&mut self, _: StopActivities) -> Result<Answer, Fault> {
        self.shared.recording.stop()?;
        Ok(Answer::Body(Vec::new()))
    }

    fn take_activities(&mut self, message: TakeActivities) -> Result<Answer, Fault> {
        let TakeActivities { flush, most } = message;
        if flush > FORCED || most == 0 {
            return violation(format!("no way to take activities: {flush}, at most {most}"));
        }
        let cupti = self.shared.recording.started()?;
        if flush == FORCED {
            self.shared.recording.end();
        }
        if flush > 0
            && let Err(error) = cupti.flush(flush == FORCED)
        {
            self.shared.log.line(format_args!("records of work may be missing: {error}"));
        }
        let (mut names, mut activities) = (Names::default(), Vec::new());
        let mut more = false;
        for activity in Recording::each(cupti) {
            activities.push(on_wire(&activity, &mut names));
            more = activities.len() >= most.min(MOST) as usize || names.bytes + activities.len() * EACH >= ENOUGH;
            if more {
                break;
            }
        }
        let lost = cupti.lost();
        if !more {
            self.shared.recording.taken(cupti);
        }
        let names = names.list.iter().map(AsRef::as_ref).collect();
        body(&TakeActivitiesReply { more, lost, names, activities })
    }
}
