//! Links that outlive their connections, from the client's side. Frames in flight at a cut arrive once and in order,
//! nobody waits for ever, and the server gets each goodbye.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use std::collections::HashMap;
use std::sync::mpsc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use floe_abi::{CudaError, DevicePtr, Stream};
use floe_session::Client;
use floe_surface::*;
use floe_transport::LinkState;
use floe_wire::{CHUNK_BYTES, Chunk, DeliveryFollows, Request, chunk_bytes};
use scripted::*;

/// Longer than any test, so that nothing passes by giving up.
const LONG: Duration = Duration::from_secs(300);
/// As long as a test waits for the end of one. Far longer than a busy machine keeps a thread from its next call.
const SHORT: Duration = Duration::from_secs(3);

fn resumable(
    grace: Duration,
    bulk: u32,
    script: impl FnMut(&Request<'_>, u64, &mut Peer) -> Flow + Send + 'static,
) -> Server {
    Server::start(Options { grace: Some(grace), bulk, script: Some(Box::new(script)), ..Options::default() })
}

fn usual(grace: Duration) -> Server {
    resumable(grace, 0, |_, _, _| Flow::Usual)
}

/// Sets a word of memory to each of these, one after another, without waiting.
fn post(client: &Client, at: DevicePtr, values: std::ops::Range<u32>) {
    values.for_each(|value| client.memset_d32(Stream::LEGACY, at, value, 1).unwrap());
}

/// The values that words were set to, in the server's order.
fn posted(server: &Server) -> Vec<u32> {
    let seen = server.seen();
    let values = seen.iter().filter_map(|seen| match seen.request() {
        Request::Fill(fill) => Some(fill.value),
        _ => None,
    });
    values.collect()
}

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index / 7).to_le_bytes()[0]).collect()
}

#[test]
fn posts_before_during_and_after_a_cut_arrive_once_and_in_order() {
    let server = usual(LONG);
    let (client, wires) = (client(&server), server.wires());
    let at = client.mem_alloc(16).unwrap();
    for round in 0..10 {
        post(client, at, 300 * round..300 * round + 100);
        wires.set_away(true);
        wires.cut();
        post(client, at, 300 * round + 100..300 * round + 200);
        wires.set_away(false);
        post(client, at, 300 * round + 200..300 * round + 300);
        client.ctx_synchronize().unwrap();
        // The last of a round's connections may still be on its way.
        wires.wait(|_| client.statistics().reconnects > u64::from(round));
    }
    assert_eq!(posted(&server), (0..3000).collect::<Vec<_>>());
    assert!(client.statistics().down_micros > 0);
}

#[test]
fn a_call_under_way_is_answered_by_the_next_connection() {
    let mut first = true;
    let server = resumable(LONG, 0, move |request, _, peer| {
        if matches!(request, Request::SynchronizeContext(_)) && std::mem::take(&mut first) {
            // The answer is said where nobody hears it.
            peer.wires.cut();
        }
        Flow::Usual
    });
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    post(client, at, 0..3);
    client.ctx_synchronize().unwrap();
    assert_eq!((posted(&server), server.count("SynchronizeContext")), (vec![0, 1, 2], 1));
}

