use super::*;
use crate::graph::capture::CaptureStream;
use crate::graph::exec::ExecFlags;
use crate::graph::store::Edge;
use crate::graph::updated;
use crate::graph::work::Work;
use floe_abi::{
    Graph, GraphExec, GraphNode, MemAccess, MemAllocNodeParams, MemLocation, MemPoolProperties, access_flags,
    allocation_type, graph_instantiate_flags, location_type,
};
use std::cell::Cell;

const DEVICE: Device = Device(0);
const STREAM: CaptureStream = CaptureStream { key: 1, context: 1, legacy: false, blocking: false };

/// Graphs over a device that gives each piece of memory an address of its own.
struct Bench {
    graphs: Graphs,
    given: Cell<u64>,
    /// Ranges that the device has lost so far: it reuses addresses, but not serials.
    resets: Cell<u64>,
}

fn location(id: i32) -> MemLocation {
    MemLocation { kind: location_type::DEVICE, id }
}

fn asked(bytes: usize) -> MemAllocNodeParams {
    let pool =
        MemPoolProperties { kind: allocation_type::PINNED, location: location(0), ..MemPoolProperties::default() };
    MemAllocNodeParams { pool, bytes, ..MemAllocNodeParams::default() }
}

impl Bench {
    fn new() -> Self {
        Self { graphs: Graphs::default(), given: Cell::new(0), resets: Cell::new(0) }
    }

    fn alloc_on(&self, target: Target<'_>, bytes: usize) -> CudaResult<(GraphNode, DevicePtr)> {
        self.graphs.add_alloc(target, wish(&asked(bytes), &[])?, |device, bytes| {
            let place = self.given.get() + 1;
            self.given.set(place);
            Ok(Reserved { device, address: DevicePtr(place << 32), bytes, serial: self.resets.get() * 1000 + place })
        })
    }

    fn alloc(&self, graph: Graph, after: &[GraphNode], bytes: usize) -> (GraphNode, DevicePtr) {
        let after: Vec<Edge> = after.iter().copied().map(Edge::whole).collect();
        self.alloc_on(Target::Graph(graph, &after), bytes).expect("a node that allocates")
    }

    fn free(&self, graph: Graph, after: &[GraphNode], at: DevicePtr) -> CudaResult<GraphNode> {
        let after: Vec<Edge> = after.iter().copied().map(Edge::whole).collect();
        self.graphs.add_free(Target::Graph(graph, &after), at)
    }

    fn instantiate(&self, graph: Graph, flags: u32) -> CudaResult<GraphExec> {
        let plan = self.graphs.plan(graph)?;
        let (exec, effects) = self.graphs.name_exec(graph, &plan)?;
        self.graphs.keep_exec((exec, None), graph, plan, ExecFlags::new(u64::from(flags))?, effects)?;
        Ok(exec)
    }

    /// Updates an instantiated graph by another graph.
    fn update(&self, exec: GraphExec, graph: Graph) -> CudaResult<()> {
        let (kept, plan) = (self.graphs.exec(exec)?, self.graphs.plan(graph)?);
        let effects = self.graphs.effects_of_update(exec, graph, &plan)?;
        let next = updated(&kept.plan(), &plan).map_err(|_| CudaError::GRAPH_EXEC_UPDATE_FAILURE)?;
        *kept.plan() = next;
        self.graphs.adopt(exec, &kept, graph, effects)
    }

    fn launch(&self, exec: GraphExec) -> CudaResult<usize> {
        let exec = self.graphs.exec(exec)?;
        self.graphs.check_launch(&exec)?;
        self.graphs.launched(&exec);
        Ok(exec.effects().memory().len())
    }

    /// Frees outside of graphs, by an implementation that still has what was reserved there.
    fn free_outside(&self, at: DevicePtr) -> CudaResult<bool> {
        self.graphs.free(at, at.0 >> 32)
    }

    /// Addresses that the implementation gets back.
    fn over(&self) -> Vec<DevicePtr> {
        std::mem::take(&mut self.graphs.lock().memory.over).into_iter().map(|memory| memory.address).collect()
    }

