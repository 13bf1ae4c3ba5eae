//! Graphs against the device in memory: filled, launched, changed, refused; with bodies that values decide for.

use floe_wire::*;

use super::*;

const GRAPH: GraphId = GraphId(50);
const BODIES: [GraphId; 2] = [GraphId(60), GraphId(61)];

fn edge(from: u32) -> GraphEdge {
    GraphEdge { from, port: 0, kind: 0 }
}

fn fill(value: u32) -> GraphFill {
    GraphFill { at: DevicePtr(BASE), pitch: 0, element: 4, value, width: 4, height: 1 }
}

/// A graph that fills, then does nothing.
fn filled(client: &mut Client, graph: GraphId) {
    client.send(&CreateGraph { graph });
    client.send(&AddGraphFill { graph, after: Vec::new(), fill: fill(7) });
    client.send(&AddGraphEmpty { graph, after: vec![edge(0)] });
}

#[test]
fn graph_is_filled_instantiated_launched_and_changed() {
    let mut client = Client::new();
    filled(&mut client, GRAPH);
    client.ok(&InstantiateGraph { graph: GRAPH, flags: 0 });
    client.send(&LaunchGraph { graph: GRAPH, stream: StreamId(0) });
    client.send(&SetGraphFill { graph: GRAPH, node: 0, fill: fill(8) });
    client.send(&LaunchGraph { graph: GRAPH, stream: StreamId(0) });
    client.ok(&SynchronizeContext {});
    let launches = client.device.graph_launches();
    assert_eq!(launches.len(), 2);
    assert!(launches[0][0].ends_with("with 7 after []") && launches[0][1] == "nothing after [0]", "{launches:?}");
    assert!(launches[1][0].ends_with("with 8"), "{launches:?}");
    client.send(&DestroyGraph { graph: GRAPH });
    client.ok(&SynchronizeContext {});
}

#[test]
fn node_of_an_unknown_kernel_fails_the_graph_and_no_other_call() {
    let mut client = Client::new();
    find_kernel(&mut client);
    client.send(&UnloadLibrary { library: LibraryId(1) });
    client.send(&CreateGraph { graph: GRAPH });
    let node = AddGraphKernel { graph: GRAPH, kernel: KernelId(2), parameters: &[0; 8], ..AddGraphKernel::default() };
    client.send(&node);
    let (status, earlier, _) = client.call(&MemoryInfo {});
    assert_eq!((status, earlier), (0, 0));
    assert_eq!(client.call(&InstantiateGraph { graph: GRAPH, flags: 0 }).0, 400);
}

#[test]
fn node_with_an_attribute_that_no_session_has_fails_the_graph() {
    let mut client = Client::new();
    find_kernel(&mut client);
    client.send(&CreateGraph { graph: GRAPH });
    // CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE.
    let attributes = vec![LaunchAttribute { id: 13, value: &[1; 16] }];
    let (graph, kernel) = (GRAPH, KernelId(2));
    client.send(&AddGraphKernel { graph, kernel, parameters: &[0; 8], attributes, ..AddGraphKernel::default() });
    // The node has its number, as the client believes.
    client.send(&AddGraphEmpty { graph, after: vec![edge(0)] });
    let (status, earlier, _) = client.call(&MemoryInfo {});
    assert_eq!((status, earlier), (0, 0));
    assert_eq!(client.call(&InstantiateGraph { graph, flags: 0 }).0, floe_abi::CudaError::NOT_SUPPORTED.code());
}

#[test]
fn update_by_another_shape_is_refused_and_leaves_the_graph() {
    let mut client = Client::new();
    filled(&mut client, GRAPH);
    client.ok(&InstantiateGraph { graph: GRAPH, flags: 0 });
    client.send(&CreateGraph { graph: GraphId(51) });
    assert_eq!(client.call(&UpdateGraph { graph: GRAPH, new: GraphId(51) }).0, 910);
    filled(&mut client, GraphId(52));
    client.ok(&UpdateGraph { graph: GRAPH, new: GraphId(52) });
    client.send(&LaunchGraph { graph: GRAPH, stream: StreamId(0) });
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.graph_launches().len(), 1);
}