#[test]
fn cut_copies_resume_in_the_middle_in_both_directions() {
    let server = resumable(LONG, 0, |request, sequence, peer| match request {
        Request::CopyToDevice(_) => {
            peer.wires.cut();
            Flow::Usual
        }
        Request::CopyFromDevice(copy) => {
            let all = peer.read(copy.from.0, copy.bytes);
            for (index, piece) in all.chunks(100_000).enumerate() {
                peer.deliver(sequence, index as u64 * 100_000, piece);
                peer.wires.cut();
            }
            peer.reply(sequence, &());
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let bytes = 9 << 20;
    let at = client.mem_alloc(bytes).unwrap();
    let mut sent = data(bytes);
    client.memcpy_htod(Stream::LEGACY, at, host(&mut sent)).unwrap();
    let mut back = vec![0; bytes];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut back), at).unwrap();
    assert!(back == sent);
}

#[test]
fn pinned_memory_under_way_stays_until_the_server_has_it() {
    let server = usual(LONG);
    let (client, wires) = (client(&server), server.wires());
    let bytes = 3 << 20;
    let (at, pointer) = (client.mem_alloc(bytes).unwrap(), client.mem_alloc_host(bytes).unwrap());
    let all = data(bytes);
    pinned(pointer, bytes).write(&all).unwrap();
    wires.set_away(true);
    wires.cut();
    client.memcpy_htod_async(at, pinned(pointer, bytes), Stream::LEGACY).unwrap();
    let freeing = std::thread::spawn(move || client.mem_free_host(pointer));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!freeing.is_finished(), "nobody has read it");
    wires.set_away(false);
    join(freeing).unwrap();
    let mut back = vec![0; bytes];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut back), at).unwrap();
    assert!(back == all);
}

#[test]
fn bulk_connections_resume_with_the_bytes_they_lack() {
    assert_eq!(copy_over_bulk_connections(6, "4"), 0, "other threads are not worth it");
}

#[test]
fn so_are_those_of_large_copies_that_one_thread_makes() {
    assert_eq!(copy_over_bulk_connections(33, "1"), 0);
}

#[test]
fn so_are_those_whose_data_other_threads_copy_first() {
    let staged = copy_over_bulk_connections(33, "4");
    // How much more depends on how soon the server reads: a chunk is sent from where it lies while all 32 buffers are in
    // use, and not before.
    assert!(staged >= 32 * CHUNK_BYTES as u64, "{staged}");
}

