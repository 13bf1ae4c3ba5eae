//! Instantiated graphs: a plan with a handle, fixed when it is made but for what its nodes do. Graphs come in, plans go to
//! the implementation that runs them. Launching is the implementation's.

use floe_lock::lock;

use super::handles::{Kind, id, value};
use super::memory::Effects;
use super::plan::Plan;
use super::store::{Graphs, State};
use super::user_objects::Held;
use super::work::Work;
use floe_abi::{CudaError, CudaResult, Graph, GraphExec, GraphNode, GraphUpdate, graph_instantiate_flags as flags};
use std::sync::{Arc, Mutex, MutexGuard};

/// Flags of an instantiation, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecFlags(u64);

impl ExecFlags {
    /// The flags C passed.
    ///
    /// # Errors
    /// INVALID_VALUE for unknown ones.
    pub fn new(asked: u64) -> CudaResult<Self> {
        let known = flags::AUTO_FREE_ON_LAUNCH | flags::UPLOAD | flags::DEVICE_LAUNCH | flags::USE_NODE_PRIORITY;
        if asked & !u64::from(known) != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(Self(asked))
    }

    /// As C passed them.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether a launch frees what an earlier one has left.
    pub(super) fn frees_on_launch(self) -> bool {
        self.0 & u64::from(flags::AUTO_FREE_ON_LAUNCH) != 0
    }

    /// Whether kernels may launch it.
    pub fn is_for_kernels(self) -> bool {
        self.0 & u64::from(flags::DEVICE_LAUNCH) != 0
    }

    /// Whether kernels keep the priorities of their nodes instead of the launch stream's.
    pub fn uses_node_priority(self) -> bool {
        self.0 & u64::from(flags::USE_NODE_PRIORITY) != 0
    }
}

/// One instantiated graph.
#[derive(Debug)]
pub(crate) struct Exec {
    /// The implementation's handle.
    own: GraphExec,
    /// The number by which kernels launch it, which is the program's handle then.
    kernels: Option<u64>,
    flags: ExecFlags,
    /// The graph whose allocations it has: that it was made of, or updated by last.
    graph: Mutex<Graph>,
    plan: Mutex<Plan>,
    held: Held,
    effects: Mutex<Arc<Effects>>,
}

impl Exec {
    /// Its plan, which stays as it is while this is held.
    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        lock(&self.plan)
    }

    /// The handle by which the implementation knows it.
    pub(crate) fn own(&self) -> GraphExec {
        self.own
    }

    /// Its flags.
    pub(crate) fn flags(&self) -> ExecFlags {
        self.flags
    }

    /// The effects of a launch on memory.
    pub(crate) fn effects(&self) -> Arc<Effects> {
        Arc::clone(&lock(&self.effects))
    }
}

impl State {
    fn exec(&self, exec: GraphExec) -> CudaResult<&Arc<Exec>> {
        self.execs.get(&self.exec_id(exec)?).ok_or(CudaError::INVALID_VALUE)
    }

    /// The id of an instantiated graph, by the program's handle for it.
    fn exec_id(&self, exec: GraphExec) -> CudaResult<u64> {
        self.for_kernels.get(&exec.0).map_or_else(|| id(Kind::Exec, exec.0), |id| Ok(*id))
    }
}

impl Graphs {
    /// The plan of a graph as it is now.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such graph, its nodes wait for one another in a circle, or one within it is being captured
    /// into; STREAM_CAPTURE_UNSUPPORTED where it is itself, which invalidates that capture.
    pub(crate) fn plan(&self, graph: Graph) -> CudaResult<Plan> {
        let mut state = self.lock();
        if state.is_captured(graph) {
            let is_itself = state.captures.invalidate_into(graph);
            return Err(if is_itself { CudaError::STREAM_CAPTURE_UNSUPPORTED } else { CudaError::INVALID_VALUE });
        }
        Plan::new(&state, graph)
    }

