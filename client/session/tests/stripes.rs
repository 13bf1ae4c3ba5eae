//! Bulk connections: what the client says on them, what it takes from them, and what it does when one of them ends.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use std::sync::mpsc;

use floe_abi::{CudaError, DevicePtr, Stream};
use floe_session::Client;
use floe_surface::*;
use floe_transport::Link;
use floe_wire::*;
use scripted::*;

const CHUNK: usize = CHUNK_BYTES;
/// Bytes of the transfers it makes.
const TRANSFER: usize = 4 * CHUNK;

/// A server with two bulk connections and a client that has made them, with device memory.
fn start(
    script: impl FnMut(&Request<'_>, u64, &mut Peer) -> Flow + Send + 'static,
) -> (Server, &'static Client, DevicePtr) {
    let server = Server::start(Options { bulk: 2, script: Some(Box::new(script)), ..Options::default() });
    let client = client_of(&server, &[("FLOE_BULK_CONNECTIONS", "2")]);
    let at = client.mem_alloc(4 * TRANSFER).unwrap();
    await_bulk(&server, client, at, 2);
    (server, client, at)
}

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index / 7).to_le_bytes()[0]).collect()
}

fn chunk(link: &mut Link, transfer: u64, offset: usize, all: &[u8]) {
    let bytes = &all[offset..all.len().min(offset + CHUNK)];
    link.send(&Chunk { transfer, offset: offset as u64, bytes }).unwrap();
}

#[test]
fn a_large_copy_goes_as_commands_and_chunks_and_a_smaller_one_as_it_was() {
    let (server, client, at) = start(|_, _, _| Flow::Usual);
    let before = client.statistics().bulk_to_device;
    // Probes may have gone the same way.
    let small = server.count("CopyToDevice");
    let all = data(TRANSFER + CHUNK + 5);
    let mut sent = all.clone();
    let chunks = std::thread::scope(|scope| {
        let _limit = server.limit();
        // The sockets hold less than the copy.
        let drained = scope.spawn(|| {
            let _limit = server.limit();
            drain(&server.joined(), all.len() as u64, |_| ())
        });
        client.memcpy_htod(Stream::LEGACY, at, host(&mut sent)).unwrap();
        // The program may write it again.
        sent.fill(0);
        drained.join().unwrap()
    });
    client.memcpy_htod(Stream::LEGACY, at, host(&mut sent[..2 * CHUNK - 1])).unwrap();
    server.wait_for("CopyToDevice", small + 1);
    assert_eq!(client.statistics().bulk_to_device - before, all.len() as u64);
    let seen = server.seen();
    let commands: Vec<_> = seen.iter().rev().filter(|seen| seen.name == "CopyBulkToDevice").take(2).collect();
    let places: Vec<_> = commands
        .iter()
        .rev()
        .map(|seen| match seen.request() {
            Request::CopyBulkToDevice(copy) => (copy.to.0 - at.0, copy.bytes),
            other => panic!("{}", other.name()),
        })
        .collect();
    assert_eq!(places, [(0, TRANSFER as u64), (TRANSFER as u64, CHUNK as u64 + 5)]);
    let mut whole = vec![0; all.len()];
    for (transfer, offset, bytes) in chunks {
        let start = if transfer == commands[1].sequence { 0 } else { TRANSFER } + usize::try_from(offset).unwrap();
        whole[start..start + bytes.len()].copy_from_slice(&bytes);
    }
    assert!(whole == all);
}