#[test]
fn numbers_of_nodes_and_graphs_are_not_believed() {
    let prepared = || {
        let mut client = Client::new();
        filled(&mut client, GRAPH);
        client
    };
    let later = AddGraphEmpty { graph: GRAPH, after: vec![edge(2)] };
    assert!(prepared().break_with(&later).ends_with("no node of a graph has the number: 2"));
    let early = LaunchGraph { graph: GRAPH, stream: StreamId(0) };
    assert!(prepared().break_with(&early).ends_with("a graph is used that is not instantiated"));
    let flags = InstantiateGraph { graph: GRAPH, flags: 2 };
    assert!(prepared().break_with(&flags).ends_with("unknown flags of an instantiation: 0x2"));
    let mut client = prepared();
    client.ok(&InstantiateGraph { graph: GRAPH, flags: 0 });
    let node = SetGraphFill { graph: GRAPH, node: 9, fill: fill(1) };
    assert!(client.break_with(&node).ends_with("no node of a graph has the number: 9"));
    assert!(prepared().break_with(&DestroyGraph { graph: GraphId(99) }).ends_with("no graph has the id: 99"));
}

#[test]
fn the_drivers_handle_is_told_of_graphs_that_kernels_launch_only() {
    for (flags, is_told) in [(0, false), (8, false), (4, true), (12, true)] {
        let mut client = Client::new();
        filled(&mut client, GRAPH);
        let body = client.ok(&InstantiateGraph { graph: GRAPH, flags });
        let handle = InstantiateGraph::decode_reply(&body).unwrap().handle;
        assert_eq!(handle != 0, is_told, "{flags}");
    }
}

/// A handle of a graph that was made.
fn handle(client: &mut Client, graph: GraphId) -> u64 {
    let body = client.ok(&CreateGraphCondition { graph, value: 1, flags: 1 });
    CreateGraphCondition::decode_reply(&body).unwrap().handle
}

fn node(graph: GraphId, handle: u64, bodies: &[GraphId]) -> AddGraphConditional {
    AddGraphConditional { graph, after: Vec::new(), handle, kind: 0, bodies: bodies.to_vec() }
}

/// A graph with an if and an else, whose bodies are filled.
fn deciding(client: &mut Client) {
    client.send(&CreateGraph { graph: GRAPH });
    let handle = handle(client, GRAPH);
    client.send(&node(GRAPH, handle, &BODIES));
    client.send(&AddGraphFill { graph: BODIES[0], after: Vec::new(), fill: fill(7) });
    client.send(&AddGraphEmpty { graph: BODIES[0], after: vec![edge(0)] });
    client.send(&AddGraphFill { graph: BODIES[1], after: Vec::new(), fill: fill(8) });
}

#[test]
fn bodies_are_filled_changed_and_gone_with_their_graph() {
    let mut client = Client::new();
    deciding(&mut client);
    client.ok(&InstantiateGraph { graph: GRAPH, flags: 0 });
    client.send(&LaunchGraph { graph: GRAPH, stream: StreamId(0) });
    client.send(&SetGraphFill { graph: BODIES[1], node: 0, fill: fill(9) });
    client.send(&EnableGraphNode { graph: BODIES[0], node: 0, enabled: false });
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.graph_launches()[0], ["branch 0 of 2 after []"]);
    client.send(&DestroyGraph { graph: GRAPH });
    client.ok(&SynchronizeContext {});
    // The ids of the bodies are free again.
    client.send(&CreateGraph { graph: BODIES[0] });
    client.ok(&InstantiateGraph { graph: BODIES[0], flags: 0 });
}

#[test]
fn handles_that_the_client_was_not_told_end_the_session() {
    let prepared = || {
        let mut client = Client::new();
        client.send(&CreateGraph { graph: GRAPH });
        let handle = handle(&mut client, GRAPH);
        (client, handle)
    };
    let (client, handle) = prepared();
    let forged = node(GRAPH, handle + 1, &BODIES);
    assert!(client.break_with(&forged).contains("no conditional handle of the graph is free: "));
    let (mut client, handle) = prepared();
    client.send(&node(GRAPH, handle, &BODIES));
    let again = node(GRAPH, handle, &[GraphId(70)]);
    assert!(client.break_with(&again).contains("no conditional handle of the graph is free: "));
    let (mut client, handle) = prepared();
    client.send(&CreateGraph { graph: GraphId(51) });
    let foreign = node(GraphId(51), handle, &BODIES);
    assert!(client.break_with(&foreign).contains("no conditional handle of the graph is free: "));
    let (client, _) = prepared();
    let flags = CreateGraphCondition { graph: GRAPH, value: 0, flags: 2 };
    assert!(client.break_with(&flags).ends_with("unknown flags of a conditional handle: 0x2"));
}

