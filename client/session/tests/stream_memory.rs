//! Words of memory that streams write and wait for, against a scripted server. The tests check messages and refusals,
//! and that the program's writes to host memory go out without a CUDA call while a stream waits there.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use std::time::Duration;

use floe_abi::stream_memory_operation::{BARRIER, WAIT_VALUE_32, WAIT_VALUE_64, WRITE_VALUE_32, WRITE_VALUE_64};
use floe_abi::*;
use floe_session::Client;
use floe_surface::marshal::graph as graphs;
use floe_surface::*;
use floe_wire::{Progress, Request, RunHostFunction};
use scripted::*;

/// After so long nothing comes any more, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

fn on_word(operation: u32, at: u64, value: u64, flags: u32) -> StreamMemoryOperation {
    StreamMemoryOperation::on_word(operation, DevicePtr(at), value, flags)
}

/// Threads of this process that watch host memory, of all tests.
fn watchers() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        // A thread may have ended meanwhile.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    names.filter(|name| name.trim_end() == "floe-words").count()
}

/// A server that maps host memory, and whose stream waits until a word of it is 3.
fn server_that_releases() -> Server {
    let script = |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        if let Request::WriteMirror(message) = request
            && message.runs.iter().any(|run| run.bytes == [3, 0, 0, 0])
        {
            // As far as the wait, which was posted before.
            let stream = floe_wire::StreamId(0);
            peer.sender.post(&Progress { stream, sequence: sequence - 1, status: 0 }).unwrap();
        }
        Flow::Usual
    };
    Server::start(Options { script: Some(Box::new(script)), maps: true, ..Options::default() })
}

/// The watching thread ends only then; nobody has asked the server.
fn wait_is_known_to_be_over(client: &Client, server: &Server) {
    until("the end of the watch", || watchers() == 0);
    assert_eq!((client.stream_query(Stream::LEGACY), server.count("QueryStream")), (Ok(()), 0));
}

#[test]
fn a_batch_is_one_message_and_waits_for_nothing() {
    let server = Server::scripted(|request, _, _| {
        if let Request::MemoryOperations(message) = request {
            let seen: Vec<_> = message.operations.iter().map(|one| (one.operation, one.value, one.flags)).collect();
            assert_eq!(seen, [(WAIT_VALUE_32, 7, 1), (BARRIER, 0, 1), (WRITE_VALUE_64, u64::MAX, 0)]);
        }
        Flow::Usual
    });
    let client = client(&server);
    let (at, stream) = (client.mem_alloc(16).unwrap().0, client.stream_create(1).unwrap());
    let barrier = StreamMemoryOperation { operation: BARRIER, barrier_flags: 1, ..Default::default() };
    // C leaves the upper half of a value of 32 bits as it was.
    let batch = [on_word(WAIT_VALUE_32, at, 1 << 32 | 7, 1), barrier, on_word(WRITE_VALUE_64, at + 8, u64::MAX, 0)];
    client.stream_batch_mem_op(stream, &batch, 0).unwrap();
    client.stream_synchronize(stream).unwrap();
    assert!(server.names().ends_with(&["MemoryOperations", "SynchronizeStream"]), "{:?}", server.names());
}

#[test]
fn what_cannot_be_is_refused_here() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (at, stream) = (client.mem_alloc(16).unwrap().0, client.stream_create(1).unwrap());
    let refusal = |operations: &[StreamMemoryOperation]| client.stream_batch_mem_op(stream, operations, 0);
    let good = on_word(WRITE_VALUE_32, at, 1, 0);
    for bad in [
        on_word(WRITE_VALUE_32, at + 2, 1, 0),
        on_word(WAIT_VALUE_64, at + 4, 1, 0),
        on_word(WAIT_VALUE_32, at, 1, 4),
        on_word(WRITE_VALUE_32, at - 4096, 1, 0),
        on_word(WRITE_VALUE_32, 0x7000, 1, 0),
    ] {
        assert_eq!(refusal(&[good, bad]), Err(CudaError::INVALID_VALUE), "{bad:?}");
    }
    assert_eq!(refusal(&[]), Ok(()), "none is done at once");
    assert_eq!(refusal(&[good; 256]), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.stream_batch_mem_op(stream, &[good], 1), Err(CudaError::INVALID_VALUE));
    // The scripted device cannot flush what other devices write, and its kernels reach no host memory.
    assert_eq!(refusal(&[on_word(WAIT_VALUE_32, at, 1, 1 << 30)]), Err(CudaError::NOT_SUPPORTED));
    let pinned = client.mem_host_alloc(8, 0).unwrap();
    assert_eq!(refusal(&[on_word(WAIT_VALUE_32, pinned.0, 1, 0)]), Err(CudaError::NOT_SUPPORTED));
    assert_eq!(server.count("MemoryOperations"), 0);
}