/// Copies so many MiB there and back by so many threads, over two bulk connections that are cut meanwhile. Returns the
/// bytes that were copied ahead.
fn copy_over_bulk_connections(transfers: usize, threads: &str) -> u64 {
    const TRANSFER: usize = 4 * CHUNK_BYTES;
    let server = resumable(LONG, 2, |request, sequence, peer| match request {
        Request::CopyFromDevice(copy) => {
            let all = data(copy.bytes as usize);
            for (index, part) in all.chunks(TRANSFER).enumerate() {
                let offset = (index * TRANSFER) as u64;
                let announced = DeliveryFollows { request: sequence, offset, bytes: part.len() as u64 };
                let transfer = peer.sender.send(&announced, |_| ()).unwrap();
                for (index, bytes) in part.chunks(CHUNK_BYTES).enumerate() {
                    let mut links = peer.joined.lock().unwrap();
                    let link = &mut links[index % 2];
                    link.send(&Chunk { transfer, offset: (index * CHUNK_BYTES) as u64, bytes }).unwrap();
                    drop(links);
                    if index == 1 {
                        peer.wires.cut();
                    }
                }
            }
            peer.reply(sequence, &());
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let variables = [("FLOE_BULK_CONNECTIONS", "2"), ("FLOE_COPY_THREADS", threads)];
    let (client, wires) = (client_of(&server, &variables), server.wires());
    await_bulk(&server, client, client.mem_alloc(TRANSFER).unwrap(), 2);
    let bytes = transfers * TRANSFER;
    let (at, staged) = (client.mem_alloc(bytes).unwrap(), client.statistics().bulk_staged);
    let sent = data(bytes);
    let chunks = std::thread::scope(|scope| {
        let _limit = server.limit();
        let drained = scope.spawn(|| {
            let _limit = server.limit();
            drain(&server.joined(), bytes as u64, |count| {
                if count % 5 == 1 {
                    wires.cut();
                }
            })
        });
        let mut source = sent.clone();
        client.memcpy_htod(Stream::LEGACY, at, host(&mut source)).unwrap();
        // It has been read.
        source.fill(0);
        drained.join().unwrap()
    });
    let seen = server.seen();
    let commands: HashMap<u64, _> = seen
        .iter()
        .filter_map(|seen| match seen.request() {
            Request::CopyBulkToDevice(copy) if (at.0..at.0 + bytes as u64).contains(&copy.to.0) => {
                Some((seen.sequence, copy))
            }
            _ => None,
        })
        .collect();
    let mut whole = vec![0; bytes];
    for (transfer, offset, part) in &chunks {
        let start = (commands[transfer].to.0 - at.0 + offset) as usize;
        whole[start..start + part.len()].copy_from_slice(part);
    }
    let count = |bytes: u64| bytes.div_ceil(chunk_bytes(bytes as usize) as u64);
    assert!(whole == sent);
    assert_eq!(chunks.len() as u64, commands.values().map(|copy| count(copy.bytes)).sum::<u64>());
    let mut back = vec![0; bytes];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut back), at).unwrap();
    assert!(back == sent);
    client.statistics().bulk_staged - staged
}

#[test]
fn threads_that_work_meanwhile_notice_a_pause_at_most() {
    let server = usual(LONG);
    let (client, wires) = (client(&server), server.wires());
    let context = client.ctx_get_current().unwrap();
    std::thread::scope(|scope| {
        let start = |thread: u8| {
            scope.spawn(move || {
                client.ctx_set_current(context).unwrap();
                let at = client.mem_alloc(70_000).unwrap();
                for round in 0..60_u8 {
                    let mut sent = vec![thread ^ round; 70_000];
                    client.memcpy_htod(Stream::LEGACY, at, host(&mut sent)).unwrap();
                    let mut back = vec![0; 70_000];
                    client.memcpy_dtoh(Stream::LEGACY, host(&mut back), at).unwrap();
                    assert!(back == sent, "thread {thread}, round {round}");
                }
            })
        };
        let threads: [_; 4] = std::array::from_fn(|thread| start(thread as u8));
        while !threads.iter().all(ScopedJoinHandle::is_finished) {
            wires.cut();
            std::thread::sleep(Duration::from_millis(3));
        }
    });
}

#[test]
fn after_the_grace_period_everybody_is_answered() {
    let server = resumable(SHORT, 0, |request, _, _| match request {
        Request::SynchronizeStream(_) => Flow::Done,
        _ => Flow::Usual,
    });
    let (client, wires) = (client(&server), server.wires());
    let context = client.ctx_get_current().unwrap();
    let bytes = 3 << 20;
    let (at, pointer) = (client.mem_alloc(bytes).unwrap(), client.mem_alloc_host(bytes).unwrap());
    post(client, at, 0..1);
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                client.ctx_set_current(context).unwrap();
                client.stream_synchronize(Stream::LEGACY)
            })
        })
        .collect();
    server.wait_for("SynchronizeStream", 4);
    wires.set_away(true);
    wires.cut();
    client.memcpy_htod_async(at, pinned(pointer, bytes), Stream::LEGACY).unwrap();
    // It is not borrowed any more.
    client.mem_free_host(pointer).unwrap();
    for thread in waiting {
        assert_eq!(join(thread), Err(CudaError::DEVICE_UNAVAILABLE));
    }
    assert_eq!(client.mem_alloc(1 << 20), Err(CudaError::DEVICE_UNAVAILABLE));
    client.exiting();
}

#[test]
fn a_program_that_calls_nothing_loses_the_device_all_the_same() {
    let server = usual(SHORT);
    let (client, wires) = (client(&server), server.wires());
    wires.set_away(true);
    wires.cut();
    until("the loss of the device", || client.ctx_synchronize().is_err());
    assert_eq!(client.mem_alloc(1 << 20), Err(CudaError::DEVICE_UNAVAILABLE));
}

#[test]
fn a_session_that_is_gone_is_lost_at_once() {
    let server = usual(LONG);
    let (client, wires) = (client(&server), server.wires());
    let at = client.mem_alloc(16).unwrap();
    wires.forget();
    wires.cut();
    // The post may still be queued; the wait is not.
    let _ = client.memset_d8(Stream::LEGACY, at, 0, 16);
    assert_eq!(client.ctx_synchronize(), Err(CudaError::DEVICE_UNAVAILABLE));
    assert!(client.statistics().reconnects == 0);
}

