//! Graphs against the device in memory: filled, launched, changed, refused.

use floe_wire::*;

use super::*;

const GRAPH: GraphId = GraphId(50);

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
    client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"kernel k 8" });
    load(&mut client, LibraryId(1), b"kernel k 8");
    client.call(&FindKernel { library: LibraryId(1), name: "k", kernel: KernelId(2) });
    client.send(&UnloadLibrary { library: LibraryId(1) });
    client.send(&CreateGraph { graph: GRAPH });
    let node = AddGraphKernel { graph: GRAPH, kernel: KernelId(2), parameters: &[0; 8], ..AddGraphKernel::default() };
    client.send(&node);
    let (status, earlier, _) = client.call(&MemoryInfo {});
    assert_eq!((status, earlier), (0, 0));
    assert_eq!(client.call(&InstantiateGraph { graph: GRAPH, flags: 0 }).0, 400);
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
    let flags = InstantiateGraph { graph: GRAPH, flags: 4 };
    assert!(prepared().break_with(&flags).ends_with("unknown flags of an instantiation: 0x4"));
    let mut client = prepared();
    client.ok(&InstantiateGraph { graph: GRAPH, flags: 0 });
    let node = SetGraphFill { graph: GRAPH, node: 9, fill: fill(1) };
    assert!(client.break_with(&node).ends_with("no node of a graph has the number: 9"));
    assert!(prepared().break_with(&DestroyGraph { graph: GraphId(99) }).ends_with("no graph has the id: 99"));
}
