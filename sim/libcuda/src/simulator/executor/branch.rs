//! In: scripts and a value that chooses one of them when their turn comes. Out: that script, queued on streams of its own;
//! the branch is over when it is. A loop asks the value again after each round.
//! It runs nothing itself, and a round of a loop never begins on a thread of the program.

use std::sync::Arc;

use floe_abi::{CudaResult, graph_conditional_type as kinds};
use floe_machine::Condition;

use super::queue::{StreamKey, StreamKind, StreamPosition};
use super::replay::{Script, queue, spread};
use super::{Executor, ExecutorState, Work};

/// Scripts of which a value chooses none or one.
pub(crate) struct Branch {
    condition: Arc<Condition>,
    /// One of `graph_conditional_type`.
    kind: u32,
    bodies: Vec<Script>,
}

impl Branch {
    pub(crate) fn new(condition: Arc<Condition>, kind: u32, bodies: Vec<Script>) -> Self {
        Self { condition, kind, bodies }
    }

    /// The script that the value chooses now.
    fn chosen(&self) -> Option<&Script> {
        let value = self.condition.value();
        let body = match self.kind {
            kinds::IF if value == 0 => 1,
            kinds::IF => 0,
            kinds::WHILE if value == 0 => return None,
            kinds::WHILE => 0,
            _ => usize::try_from(value).ok()?,
        };
        self.bodies.get(body)
    }
}

/// A script under way that a branch has chosen.
pub(crate) struct Round {
    branch: Arc<Branch>,
    /// The branch's own place.
    position: StreamPosition,
    context: u64,
}

impl Round {
    /// Whether another may follow.
    pub(super) fn may_repeat(&self) -> bool {
        self.branch.kind == kinds::WHILE
    }
}

impl Executor {
    /// Queues the script that a branch chooses now. False: it chooses none, and is over.
    ///
    /// # Errors
    /// As `post`, and what a kernel's launch is refused for; nothing is queued then.
    pub(super) fn begin_round(
        state: &mut ExecutorState,
        position: StreamPosition,
        context: u64,
        branch: &Arc<Branch>,
    ) -> CudaResult<bool> {
        let Some(script) = branch.chosen() else { return Ok(false) };
        let works = script.scenes.iter().map(|scene| scene.step.work()).collect::<CudaResult<Vec<Work>>>()?;
        let lanes = spread(&script.scenes);
        let count = lanes.iter().copied().max().unwrap_or(0);
        let streams: Vec<StreamKey> = (0..=count).map(|_| state.queues.open(context, StreamKind::Inner)).collect();
        let round = Round { branch: Arc::clone(branch), position, context };
        let queued = match streams.split_first() {
            Some((first, others)) => Self::enqueue(state, *first, &[], Work::Nothing)
                .and_then(|begin| queue(state, begin, &script.scenes, works, &lanes, others))
                .and_then(|_| Self::enqueue(state, *first, &[], Work::RoundOver(Box::new(round)))),
            None => return Ok(false),
        };
        // What is queued still runs.
        streams.into_iter().for_each(|stream| state.queues.close(stream));
        queued.map(|_| true)
    }

