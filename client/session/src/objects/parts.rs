//! A plan cut into parts: graphs of device work, which the server keeps, and steps between them. Steps are issued on
//! the stream at every launch (copies from and to the host, host functions, events). Nodes come in, marked as device
//! work or not; the order of parts goes out. It sends nothing.

use floe_surface::graph::{Plan, Within, Work};
use floe_wire::GraphId;

/// A plan in parts.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// In the order they run.
    pub(crate) list: Vec<Part>,
    /// The bodies of conditional nodes, outer ones first.
    pub(crate) bodies: Vec<Body>,
    /// The place of each node of the plan.
    pub(crate) places: Vec<NodeLocation>,
}

/// A body of a conditional node, as the server has it.
#[derive(Debug)]
pub(crate) struct Body {
    /// The conditional node's place in the plan, and which of its bodies it is.
    pub(crate) within: Within,
    /// The server's graph.
    pub(crate) graph: u64,
    /// These nodes of the plan.
    pub(crate) nodes: Vec<usize>,
}

/// One part.
#[derive(Debug)]
pub(crate) enum Part {
    /// A graph of the server's, made of these nodes of the plan.
    Device { graph: u64, nodes: Vec<usize> },
    /// These nodes of the plan, one after the other.
    Steps(Vec<usize>),
}

/// The place of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeLocation {
    /// In a graph of the server's, under this number.
    Node { graph: u64, node: u32 },
    /// Between them, or nowhere because it does nothing.
    Step,
}

impl Parts {
    /// The server's graphs.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = GraphId> {
        self.list.iter().filter_map(|part| match part {
            Part::Device { graph, .. } => Some(GraphId(*graph)),
            Part::Steps(_) => None,
        })
    }

    /// Whether the server has all of it, as one graph.
    pub(crate) fn is_one_graph(&self) -> bool {
        matches!(self.list.as_slice(), [Part::Device { .. }])
    }

    /// The bodies of the conditional node at this place.
    pub(crate) fn bodies_of(&self, place: usize) -> Vec<GraphId> {
        let bodies = self.bodies.iter().filter(|body| body.within.node == place);
        bodies.map(|body| GraphId(body.graph)).collect()
    }

    /// Whether both are cut in the same places.
    pub(crate) fn has_shape_of(&self, other: &Self) -> bool {
        let same = |pair: (&Part, &Part)| match pair {
            (Part::Device { nodes, .. }, Part::Device { nodes: others, .. }) => nodes == others,
            (Part::Steps(nodes), Part::Steps(others)) => nodes == others,
            _ => false,
        };
        self.list.len() == other.list.len() && self.list.iter().zip(&other.list).all(same)
    }
}

/// The turn of each node: steps of turn 0, device work of turn 0, steps of turn 1 and so on.
fn turns(plan: &Plan, is_device: &[bool]) -> Vec<usize> {
    let mut turns: Vec<usize> = Vec::with_capacity(plan.nodes.len());
    for (node, device) in plan.nodes.iter().zip(is_device) {
        let behind = |from: usize| match (is_device[from], *device) {
            (true, false) => turns[from] + 1,
            _ => turns[from],
        };
        let turn = node.after.iter().map(|edge| behind(edge.from)).max().unwrap_or(0);
        turns.push(turn);
    }
    turns
}

/// Cuts a plan whose nodes are marked as device work or not; `next_id` names the server's graphs.
pub(crate) fn cut(plan: &Plan, is_device: &[bool], mut next_id: impl FnMut() -> u64) -> Parts {
    let turns = turns(plan, is_device);
    let mut parts = Parts { places: vec![NodeLocation::Step; plan.nodes.len()], ..Parts::default() };
    let last = turns.iter().copied().max().unwrap_or(0);
    // One pass to sort the nodes into their turns, so that long chains cost no more than wide graphs.
    let mut steps = vec![Vec::new(); last + 1];
    let mut device = vec![Vec::new(); last + 1];
    let outer = turns.iter().enumerate().filter(|(index, _)| plan.nodes[*index].within.is_none());
    for (index, turn) in outer {
        if is_device[index] { device[*turn].push(index) } else { steps[*turn].push(index) }
    }
    let mut found_steps = false;
    for (steps, nodes) in steps.into_iter().zip(device) {
        if !steps.is_empty() {
            found_steps = true;
            parts.list.push(Part::Steps(steps));
        }
        // A part that does nothing need not be launched.
        if nodes.iter().any(|index| !plan.nodes[*index].work.is_idle()) {
            let graph = next_id();
            for (index, node) in nodes.iter().zip(0u32..) {
                parts.places[*index] = NodeLocation::Node { graph, node };
            }
            parts.list.push(Part::Device { graph, nodes });
        }
    }
    debug_assert!(found_steps || parts.list.len() <= 1, "device work alone is one part");
    add_bodies(plan, &mut parts, next_id);
    parts
}