#[test]
fn what_the_program_writes_to_a_word_a_stream_waits_for_is_sent_without_a_call() {
    let server = server_that_releases();
    let client = client(&server);
    let pointer = client.mem_host_alloc(8, 0).unwrap();
    let memory = pinned(pointer, 8);
    client.stream_batch_mem_op(Stream::LEGACY, &[on_word(WAIT_VALUE_32, pointer.0, 3, 1)], 0).unwrap();
    assert_eq!((server.count("MirrorMemory"), server.count("WriteMirror")), (1, 0));
    memory.write(&[2]).unwrap();
    until("the first change", || server.count("WriteMirror") == 1);
    memory.write(&[3]).unwrap();
    until("the release", || server.count("WriteMirror") == 2);
    wait_is_known_to_be_over(client, &server);
}

/// The worker sees a shared word at once, and mirrored memory that the program wrote before it when it is sent.
#[test]
fn a_stream_that_waits_for_a_shared_word_goes_on_when_mirrored_memory_is_sent() {
    let (said, stands) = std::sync::mpsc::channel();
    let script = move |request: &Request<'_>, _: u64, peer: &mut Peer| {
        let Request::HostFunction(message) = request else { return Flow::Usual };
        said.send((message.function, peer.sender.clone())).unwrap();
        Flow::Done
    };
    let options = Options { script: Some(Box::new(script)), maps: true, shares: true, ..Options::default() };
    let server = Server::start(options);
    let client = client(&server);
    let pointer = client.mem_host_alloc(8, 0).unwrap();
    let wait = || client.stream_batch_mem_op(Stream::LEGACY, &[on_word(WAIT_VALUE_32, pointer.0, 3, 1)], 0).unwrap();
    wait();
    // Parts of pages are mirrored on one machine, too.
    let mut own = vec![0; 100];
    let memory = host(&mut own);
    client.mem_host_register(memory, 2).unwrap();
    client.mem_host_get_device_pointer(memory.pointer(), 0).unwrap();
    assert_eq!((server.count("MirrorMemory"), server.count("HostFunction")), (1, 0), "nothing was mirrored before");
    wait();
    let (function, sender) = stands.recv_timeout(PATIENCE).unwrap();
    memory.write(&[5]).unwrap();
    pinned(pointer, 8).write(&[3]).unwrap();
    assert_eq!(server.count("WriteMirror"), 0);
    sender.send(&RunHostFunction { function, status: 0 }, |_| ()).unwrap();
    server.wait_for("HostFunctionDone", 1);
    let names = server.names();
    assert!(names.ends_with(&["WriteMirror", "HostFunctionDone"]), "{names:?}");
}

#[test]
fn nobody_watches_a_word_any_more_when_the_link_is_lost() {
    let script = |request: &Request<'_>, _, _: &mut Peer| match request {
        Request::SynchronizeContext(_) => Flow::HangUp,
        _ => Flow::Usual,
    };
    let server = Server::start(Options { script: Some(Box::new(script)), maps: true, ..Options::default() });
    let client = client(&server);
    let pointer = client.mem_host_alloc(8, 0).unwrap();
    client.stream_batch_mem_op(Stream::LEGACY, &[on_word(WAIT_VALUE_32, pointer.0, 3, 1)], 0).unwrap();
    until("the watch", || watchers() > 0);
    assert_eq!(client.ctx_synchronize(), Err(CudaError::DEVICE_UNAVAILABLE));
    until("the end of the watch", || watchers() == 0);
}

#[test]
fn a_reset_waits_for_a_word_and_what_releases_it_goes_ahead_of_the_reset() {
    let mut asked = 0;
    let server = Server::start(Options {
        script: Some(Box::new(move |request, sequence, peer| match request {
            // As a server whose stream stands: the answer comes when the word does.
            Request::SynchronizeContext(_) => {
                asked = sequence;
                Flow::Done
            }
            Request::WriteMirror(_) if asked != 0 => {
                peer.reply(asked, &());
                Flow::Usual
            }
            _ => Flow::Usual,
        })),
        maps: true,
        ..Options::default()
    });
    let client = client(&server);
    let pointer = client.mem_host_alloc(8, 0).unwrap();
    client.stream_batch_mem_op(Stream::LEGACY, &[on_word(WAIT_VALUE_32, pointer.0, 3, 1)], 0).unwrap();
    std::thread::scope(|scope| {
        let _limit = server.limit();
        let reset = scope.spawn(|| client.device_primary_ctx_reset(Device(0)));
        until("the wait", || server.count("SynchronizeContext") == 1);
        pinned(pointer, 8).write(&[3]).unwrap();
        reset.join().unwrap().unwrap();
    });
    let names = server.names();
    let place = |name| names.iter().position(|other| *other == name).unwrap();
    assert!(place("WriteMirror") < place("ResetContext"), "{names:?}");
}