#[test]
fn servers_that_count_wrong_are_left() {
    is_left_by(Wires::count_wrong);
}

#[test]
fn servers_that_have_others_bytes_are_left() {
    is_left_by(Wires::have_others);
}

/// A server that answers so when the client reconnects.
fn is_left_by(answer: fn(&Wires)) {
    let server = usual(LONG);
    let (client, wires) = (client(&server), server.wires());
    let at = client.mem_alloc(16).unwrap();
    answer(&wires);
    wires.cut();
    until("the end of the session", || {
        let is_over = client.ctx_synchronize().is_err();
        is_over || {
            post(client, at, 0..1);
            false
        }
    });
    assert_eq!(client.mem_alloc(1 << 20), Err(CudaError::DEVICE_UNAVAILABLE));
}

#[test]
fn the_server_hears_who_leaves() {
    let (server, other) = (usual(LONG), usual(LONG));
    let client = client_with(&[&server, &other], &[("CUDA_VISIBLE_DEVICES", "GPU-01010101")]);
    client.init(0).unwrap();
    assert_eq!(client.device_get_count(), Ok(1));
    // The other server's device is not the program's.
    other.wires().wait_for_goodbye();
    let context = client.device_primary_ctx_retain(floe_abi::Device(0)).unwrap();
    client.ctx_set_current(context).unwrap();
    let at = client.mem_alloc(16).unwrap();
    post(client, at, 0..100);
    assert_eq!(server.wires().channels().link_state(), LinkState::Whole);
    client.exiting();
    server.wires().wait_for_goodbye();
    server.wait_for("Fill", 100);
    assert_eq!(client.mem_alloc(16), Err(CudaError::DEINITIALIZED));
}

#[test]
fn a_server_that_refuses_one_vgpu_keeps_none_of_the_others() {
    let server = usual(LONG);
    let addresses = [server.address.as_str(), "unix:///nonexistent/floe.sock"];
    assert_eq!(client_of_places(&addresses, &[]).init(0), Err(CudaError::SYSTEM_NOT_READY));
    server.wires().wait_for_goodbye();
}

#[test]
fn the_servers_last_word_is_the_reason() {
    let (told, tell) = mpsc::channel();
    let server = resumable(LONG, 0, move |request, _, peer| match request {
        Request::SynchronizeContext(_) => {
            let ended = floe_wire::Ended { status: CudaError::LAUNCH_FAILED.code(), detail: "on purpose" };
            peer.sender.send(&ended, |_| ()).unwrap();
            told.send(()).unwrap();
            Flow::HangUp
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    post(client, at, 0..1);
    assert_eq!(client.ctx_synchronize(), Err(CudaError::LAUNCH_FAILED));
    tell.recv_timeout(Duration::from_secs(300)).unwrap();
}

#[test]
fn cuts_at_any_byte_of_any_connection_are_not_noticed() {
    let server = resumable(LONG, 0, |_, _, _| Flow::Usual);
    let relay = Relay::start(&server.address, 400_000);
    let client = begun(client_of_places(&[&relay.address], &[]));
    let bytes = 300_000;
    let at = client.mem_alloc(bytes).unwrap();
    let mut round = 0;
    while relay.cuts() < 200 {
        post(client, at, 10 * round..10 * round + 10);
        let mut sent: Vec<u8> = data(bytes).iter().map(|byte| byte ^ round as u8).collect();
        client.memcpy_htod(Stream::LEGACY, at, host(&mut sent)).unwrap();
        let mut back = vec![0; bytes];
        client.memcpy_dtoh(Stream::LEGACY, host(&mut back), at).unwrap();
        assert!(back == sent, "round {round}");
        round += 1;
    }
    assert_eq!(posted(&server), (0..10 * round).collect::<Vec<_>>());
    // Without this the last connections would be made for a server that is gone.
    client.exiting();
}
