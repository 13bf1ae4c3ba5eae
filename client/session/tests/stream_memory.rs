//! Words of memory that streams write and wait for, against a scripted server: what is sent, what is refused here, and that
//! what the program writes to host memory a stream waits for is sent without a call of CUDA.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use std::time::{Duration, Instant};

use floe_abi::stream_memory_operation::{BARRIER, WAIT_VALUE_32, WAIT_VALUE_64, WRITE_VALUE_32, WRITE_VALUE_64};
use floe_abi::*;
use floe_surface::*;
use floe_wire::{Progress, Request};
use scripted::*;

fn on_word(operation: u32, at: u64, value: u64, flags: u32) -> StreamMemoryOperation {
    StreamMemoryOperation::on_word(operation, DevicePtr(at), value, flags)
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "never came: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
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
    assert_eq!(refusal(&[]), Err(CudaError::INVALID_VALUE));
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
    let script = |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        if let Request::WriteMirror(message) = request
            && message.runs.iter().any(|run| run.bytes == [3])
        {
            // As far as the wait, which was posted before.
            let stream = floe_wire::StreamId(0);
            peer.sender.post(&Progress { stream, sequence: sequence - 1, status: 0 }).unwrap();
        }
        Flow::Usual
    };
    let server = Server::start(Options { script: Some(Box::new(script)), maps: true, ..Options::default() });
    let client = client(&server);
    let pointer = client.mem_host_alloc(8, 0).unwrap();
    let memory = pinned(pointer, 8);
    client.stream_batch_mem_op(Stream::LEGACY, &[on_word(WAIT_VALUE_32, pointer.0, 3, 1)], 0).unwrap();
    assert_eq!((server.count("MirrorMemory"), server.count("WriteMirror")), (1, 0));
    memory.write(&[2]).unwrap();
    until("the first change", || server.count("WriteMirror") == 1);
    memory.write(&[3]).unwrap();
    until("the release", || server.count("WriteMirror") == 2);
    // Who watches ends only when the wait is known to be over: nobody has asked for that.
    until("the end of the watch", || watchers() == 0);
    assert_eq!((client.stream_query(Stream::LEGACY), server.count("QueryStream")), (Ok(()), 0));
}

/// Threads of this process that watch host memory, of all tests.
fn watchers() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        // A thread may have ended meanwhile.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    names.filter(|name| name.trim_end() == "floe-words").count()
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
fn a_capture_does_not_take_it_and_cannot_go_on() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (at, stream) = (client.mem_alloc(16).unwrap().0, client.stream_create(1).unwrap());
    // SAFETY: the stream is the client's.
    unsafe { marshal::stream::cuStreamBeginCapture_v2(client, Stream::LEGACY, stream, capture_mode::RELAXED) }.unwrap();
    let refused = client.stream_batch_mem_op(stream, &[on_word(WRITE_VALUE_32, at, 1, 0)], 0);
    assert_eq!(refused, Err(CudaError::STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(server.count("MemoryOperations"), 0);
}
