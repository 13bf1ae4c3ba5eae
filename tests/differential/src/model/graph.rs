//! Graphs: what their nodes touch, and what a launch does.
//! In: nodes in lanes. Out: graphs and instances of them. It never admits two nodes that race.

use super::block::Block;
use super::state::{Admission, Graph, Model, Refusal, possible};
use super::touch::Touch;
use crate::operation::{Id, Kind, Node, Operation, Step, Stream, Work};

/// Most nodes: a set of them is a number's bits.
const MOST_NODES: usize = 32;

impl Model {
    pub(crate) fn admit_graph(&mut self, operation: &Operation) -> Admission {
        match operation {
            Operation::Graph { graph, vgpu, nodes, captured } => self.admit_new_graph(*graph, *vgpu, nodes, *captured),
            Operation::Instantiate { instance, graph } => {
                let found = self.graphs.get(graph).ok_or(Refusal::Impossible)?.clone();
                let is_used = self.instances.values().any(|other| other.graph == *graph);
                possible(!(is_used && found.has_memory()) && self.is_current(&found))?;
                self.instances.insert(*instance, found);
                Ok(())
            }
            Operation::Update { instance, graph } => {
                let (Some(old), Some(new)) = (self.instances.get(instance), self.graphs.get(graph)) else {
                    return Err(Refusal::Impossible);
                };
                possible(old.has_shape_of(new) && self.is_current(new))?;
                let graph = Graph { graph: old.graph, is_captured: true, ..new.clone() };
                self.instances.insert(*instance, graph);
                Ok(())
            }
            Operation::SetNode { instance, node, work } => self.admit_set_node(*instance, *node, work),
            Operation::LaunchGraph { instance, stream } => self.admit_launch(*instance, *stream),
            Operation::DropGraph { graph } => {
                // Memory of its own ends with it and its instances; which is where, nobody says.
                let dropped = self.graphs.get(graph).ok_or(Refusal::Impossible)?;
                possible(!dropped.has_memory())?;
                self.graphs.remove(graph);
                Ok(())
            }
            Operation::DropInstance { instance } => {
                let dropped = self.instances.get(instance).ok_or(Refusal::Impossible)?;
                possible(!dropped.has_memory())?;
                self.instances.remove(instance);
                Ok(())
            }
            _ => Err(Refusal::Impossible),
        }
    }