    /// Used now and at most, reserved now and at most.
    fn meter(&self) -> [u64; 4] {
        [ask::USED_MEM_CURRENT, ask::USED_MEM_HIGH, ask::RESERVED_MEM_CURRENT, ask::RESERVED_MEM_HIGH]
            .map(|attribute| self.graphs.memory_attribute(DEVICE, attribute).expect("an attribute"))
    }
}

#[test]
fn an_allocation_freed_in_its_graph_can_be_launched_again_and_again() {
    let bench = Bench::new();
    let graph = bench.graphs.create();
    let (node, at) = bench.alloc(graph, &[], 1000);
    bench.free(graph, &[node], at).expect("a free");
    let exec = bench.instantiate(graph, 0).expect("an instantiated graph");
    for _ in 0..3 {
        assert_eq!(bench.launch(exec), Ok(1));
    }
    assert_eq!(bench.free_outside(at), Err(CudaError::INVALID_VALUE));
}

#[test]
fn a_graph_launches_again_only_after_its_remaining_allocation_is_freed() {
    let bench = Bench::new();
    let graph = bench.graphs.create();
    let (_, at) = bench.alloc(graph, &[], 512);
    let exec = bench.instantiate(graph, 0).expect("an instantiated graph");
    assert_eq!(bench.free_outside(at), Err(CudaError::INVALID_VALUE));
    assert_eq!(bench.launch(exec), Ok(1));
    assert_eq!(bench.launch(exec), Err(CudaError::INVALID_VALUE));
    assert_eq!(bench.free_outside(at), Ok(true));
    assert_eq!(bench.free_outside(at), Err(CudaError::INVALID_VALUE));
    assert_eq!(bench.launch(exec), Ok(1));
}

#[test]
fn auto_free_frees_allocations_of_the_launch_before() {
    let bench = Bench::new();
    let graph = bench.graphs.create();
    let (_, at) = bench.alloc(graph, &[], 512);
    let exec = bench.instantiate(graph, graph_instantiate_flags::AUTO_FREE_ON_LAUNCH).expect("an instantiated graph");
    assert_eq!([bench.launch(exec), bench.launch(exec), bench.launch(exec)], [Ok(1); 3]);
    assert_eq!(bench.free_outside(at), Ok(true));
}

#[test]
fn another_graph_frees_once_for_each_launch_that_allocated() {
    let bench = Bench::new();
    let (makes, frees) = (bench.graphs.create(), bench.graphs.create());
    let (_, at) = bench.alloc(makes, &[], 512);
    bench.free(frees, &[], at).expect("a free");
    let makes = bench.instantiate(makes, 0).expect("an instantiated graph");
    let frees = bench.instantiate(frees, 0).expect("an instantiated graph");
    assert_eq!(bench.launch(frees), Err(CudaError::INVALID_VALUE));
    for _ in 0..2 {
        assert_eq!(bench.launch(makes), Ok(1));
        assert_eq!(bench.launch(frees), Ok(0));
        assert_eq!(bench.launch(frees), Err(CudaError::INVALID_VALUE));
    }
}

#[test]
fn an_allocation_is_freed_once_in_a_graph_and_by_its_own_graph_or_others() {
    let bench = Bench::new();
    let (own, other, third) = (bench.graphs.create(), bench.graphs.create(), bench.graphs.create());
    let (node, freed_inside) = bench.alloc(own, &[], 512);
    let (_, freed_outside) = bench.alloc(own, &[], 512);
    bench.free(own, &[node], freed_inside).expect("a free");
    bench.free(other, &[], freed_outside).expect("a free");
    for (graph, at) in [
        (own, freed_inside),
        (other, freed_inside),
        (own, freed_outside),
        (other, freed_outside),
        (other, DevicePtr(64)),
        (other, DevicePtr(freed_outside.0 + 512)),
    ] {
        assert_eq!(bench.free(graph, &[], at), Err(CudaError::INVALID_VALUE), "{graph:?} {at:?}");
    }
    bench.free(third, &[], freed_outside).expect("a third graph frees too");
    bench.graphs.destroy(other).expect("a graph");
    bench.graphs.destroy(third).expect("a graph");
    bench.free(own, &[], freed_outside).expect("its own graph frees when no other does");
}

