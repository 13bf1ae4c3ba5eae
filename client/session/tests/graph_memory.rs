//! Memory of graphs: the server's view of it, and the source of its addresses. Nodes that allocate and free are empty
//! there. The memory is of the session's blocks, set aside with the node and returned when nobody needs it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::undocumented_unsafe_blocks,
    reason = "a test may fail; C's rules are kept"
)]

mod scripted;

use std::ptr::null_mut;

use floe_abi::{CudaError, CudaResult, Device, DevicePtr, Graph, GraphExec, GraphNode, MemAllocNodeParams, Stream};
use floe_session::Client;
use floe_surface::marshal::{graph as graphs, graph_memory as memory, stream as streams};
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

const AUTO_FREE: u64 = 1;

fn capture(client: &'static Client, stream: Stream, work: impl FnOnce()) -> Graph {
    let mut graph = Graph::NULL;
    unsafe { streams::cuStreamBeginCapture_v2(client, Stream::LEGACY, stream, 0) }.unwrap();
    work();
    unsafe { streams::cuStreamEndCapture(client, Stream::LEGACY, stream, &raw mut graph) }.unwrap();
    graph
}

fn instantiate(client: &'static Client, graph: Graph, flags: u64) -> CudaResult<GraphExec> {
    let mut exec = GraphExec::NULL;
    unsafe { graphs::cuGraphInstantiateWithFlags(client, &raw mut exec, graph, flags) }.map(|()| exec)
}

fn replay(client: &'static Client, exec: GraphExec, stream: Stream) -> CudaResult<()> {
    unsafe { graphs::cuGraphLaunch(client, Stream::LEGACY, exec, stream) }
}

fn end(client: &'static Client, graph: Graph, exec: GraphExec) {
    unsafe { graphs::cuGraphExecDestroy(client, exec) }.unwrap();
    unsafe { graphs::cuGraphDestroy(client, graph) }.unwrap();
}

/// Used and reserved bytes.
fn meter(client: &'static Client) -> (u64, u64) {
    let ask = |attribute| {
        let mut value = u64::MAX;
        unsafe { memory::cuDeviceGetGraphMemAttribute(client, Device(0), attribute, (&raw mut value).cast()) }.unwrap();
        value
    };
    (ask(0), ask(2))
}

fn names_of_graph(server: &Server) -> Vec<&'static str> {
    server.names().into_iter().filter(|name| name.contains("Graph")).collect()
}

#[test]
fn captured_allocations_are_empty_nodes_at_the_server_and_replays_stay_one_post() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let stream = client.stream_create(1).unwrap();
    let mut at = [DevicePtr::NULL; 2];
    let graph = capture(client, stream, || {
        for at in &mut at {
            *at = client.mem_alloc_async(4096, stream).unwrap();
            client.memset_d8_async(*at, 7, 4096, stream).unwrap();
            client.mem_free_async(*at, stream).unwrap();
        }
    });
    // The second comes after the free of the first.
    assert_eq!(at[0], at[1]);
    let exec = instantiate(client, graph, 0).unwrap();
    let nodes = ["AddGraphEmpty", "AddGraphFill", "AddGraphEmpty"];
    let expected = [&["CreateGraph"], &nodes[..], &nodes[..], &["InstantiateGraph"]].concat();
    assert_eq!(names_of_graph(&server), expected);
    replay(client, exec, stream).unwrap();
    replay(client, exec, stream).unwrap();
    server.wait_for("LaunchGraph", 2);
    assert_eq!(server.count("CreateBlock"), 1);
    assert_eq!(client.mem_free_async(at[0], stream), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_free(at[0]), Err(CudaError::INVALID_VALUE));
}

#[test]
fn what_a_launch_leaves_is_freed_by_the_program_and_never_given_to_others_while_the_graph_exists() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let stream = client.stream_create(1).unwrap();
    let mut at = DevicePtr::NULL;
    let graph = capture(client, stream, || at = client.mem_alloc_async(5000, stream).unwrap());
    assert_eq!(meter(client), (0, 5120));
    let exec = instantiate(client, graph, 0).unwrap();
    assert_eq!(client.mem_free(at), Err(CudaError::INVALID_VALUE));
    replay(client, exec, stream).unwrap();
    assert_eq!(replay(client, exec, stream), Err(CudaError::INVALID_VALUE));
    client.mem_free_async(at, stream).unwrap();
    assert_ne!(client.mem_alloc_async(5000, stream).unwrap(), at);
    replay(client, exec, stream).unwrap();
    assert_eq!(meter(client), (5120, 5120));
    end(client, graph, exec);
    assert_eq!(meter(client), (5120, 5120));
    client.mem_free(at).unwrap();
    assert_eq!(meter(client), (0, 0));
    assert_eq!(client.mem_free(at), Err(CudaError::INVALID_VALUE));
    client.stream_synchronize(stream).unwrap();
    assert_eq!(client.mem_alloc_async(5000, stream).unwrap(), at);
}

