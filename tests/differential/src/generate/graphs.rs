//! Graphs, captured and built by hand, their updates and launches.
//! In: the model. Out: operations. Nodes that would race in lanes beside each other are put behind one another.

use super::Generator;
use crate::operation::{Call, End, Id, Kernel, Kind, Node, Operation, Place, Step, Work};

/// Graphs of a program at one time; instances too.
const MOST: usize = 5;

impl Generator {
    pub(super) fn graph(&mut self) {
        let instances: Vec<Id> = self.model.instances.keys().copied().collect();
        match self.random.below(10) {
            0..2 if self.model.graphs.len() < MOST => self.new_graph(),
            2 => self.update(),
            3 => self.set_node(),
            4 if instances.len() >= MOST => {
                if let Some(instance) = self.random.choose(&instances) {
                    self.push(Operation::DropInstance { instance });
                }
            }
            4 if self.model.graphs.len() >= MOST => {
                let graphs: Vec<Id> = self.model.graphs.keys().copied().collect();
                if let Some(graph) = self.random.choose(&graphs) {
                    self.push(Operation::DropGraph { graph });
                }
            }
            _ => match self.random.choose(&instances) {
                Some(instance) => self.launch(instance),
                None => self.new_graph(),
            },
        }
    }

    fn launch(&mut self, instance: Id) {
        let stream = self.stream_of(self.model.instances[&instance].vgpu);
        self.push(Operation::LaunchGraph { instance, stream });
    }

    fn new_graph(&mut self) {
        let vgpu = self.vgpu();
        let mut nodes = Vec::new();
        let lanes = self.random.between(1, 3);
        for _ in 0..self.random.between(1, 7) {
            if let Some(work) = self.some_work(vgpu) {
                let lane = self.random.below(lanes);
                let after = (!nodes.is_empty() && self.random.once_in(3)).then(|| self.random.below(nodes.len()));
                nodes.push(Node { what: Step::Work(work), lane, after });
            }
        }
        if self.random.once_in(3) {
            self.add_memory(vgpu, &mut nodes);
        }
        let (graph, captured) = (self.id(), self.random.once_in(2));
        let mut operation = Operation::Graph { graph, vgpu, nodes: nodes.clone(), captured };
        if !self.push(operation.clone()) {
            // Most likely two of them race: one lane has no races. Nodes that make no sense in a graph go.
            let mut fit: Vec<Node> = Vec::new();
            for node in nodes {
                let mut with = fit.clone();
                with.push(Node { lane: 0, after: None, ..node });
                operation = Operation::Graph { graph, vgpu, nodes: with.clone(), captured };
                let is_whole = !with.iter().any(|node| !matches!(node.what, Step::Work(_)));
                if !is_whole || self.model.admit_copy(&operation) {
                    fit = with;
                }
            }
            if !self.push(Operation::Graph { graph, vgpu, nodes: fit, captured }) {
                return;
            }
        }
        let instance = self.id();
        if self.push(Operation::Instantiate { instance, graph }) {
            for _ in 0..self.random.between(1, 3) {
                self.launch(instance);
            }
        }
    }

    /// Memory of the graph's own, which takes what a block holds and gives it to another.
    fn add_memory(&mut self, vgpu: usize, nodes: &mut Vec<Node>) {
        let some = |block: &crate::model::Block| block.kind == Kind::Device && block.vgpu == vgpu;
        let (Some(one), Some(two)) = (self.block(some), self.block(some)) else { return };
        let ((from, from_bytes), (to, to_bytes)) = (self.range(one, 4), self.range(two, 4));
        let (block, bytes) = (self.id(), from_bytes.min(to_bytes).min(100_000));
        let at = Place { block, offset: 0 };
        let end = End { at, pitch: bytes, height: 1 };
        let (value, multiply, add) = (self.random.word(), self.random.word() | 1, self.random.word());
        let how = Call::Named;
        let half = (bytes / 8).max(1) * 4;
        let steps = [
            Step::Allocate { block, bytes },
            Step::Work(Work::Fill { at: end, unit: 4, value, columns: bytes / 4, rows: 1 }),
            Step::Work(Work::Copy { to: at, from, bytes: half, how }),
            Step::Work(Work::Kernel(Kernel::Affine { at, words: (bytes / 4).min(20_000), multiply, add })),
            Step::Work(Work::Copy { to, from: at, bytes, how }),
            Step::Free { block },
        ];
        nodes.extend(steps.map(|what| Node { what, lane: 0, after: None }));
    }

    /// The same work with other numbers, and of other places.
    fn changed(&mut self, step: &Step) -> Step {
        let (multiply, add) = (self.random.word() | 1, self.random.word());
        let Step::Work(work) = step else { return step.clone() };
        // What names a block that is gone stays as it is, and is not admitted.
        if !self.model.is_there(work) {
            return step.clone();
        }
        Step::Work(match work.clone() {
            Work::Fill { at, unit, columns, rows, .. } => Work::Fill { at, unit, value: add, columns, rows },
            Work::Copy { to, from, how, .. } => {
                let ((to, one), (from, two)) = (self.range(to.block, 1), self.range(from.block, 1));
                Work::Copy { to, from, bytes: one.min(two), how }
            }
            Work::Kernel(Kernel::Affine { at, words, .. }) => Work::Kernel(Kernel::Affine { at, words, multiply, add }),
            Work::Kernel(Kernel::Surface { array, .. }) => Work::Kernel(Kernel::Surface { array, multiply, add }),
            Work::Kernel(Kernel::Bytes { at, .. }) => {
                let (at, bytes) = self.range(at.block, 1);
                Work::Kernel(Kernel::Bytes { at, bytes: bytes.min(20_000), flip: 0x5a })
            }
            Work::Function { at, words, .. } => Work::Function { at, words, multiply, add },
            other => other,
        })
    }

    fn update(&mut self) {
        let fit = |graph: &crate::model::Graph| !graph.has_memory();
        let instances: Vec<Id> =
            self.model.instances.iter().filter(|(_, graph)| fit(graph)).map(|(id, _)| *id).collect();
        let Some(instance) = self.random.choose(&instances) else { return };
        let old = self.model.instances[&instance].clone();
        // A graph of nodes in another order than they were captured in may be of another shape.
        let nodes: Vec<Node> =
            old.nodes.iter().map(|node| Node { what: self.changed(&node.what), ..node.clone() }).collect();
        let (graph, vgpu) = (self.id(), old.vgpu);
        let operation = Operation::Graph { graph, vgpu, nodes, captured: old.was_captured };
        if self.push(operation) {
            if self.push(Operation::Update { instance, graph }) {
                self.launch(instance);
            }
            self.push(Operation::DropGraph { graph });
        }
    }

    fn set_node(&mut self) {
        let fit = |graph: &crate::model::Graph| !graph.has_memory() && !graph.is_captured;
        let instances: Vec<Id> =
            self.model.instances.iter().filter(|(_, graph)| fit(graph)).map(|(id, _)| *id).collect();
        let Some(instance) = self.random.choose(&instances) else { return };
        let nodes = self.model.instances[&instance].nodes.clone();
        let node = self.random.below(nodes.len());
        if let Step::Work(work) = self.changed(&nodes[node].what)
            && self.push(Operation::SetNode { instance, node, work })
        {
            self.launch(instance);
        }
    }
}
