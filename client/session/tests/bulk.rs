//! Large copies: nobody waits for pinned sources, memory stays until it has been sent, and many threads wait at once.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use std::sync::mpsc;

use floe_abi::{Stream, stream_flags};
use floe_surface::*;
use floe_wire::{PIECE_BYTES, Request};
use scripted::*;

#[test]
fn an_asynchronous_copy_of_pinned_memory_is_sent_later_and_its_memory_stays_until_then() {
    let (go, wait) = mpsc::channel::<()>();
    let mut first = true;
    // The server reads no more than its socket holds until the test lets it.
    let server = Server::scripted(move |request, _, _| {
        if matches!(request, Request::CopyToDevice(_)) && std::mem::take(&mut first) {
            wait.recv().unwrap();
        }
        Flow::Usual
    });
    let client = client(&server);
    let bytes = 3 * PIECE_BYTES;
    let at = client.mem_alloc(bytes).unwrap();
    let pointer = client.mem_alloc_host(bytes).unwrap();
    pinned(pointer, bytes).write(&vec![0x5a; bytes]).unwrap();
    client.memcpy_htod_async(at, pinned(pointer, bytes), Stream::LEGACY).unwrap();
    client.memset_d8(Stream::LEGACY, at, 1, 64).unwrap();
    let freeing = std::thread::spawn(move || client.mem_free_host(pointer));
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!freeing.is_finished(), "the memory is still being sent");
    go.send(()).unwrap();
    join(freeing).unwrap();
    server.wait_for("Fill", 1);
    let names = server.names();
    let copies = names.iter().position(|name| *name == "CopyToDevice").unwrap();
    assert_eq!(names[copies..copies + 4], ["CopyToDevice", "CopyToDevice", "CopyToDevice", "Fill"]);
    let mut back = vec![0; 4096];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut back), floe_abi::DevicePtr(at.0 + PIECE_BYTES as u64)).unwrap();
    assert_eq!(back, vec![0x5a; 4096]);
}

#[test]
fn borrowed_memory_is_returned_when_the_link_breaks() {
    let server = Server::scripted(|request, _, _| match request {
        Request::CopyToDevice(_) => Flow::HangUp,
        _ => Flow::Usual,
    });
    let client = client(&server);
    let bytes = 8 * PIECE_BYTES;
    let at = client.mem_alloc(bytes).unwrap();
    let pointer = client.mem_alloc_host(bytes).unwrap();
    client.memcpy_htod_async(at, pinned(pointer, bytes), Stream::LEGACY).unwrap();
    assert!(client.stream_synchronize(Stream::LEGACY).is_err());
    // It waits for nobody any more.
    let _ = client.mem_free_host(pointer);
}

#[test]
fn large_pieces_come_straight_into_place_also_into_a_box() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let bytes = 400_000;
    let at = client.mem_alloc(bytes).unwrap();
    let mut data: Vec<u8> = (0..bytes).map(|index| (index / 7).to_le_bytes()[0]).collect();
    client.memcpy_htod(Stream::LEGACY, at, host(&mut data)).unwrap();
    let mut back = vec![0; bytes];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut back), at).unwrap();
    assert!(back == data);
}

#[test]
fn threads_that_wait_at_once_all_get_their_answers() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let context = client.ctx_get_current().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            scope.spawn(move || {
                client.ctx_set_current(context).unwrap();
                let stream = client.stream_create(stream_flags::NON_BLOCKING).unwrap();
                let at = client.mem_alloc(4096).unwrap();
                for round in 0..50_u8 {
                    let mut sent = vec![thread ^ round; 4096];
                    client.memcpy_htod_async(at, host(&mut sent), stream).unwrap();
                    client.stream_synchronize(stream).unwrap();
                    let mut back = vec![0; 4096];
                    client.memcpy_dtoh_async(host(&mut back), at, stream).unwrap();
                    assert_eq!(back, sent);
                }
            });
        }
    });
}