#[test]
fn a_graph_uses_a_freed_range_again_only_behind_the_free() {
    let bench = Bench::new();
    let graph = bench.graphs.create();
    let (first, at) = bench.alloc(graph, &[], 4096);
    let freed = bench.free(graph, &[first], at).expect("a free");
    let (_, beside) = bench.alloc(graph, &[first], 4096);
    assert_ne!(beside, at);
    let between = bench.graphs.add(graph, &[Edge::whole(freed)], Work::Empty).expect("a node");
    let (second, again) = bench.alloc(graph, &[between], 3000);
    assert_eq!(again, at);
    // It is in use, and what is free of it later is too large for very little.
    let (_, third) = bench.alloc(graph, &[second], 4096);
    assert_ne!(third, at);
    let freed = bench.free(graph, &[second], again).expect("a free");
    assert_ne!(bench.alloc(graph, &[freed], 512).1, at);
    assert_eq!(bench.alloc(graph, &[freed], 4096).1, at);
    assert_eq!(bench.given.get(), 4);
    assert_eq!(bench.free(bench.graphs.create(), &[], at).map(drop), Ok(()));
}

#[test]
fn the_smallest_range_that_fits_is_used_again() {
    let bench = Bench::new();
    let graph = bench.graphs.create();
    let (first, large) = bench.alloc(graph, &[], 8192);
    let (second, small) = bench.alloc(graph, &[first], 6144);
    let freed = bench.free(graph, &[second], large).expect("a free");
    let freed = bench.free(graph, &[freed], small).expect("a free");
    assert_eq!(bench.alloc(graph, &[freed], 6000).1, small);
}

#[test]
fn memory_goes_back_when_graph_instantiated_graph_and_allocation_are_gone() {
    let bench = Bench::new();
    let graph = bench.graphs.create();
    let (_, left) = bench.alloc(graph, &[], 512);
    let (node, freed) = bench.alloc(graph, &[], 1024);
    bench.free(graph, &[node], freed).expect("a free");
    let exec = bench.instantiate(graph, 0).expect("an instantiated graph");
    bench.launch(exec).expect("a launch");
    bench.graphs.destroy(graph).expect("a graph");
    assert_eq!(bench.over(), []);
    bench.graphs.drop_exec(exec).expect("an instantiated graph");
    assert_eq!(bench.over(), [freed]);
    assert_eq!(bench.free_outside(left), Ok(true));
    assert_eq!(bench.over(), [left]);
    assert_eq!(bench.free_outside(left), Ok(false));
}

#[test]
fn a_device_counts_reserved_bytes_from_the_node_and_used_bytes_from_the_instantiation() {
    let bench = Bench::new();
    let graph = bench.graphs.create();
    let (_, at) = bench.alloc(graph, &[], 1000);
    assert_eq!(bench.meter(), [0, 0, 1024, 1024]);
    let exec = bench.instantiate(graph, 0).expect("an instantiated graph");
    bench.launch(exec).expect("a launch");
    assert_eq!(bench.meter(), [1024, 1024, 1024, 1024]);
    bench.graphs.drop_exec(exec).expect("an instantiated graph");
    bench.graphs.destroy(graph).expect("a graph");
    assert_eq!(bench.meter(), [1024, 1024, 1024, 1024]);
    bench.free_outside(at).expect("it lives");
    assert_eq!(bench.meter(), [0, 1024, 0, 1024]);
    let set = |attribute, value| bench.graphs.set_memory_attribute(DEVICE, attribute, value);
    assert_eq!(set(ask::USED_MEM_HIGH, 1), Err(CudaError::INVALID_VALUE));
    assert_eq!(set(ask::USED_MEM_CURRENT, 0), Err(CudaError::INVALID_VALUE));
    set(ask::USED_MEM_HIGH, 0).expect("a reset");
    assert_eq!(bench.meter(), [0, 0, 0, 1024]);
    assert_eq!(bench.graphs.memory_attribute(DEVICE, 9), Err(CudaError::INVALID_VALUE));
}

