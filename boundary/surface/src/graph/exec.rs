//! Instantiated graphs: a plan with a handle, fixed when it is made but for what its nodes do. Graphs come in, plans go to
//! the implementation that runs them. Launching is the implementation's.

use floe_lock::lock;

use super::handles::{Kind, id, value};
use super::memory::Effects;
use super::plan::Plan;
use super::store::{Graphs, State};
use super::user_objects::Held;
use super::work::Work;
use crate::process::refusals::refused_once;
use floe_abi::{CudaError, CudaResult, Graph, GraphExec, GraphNode, GraphUpdate, graph_instantiate_flags as flags};
use std::sync::{Arc, Mutex, MutexGuard};

/// Flags of an instantiation, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecFlags(u64);

impl ExecFlags {
    /// The flags C passed.
    ///
    /// # Errors
    /// INVALID_VALUE for unknown ones, NOT_SUPPORTED for graphs that kernels launch.
    pub fn new(asked: u64) -> CudaResult<Self> {
        let known = flags::AUTO_FREE_ON_LAUNCH | flags::UPLOAD | flags::DEVICE_LAUNCH | flags::USE_NODE_PRIORITY;
        if asked & !u64::from(known) != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if asked & u64::from(flags::DEVICE_LAUNCH) != 0 {
            refused_once(format_args!(
                "graphs that kernels launch (CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) are not supported"
            ));
            return Err(CudaError::NOT_SUPPORTED);
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

    /// Whether kernels keep the priorities of their nodes instead of the launch stream's.
    pub fn uses_node_priority(self) -> bool {
        self.0 & u64::from(flags::USE_NODE_PRIORITY) != 0
    }
}

/// One instantiated graph.
#[derive(Debug)]
pub(crate) struct Exec {
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
        self.execs.get(&id(Kind::Exec, exec.0)?).ok_or(CudaError::INVALID_VALUE)
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

    /// The implementation has made it.
    pub(crate) fn keep_exec(
        &self,
        exec: GraphExec,
        graph: Graph,
        plan: Plan,
        flags: ExecFlags,
        effects: Effects,
    ) -> CudaResult<()> {
        let mut state = self.lock();
        let exec = id(Kind::Exec, exec.0)?;
        state.memory.hold(&effects);
        // The graph's own references may go first.
        let mut held = Held::default();
        if let Ok(body) = state.body_mut(graph) {
            held = body.held.clone();
            body.exec = (plan.has_conditions() || !effects.is_none()).then_some(exec);
        }
        state.objects.share(&held);
        let (graph, plan, effects) = (Mutex::new(graph), Mutex::new(plan), Mutex::new(Arc::new(effects)));
        state.execs.insert(exec, Arc::new(Exec { flags, graph, plan, held, effects }));
        Ok(())
    }

    /// The effects of later launches on memory, when a graph's plan has updated an instantiated graph.
    ///
    /// # Errors
    /// INVALID_VALUE where memory of the graph is gone, NOT_SUPPORTED where it allocates or frees memory and is
    /// instantiated elsewhere, or is a node's.
    pub(crate) fn effects_of_update(&self, exec: GraphExec, graph: Graph, plan: &Plan) -> CudaResult<Effects> {
        let (state, exec) = (self.lock(), id(Kind::Exec, exec.0)?);
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
        let (mut state, exec) = (self.lock(), id(Kind::Exec, exec.0)?);
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

    /// The program gives an instantiated graph up; its work still completes.
    ///
    /// # Errors
    /// INVALID_VALUE where it is none.
    pub(crate) fn drop_exec(&self, exec: GraphExec) -> CudaResult<()> {
        let mut state = self.lock();
        let id = id(Kind::Exec, exec.0)?;
        let gone = state.execs.remove(&id).ok_or(CudaError::INVALID_VALUE)?;
        state.memory.let_go(&gone.effects());
        let graph = *lock(&gone.graph);
        if let Ok(body) = state.body_mut(graph) {
            body.exec = body.exec.filter(|other| *other != id);
        }
        let over = state.objects.release_all(&gone.held);
        drop(state);
        over.into_iter().for_each(super::Destructor::call);
        Ok(())
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