    /// A handle for a graph about to be instantiated, and what launches will do to memory.
    ///
    /// # Errors
    /// INVALID_VALUE where memory of the graph is gone, for a body of a conditional node, and where a conditional handle
    /// decides for no node. NOT_SUPPORTED for one that allocates or frees memory or has conditional handles and is
    /// instantiated already, or is a node's.
    pub(crate) fn name_exec(&self, graph: Graph, plan: &Plan) -> CudaResult<(GraphExec, Effects)> {
        let mut state = self.lock();
        state.refuse_body(graph)?;
        plan.check_bodies()?;
        let body = state.body(graph)?;
        if body.exec.is_some() || body.is_child() && body.has_memory {
            return Err(CudaError::NOT_SUPPORTED);
        }
        if state.has_unused_condition(graph) {
            return Err(CudaError::INVALID_VALUE);
        }
        let effects = state.memory.effects(plan)?;
        let id = state.next_id();
        Ok((GraphExec(value(Kind::Exec, id)), effects))
    }

    /// The implementation has made it, and kernels launch it by this number, if any. Gives the program's handle for it. The
    /// program hands that to its kernels, so it is their number where they have one. `None`: another graph has the number,
    /// of another device's driver, since a driver gives none twice.
    ///
    /// # Errors
    /// UNKNOWN for a number that is no driver's.
    pub(crate) fn keep_exec(
        &self,
        (own, kernels): (GraphExec, Option<u64>),
        graph: Graph,
        plan: Plan,
        flags: ExecFlags,
        effects: Effects,
    ) -> CudaResult<Option<GraphExec>> {
        let mut state = self.lock();
        let exec = id(Kind::Exec, own.0)?;
        if let Some(number) = kernels {
            // An address of the driver's, which is none of a handle here.
            if number == 0 || id(Kind::Exec, number).is_ok() {
                return Err(CudaError::UNKNOWN);
            }
            if state.for_kernels.contains_key(&number) {
                return Ok(None);
            }
            state.for_kernels.insert(number, exec);
        }
        state.memory.hold(&effects);
        // The graph's own references may go first.
        let mut held = Held::default();
        if let Ok(body) = state.body_mut(graph) {
            held = body.held.clone();
            body.exec = (plan.has_conditions() || !effects.is_none()).then_some(exec);
        }
        state.objects.share(&held);
        let (graph, plan, effects) = (Mutex::new(graph), Mutex::new(plan), Mutex::new(Arc::new(effects)));
        state.execs.insert(exec, Arc::new(Exec { own, kernels, flags, graph, plan, held, effects }));
        Ok(Some(kernels.map_or(own, GraphExec)))
    }

    /// A driver gives this number: the graph that had it goes, if it went with its context. Its implementation's handle.
    pub fn renew_number(&self, number: u64, is_gone: impl FnOnce(GraphExec) -> bool) -> Option<GraphExec> {
        let own = {
            let state = self.lock();
            state.execs.get(state.for_kernels.get(&number)?)?.own
        };
        if is_gone(own) { self.drop_exec(GraphExec(number)).ok() } else { None }
    }

    /// The effects of later launches on memory, when a graph's plan has updated an instantiated graph.
    ///
    /// # Errors
    /// INVALID_VALUE where memory of the graph is gone, NOT_SUPPORTED where it allocates or frees memory and is
    /// instantiated elsewhere, or is a node's.
    pub(crate) fn effects_of_update(&self, exec: GraphExec, graph: Graph, plan: &Plan) -> CudaResult<Effects> {
        let state = self.lock();
        let exec = state.exec_id(exec)?;
        state.refuse_body(graph)?;
        plan.check_bodies()?;
        let body = state.body(graph)?;
        if body.exec.is_some_and(|other| other != exec) || body.is_child() && body.has_memory {
            return Err(CudaError::NOT_SUPPORTED);
        }
        state.memory.effects(plan)
    }

    /// An instantiated graph has been updated by a graph: it has that graph's allocations now, and its own no more.
    pub(crate) fn adopt(&self, exec: GraphExec, kept: &Exec, graph: Graph, effects: Effects) -> CudaResult<()> {
        let mut state = self.lock();
        let exec = state.exec_id(exec)?;
        state.memory.hold(&effects);
        let (mut own, mut before) = (lock(&kept.graph), lock(&kept.effects));
        state.memory.let_go(&before);
        if let Ok(body) = state.body_mut(*own) {
            body.exec = body.exec.filter(|other| *other != exec);
        }
        let has_conditions = kept.plan().has_conditions();
        if let Ok(body) = state.body_mut(graph) {
            body.exec = body.exec.or((has_conditions || !effects.is_none()).then_some(exec));
        }
        (*own, *before) = (graph, Arc::new(effects));
        Ok(())
    }

