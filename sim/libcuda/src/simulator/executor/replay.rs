//! In: steps that are kept for repeated runs, and their order. Out: the same steps, queued in one call behind all
//! earlier work of a stream, concurrently where nothing orders them.
//! Pure data but for the one method that queues it: it decides no order and runs nothing itself.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult};
use floe_machine::{Condition, Grid, Launch as MachineLaunch};
use floe_surface::HostFunction;

use super::branch::Branch;
use super::events::EventKey;
use super::output::Output;
use super::queue::{StreamKey, StreamKind, StreamPosition};
use super::transfer::Transfer;
use super::words::Words;
use super::{Executor, ExecutorState, Work};

/// Most streams a replay is spread over: more would only wait for the same cores.
const MOST_LANES: usize = 16;

/// One piece of work that can be queued any number of times.
#[derive(Clone)]
pub(crate) enum Step {
    /// Only its place in the order matters.
    Nothing,
    /// A kernel with its packed parameters.
    Kernel(Box<MachineLaunch>),
    /// A copy, whose host ends are read and written at every run, or a memset.
    Transfer(Transfer),
    /// Words written and waited for.
    Words(Words),
    /// A function of the program; what kernels printed before it is shown first.
    Host(HostFunction, Arc<Output>),
    /// An event happens.
    Record(EventKey),
    /// Everything behind waits for the place where the event was last recorded when the replay is queued.
    Wait(EventKey),
    /// Scripts of which a value chooses one.
    Branch(Arc<Branch>),
}

/// A step and the steps it follows, by their position in the script.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) step: Step,
    pub(crate) after: Vec<usize>,
}

/// Steps in an order in which each stands behind all it follows.
#[derive(Clone, Default)]
pub(crate) struct Script {
    pub(crate) scenes: Vec<Scene>,
    /// Values that branches choose by, and what they are when a run begins.
    pub(crate) defaults: Vec<(Arc<Condition>, u32)>,
}

impl Script {
    /// What a run begins with.
    fn begin(&self) -> Work {
        if self.defaults.is_empty() {
            return Work::Nothing;
        }
        let defaults = self.defaults.clone();
        Work::Release(Box::new(move || defaults.iter().for_each(|(condition, value)| condition.set(*value))))
    }
}

/// Streams for scripts with concurrent steps, beside the stream that they are launched on.
/// Runs of one `Stage` follow one another, as launches of one executable graph do.
pub(crate) struct Stage {
    executor: Arc<Executor>,
    context: u64,
    lanes: Vec<StreamKey>,
    last: Option<StreamPosition>,
}

impl Stage {
    pub(crate) fn new(executor: &Arc<Executor>) -> Self {
        Self { executor: Arc::clone(executor), context: 0, lanes: Vec::new(), last: None }
    }

    fn close(&mut self) {
        for lane in self.lanes.drain(..) {
            self.executor.close(lane);
        }
    }
}

impl Drop for Stage {
    /// Queued work still runs.
    fn drop(&mut self) {
        self.close();
    }
}

impl Step {
    pub(super) fn work(&self) -> CudaResult<Work> {
        Ok(match self {
            Self::Nothing | Self::Wait(_) => Work::Nothing,
            Self::Kernel(launch) => {
                let grid = Grid::new((**launch).clone()).map_err(|error| {
                    super::super::log::note(format_args!("launch refused: {error}"));
                    CudaError::INVALID_VALUE
                })?;
                Work::Kernel(grid)
            }
            Self::Transfer(transfer) => Work::Transfer(transfer.clone()),
            Self::Words(words) => Work::Words(words.clone()),
            Self::Host(function, output) => Work::host_function(*function, output),
            Self::Record(event) => Work::Record(*event),
            Self::Branch(branch) => Work::Branch(Arc::clone(branch)),
        })
    }
}

/// For each scene the lane it runs on; lane 0 is the launching stream. A scene takes the lane of its last predecessor,
/// so that a chain stays on one lane. Sharing a lane only adds order that nobody needs.
pub(super) fn spread(scenes: &[Scene]) -> Vec<usize> {
    let mut ends: Vec<Option<usize>> = vec![None];
    let mut lanes = Vec::with_capacity(scenes.len());
    for (position, scene) in scenes.iter().enumerate() {
        let continued = ends.iter().position(|end| end.is_some_and(|end| scene.after.contains(&end)));
        let lane = continued.or_else(|| ends.iter().position(Option::is_none)).unwrap_or_else(|| {
            if ends.len() < MOST_LANES {
                ends.push(None);
                ends.len() - 1
            } else {
                position % MOST_LANES
            }
        });
        ends[lane] = Some(position);
        lanes.push(lane);
    }
    lanes
}

impl Executor {
    /// Queues all of `script` behind everything earlier on `stream` and behind the run before it on this stage.
    ///
    /// # Errors
    /// As `post`; nothing is queued then. INVALID_VALUE for a script whose order is none.
    pub(crate) fn replay(self: &Arc<Self>, stream: StreamKey, script: &Script, stage: &mut Stage) -> CudaResult<()> {
        let ordered = |(position, scene): (usize, &Scene)| scene.after.iter().all(|before| *before < position);
        if !script.scenes.iter().enumerate().all(ordered) {
            return Err(CudaError::INVALID_VALUE);
        }
        let works = script.scenes.iter().map(|scene| scene.step.work()).collect::<CudaResult<Vec<Work>>>()?;
        let lanes = spread(&script.scenes);
        let mut state = self.lock();
        let context = state.queues.context(stream).ok_or(CudaError::INVALID_HANDLE)?;
        open_lanes(&mut state, stage, context, lanes.iter().copied().max().unwrap_or(0));
        let begin = Self::enqueue(&mut state, stream, stage.last.as_slice(), script.begin())?;
        let last = queue(&mut state, begin, &script.scenes, works, &lanes, &stage.lanes)?;
        stage.last = Some(last);
        self.pump(state);
        Ok(())
    }
}

