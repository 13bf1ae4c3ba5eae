use super::*;
use crate::graph::capture::CaptureStream;
use crate::graph::exec::ExecFlags;
use crate::graph::plan::Within;
use floe_abi::{Event, GraphExec, child_graph_ownership};

const STREAM: CaptureStream = CaptureStream { key: 1, context: 1, legacy: false, blocking: false };

fn asked(handle: u64, kind: u32, size: u32) -> ConditionalNodeParams {
    ConditionalNodeParams { handle, kind, size, ..ConditionalNodeParams::default() }
}

fn handle(graphs: &Graphs, graph: Graph, handle: u64) {
    let root = graphs.graph_for_condition(graph).expect("a graph that takes handles");
    graphs.keep_condition(root, handle, Context(5)).expect("a graph");
}

/// Adds a node and gives it with its bodies.
fn add(graphs: &Graphs, graph: Graph, asked: ConditionalNodeParams) -> CudaResult<(GraphNode, Vec<Graph>)> {
    let (node, _) = graphs.add_conditional(graph, &[], &asked)?;
    let Work::Conditional(work) = graphs.work(node)? else { panic!("another kind") };
    Ok((node, work.bodies().to_vec()))
}

fn instantiate(graphs: &Graphs, graph: Graph) -> CudaResult<GraphExec> {
    let plan = graphs.plan(graph)?;
    let (exec, effects) = graphs.name_exec(graph, &plan)?;
    graphs.keep_exec((exec, None), graph, plan, ExecFlags::new(0)?, effects).map(drop)?;
    Ok(exec)
}

#[test]
fn bodies_follow_their_node_in_a_plan_and_nothing_of_one_waits_for_what_is_outside() {
    let (graphs, graph) = (Graphs::default(), Graphs::default().create());
    assert_eq!(graphs.graph_for_condition(graph), Err(CudaError::INVALID_VALUE));
    let graph = graphs.create();
    let (first, second) = (0x11, 0x12);
    handle(&graphs, graph, first);
    let before = graphs.add(graph, &[], Work::Empty).expect("a node");
    let (node, _) = graphs.add_conditional(graph, &[Edge::whole(before)], &asked(first, kinds::IF, 2)).expect("a node");
    let Work::Conditional(work) = graphs.work(node).expect("a node") else { panic!("another kind") };
    let [yes, no] = *work.bodies() else { panic!("two bodies") };
    assert_eq!(work.to_params().size, 2);
    // A handle made for a body is the outermost graph's, and decides within the body.
    handle(&graphs, yes, second);
    let (_, inner) = add(&graphs, yes, asked(second, kinds::WHILE, 1)).expect("a node");
    graphs.add(inner[0], &[], Work::Empty).expect("a node");
    graphs.add(no, &[], Work::Empty).expect("a node");
    graphs.add(graph, &[Edge::whole(node)], Work::Empty).expect("a node");
    let plan = graphs.plan(graph).expect("a plan");
    let within: Vec<_> = plan.nodes.iter().map(|node| node.within.map(|Within { node, body }| (node, body))).collect();
    assert_eq!(within, [None, None, Some((1, 0)), Some((2, 0)), Some((1, 1)), None]);
    let after: Vec<Vec<usize>> =
        plan.nodes.iter().map(|node| node.after.iter().map(|edge| edge.from).collect()).collect();
    assert_eq!(after, [vec![], vec![0], vec![], vec![], vec![], vec![1]]);
    assert_eq!(plan.conditions, Some(graph));
}

#[test]
fn handles_that_are_made_up_taken_or_another_graphs_are_refused() {
    let graphs = Graphs::default();
    let (graph, other) = (graphs.create(), graphs.create());
    handle(&graphs, graph, 1);
    handle(&graphs, other, 2);
    for refused in [asked(3, 0, 1), asked(2, 0, 1), asked(1, 0, 0), asked(1, 0, 3), asked(1, 1, 2), asked(1, 2, 0)] {
        assert_eq!(add(&graphs, graph, refused).err(), Some(CudaError::INVALID_VALUE), "{refused:?}");
    }
    assert_eq!(add(&graphs, graph, asked(1, 3, 1)).err(), Some(CudaError::INVALID_VALUE));
    assert_eq!(add(&graphs, graph, asked(1, 2, MOST_BODIES + 1)).err(), Some(CudaError::NOT_SUPPORTED));
    let elsewhere = ConditionalNodeParams { context: Context(6), ..asked(1, 0, 1) };
    assert_eq!(add(&graphs, graph, elsewhere).err(), Some(CudaError::INVALID_VALUE));
    assert_eq!(graphs.nodes(graph).map(|nodes| nodes.len()), Ok(0), "what is refused leaves nothing");
    let (node, _) = add(&graphs, graph, asked(1, 0, 1)).expect("a node");
    assert_eq!(add(&graphs, graph, asked(1, 0, 1)).err(), Some(CudaError::INVALID_VALUE));
    graphs.destroy_node(node).expect("a node");
    add(&graphs, graph, asked(1, 0, 1)).expect("the handle is free again");
}