    /// An instantiated graph.
    ///
    /// # Errors
    /// INVALID_VALUE where it is none.
    pub(crate) fn exec(&self, exec: GraphExec) -> CudaResult<Arc<Exec>> {
        self.lock().exec(exec).cloned()
    }

    /// The program gives an instantiated graph up; its work still completes. The implementation's handle for it comes back.
    ///
    /// # Errors
    /// INVALID_VALUE where it is none.
    pub(crate) fn drop_exec(&self, exec: GraphExec) -> CudaResult<GraphExec> {
        let mut state = self.lock();
        let id = state.exec_id(exec)?;
        let gone = state.execs.remove(&id).ok_or(CudaError::INVALID_VALUE)?;
        if let Some(number) = gone.kernels {
            state.for_kernels.remove(&number);
        }
        state.memory.let_go(&gone.effects());
        let graph = *lock(&gone.graph);
        if let Ok(body) = state.body_mut(graph) {
            body.exec = body.exec.filter(|other| *other != id);
        }
        let over = state.objects.release_all(&gone.held);
        drop(state);
        over.into_iter().for_each(super::Destructor::call);
        Ok(gone.own)
    }
}

/// The index in the plan of a node that gets other work of the same kind.
///
/// # Errors
/// INVALID_VALUE where the plan has no such node or the work is of another kind, or other operations on words.
pub(crate) fn place_for(plan: &Plan, node: GraphNode, work: &Work) -> CudaResult<usize> {
    let at = plan.place(node)?;
    if work.may_replace(&plan.nodes[at].work) { Ok(at) } else { Err(CudaError::INVALID_VALUE) }
}

/// The plan with what the graph's nodes do now.
///
/// # Errors
/// GRAPH_EXEC_UPDATE_FAILURE with the reason.
pub(crate) fn updated(plan: &Plan, new: &Plan) -> Result<Plan, GraphUpdate> {
    plan.accepts(new)?;
    let mut plan = plan.clone();
    plan.take(new.clone());
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(graphs: &Graphs, number: Option<u64>) -> CudaResult<(GraphExec, Option<GraphExec>)> {
        let graph = graphs.create();
        let plan = graphs.plan(graph)?;
        let (own, effects) = graphs.name_exec(graph, &plan)?;
        let flags = ExecFlags::new(u64::from(flags::DEVICE_LAUNCH))?;
        graphs.keep_exec((own, number), graph, plan, flags, effects).map(|handle| (own, handle))
    }

    #[test]
    fn the_handle_of_a_graph_that_kernels_launch_is_their_number_for_it() {
        let graphs = Graphs::default();
        let handle = GraphExec(0x7f46_9ac7_4300);
        let (own, kept) = made(&graphs, Some(handle.0)).expect("made");
        assert_eq!(kept, Some(handle));
        assert_eq!(graphs.exec(handle).expect("there").own(), own);
        // No number is believed that could be another's handle.
        for number in [0, own.0] {
            assert_eq!(made(&graphs, Some(number)).err(), Some(CudaError::UNKNOWN), "{number:#x}");
        }
        assert!(made(&graphs, Some(handle.0)).is_ok_and(|(_, kept)| kept.is_none()), "another driver's");
        assert_eq!(graphs.renew_number(handle.0, |_| false), None);
        assert_eq!(graphs.exec(handle).expect("there").own(), own);
        assert_eq!(graphs.drop_exec(handle), Ok(own));
        assert!(graphs.exec(handle).is_err() && graphs.exec(own).is_err());
        let (again, kept) = made(&graphs, Some(handle.0)).expect("the driver gives a number again");
        assert_eq!(kept, Some(handle));
        assert_eq!(graphs.renew_number(handle.0, |own| own == again), Some(again));
        assert!(graphs.exec(handle).is_err() && graphs.exec(again).is_err());
        let (own, kept) = made(&graphs, None).expect("made");
        assert_eq!(kept, Some(own));
    }
}
