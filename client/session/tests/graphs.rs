//! Captures and graphs: which messages the server gets, and when. Recording and asking tell it nothing; a launch is one
//! message; what is not device work stays on the stream, in its place.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::undocumented_unsafe_blocks,
    reason = "a test may fail; C's rules are kept"
)]

mod scripted;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use floe_abi::{
    ConditionalNodeParams, Context, CudaError, DevicePtr, Event, Function, Graph, GraphExec, GraphInstantiation,
    GraphNode, GraphNodeParams, GraphUpdate, HostPointer, Stream, host_alloc_flags,
};
use floe_session::Client;
use floe_surface::marshal::{graph as graphs, stream as streams};
use floe_surface::*;
use floe_wire::{GraphId, InstantiateGraphReply, Request};
use scripted::*;

/// A client with a kernel and a stream that can be captured.
fn prepared(server: &Server) -> (&'static Client, Function, Stream, DevicePtr) {
    let client = client(server);
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let function = client.module_get_function(module, c"add").unwrap();
    let at = client.mem_alloc(4096).unwrap();
    (client, function, client.stream_create(1).unwrap(), at)
}

fn launch(client: &Client, function: Function, stream: Stream, n: u32) {
    launch_as(client, function, [1, 1, 1], [32, 1, 1], stream, (0, 0, 0, n), false).unwrap();
}

fn begin(client: &'static Client, stream: Stream) {
    unsafe { streams::cuStreamBeginCapture_v2(client, Stream::LEGACY, stream, 1) }.unwrap();
}

fn end(client: &'static Client, stream: Stream) -> Result<Graph, CudaError> {
    let mut graph = Graph::NULL;
    unsafe { streams::cuStreamEndCapture(client, Stream::LEGACY, stream, &raw mut graph) }.map(|()| graph)
}

fn instantiate(client: &'static Client, graph: Graph) -> Result<GraphExec, CudaError> {
    let mut exec = GraphExec::NULL;
    unsafe { graphs::cuGraphInstantiateWithFlags(client, &raw mut exec, graph, 0) }.map(|()| exec)
}

fn replay(client: &'static Client, exec: GraphExec, stream: Stream) {
    counted(client, |_| unsafe { graphs::cuGraphLaunch(client, Stream::LEGACY, exec, stream) }).unwrap();
}

/// Status and number of nodes to wait for.
fn info(client: &'static Client, stream: Stream) -> (u32, usize) {
    let (mut status, mut count) = (9, 9);
    let none = std::ptr::null_mut();
    unsafe {
        streams::cuStreamGetCaptureInfo_v3(
            client,
            Stream::LEGACY,
            stream,
            &raw mut status,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            none,
            none,
            &raw mut count,
        )
    }
    .unwrap();
    (status, count)
}

/// Names of what came after the preparation, which ends with `CreateStream`.
fn since(server: &Server) -> Vec<&'static str> {
    let names = server.names();
    let start = names.iter().position(|name| *name == "CreateStream").unwrap();
    names[start + 1..].to_vec()
}

#[test]
fn a_capture_tells_the_server_nothing_and_a_replay_is_one_post() {
    let server = Server::start(Options::default());
    let (client, function, stream, at) = prepared(&server);
    assert_eq!(info(client, stream).0, 0);
    begin(client, stream);
    launch(client, function, stream, 1);
    client.memset_d32_async(at, 7, 4, stream).unwrap();
    client.memcpy_dtod_async(DevicePtr(at.0 + 64), at, 16, stream).unwrap();
    assert_eq!(info(client, stream), (1, 1));
    let graph = end(client, stream).unwrap();
    assert_eq!(info(client, stream), (0, 0));
    server.wait_for("CreateStream", 1);
    assert_eq!(since(&server), [""; 0]);

    let exec = instantiate(client, graph).unwrap();
    assert_eq!(since(&server), ["CreateGraph", "AddGraphKernel", "AddGraphFill", "AddGraphCopy", "InstantiateGraph"]);
    let before = client.statistics();
    replay(client, exec, stream);
    replay(client, exec, stream);
    server.wait_for("LaunchGraph", 2);
    assert_eq!(server.names().iter().rev().take(2).collect::<Vec<_>>(), [&"LaunchGraph", &"LaunchGraph"]);
    let after = client.statistics();
    assert_eq!(after.waited.iter().sum::<u64>(), before.waited.iter().sum::<u64>());
}