/// A capture of operations on words, and the graph instantiated.
fn captured(client: &'static Client, batches: &[&[StreamMemoryOperation]]) -> (Graph, GraphExec) {
    let (stream, mut graph, mut exec) = (client.stream_create(1).unwrap(), Graph::NULL, GraphExec::NULL);
    // SAFETY: the stream is the client's and the outputs are variables.
    unsafe {
        marshal::stream::cuStreamBeginCapture_v2(client, Stream::LEGACY, stream, capture_mode::RELAXED).unwrap();
        batches.iter().for_each(|batch| client.stream_batch_mem_op(stream, batch, 0).unwrap());
        marshal::stream::cuStreamEndCapture(client, Stream::LEGACY, stream, &raw mut graph).unwrap();
        graphs::cuGraphInstantiateWithFlags(client, &raw mut exec, graph, 0).unwrap();
    }
    (graph, exec)
}

#[test]
fn captured_batches_are_nodes_that_a_launch_does_and_a_change_gives_other_words() {
    let server = Server::scripted(|request, _, _| {
        match request {
            Request::AddGraphWords(message) => {
                let seen: Vec<_> = message.operations.iter().map(|one| (one.operation, one.value)).collect();
                assert_eq!(seen, [(WRITE_VALUE_32, 5), (WAIT_VALUE_32, 5)]);
            }
            Request::SetGraphWords(message) => assert_eq!((message.node, message.operations[0].value), (0, 6)),
            _ => {}
        }
        Flow::Usual
    });
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap().0;
    let batch = [on_word(WRITE_VALUE_32, at, 5, 0), on_word(WAIT_VALUE_32, at, 5, 1)];
    let (graph, exec) = captured(client, &[&batch, &[]]);
    let graph_messages = || -> Vec<_> { server.names().into_iter().filter(|name| name.contains("Graph")).collect() };
    assert_eq!(graph_messages(), ["CreateGraph", "AddGraphWords", "AddGraphEmpty", "InstantiateGraph"]);
    let mut nodes = [GraphNode::NULL; 2];
    let mut count = 2;
    // SAFETY: the arrays are ours; the operations live through each call.
    unsafe {
        graphs::cuGraphGetNodes(client, graph, nodes.as_mut_ptr(), &raw mut count).unwrap();
        let mut params = BatchMemOpNodeParams::default();
        graphs::cuGraphBatchMemOpNodeGetParams(client, nodes[0], &raw mut params).unwrap();
        assert_eq!((params.count, params.flags, params.context), (2, 0, client.ctx_get_current().unwrap()));
        let set = |operations: &[StreamMemoryOperation]| {
            let changed = BatchMemOpNodeParams {
                count: u32::try_from(operations.len()).unwrap(),
                operations: operations.as_ptr() as u64,
                ..params
            };
            graphs::cuGraphExecBatchMemOpNodeSetParams(client, exec, nodes[0], &raw const changed)
        };
        set(&[on_word(WRITE_VALUE_32, at + 4, 6, 0), on_word(WAIT_VALUE_32, at + 4, 6, 0)]).unwrap();
        for refused in [&batch[..1], &[batch[1], batch[0]], &[on_word(WRITE_VALUE_64, at, 6, 0), batch[1]]] {
            assert_eq!(set(refused), Err(CudaError::INVALID_VALUE), "{refused:?}");
        }
        graphs::cuGraphLaunch(client, Stream::LEGACY, exec, Stream::LEGACY).unwrap();
    }
    client.stream_synchronize(Stream::LEGACY).unwrap();
    assert_eq!((server.count("SetGraphWords"), server.count("LaunchGraph")), (1, 1));
}

#[test]
fn what_the_program_writes_to_a_word_a_graph_waits_for_is_sent_without_a_call() {
    let server = server_that_releases();
    let client = client(&server);
    let pointer = client.mem_host_alloc(8, 0).unwrap();
    let (_, exec) = captured(client, &[&[on_word(WAIT_VALUE_32, pointer.0, 3, 1)]]);
    assert_eq!((server.count("MirrorMemory"), server.count("WriteMirror")), (1, 0));
    // SAFETY: the handles are the client's.
    unsafe { graphs::cuGraphLaunch(client, Stream::LEGACY, exec, Stream::LEGACY) }.unwrap();
    pinned(pointer, 8).write(&[3]).unwrap();
    until("the release", || server.count("WriteMirror") == 1);
    wait_is_known_to_be_over(client, &server);
}

#[test]
fn a_refused_batch_leaves_its_capture_as_it_was() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (at, stream, mut graph) = (client.mem_alloc(16).unwrap().0, client.stream_create(1).unwrap(), Graph::NULL);
    // SAFETY: the stream is the client's and the output a variable.
    unsafe {
        marshal::stream::cuStreamBeginCapture_v2(client, Stream::LEGACY, stream, capture_mode::RELAXED).unwrap();
        let refused = client.stream_batch_mem_op(stream, &[on_word(WRITE_VALUE_32, at + 2, 1, 0)], 0);
        assert_eq!(refused, Err(CudaError::INVALID_VALUE));
        client.stream_batch_mem_op(stream, &[on_word(WRITE_VALUE_32, at, 1, 0)], 0).unwrap();
        marshal::stream::cuStreamEndCapture(client, Stream::LEGACY, stream, &raw mut graph).unwrap();
    }
    assert_eq!(server.count("MemoryOperations"), 0);
}