/// Each body of each conditional node is a graph of its own.
fn add_bodies(plan: &Plan, parts: &mut Parts, mut next_id: impl FnMut() -> u64) {
    let mut first = vec![0; plan.nodes.len()];
    for (node, place) in plan.nodes.iter().zip(0..) {
        if let Work::Conditional(work) = &node.work {
            first[place] = parts.bodies.len();
            let body = |body| Body { within: Within { node: place, body }, graph: next_id(), nodes: Vec::new() };
            parts.bodies.extend((0..work.bodies().len()).map(body));
        }
    }
    for (index, node) in plan.nodes.iter().enumerate() {
        let Some(within) = node.within else { continue };
        let body = &mut parts.bodies[first[within.node] + within.body];
        let number = u32::try_from(body.nodes.len()).unwrap_or(u32::MAX);
        parts.places[index] = NodeLocation::Node { graph: body.graph, node: number };
        body.nodes.push(index);
    }
}

#[cfg(test)]
mod tests {
    use floe_abi::{Event, GraphEdge, GraphNode};
    use floe_surface::graph::{FillWork, PlanEdge, PlanNode, Work};

    use super::*;

    /// A plan of device work (`d`) and steps (`s`), each after the nodes listed.
    fn plan(nodes: &[(char, &[usize])]) -> (Plan, Vec<bool>) {
        let work = |kind| match kind {
            'd' => Work::Fill(FillWork { fill: Default::default(), context: Default::default() }),
            'e' => Work::Empty,
            _ => Work::Record(Event(1)),
        };
        let node = |(kind, after): &(char, &[usize])| PlanNode {
            node: GraphNode::NULL,
            work: work(*kind),
            after: after.iter().map(|from| PlanEdge { from: *from, data: GraphEdge::default() }).collect(),
            enabled: true,
            within: None,
        };
        let is_device = nodes.iter().map(|(kind, _)| *kind != 's').collect();
        (Plan { nodes: nodes.iter().map(node).collect(), ..Plan::default() }, is_device)
    }

    fn parts(nodes: &[(char, &[usize])]) -> Vec<(char, Vec<usize>)> {
        let (plan, is_device) = plan(nodes);
        let mut ids = 0;
        let parts = cut(&plan, &is_device, || {
            ids += 1;
            ids
        });
        let told = |part: &Part| match part {
            Part::Device { nodes, .. } => ('d', nodes.clone()),
            Part::Steps(nodes) => ('s', nodes.clone()),
        };
        parts.list.iter().map(told).collect()
    }

    #[test]
    fn device_work_alone_is_one_part() {
        assert_eq!(parts(&[('d', &[]), ('d', &[0]), ('d', &[0]), ('e', &[1, 2])]), [('d', vec![0, 1, 2, 3])]);
    }

    #[test]
    fn uploads_before_and_downloads_after_device_work_make_three_parts() {
        let cut = parts(&[('s', &[]), ('d', &[0]), ('d', &[1]), ('s', &[2]), ('s', &[])]);
        assert_eq!(cut, [('s', vec![0, 4]), ('d', vec![1, 2]), ('s', vec![3])]);
    }

    #[test]
    fn a_step_between_device_work_cuts_it() {
        let cut = parts(&[('d', &[]), ('s', &[0]), ('d', &[1]), ('d', &[])]);
        assert_eq!(cut, [('d', vec![0, 3]), ('s', vec![1]), ('d', vec![2])]);
    }

    #[test]
    fn nodes_that_do_nothing_make_no_part() {
        assert_eq!(parts(&[('s', &[]), ('e', &[0])]), [('s', vec![0])]);
        assert_eq!(parts(&[]), []);
    }
}