#[test]
fn nodes_that_no_client_sends_end_the_session() {
    let broken = |change: &dyn Fn(&mut AddGraphConditional)| {
        let mut client = Client::new();
        client.send(&CreateGraph { graph: GRAPH });
        let handle = handle(&mut client, GRAPH);
        let mut message = node(GRAPH, handle, &BODIES);
        change(&mut message);
        client.break_with(&message)
    };
    let words = "a conditional node that no client of ours sends";
    assert!(broken(&|node| node.bodies.clear()).ends_with(words));
    assert!(broken(&|node| node.kind = 3).ends_with(words));
    assert!(broken(&|node| node.bodies.push(BODIES[0])).ends_with(words));
    assert!(broken(&|node| node.bodies = (100..4197).map(GraphId).collect()).ends_with(words));
    assert!(broken(&|node| node.after.push(edge(0))).ends_with("no node of a graph has the number: 0"));
    assert!(broken(&|node| node.bodies[1] = GRAPH).contains("50"));
    assert!(broken(&|node| node.bodies[1] = GraphId(0)).contains('0'));
}

#[test]
fn bodies_are_no_graphs_of_their_own() {
    let broken = |message: &dyn Fn(Client) -> String| {
        let mut client = Client::new();
        deciding(&mut client);
        message(client)
    };
    let words = "a body of a conditional node is used as a graph of its own";
    let [body, _] = BODIES;
    assert!(broken(&|client| client.break_with(&InstantiateGraph { graph: body, flags: 0 })).ends_with(words));
    assert!(broken(&|client| client.break_with(&DestroyGraph { graph: body })).ends_with(words));
    let handle = CreateGraphCondition { graph: body, value: 0, flags: 0 };
    assert!(broken(&|client| client.break_with(&handle)).ends_with(words));
    let write = AddGraphWords { graph: body, after: Vec::new(), operations: Vec::new() };
    assert!(broken(&|client| client.break_with(&write)).ends_with(words));
    let launch = LaunchGraph { graph: body, stream: StreamId(0) };
    assert!(broken(&|client| client.break_with(&launch)).ends_with("a graph is used that is not instantiated"));
    let instantiated = |message: &dyn Fn(Client) -> String| {
        broken(&|mut client| {
            client.ok(&InstantiateGraph { graph: GRAPH, flags: 0 });
            message(client)
        })
    };
    let late = AddGraphEmpty { graph: body, after: Vec::new() };
    assert!(instantiated(&|client| client.break_with(&late)).ends_with("a node for a graph that takes none"));
    let update = UpdateGraph { graph: GRAPH, new: body };
    assert!(instantiated(&|client| client.break_with(&update)).contains("is updated as a whole"));
    let late = CreateGraphCondition { graph: GRAPH, value: 0, flags: 0 };
    assert!(instantiated(&|client| client.break_with(&late)).contains("a conditional handle for a graph"));
}

#[test]
fn conditional_nodes_within_one_another_have_an_end() {
    let mut client = Client::new();
    client.send(&CreateGraph { graph: GRAPH });
    let handles: Vec<u64> = (0..66).map(|_| handle(&mut client, GRAPH)).collect();
    let graphs: Vec<GraphId> = std::iter::once(GRAPH).chain((100..166).map(GraphId)).collect();
    for depth in 0..65 {
        client.send(&node(graphs[depth], handles[depth], &[graphs[depth + 1]]));
    }
    let last = node(graphs[65], handles[65], &[graphs[66]]);
    assert!(client.break_with(&last).ends_with("a node for a graph that takes none"));
}

#[test]
fn failure_of_a_body_fails_the_graph_and_no_other_call() {
    let mut client = Client::new();
    deciding(&mut client);
    find_kernel(&mut client);
    client.send(&UnloadLibrary { library: LibraryId(1) });
    let gone =
        AddGraphKernel { graph: BODIES[1], kernel: KernelId(2), parameters: &[0; 8], ..AddGraphKernel::default() };
    client.send(&gone);
    assert_eq!(client.call(&InstantiateGraph { graph: GRAPH, flags: 0 }).0, 400);
    client.ok(&MemoryInfo {});
}