#[test]
fn a_graph_with_memory_is_one_of_its_kind_and_stays_as_it_is() {
    let bench = Bench::new();
    let graphs = &bench.graphs;
    let (graph, parent) = (graphs.create(), graphs.create());
    let (node, at) = bench.alloc(graph, &[], 512);
    let last = bench.free(graph, &[node], at).expect("a free");
    let refused = Err(CudaError::NOT_SUPPORTED);
    assert_eq!(graphs.clone_graph(graph).map(drop), refused);
    assert_eq!(graphs.destroy_node(last), refused);
    assert_eq!(graphs.remove_dependencies(graph, &[(last, Edge::whole(node))]), refused);
    assert_eq!(graphs.add_child(parent, &[], graph, 0).map(drop), refused);
    assert_eq!(graphs.nodes(parent), Ok(Vec::new()));
    let exec = bench.instantiate(graph, 0).expect("an instantiated graph");
    assert_eq!(bench.instantiate(graph, 0).map(drop), refused);
    assert_eq!(graphs.add_child(parent, &[], graph, 1).map(drop), refused);
    graphs.drop_exec(exec).expect("an instantiated graph");
    bench.instantiate(graph, 0).expect("an instantiated graph");
}

#[test]
fn a_graph_with_memory_that_moves_into_another_allocates_for_that() {
    let bench = Bench::new();
    let graphs = &bench.graphs;
    let (graph, parent) = (graphs.create(), graphs.create());
    let (_, at) = bench.alloc(graph, &[], 512);
    graphs.add_child(parent, &[], graph, 1).expect("a child");
    assert_eq!(bench.alloc_on(Target::Graph(graph, &[]), 512), Err(CudaError::NOT_SUPPORTED));
    assert_eq!(bench.instantiate(graph, 0).map(drop), Err(CudaError::NOT_SUPPORTED));
    assert_eq!(graphs.clone_graph(parent).map(drop), Err(CudaError::NOT_SUPPORTED));
    let exec = bench.instantiate(parent, 0).expect("an instantiated graph");
    assert_eq!(bench.launch(exec), Ok(1));
    assert_eq!(bench.free_outside(at), Ok(true));
    graphs.destroy(parent).expect("a graph");
    graphs.drop_exec(exec).expect("an instantiated graph");
    assert_eq!(bench.over(), [at]);
}

#[test]
fn an_update_gives_the_instantiated_graph_the_allocations_of_the_other_graph() {
    let bench = Bench::new();
    let (graph, twin) = (bench.graphs.create(), bench.graphs.create());
    let ((_, own), (_, other)) = (bench.alloc(graph, &[], 512), bench.alloc(twin, &[], 1024));
    let exec = bench.instantiate(graph, 0).expect("an instantiated graph");
    bench.launch(exec).expect("a launch");
    bench.update(exec, graph).expect("an update by its own graph");
    bench.update(exec, twin).expect("an update");
    // The allocation of its own still lives, and does not keep it from being launched.
    assert_eq!(bench.launch(exec), Ok(1));
    assert_eq!(bench.launch(exec), Err(CudaError::INVALID_VALUE));
    assert_eq!([bench.free_outside(own), bench.free_outside(other)], [Ok(true), Ok(true)]);
    assert_eq!(bench.meter(), [1024, 1536, 1536, 1536]);
    // Each graph is one instantiated graph's at a time.
    assert_eq!(bench.instantiate(twin, 0), Err(CudaError::NOT_SUPPORTED));
    let second = bench.instantiate(graph, 0).expect("its first graph is free again");
    assert_eq!(bench.update(exec, graph), Err(CudaError::NOT_SUPPORTED));
    bench.graphs.drop_exec(second).expect("an instantiated graph");
    bench.update(exec, graph).expect("an update back");
    bench.graphs.destroy(twin).expect("a graph");
    assert_eq!(bench.over(), [other]);
    assert_eq!(bench.launch(exec), Ok(1));
}