#[test]
fn a_graph_that_decides_is_one_of_its_kind_and_no_part_of_another() {
    let graphs = Graphs::default();
    let (graph, other) = (graphs.create(), graphs.create());
    handle(&graphs, graph, 1);
    let unused = instantiate(&graphs, graph);
    assert_eq!((unused, graphs.has_unused_condition(graph)), (Err(CudaError::INVALID_VALUE), true));
    let (_, bodies) = add(&graphs, graph, asked(1, 0, 1)).expect("a node");
    assert_eq!(graphs.clone_graph(graph), Err(CudaError::NOT_SUPPORTED));
    for ownership in [child_graph_ownership::CLONE, child_graph_ownership::MOVE] {
        assert_eq!(graphs.add_child(other, &[], graph, ownership), Err(CudaError::NOT_SUPPORTED));
    }
    assert_eq!(graphs.destroy(bodies[0]), Err(CudaError::INVALID_VALUE));
    assert_eq!(instantiate(&graphs, bodies[0]), Err(CudaError::INVALID_VALUE));
    let exec = instantiate(&graphs, graph).expect("an executable graph");
    assert_eq!(instantiate(&graphs, graph), Err(CudaError::NOT_SUPPORTED));
    assert_eq!(graphs.graph_for_condition(bodies[0]), Err(CudaError::NOT_SUPPORTED));
    graphs.drop_exec(exec).expect("an executable graph");
    instantiate(&graphs, graph).expect("again");
}

#[test]
fn launch_of_one_is_no_node_of_a_capture() {
    let graphs = Graphs::default();
    let graph = graphs.create();
    handle(&graphs, graph, 1);
    add(&graphs, graph, asked(1, 0, 1)).expect("a node");
    let plan = graphs.plan(graph).expect("a plan");
    graphs.begin_capture(&STREAM, 0, None).expect("a capture");
    assert_eq!(graphs.record_plan(&STREAM, &plan), Err(CudaError::STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(graphs.end_capture(&STREAM), Err(CudaError::STREAM_CAPTURE_INVALIDATED));
}

#[test]
fn bodies_are_captured_into_and_hold_device_work_alone() {
    let graphs = Graphs::default();
    let graph = graphs.create();
    handle(&graphs, graph, 1);
    let (node, bodies) = add(&graphs, graph, asked(1, 1, 1)).expect("a node");
    graphs.begin_capture(&STREAM, 0, Some((bodies[0], &[]))).expect("a capture");
    graphs.record(&STREAM, Work::Empty).expect("a node");
    assert_eq!(graphs.plan(graph).err(), Some(CudaError::INVALID_VALUE), "a body is not done yet");
    assert_eq!(graphs.destroy(graph), Err(CudaError::ILLEGAL_STATE));
    assert_eq!(graphs.destroy_node(node), Err(CudaError::ILLEGAL_STATE));
    assert_eq!(graphs.end_capture(&STREAM), Ok(bodies[0]));
    instantiate(&graphs, graph).and_then(|exec| graphs.drop_exec(exec)).expect("device work");
    graphs.add(bodies[0], &[], Work::Record(Event(1))).expect("a node");
    assert_eq!(instantiate(&graphs, graph), Err(CudaError::NOT_SUPPORTED));
    graphs.destroy(graph).expect("the end");
    assert_eq!(graphs.nodes(bodies[0]).err(), Some(CudaError::INVALID_VALUE), "its bodies are gone");
    assert_eq!(graphs.lock().gone, [graph]);
}

#[test]
fn nodes_within_one_another_have_an_end_and_no_graph_is_its_own_part() {
    let graphs = Graphs::default();
    let graph = graphs.create();
    let mut inner = graph;
    let mut depth = 0;
    let refused = loop {
        handle(&graphs, graph, depth);
        match add(&graphs, inner, asked(depth, 0, 1)) {
            Ok((_, bodies)) => (inner, depth) = (bodies[0], depth + 1),
            Err(error) => break error,
        }
    };
    assert_eq!((refused, depth), (CudaError::INVALID_VALUE, DEEPEST as u64));
    let (outer, child) = (graphs.create(), graphs.create());
    let node = graphs.add_child(outer, &[], child, child_graph_ownership::CLONE).expect("a node");
    let Ok(Work::Child(own)) = graphs.work(node) else { panic!("another kind") };
    assert_eq!(graphs.add_child(own, &[], outer, child_graph_ownership::MOVE), Err(CudaError::INVALID_VALUE));
    assert_eq!(graphs.graph_for_condition(own), Err(CudaError::NOT_SUPPORTED), "no child graph has conditional nodes");
}