#[test]
fn no_node_of_a_graph_goes_while_it_is_captured_into_or_one_within_it() {
    let server = Server::start(Options::default());
    let (client, function, stream, _) = prepared(&server);
    let [mut child, mut outer] = [Graph::NULL; 2];
    let [mut node, mut first] = [floe_abi::GraphNode::NULL; 2];
    unsafe {
        graphs::cuGraphCreate(client, &raw mut child, 0).unwrap();
        graphs::cuGraphCreate(client, &raw mut outer, 0).unwrap();
        graphs::cuGraphAddChildGraphNode(client, &raw mut node, outer, std::ptr::null(), 0, child).unwrap();
        graphs::cuGraphChildGraphNodeGetGraph(client, node, &raw mut child).unwrap();
        let (none, edges) = (std::ptr::null(), std::ptr::null());
        streams::cuStreamBeginCaptureToGraph(client, Stream::LEGACY, stream, child, none, edges, 0, 1).unwrap();
        launch(client, function, stream, 1);
        let mut one = 1;
        graphs::cuGraphGetNodes(client, child, &raw mut first, &raw mut one).unwrap();
        for gone in [first, node] {
            assert_eq!(graphs::cuGraphDestroyNode(client, gone), Err(CudaError::ILLEGAL_STATE));
        }
        assert_eq!(graphs::cuGraphDestroy(client, outer), Err(CudaError::ILLEGAL_STATE));
        launch(client, function, stream, 2);
        assert_eq!(end(client, stream), Ok(child));
        graphs::cuGraphDestroyNode(client, first).unwrap();
        graphs::cuGraphDestroy(client, outer).unwrap();
    }
}

/// The graph that a stream is captured into, and the first node that its next one waits for.
fn captured(client: &'static Client, stream: Stream) -> (Graph, floe_abi::GraphNode) {
    let (mut status, mut count, mut graph, mut nodes) = (0, 0, Graph::NULL, 0);
    let none = std::ptr::null_mut::<u64>();
    unsafe {
        let (status, graph, nodes, count) = (&raw mut status, &raw mut graph, &raw mut nodes, &raw mut count);
        let legacy = Stream::LEGACY;
        streams::cuStreamGetCaptureInfo_v3(client, legacy, stream, status, none, graph, nodes, none, count).unwrap();
    }
    let at = std::ptr::with_exposed_provenance::<floe_abi::GraphNode>(usize::try_from(nodes).expect("64 bits"));
    let first = if count == 0 { floe_abi::GraphNode::NULL } else { unsafe { *at } };
    (graph, first)
}

