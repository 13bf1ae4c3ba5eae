//! Conditional nodes on the CPU device: each handle is a value of the machine's, and each node a branch of the script with
//! a script per body. Plans with all nodes in one list come in; scripts within scripts go out.

use std::collections::HashMap;
use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, graph_conditional_flags as flags};
use floe_machine::{Condition, Conditions};
use floe_surface::graph::{Plan, Within, Work};

use crate::simulator::executor::branch::Branch;
use crate::simulator::executor::replay::{Scene, Script, Step};

/// A handle that a graph has.
pub(super) struct Known {
    condition: Arc<Condition>,
    /// What it is when a launch begins; `None`: what it was.
    default: Option<u32>,
}

impl Known {
    /// A new handle; `asked` are its flags.
    pub(super) fn new(conditions: &Conditions, value: u32, asked: u32) -> Self {
        let default = (asked & flags::ASSIGN_DEFAULT != 0).then_some(value);
        Self { condition: conditions.create(default.unwrap_or(0)), default }
    }

    /// The number that kernels name it by.
    pub(super) fn handle(&self) -> u64 {
        self.condition.handle()
    }
}

/// A conditional node: its place, its value and what it does with its bodies.
struct Decision {
    at: usize,
    condition: Arc<Condition>,
    kind: u32,
    bodies: usize,
}

/// All scenes of an instantiated graph in one list, and which are in which body.
pub(super) struct Flat {
    scenes: Vec<Scene>,
    within: Vec<Option<Within>>,
    decisions: Vec<Decision>,
    defaults: Vec<(Arc<Condition>, u32)>,
}

impl Flat {
    /// The scenes of a plan in which these values decide.
    ///
    /// # Errors
    /// INVALID_VALUE where a node has none of them.
    pub(super) fn new(plan: &Plan, known: &[Known], scenes: Vec<Scene>) -> CudaResult<Self> {
        let mut decisions = Vec::new();
        for (at, node) in plan.nodes.iter().enumerate() {
            let Work::Conditional(work) = &node.work else { continue };
            let found = known.iter().find(|known| known.handle() == work.handle());
            let condition = Arc::clone(&found.ok_or(CudaError::INVALID_VALUE)?.condition);
            decisions.push(Decision { at, condition, kind: work.kind(), bodies: work.bodies().len() });
        }
        let defaults = known.iter().filter_map(|known| Some((Arc::clone(&known.condition), known.default?))).collect();
        let within = plan.nodes.iter().map(|node| node.within).collect();
        Ok(Self { scenes, within, decisions, defaults })
    }

    /// Changes what one node does.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such node.
    pub(super) fn set(&mut self, at: usize, step: Step) -> CudaResult<()> {
        self.scenes.get_mut(at).ok_or(CudaError::INVALID_VALUE)?.step = step;
        Ok(())
    }

    /// The scenes as they are run.
    pub(super) fn script(&self) -> Script {
        // Inner ones come behind outer ones in the list, so going backwards makes bodies before the nodes that have them.
        let mut places: HashMap<Option<Within>, Vec<usize>> = HashMap::new();
        for (at, within) in self.within.iter().enumerate() {
            places.entry(*within).or_default().push(at);
        }
        let part = |steps: &[Step], within| self.part(steps, places.get(&within).map_or(&[][..], Vec::as_slice));
        let mut steps: Vec<Step> = self.scenes.iter().map(|scene| scene.step.clone()).collect();
        for decision in self.decisions.iter().rev() {
            let body = |body| part(&steps, Some(Within { node: decision.at, body }));
            let bodies = (0..decision.bodies).map(body).collect();
            let branch = Branch::new(Arc::clone(&decision.condition), decision.kind, bodies);
            steps[decision.at] = Step::Branch(Arc::new(branch));
        }
        Script { defaults: self.defaults.clone(), ..part(&steps, None) }
    }

    /// The scenes at these places, which are of one body or of the graph itself.
    fn part(&self, steps: &[Step], places: &[usize]) -> Script {
        let scene = |at: &usize| Scene {
            step: steps[*at].clone(),
            after: self.scenes[*at].after.iter().filter_map(|from| places.binary_search(from).ok()).collect(),
        };
        Script { scenes: places.iter().map(scene).collect(), defaults: Vec::new() }
    }
}