    /// A script that a branch chose has been run: the next round begins, or the branch is over.
    pub(super) fn round_over(&self, state: &mut ExecutorState, round: Round) {
        let Round { branch, position, context } = round;
        let goes_on = branch.kind == kinds::WHILE && !state.faults.contains_key(&context);
        let begun = if goes_on { Self::begin_round(state, position, context, &branch) } else { Ok(false) };
        match begun {
            Ok(true) => {}
            Ok(false) => self.finish(state, position, context, Ok(())),
            Err(error) => self.finish(state, position, context, Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicU32, Ordering};

    use floe_machine::{Conditions, Memory};
    use floe_surface::HostFunction;

    use super::super::output::Output;
    use super::super::replay::{Scene, Stage, Step};
    use super::*;

    /// How often something ran, and a value that falls each time.
    struct Count {
        condition: Arc<Condition>,
        ran: AtomicU32,
    }

    unsafe extern "C" fn count(user: *mut c_void) {
        // SAFETY: `scene` passes a count, which the test keeps until all work is over.
        let count = unsafe { &*user.cast::<Count>() };
        count.ran.fetch_add(1, Ordering::SeqCst);
        count.condition.set(count.condition.value().saturating_sub(1));
    }

    fn scene(count_at: &Arc<Count>, after: &[usize]) -> Scene {
        // SAFETY: `count` takes a count.
        let function = unsafe { HostFunction::new(count, Arc::as_ptr(count_at) as *mut c_void) };
        Scene { step: Step::Host(function, Arc::new(Output::new(0))), after: after.to_vec() }
    }

    fn script(scenes: Vec<Scene>) -> Script {
        Script { scenes, defaults: Vec::new() }
    }

    fn branch(condition: &Arc<Condition>, kind: u32, bodies: Vec<Script>) -> Script {
        let branch = Branch::new(Arc::clone(condition), kind, bodies);
        script(vec![Scene { step: Step::Branch(Arc::new(branch)), after: Vec::new() }])
    }

    fn executor(queues: u64, place: u64) -> Arc<Executor> {
        let memory = Memory::reserve(0x7_0000_0000_0000 >> 4 | place << 36, 2 << 20).expect("addresses");
        Executor::new(memory, Arc::default(), 1, queues)
    }

    #[test]
    fn a_value_chooses_a_body_and_what_is_behind_waits_for_it() {
        let (executor, conditions) = (executor(0, 1), Conditions::default());
        let condition = conditions.create(0);
        let counts = [(); 3].map(|()| Arc::new(Count { condition: conditions.create(0), ran: AtomicU32::new(0) }));
        let bodies = || counts[..2].iter().map(|count| script(vec![scene(count, &[]), scene(count, &[0])])).collect();
        let stream = executor.open(1, StreamKind::NonBlocking);
        for (kind, value, ran) in [
            (kinds::IF, 0, [0, 2]),
            (kinds::IF, 9, [2, 0]),
            (kinds::SWITCH, 1, [0, 2]),
            (kinds::SWITCH, 2, [0, 0]),
            (kinds::WHILE, 0, [0, 0]),
        ] {
            condition.set(value);
            let mut script = branch(&condition, kind, bodies());
            script.scenes.push(scene(&counts[2], &[0]));
            executor.replay(stream, &script, &mut Stage::new(&executor)).expect("queued");
            executor.wait_stream(stream);
            let got = counts.each_ref().map(|count| count.ran.swap(0, Ordering::SeqCst));
            assert_eq!(got, [ran[0], ran[1], 1], "{kind} {value}");
        }
    }

    #[test]
    fn a_loop_goes_round_until_its_value_is_zero_also_where_streams_share_a_hardware_queue() {
        for (queues, place) in [(0, 2), (1, 3)] {
            let (executor, conditions) = (executor(queues, place), Conditions::default());
            let condition = conditions.create(0);
            let counted = Arc::new(Count { condition: Arc::clone(&condition), ran: AtomicU32::new(0) });
            let stream = executor.open(1, StreamKind::NonBlocking);
            let mut looping = branch(&condition, kinds::WHILE, vec![script(vec![scene(&counted, &[])])]);
            looping.defaults.push((Arc::clone(&condition), 50));
            let mut stage = Stage::new(&executor);
            for _ in 0..3 {
                executor.replay(stream, &looping, &mut stage).expect("queued");
            }
            executor.wait_stream(stream);
            assert_eq!(counted.ran.load(Ordering::SeqCst), 150);
        }
    }

    #[test]
    fn a_loop_without_end_holds_up_its_stream_alone_until_a_fault_or_its_value_ends_it() {
        let (executor, conditions) = (executor(0, 4), Conditions::default());
        let condition = conditions.create(1);
        let counted = Arc::new(Count { condition: conditions.create(0), ran: AtomicU32::new(0) });
        let [looping, free] = [(); 2].map(|()| executor.open(1, StreamKind::NonBlocking));
        let idle = branch(&condition, kinds::WHILE, vec![Script::default()]);
        let mut stage = Stage::new(&executor);
        executor.replay(looping, &idle, &mut stage).expect("queued");
        executor.replay(free, &script(vec![scene(&counted, &[])]), &mut Stage::new(&executor)).expect("queued");
        executor.wait_stream(free);
        assert_eq!((counted.ran.load(Ordering::SeqCst), executor.is_idle(looping)), (1, false));
        condition.set(0);
        executor.wait_stream(looping);
        condition.set(1);
        executor.replay(looping, &idle, &mut stage).expect("queued");
        executor.lock().faults.insert(1, floe_abi::CudaError::LAUNCH_FAILED);
        executor.wait_stream(looping);
    }
}