#[test]
fn announced_data_arrives_before_later_frames_are_read() {
    let (ask, asked) = mpsc::channel();
    let (server, client, at) = start(move |request, sequence, peer| match request {
        Request::CopyFromDevice(copy) => {
            let first = DeliveryFollows { request: sequence, offset: 0, bytes: TRANSFER as u64 };
            let second =
                DeliveryFollows { request: sequence, offset: TRANSFER as u64, bytes: copy.bytes - TRANSFER as u64 };
            let first = peer.sender.send(&first, |_| ()).unwrap();
            let second = peer.sender.send(&second, |_| ()).unwrap();
            peer.reply(sequence, &());
            ask.send((first, second)).unwrap();
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let all = data(TRANSFER + 2 * CHUNK);
    let mut back = vec![0; all.len()];
    let context = client.ctx_get_current().unwrap();
    std::thread::scope(|scope| {
        let _limit = server.limit();
        let copied = scope.spawn(|| {
            client.ctx_set_current(context).unwrap();
            client.memcpy_dtoh(Stream::LEGACY, host(&mut back), at).unwrap();
        });
        let (first, second) = asked.recv_timeout(std::time::Duration::from_secs(300)).unwrap();
        let joined = server.joined();
        let mut links = joined.lock().unwrap();
        let (one, other) = links.split_at_mut(1);
        // The last comes first, on either connection in the order of transfers.
        chunk(&mut one[0], first, 3 * CHUNK, &all[..TRANSFER]);
        chunk(&mut one[0], second, CHUNK, &all[TRANSFER..]);
        for offset in [2 * CHUNK, 0] {
            chunk(&mut other[0], first, offset, &all[..TRANSFER]);
        }
        chunk(&mut one[0], second, 0, &all[TRANSFER..]);
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!copied.is_finished(), "the reply is there, the data are not");
        chunk(&mut other[0], first, CHUNK, &all[..TRANSFER]);
        copied.join().unwrap();
    });
    assert!(back == all);
    assert_eq!(client.statistics().bulk_from_device, all.len() as u64);
}

/// The outcome of a copy from the device if the server does this instead of sending it. On a thread of its own, which
/// has no context of another client.
fn copy_against(misdeed: impl Fn(u64, u64, &mut Peer, &mut [Link]) + Send + 'static) -> CudaError {
    join(std::thread::spawn(move || copy_against_here(misdeed)))
}

fn copy_against_here(misdeed: impl Fn(u64, u64, &mut Peer, &mut [Link]) + Send + 'static) -> CudaError {
    let (server, client, at) = start(move |request, sequence, peer| match request {
        Request::CopyFromDevice(copy) => {
            let joined = std::sync::Arc::clone(&peer.joined);
            misdeed(sequence, copy.bytes, peer, &mut joined.lock().unwrap());
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let mut back = vec![0; TRANSFER];
    let error = client.memcpy_dtoh(Stream::LEGACY, host(&mut back), at).unwrap_err();
    assert!(client.mem_alloc(1 << 24).is_err(), "the session is over");
    drop(server);
    error
}

#[test]
fn servers_that_send_what_nobody_asked_for_are_left() {
    let data = vec![1; TRANSFER];
    let announced = |sequence, offset, bytes, peer: &mut Peer| {
        peer.sender.send(&DeliveryFollows { request: sequence, offset, bytes }, |_| ()).unwrap()
    };
    let unasked = copy_against(move |sequence, bytes, peer, _| {
        announced(sequence + 1, 0, bytes, peer);
    });
    let too_long = copy_against(move |sequence, bytes, peer, _| {
        announced(sequence, 1, bytes, peer);
    });
    let twice = copy_against(move |sequence, bytes, peer, links| {
        let transfer = announced(sequence, 0, bytes, peer);
        chunk(&mut links[0], transfer, 0, &data);
        chunk(&mut links[0], transfer, 0, &data);
    });
    let unknown = copy_against(move |sequence, bytes, peer, links| {
        let transfer = announced(sequence, 0, bytes, peer);
        links[1].send(&Chunk { transfer: transfer - 1, offset: 0, bytes: &[1; 9] }).unwrap();
    });
    assert_eq!([unasked, too_long, twice, unknown], [CudaError::DEVICE_UNAVAILABLE; 4]);
}

#[test]
fn a_bulk_connection_that_ends_ends_the_session_and_the_servers_own_words_win() {
    let cut = copy_against(|sequence, bytes, peer, links| {
        peer.sender.send(&DeliveryFollows { request: sequence, offset: 0, bytes }, |_| ()).unwrap();
        links[0].send(&Chunk { transfer: peer.sender.sent(), offset: 0, bytes: &[7; CHUNK] }).unwrap();
        end(&mut links[1]);
    });
    assert_eq!(cut, CudaError::DEVICE_UNAVAILABLE);
    let told = copy_against(|sequence, bytes, peer, links| {
        peer.sender.send(&DeliveryFollows { request: sequence, offset: 0, bytes }, |_| ()).unwrap();
        end(&mut links[0]);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let _ = peer.sender.send(&Ended { status: 719, detail: "a kernel failed" }, |_| ());
    });
    assert_eq!(told, CudaError::LAUNCH_FAILED);
}