#[test]
fn memory_of_a_graph_that_is_gone_waits_for_the_graphs_work() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (stream, other) = (client.stream_create(1).unwrap(), client.stream_create(1).unwrap());
    let mut at = DevicePtr::NULL;
    let graph = capture(client, stream, || {
        at = client.mem_alloc_async(4096, stream).unwrap();
        client.memset_d8_async(at, 7, 4096, stream).unwrap();
    });
    let exec = instantiate(client, graph, AUTO_FREE).unwrap();
    replay(client, exec, stream).unwrap();
    replay(client, exec, stream).unwrap();
    client.mem_free_async(at, other).unwrap();
    end(client, graph, exec);
    assert_ne!(client.mem_alloc(4096).unwrap(), at);
    client.ctx_synchronize().unwrap();
    assert_eq!(client.mem_alloc(4096).unwrap(), at);
}

#[test]
fn memory_of_graphs_counts_in_the_quota_and_a_trim_gives_unused_blocks_back() {
    let server = Server::start(Options { memory: 64 << 20, ..Options::default() });
    let client = client(&server);
    let stream = client.stream_create(1).unwrap();
    let large = 40 << 20;
    let graph = capture(client, stream, || {
        let at = client.mem_alloc_async(large, stream).unwrap();
        assert_eq!(client.mem_alloc_async(large, stream), Err(CudaError::OUT_OF_MEMORY));
        client.mem_free_async(at, stream).unwrap();
        assert_eq!(client.mem_alloc_async(large, stream), Ok(at));
        client.mem_free_async(at, stream).unwrap();
    });
    assert_eq!(client.mem_alloc(large), Err(CudaError::OUT_OF_MEMORY));
    client.device_graph_mem_trim(Device(0)).unwrap();
    assert_eq!(server.count("ReleaseBlock"), 0);
    unsafe { graphs::cuGraphDestroy(client, graph) }.unwrap();
    assert_eq!(meter(client), (0, 0));
    client.device_graph_mem_trim(Device(0)).unwrap();
    client.ctx_synchronize().unwrap();
    server.wait_for("ReleaseBlock", 1);
    assert_eq!(client.device_graph_mem_trim(Device(7)), Err(CudaError::INVALID_DEVICE));
}

#[test]
fn a_graph_whose_memory_went_with_a_reset_is_not_launched() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let stream = client.stream_create(1).unwrap();
    let mut at = DevicePtr::NULL;
    let graph = capture(client, stream, || at = client.mem_alloc_async(4096, stream).unwrap());
    client.device_primary_ctx_reset(Device(0)).unwrap();
    assert_eq!(client.mem_alloc(4096), Ok(at));
    let exec = instantiate(client, graph, 0).unwrap();
    let stream = client.stream_create(1).unwrap();
    assert_eq!(replay(client, exec, stream), Err(CudaError::INVALID_VALUE));
    client.mem_free(at).unwrap();
}

#[test]
fn an_explicit_allocation_node_tells_its_address_and_orders_host_work_between_device_work() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let stream = client.stream_create(1).unwrap();
    let (mut graph, mut node, mut copied, mut freed) = (Graph::NULL, GraphNode::NULL, GraphNode::NULL, GraphNode::NULL);
    let mut params = MemAllocNodeParams { bytes: 64, ..MemAllocNodeParams::default() };
    (params.pool.kind, params.pool.location.kind) = (1, 1);
    let bytes = [5_u8; 64];
    unsafe {
        graphs::cuGraphCreate(client, &raw mut graph, 0).unwrap();
        memory::cuGraphAddMemAllocNode(client, &raw mut node, graph, null_mut(), 0, &raw mut params).unwrap();
        let copy = floe_abi::Memcpy3d {
            source_memory_type: 1,
            source_host: bytes.as_ptr() as u64,
            destination_memory_type: 2,
            destination_device: params.address.0,
            width_bytes: 64,
            height: 1,
            depth: 1,
            ..floe_abi::Memcpy3d::default()
        };
        let context = client.ctx_get_current().unwrap();
        graphs::cuGraphAddMemcpyNode(client, &raw mut copied, graph, &raw const node, 1, &raw const copy, context)
            .unwrap();
        memory::cuGraphAddMemFreeNode(client, &raw mut freed, graph, &raw const copied, 1, params.address).unwrap();
    }
    let mut told = MemAllocNodeParams::default();
    unsafe { memory::cuGraphMemAllocNodeGetParams(client, node, &raw mut told) }.unwrap();
    assert_eq!((told.address, told.bytes, told.access_count), (params.address, 64, 0));
    let exec = instantiate(client, graph, 0).unwrap();
    replay(client, exec, stream).unwrap();
    let mut back = vec![0_u8; 64];
    client.memcpy_dtoh_async(host(&mut back), params.address, stream).unwrap();
    client.stream_synchronize(stream).unwrap();
    assert_eq!(back, bytes);
    // Nothing of it is the server's but the copy, which is no node.
    assert_eq!(names_of_graph(&server), [""; 0]);
    let is_write = |seen: &Seen| matches!(seen.request(), Request::CopyToDevice(m) if m.to.0 == params.address.0);
    assert_eq!(server.seen().iter().filter(|seen| is_write(seen)).count(), 1);
}