#[test]
fn a_captured_allocation_is_a_node_and_a_capture_given_up_gives_its_memory_back() {
    let bench = Bench::new();
    bench.graphs.begin_capture(&STREAM, 1, None).expect("a capture");
    let (node, at) = bench.alloc_on(Target::Stream(&STREAM), 512).expect("an allocation");
    bench.graphs.record_free(&STREAM, at).expect("a free");
    assert_eq!(bench.graphs.record_free(&STREAM, at), Err(CudaError::INVALID_VALUE));
    assert_eq!(bench.alloc_on(Target::Stream(&STREAM), 512).map(|(_, at)| at), Ok(at));
    let graph = bench.graphs.end_capture(&STREAM).expect("a graph");
    let kinds: Vec<u32> = bench.graphs.plan(graph).expect("a plan").nodes.iter().map(|node| node.work.kind()).collect();
    assert_eq!(kinds, [10, 11, 10]);
    assert_eq!(bench.graphs.nodes(graph).map(|nodes| nodes[0]), Ok(node));
    bench.graphs.begin_capture(&STREAM, 1, None).expect("a capture");
    let exec = bench.instantiate(graph, 0).expect("an instantiated graph");
    let kept = bench.graphs.exec(exec).expect("an instantiated graph");
    let (_, lost) = bench.alloc_on(Target::Stream(&STREAM), 512).expect("an allocation");
    let refused = Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(bench.graphs.record_plan(&STREAM, &kept.plan()), refused);
    let invalid = Err(CudaError::STREAM_CAPTURE_INVALIDATED);
    assert_eq!(bench.graphs.record(&STREAM, Work::Empty), invalid);
    assert_eq!(bench.graphs.end_capture(&STREAM), Err(CudaError::STREAM_CAPTURE_INVALIDATED));
    assert_eq!(bench.over(), [lost]);
}

#[test]
fn memory_at_an_address_that_was_lost_meanwhile_is_not_taken_for_the_graphs() {
    let bench = Bench::new();
    let graph = bench.graphs.create();
    let (_, at) = bench.alloc(graph, &[], 512);
    let exec = bench.instantiate(graph, 0).expect("an instantiated graph");
    bench.launch(exec).expect("a launch");
    assert_eq!(bench.graphs.free(at, 77), Ok(false));
    bench.given.set(0);
    bench.resets.set(1);
    let other = bench.graphs.create();
    assert_eq!(bench.alloc(other, &[], 512).1, at);
    assert_eq!(bench.launch(exec), Err(CudaError::INVALID_VALUE));
    assert_eq!(bench.meter(), [0, 512, 512, 512]);
    bench.graphs.drop_exec(exec).expect("an instantiated graph");
    bench.graphs.destroy(graph).expect("a graph");
    assert_eq!(bench.over(), []);
}

#[test]
fn wishes_that_no_device_grants_are_refused() {
    let none = MemAllocNodeParams::default();
    let shared = MemPoolProperties { handle_types: 1, ..asked(1).pool };
    let on_host = MemPoolProperties { location: MemLocation { kind: 2, id: 0 }, ..asked(1).pool };
    assert_eq!(wish(&none, &[]).map(drop), Err(CudaError::INVALID_VALUE));
    assert_eq!(wish(&asked(0), &[]).map(drop), Err(CudaError::INVALID_VALUE));
    let nowhere = MemPoolProperties { location: MemLocation { kind: 5, id: 0 }, ..asked(1).pool };
    assert_eq!(wish(&MemAllocNodeParams { pool: nowhere, ..asked(1) }, &[]).map(drop), Err(CudaError::INVALID_VALUE));
    assert_eq!(wish(&MemAllocNodeParams { pool: on_host, ..asked(1) }, &[]).map(drop), Err(CudaError::NOT_SUPPORTED));
    assert_eq!(wish(&MemAllocNodeParams { pool: shared, ..asked(1) }, &[]).map(drop), Err(CudaError::NOT_SUPPORTED));
    let access = |id, flags| [MemAccess { location: location(id), flags }];
    assert!(wish(&asked(1), &access(0, access_flags::READWRITE)).is_ok());
    let refused = [access(0, access_flags::NONE), access(1, access_flags::READWRITE)]
        .map(|access| wish(&asked(1), &access).map(drop));
    assert_eq!(refused, [Err(CudaError::INVALID_VALUE), Err(CudaError::NOT_SUPPORTED)]);
}