/// An H200's answers (driver 580.159, 2026-11-29): only nodes that captures made have to be joined, and those that the program
/// has replaced need not.
#[test]
fn nodes_that_the_program_put_behind_a_stream_need_not_be_joined() {
    const ADD: u32 = 0;
    const SET: u32 = 1;
    let server = Server::start(Options::default());
    let (client, function, stream, _) = prepared(&server);
    let other = client.stream_create(1).unwrap();
    let fork = client.event_create(2).unwrap();
    let put = |on, node: &[floe_abi::GraphNode], how| unsafe {
        let (nodes, edges) = (node.as_ptr(), std::ptr::null());
        streams::cuStreamUpdateCaptureDependencies_v2(client, Stream::LEGACY, on, nodes, edges, node.len(), how)
            .unwrap();
    };
    let empty = |after: &[floe_abi::GraphNode]| {
        let mut node = floe_abi::GraphNode::NULL;
        let (graph, _) = captured(client, stream);
        unsafe { graphs::cuGraphAddEmptyNode(client, &raw mut node, graph, after.as_ptr(), after.len()) }.unwrap();
        node
    };
    let join = || {
        client.event_record(fork, other).unwrap();
        client.stream_wait_event(stream, fork, 0).unwrap();
    };
    let work = || {
        launch(client, function, other, 1);
        captured(client, other).1
    };
    let run = || launch(client, function, other, 1);
    let cases: [(&str, &dyn Fn(), bool); 9] = [
        ("work", &run, false),
        (
            "replaced by nothing",
            &|| {
                run();
                put(other, &[], SET);
            },
            true,
        ),
        ("its own node alone", &|| put(other, &[empty(&[])], SET), true),
        (
            "work behind its own node",
            &|| {
                put(other, &[empty(&[])], SET);
                run();
            },
            false,
        ),
        ("its own node behind work", &|| put(other, &[empty(&[work()])], SET), true),
        ("work and its own node", &|| put(other, &[work(), empty(&[])], SET), true),
        (
            "replaced by nothing, and put back",
            &|| [vec![], vec![work()]].iter().for_each(|it| put(other, it, SET)),
            true,
        ),
        ("added again", &|| put(other, &[work()], ADD), false),
        (
            "joined, and the origin's replaced",
            &|| {
                run();
                join();
                put(stream, &[], SET);
            },
            true,
        ),
    ];
    for (what, act, is_joined) in cases {
        begin(client, stream);
        launch(client, function, stream, 1);
        client.event_record(fork, stream).unwrap();
        client.stream_wait_event(other, fork, 0).unwrap();
        act();
        let ended = end(client, stream).map(drop);
        assert_eq!(ended, if is_joined { Ok(()) } else { Err(CudaError::STREAM_CAPTURE_UNJOINED) }, "{what}");
    }
}

#[test]
fn a_stream_that_has_joined_a_capture_may_go_and_its_work_is_still_joined() {
    let server = Server::start(Options::default());
    let (client, function, stream, _) = prepared(&server);
    for joins in [true, false] {
        let other = client.stream_create(1).unwrap();
        let (fork, join) = (client.event_create(2).unwrap(), client.event_create(2).unwrap());
        begin(client, stream);
        client.event_record(fork, stream).unwrap();
        client.stream_wait_event(other, fork, 0).unwrap();
        launch(client, function, other, 1);
        client.event_record(join, other).unwrap();
        client.stream_destroy(other).unwrap();
        assert_eq!(info(client, stream).0, 1, "the capture goes on");
        if joins {
            client.stream_wait_event(stream, join, 0).unwrap();
            client.event_destroy(join).unwrap();
            instantiate(client, end(client, stream).unwrap()).unwrap();
        } else {
            assert_eq!(end(client, stream), Err(CudaError::STREAM_CAPTURE_UNJOINED));
        }
    }
    assert_eq!((server.count("AddGraphKernel"), server.count("Launch")), (1, 0));
}

#[test]
fn streams_that_fork_and_join_by_events_make_one_graph_with_its_dependencies() {
    let server = Server::start(Options::default());
    let (client, function, stream, at) = prepared(&server);
    let other = client.stream_create(1).unwrap();
    let (fork, join) = (client.event_create(2).unwrap(), client.event_create(2).unwrap());
    begin(client, stream);
    launch(client, function, stream, 1);
    client.event_record(fork, stream).unwrap();
    client.stream_wait_event(other, fork, 0).unwrap();
    launch(client, function, other, 2);
    client.memset_d8_async(at, 1, 16, stream).unwrap();
    client.event_record(join, other).unwrap();
    client.stream_wait_event(stream, join, 0).unwrap();
    launch(client, function, stream, 3);
    instantiate(client, end(client, stream).unwrap()).unwrap();
    let mut dependencies = Vec::new();
    for seen in server.seen() {
        let after = match seen.request() {
            Request::AddGraphKernel(node) => node.after,
            Request::AddGraphFill(node) => node.after,
            _ => continue,
        };
        dependencies.push(after.iter().map(|edge| edge.from).collect::<Vec<_>>());
    }
    assert_eq!(dependencies, [vec![], vec![0], vec![0], vec![2, 1]]);
    assert_eq!(server.count("RecordEvent") + server.count("WaitEvent") + server.count("Launch"), 0);
}