/// Lanes belong to the context they were last used in, since a fault stops what is queued of its context.
fn open_lanes(state: &mut ExecutorState, stage: &mut Stage, context: u64, count: usize) {
    if stage.context != context {
        for lane in stage.lanes.drain(..) {
            state.queues.close(lane);
        }
        stage.context = context;
    }
    while stage.lanes.len() < count {
        stage.lanes.push(state.queues.open(context, StreamKind::NonBlocking));
    }
}

/// Queues all scenes behind `begin`, those of lane 0 on its stream and others on `others`; returns the place behind all.
pub(super) fn queue(
    state: &mut ExecutorState,
    begin: StreamPosition,
    scenes: &[Scene],
    works: Vec<Work>,
    lanes: &[usize],
    others: &[StreamKey],
) -> CudaResult<StreamPosition> {
    let stream = begin.stream;
    let mut ends = vec![begin; others.len() + 1];
    let mut positions: Vec<StreamPosition> = Vec::with_capacity(scenes.len());
    for ((scene, work), lane) in scenes.iter().zip(works).zip(lanes) {
        let mut after: Vec<StreamPosition> =
            scene.after.iter().filter_map(|before| positions.get(*before).copied()).collect();
        after.push(begin);
        if let Step::Wait(event) = scene.step {
            after.extend(state.events.get(event).and_then(|event| event.recorded));
        }
        let key = lane.checked_sub(1).and_then(|lane| others.get(lane).copied()).unwrap_or(stream);
        // Its own lane's order needs no word.
        after.retain(|position| position.stream != key);
        let position = Executor::enqueue(state, key, &after, work)?;
        if let Step::Record(event) = scene.step {
            state.events.record(event, position);
        }
        positions.push(position);
        if let Some(end) = ends.get_mut(*lane) {
            *end = position;
        }
    }
    ends.retain(|position| position.stream != stream);
    Executor::enqueue(state, stream, &ends, Work::Nothing)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::sync::Mutex;

    use floe_machine::Memory;

    use super::*;

    static NOTES: Mutex<Vec<u64>> = Mutex::new(Vec::new());

    unsafe extern "C" fn note(number: *mut c_void) {
        NOTES.lock().expect("no test panics in it").push(number as u64);
    }

    fn noting(number: u64, after: &[usize]) -> Scene {
        // SAFETY: `note` takes its argument as a number.
        let function = unsafe { HostFunction::new(note, number as *mut c_void) };
        Scene { step: Step::Host(function, Arc::new(Output::new(0))), after: after.to_vec() }
    }

    #[test]
    fn runs_follow_one_another_on_any_stream_and_joins_wait_for_their_branches() {
        let memory = Memory::reserve(0x7_0000_0000_0000 >> 4, 2 << 20).expect("addresses");
        let executor = Executor::new(memory, Arc::default(), 1, 0);
        let streams = [(); 2].map(|()| executor.open(1, StreamKind::NonBlocking));
        let diamond = Script {
            defaults: Vec::new(),
            scenes: vec![noting(1, &[]), noting(2, &[0]), noting(3, &[0]), noting(4, &[1, 2])],
        };
        let mut stage = Stage::new(&executor);
        for run in 0..10 {
            executor.replay(streams[run % 2], &diamond, &mut stage).expect("queued");
        }
        streams.iter().for_each(|stream| executor.wait_stream(*stream));
        let notes = NOTES.lock().expect("no test panics in it");
        assert_eq!(notes.len(), 40);
        for run in notes.chunks(4) {
            assert_eq!((run[0], run[1] + run[2], run[3]), (1, 5, 4));
        }
    }

    #[test]
    fn a_scene_that_follows_a_later_one_is_refused() {
        let memory = Memory::reserve(0x7_1000_0000_0000 >> 4, 2 << 20).expect("addresses");
        let executor = Executor::new(memory, Arc::default(), 1, 0);
        let stream = executor.open(1, StreamKind::NonBlocking);
        let script = Script { scenes: scenes(&[&[1], &[]]), ..Script::default() };
        let refused = executor.replay(stream, &script, &mut Stage::new(&executor));
        assert_eq!(refused, Err(CudaError::INVALID_VALUE));
        assert!(executor.is_idle(stream));
    }

    fn scenes(after: &[&[usize]]) -> Vec<Scene> {
        after.iter().map(|after| Scene { step: Step::Nothing, after: after.to_vec() }).collect()
    }

    #[test]
    fn a_chain_stays_on_the_launching_stream() {
        assert_eq!(spread(&scenes(&[&[], &[0], &[1]])), [0, 0, 0]);
    }

    #[test]
    fn branches_run_side_by_side_and_join_on_one_of_their_lanes() {
        assert_eq!(spread(&scenes(&[&[], &[0], &[0], &[1, 2]])), [0, 0, 1, 0]);
    }

    #[test]
    fn more_roots_than_lanes_share_lanes() {
        let first: &[usize] = &[];
        let lanes = spread(&scenes(&[first; MOST_LANES + 3]));
        assert_eq!(lanes.iter().max(), Some(&(MOST_LANES - 1)));
        assert_eq!(lanes.len(), MOST_LANES + 3);
    }
}