    fn admit_new_graph(&mut self, id: Id, vgpu: usize, nodes: &[Node], is_captured: bool) -> Admission {
        possible(!self.graphs.contains_key(&id) && nodes.len() <= MOST_NODES && !nodes.is_empty())?;
        let mut with = self.clone();
        for node in nodes {
            if let Step::Allocate { block, bytes } = node.what {
                possible(!with.blocks.contains_key(&block))?;
                with.blocks.insert(block, Block::new(Kind::OfGraph, vgpu, bytes, 1, 0));
            }
        }
        let touches = with.touches_of_nodes(vgpu, nodes)?;
        possible(are_ordered(nodes, &touches) && with.is_memory_lived(vgpu, nodes))?;
        let mut blocks: Vec<Id> = touches.iter().flatten().map(|touch| touch.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let versions = blocks.into_iter().map(|block| (block, with.blocks[&block].version)).collect();
        *self = with;
        self.graphs.insert(
            id,
            Graph { vgpu, nodes: nodes.to_vec(), is_captured, was_captured: is_captured, versions, graph: id },
        );
        Ok(())
    }

    fn touches_of_nodes(&self, vgpu: usize, nodes: &[Node]) -> Result<Vec<Vec<Touch>>, Refusal> {
        let touches = nodes.iter().map(|node| match &node.what {
            Step::Work(work) => {
                possible(!matches!(work, Work::Batch { .. } | Work::Wait { .. }))?;
                let touches = self.touches(vgpu, work)?;
                // Copies of arrays in graphs are refused by name, copies between vGPUs are of streams.
                let of_kernel = matches!(work, Work::Kernel(_));
                let is_fit = |touch: &Touch| {
                    let block = &self.blocks[&touch.block];
                    (of_kernel || !block.is_array()) && (of_kernel || block.is_host() || block.vgpu == vgpu)
                };
                possible(touches.iter().all(is_fit))?;
                Ok(touches)
            }
            Step::Allocate { block, .. } | Step::Free { block } => {
                let held = self.block(*block)?;
                possible(held.kind == Kind::OfGraph)?;
                Ok(vec![Touch { block: *block, start: 0, end: held.bytes.len(), writes: true }])
            }
        });
        touches.collect()
    }

    /// Whether each block of the graph's own is allocated before it is named, and freed behind.
    fn is_memory_lived(&self, vgpu: usize, nodes: &[Node]) -> bool {
        let named = |node: &Node| match &node.what {
            Step::Work(work) => {
                let touches = self.touches(vgpu, work).unwrap_or_default();
                let own = |touch: &Touch| self.blocks[&touch.block].kind == Kind::OfGraph;
                touches.into_iter().filter(own).map(|touch| touch.block).collect::<Vec<_>>()
            }
            Step::Allocate { .. } | Step::Free { .. } => Vec::new(),
        };
        let (mut live, mut ended) = (Vec::new(), 0);
        for node in nodes {
            match &node.what {
                Step::Allocate { block, .. } => live.push(*block),
                Step::Free { block } => {
                    let before = live.len();
                    live.retain(|other| other != block);
                    if live.len() == before {
                        return false;
                    }
                    ended += 1;
                }
                Step::Work(_) if named(node).iter().all(|block| live.contains(block)) => {}
                Step::Work(_) => return false,
            }
        }
        let allocated = nodes.iter().filter(|node| matches!(node.what, Step::Allocate { .. })).count();
        live.is_empty() && ended == allocated
    }

    fn admit_set_node(&mut self, instance: Id, node: usize, work: &Work) -> Admission {
        let graph = self.instances.get(&instance).ok_or(Refusal::Impossible)?;
        possible(!graph.is_captured && !graph.has_memory() && self.graphs.contains_key(&graph.graph))?;
        let mut changed = graph.clone();
        let old = changed.nodes.get_mut(node).ok_or(Refusal::Impossible)?;
        possible(old.what.resembles(&Step::Work(work.clone())))?;
        old.what = Step::Work(work.clone());
        let touches = self.touches_of_nodes(changed.vgpu, &changed.nodes)?;
        possible(are_ordered(&changed.nodes, &touches) && self.is_current(&changed))?;
        for touch in touches.iter().flatten() {
            if !changed.versions.iter().any(|(block, _)| *block == touch.block) {
                changed.versions.push((touch.block, self.blocks[&touch.block].version));
            }
        }
        self.instances.insert(instance, changed);
        Ok(())
    }

    /// Whether every block it names is where it was.
    fn is_current(&self, graph: &Graph) -> bool {
        let is_same =
            |(block, version): &(Id, u32)| self.blocks.get(block).is_some_and(|held| held.version == *version);
        graph.versions.iter().all(is_same)
    }

    fn admit_launch(&mut self, instance: Id, stream: Stream) -> Admission {
        let graph = self.instances.get(&instance).ok_or(Refusal::Impossible)?.clone();
        possible(graph.vgpu == stream.vgpu && self.order.has(stream) && self.is_current(&graph))?;
        let touches = self.touches_of_nodes(graph.vgpu, &graph.nodes)?.concat();
        self.check_order(&touches, &self.order.before(stream))?;
        let moment = self.order.work(stream);
        self.note(&touches, moment);
        for node in &graph.nodes {
            if let Step::Work(work) = &node.what {
                self.perform(work);
            }
        }
        Ok(())
    }
}

/// Whether of each two nodes that race one is behind the other.
fn are_ordered(nodes: &[Node], touches: &[Vec<Touch>]) -> bool {
    let mut before: Vec<u32> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let in_lane = (0..index).rev().find(|other| nodes[*other].lane == node.lane);
        if node.after.is_some_and(|after| after >= index) {
            return false;
        }
        let behind = in_lane.into_iter().chain(node.after).fold(0, |set, other| set | before[other] | 1 << other);
        let race =
            |other: &usize| touches[index].iter().any(|one| touches[*other].iter().any(|two| one.conflicts_with(two)));
        if (0..index).filter(race).any(|other| behind & 1 << other == 0) {
            return false;
        }
        before.push(behind);
    }
    true
}