static RAN: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn count(_: *mut c_void) {
    RAN.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn what_is_not_device_work_is_done_on_the_stream_at_every_launch() {
    let server = Server::start(Options::default());
    let (client, function, stream, at) = prepared(&server);
    let mut source = vec![1_u8; 8];
    let range = host(&mut source);
    begin(client, stream);
    client.memcpy_htod_async(at, range, stream).unwrap();
    launch(client, function, stream, 1);
    // SAFETY: the function does not use its argument.
    client.launch_host_func(stream, unsafe { HostFunction::new(count, std::ptr::null_mut()) }).unwrap();
    let exec = instantiate(client, end(client, stream).unwrap()).unwrap();
    for value in [5, 6] {
        range.write(&[value; 8]).unwrap();
        replay(client, exec, stream);
        client.stream_synchronize(stream).unwrap();
    }
    assert_eq!(RAN.load(Ordering::SeqCst), 2);
    let copied: Vec<Vec<u8>> = server
        .seen()
        .iter()
        .filter_map(|seen| match seen.request() {
            Request::CopyToDevice(copy) => Some(copy.bytes.to_vec()),
            _ => None,
        })
        .collect();
    assert_eq!(copied, [vec![5; 8], vec![6; 8]]);
    let order: Vec<_> = since(&server)
        .into_iter()
        .filter(|name| ["CopyToDevice", "LaunchGraph", "HostFunction"].contains(name))
        .collect();
    let once = ["CopyToDevice", "LaunchGraph", "HostFunction"];
    assert_eq!(order, [once, once].concat());
}

#[test]
fn what_a_step_writes_here_goes_ahead_of_the_work_behind_it() {
    let server = Server::start(Options { maps: true, ..Options::default() });
    let (client, function, stream, _) = prepared(&server);
    let [source, target, third] = [7, 9, 11].map(|byte| {
        let memory = client.mem_host_alloc(64, host_alloc_flags::DEVICEMAP).unwrap();
        pinned(memory, 64).write(&[byte; 64]).unwrap();
        memory
    });
    // SAFETY: pinned memory, which stays until the client ends.
    let whole = |memory: HostPointer| unsafe { UnifiedRange::new(DevicePtr(memory.0), 64) };
    begin(client, stream);
    // The client copies, a kernel reads, the client copies, the device fills what it copied.
    client.memcpy_async(whole(target), whole(source), stream).unwrap();
    launch(client, function, stream, 1);
    client.memcpy_async(whole(source), whole(third), stream).unwrap();
    client.memset_d8_async(DevicePtr(source.0), 3, 8, stream).unwrap();
    let exec = instantiate(client, end(client, stream).unwrap()).unwrap();
    client.mem_get_info().unwrap();
    let before = server.names().len();
    replay(client, exec, stream);
    client.ctx_synchronize().unwrap();
    let work = ["WriteMirror", "LaunchGraph", "Fill"];
    let order: Vec<_> = server.names().into_iter().skip(before).filter(|name| work.contains(name)).collect();
    // The program's last writes, and what each copy wrote.
    assert_eq!(order, ["WriteMirror", "WriteMirror", "LaunchGraph", "WriteMirror", "Fill"], "{:?}", server.names());
}

type Act = fn(&Client, Stream) -> Result<(), CudaError>;

#[test]
fn what_capture_forbids_is_refused_and_ends_in_an_error() {
    let server = Server::start(Options::default());
    let (client, function, stream, _) = prepared(&server);
    let refused: [(&str, Act, CudaError); 4] = [
        ("synchronize", |client, stream| client.stream_synchronize(stream), CudaError::STREAM_CAPTURE_UNSUPPORTED),
        ("query", |client, stream| client.stream_query(stream), CudaError::STREAM_CAPTURE_UNSUPPORTED),
        ("allocate", |client, _| client.mem_alloc(64).map(drop), CudaError::STREAM_CAPTURE_UNSUPPORTED),
        ("context", |client, _| client.ctx_synchronize(), CudaError::STREAM_CAPTURE_UNSUPPORTED),
    ];
    for (what, act, error) in refused {
        begin(client, stream);
        assert_eq!(act(client, stream), Err(error), "{what}");
        assert_eq!(info(client, stream).0, 2, "{what}");
        assert_eq!(end(client, stream), Err(CudaError::STREAM_CAPTURE_INVALIDATED), "{what}");
    }
    // An event of a capture answers nobody; a stream left behind is noticed.
    let (event, other) = (client.event_create(2).unwrap(), client.stream_create(1).unwrap());
    for ends_itself in [false, true] {
        begin(client, stream);
        client.event_record(event, stream).unwrap();
        client.stream_wait_event(other, event, 0).unwrap();
        launch(client, function, other, 1);
        let code = if ends_itself {
            assert_eq!(end(client, other), Err(CudaError::STREAM_CAPTURE_UNMATCHED));
            CudaError::STREAM_CAPTURE_INVALIDATED
        } else {
            CudaError::STREAM_CAPTURE_UNJOINED
        };
        assert_eq!(end(client, stream), Err(code));
    }
    assert_eq!(client.event_query(Event(event.0)), Err(CudaError::INVALID_VALUE));
    assert_eq!(server.count("SynchronizeStream") + server.count("Launch"), 0);
}

#[test]
fn an_update_is_a_graph_of_the_same_shape_and_a_changed_node_one_post() {
    let server = Server::start(Options::default());
    let (client, function, stream, _) = prepared(&server);
    let captured = |n: u32| {
        begin(client, stream);
        launch(client, function, stream, n);
        end(client, stream).unwrap()
    };
    let (first, second) = (captured(1), captured(2));
    let exec = instantiate(client, first).unwrap();
    let mut told = GraphUpdate::default();
    unsafe { graphs::cuGraphExecUpdate_v2(client, exec, second, &raw mut told) }.unwrap();
    assert_eq!(server.count("UpdateGraph"), 1);

    let (mut node, mut one) = (GraphNode::NULL, 1);
    unsafe { graphs::cuGraphGetNodes(client, first, &raw mut node, &raw mut one) }.unwrap();
    let mut params = floe_abi::KernelNodeParams::default();
    unsafe { graphs::cuGraphKernelNodeGetParams_v2(client, node, &raw mut params) }.unwrap();
    params.first.grid = [9, 1, 1];
    unsafe { graphs::cuGraphExecKernelNodeSetParams_v2(client, exec, node, &raw const params) }.unwrap();
    server.wait_for("SetGraphKernel", 1);
    let changed = server.seen().iter().any(|seen| match seen.request() {
        Request::SetGraphKernel(change) => change.grid_x == 9 && change.node == 0,
        _ => false,
    });
    assert!(changed);

    begin(client, stream);
    launch(client, function, stream, 1);
    launch(client, function, stream, 2);
    let longer = end(client, stream).unwrap();
    let refused = unsafe { graphs::cuGraphExecUpdate_v2(client, exec, longer, &raw mut told) };
    assert_eq!(refused, Err(CudaError::GRAPH_EXEC_UPDATE_FAILURE));
    assert_eq!(told.result, floe_abi::graph_update_result::ERROR_TOPOLOGY_CHANGED);
    unsafe { graphs::cuGraphExecDestroy(client, exec) }.unwrap();
    server.wait_for("DestroyGraph", 1);
}

fn handle_of(client: &'static Client, graph: Graph, value: u32) -> Result<u64, CudaError> {
    let mut handle = 0;
    let made =
        unsafe { graphs::cuGraphConditionalHandleCreate(client, &raw mut handle, graph, Context::NULL, value, 1) };
    made.map(|()| handle)
}

/// Adds a conditional node of one body, which it gives.
fn conditional(client: &'static Client, graph: Graph, handle: u64) -> Graph {
    let asked = ConditionalNodeParams { handle, kind: 1, size: 1, ..ConditionalNodeParams::default() };
    let mut params = GraphNodeParams { kind: 13, reserved0: [0; 3], words: [0; 29], reserved2: 0 };
    let mut node = GraphNode::NULL;
    unsafe {
        params.words.as_mut_ptr().cast::<ConditionalNodeParams>().write(asked);
        graphs::cuGraphAddNode(client, &raw mut node, graph, std::ptr::null(), 0, &raw mut params).unwrap();
        let told = params.words.as_ptr().cast::<ConditionalNodeParams>().read();
        *(told.bodies as *const Graph)
    }
}

#[test]
fn a_graph_with_handles_is_at_the_server_since_the_first_and_is_filled_once() {
    let server = Server::start(Options::default());
    let (client, function, stream, _) = prepared(&server);
    let mut graph = Graph::NULL;
    unsafe { graphs::cuGraphCreate(client, &raw mut graph, 0) }.unwrap();
    // A program's kernels get the device's own number.
    assert_eq!(handle_of(client, graph, 5), Ok(7005));
    let body = conditional(client, graph, 7005);
    assert_eq!(handle_of(client, body, 6), Ok(7006));
    let inner = conditional(client, body, 7006);
    let (none, edges) = (std::ptr::null(), std::ptr::null());
    unsafe { streams::cuStreamBeginCaptureToGraph(client, Stream::LEGACY, stream, inner, none, edges, 0, 1) }.unwrap();
    launch(client, function, stream, 1);
    assert_eq!(end(client, stream), Ok(inner));
    assert_eq!(since(&server), ["CreateGraph", "CreateGraphCondition", "CreateGraphCondition"]);

    let exec = instantiate(client, graph).unwrap();
    let sent = ["AddGraphConditional", "AddGraphConditional", "AddGraphKernel", "InstantiateGraph"];
    assert_eq!(since(&server)[3..], sent);
    let mut info = GraphUpdate::default();
    unsafe { graphs::cuGraphExecUpdate_v2(client, exec, graph, &raw mut info) }.unwrap();
    unsafe { graphs::cuGraphExecDestroy(client, exec) }.unwrap();
    assert_eq!(instantiate(client, graph), Err(CudaError::NOT_SUPPORTED));
    unsafe { graphs::cuGraphDestroy(client, graph) }.unwrap();
    server.wait_for("DestroyGraph", 1);
    assert_eq!(since(&server)[7..], ["SetGraphKernel", "DestroyGraph"]);
}

#[test]
fn a_graph_with_handles_that_is_never_instantiated_goes_with_the_programs() {
    let server = Server::start(Options::default());
    let (client, _, _, _) = prepared(&server);
    let mut graph = Graph::NULL;
    unsafe { graphs::cuGraphCreate(client, &raw mut graph, 0) }.unwrap();
    handle_of(client, graph, 5).unwrap();
    assert_eq!(instantiate(client, graph), Err(CudaError::INVALID_VALUE));
    unsafe { graphs::cuGraphDestroy(client, graph) }.unwrap();
    server.wait_for("DestroyGraph", 1);
    assert_eq!(since(&server), ["CreateGraph", "CreateGraphCondition", "DestroyGraph"]);
}

/// A server whose driver gives graphs that kernels launch the lowest number that is free, as an allocator does.
fn numbering() -> Server {
    let mut numbers: Vec<Option<GraphId>> = Vec::new();
    Server::scripted(move |request, sequence, peer| match request {
        Request::InstantiateGraph(made) => {
            let free = numbers.iter().position(Option::is_none);
            let place = free.unwrap_or_else(|| {
                numbers.push(None);
                numbers.len() - 1
            });
            numbers[place] = Some(made.graph);
            peer.reply(sequence, &InstantiateGraphReply { handle: NUMBER + 64 * place as u64 });
            Flow::Done
        }
        Request::DestroyGraph(gone) => {
            numbers.iter_mut().filter(|graph| **graph == Some(gone.graph)).for_each(|graph| *graph = None);
            Flow::Usual
        }
        Request::ResetContext(_) => {
            numbers.clear();
            Flow::Usual
        }
        _ => Flow::Usual,
    })
}

/// The first number that such a driver gives.
const NUMBER: u64 = 0x7f46_9ac7_4300;

/// A graph of the current context, instantiated for kernels, and a stream for it.
fn for_kernels(client: &'static Client) -> (Result<GraphExec, CudaError>, Stream) {
    let (graph, mut exec) = (captured_fill(client), GraphExec::NULL);
    let made = unsafe { graphs::cuGraphInstantiateWithFlags(client, &raw mut exec, graph, 4) };
    (made.map(|()| exec), client.stream_create(1).unwrap())
}

/// A graph of the current context that fills memory.
fn captured_fill(client: &'static Client) -> Graph {
    let (stream, at) = (client.stream_create(1).unwrap(), client.mem_alloc(64).unwrap());
    begin(client, stream);
    client.memset_d32_async(at, 7, 4, stream).unwrap();
    end(client, stream).unwrap()
}

#[test]
fn graphs_that_kernels_launch_differ_although_two_drivers_give_the_same_number() {
    let servers = [numbering(), numbering()];
    let client = client_with(&[&servers[0], &servers[1]], &[]);
    client.init(0).unwrap();
    let mut made = Vec::new();
    for device in [0, 1, 1, 0] {
        let context = client.device_primary_ctx_retain(floe_abi::Device(device)).unwrap();
        client.ctx_set_current(context).unwrap();
        let (exec, stream) = for_kernels(client);
        replay(client, exec.unwrap(), stream);
        made.push(exec.unwrap().0);
    }
    assert_eq!(made, [0, 1, 2, 3].map(|place| NUMBER + 64 * place));
    // Those that only held a number are gone.
    servers[1].wait_for("DestroyGraph", 2);
    servers[0].wait_for("DestroyGraph", 2);
    for (server, instantiated) in servers.iter().zip([4, 4]) {
        server.wait_for("LaunchGraph", 2);
        assert_eq!((server.count("InstantiateGraph"), server.count("DestroyGraph")), (instantiated, 2));
    }
    for exec in made {
        unsafe { graphs::cuGraphExecDestroy(client, GraphExec(exec)) }.unwrap();
    }
    servers.iter().for_each(|server| server.wait_for("DestroyGraph", 4));
}

#[test]
fn a_number_of_a_graph_that_went_with_its_context_is_given_again() {
    let server = numbering();
    let client = client(&server);
    for round in 1..4 {
        let (exec, stream) = for_kernels(client);
        assert_eq!(exec, Ok(GraphExec(NUMBER)));
        replay(client, exec.unwrap(), stream);
        assert_eq!(server.count("InstantiateGraph"), round);
        client.device_primary_ctx_reset(floe_abi::Device(0)).unwrap();
        let context = client.device_primary_ctx_retain(floe_abi::Device(0)).unwrap();
        client.ctx_set_current(context).unwrap();
    }
}

#[test]
fn a_server_that_repeats_itself_makes_no_second_graph_and_keeps_none() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::InstantiateGraph(_) => {
            peer.reply(sequence, &InstantiateGraphReply { handle: NUMBER });
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let (first, stream) = for_kernels(client);
    assert_eq!(for_kernels(client).0, Err(CudaError::UNKNOWN));
    let refused = server.count("InstantiateGraph") - 1;
    server.wait_for("DestroyGraph", refused);
    replay(client, first.unwrap(), stream);
    unsafe { graphs::cuGraphExecDestroy(client, first.unwrap()) }.unwrap();
    server.wait_for("DestroyGraph", refused + 1);
    assert!(for_kernels(client).0.is_ok(), "it is free again");
}

#[test]
fn a_graph_that_cannot_be_uploaded_is_not_kept() {
    let server = numbering();
    let client = client(&server);
    let (graph, gone) = (captured_fill(client), client.stream_create(1).unwrap());
    client.stream_destroy(gone).unwrap();
    for flags in [2, 2 | 4] {
        let mut params = GraphInstantiation { flags, upload_stream: gone, ..GraphInstantiation::default() };
        let mut exec = GraphExec::NULL;
        let none = Stream::LEGACY;
        let made = unsafe { graphs::cuGraphInstantiateWithParams(client, none, &raw mut exec, graph, &raw mut params) };
        assert!(made.is_err() && params.result != 0, "{made:?}: {}", params.result);
        assert_eq!(exec, GraphExec::NULL);
    }
    server.wait_for("DestroyGraph", 2);
    assert_eq!((server.count("InstantiateGraph"), server.count("UploadGraph")), (2, 0));
}
