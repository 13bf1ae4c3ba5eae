//! Words of memory that streams write and wait for, against the device in memory.
//! In: messages over a socket pair. Out: the verdict.
//! The command that releases a wait comes behind it on the connection, as in a program of one thread.

use floe_abi::stream_memory_operation::{WAIT_VALUE_32, WRITE_VALUE_32};

use super::*;

const HOST: u64 = 0x6000_0000_2000;

fn operation(operation: u32, at: u64, value: u64) -> MemoryOperation {
    MemoryOperation { operation, at: DevicePtr(at), value, flags: 0 }
}

fn on(stream: u64, operations: Vec<MemoryOperation>) -> MemoryOperations {
    MemoryOperations { stream: StreamId(stream), operations }
}

/// A client with memory and the streams 1 and 2.
fn with_streams() -> Client {
    let mut client = Client::new();
    client.memory();
    for stream in [1, 2] {
        client.send(&CreateStream { stream: StreamId(stream), flags: 1, priority: 0 });
    }
    client
}

/// Stream 1 waits in `waiting` for the first word, and has not written the second, until stream 2 writes the first.
/// Then `waiting` and the query `asked` behind it are over.
fn is_released(mut client: Client, waiting: u64, asked: u64) {
    client.nothing_comes();
    assert_eq!(client.device.memory(BASE + 4, 4), [0; 4]);
    client.send(&on(2, vec![operation(WRITE_VALUE_32, BASE, 1)]));
    let mut got = [client.get(), client.get()];
    got.sort_by_key(|got| matches!(got, Some(Got::Reply { .. })));
    assert_eq!(got, [progress(1, waiting), status(asked, 0)]);
    assert_eq!(client.device.memory(BASE + 4, 4), [7, 0, 0, 0]);
}

#[test]
fn wait_holds_up_its_stream_until_another_writes_the_word() {
    let mut client = with_streams();
    let waiting = client.send(&on(1, vec![operation(WAIT_VALUE_32, BASE, 1), operation(WRITE_VALUE_32, BASE + 4, 7)]));
    client.ok(&SynchronizeStream { stream: StreamId(2) });
    let asked = client.send(&SynchronizeStream { stream: StreamId(1) });
    is_released(client, waiting, asked);
}

#[test]
fn more_copies_behind_a_wait_than_the_rings_hold_do_not_keep_its_release_from_being_issued() {
    let mut client = with_streams();
    client.send(&on(1, vec![operation(WAIT_VALUE_32, BASE, 1)]));
    let piece = vec![5; PIECE_BYTES / 2];
    let to = DevicePtr(BASE + 4096);
    let bytes = (BLOCK - 4096).min(piece.len() as u64);
    let pieces = 2 + super::buffer_bytes().upload as u64 / bytes;
    for _ in 0..pieces {
        client.send(&CopyToDevice { stream: StreamId(1), to, bytes: &piece[..usize::try_from(bytes).unwrap()] });
    }
    for _ in 0..2 + super::buffer_bytes().download as u64 / bytes {
        client.send(&CopyFromDevice { stream: StreamId(1), from: to, bytes });
    }
    client.send(&on(2, vec![operation(WRITE_VALUE_32, BASE, 1)]));
    let asked = client.send(&SynchronizeStream { stream: StreamId(1) });
    let done =
        std::iter::from_fn(|| client.get()).find(|got| matches!(got, Got::Reply { request, .. } if *request == asked));
    assert_eq!(done, status(asked, 0));
    assert_eq!(client.device.memory(BASE + 4096 + bytes - 1, 1), [5]);
}

#[test]
fn mirrored_words_are_reported_when_they_are_written_and_release_a_wait() {
    let mut client = with_streams();
    client.ok(&MirrorMemory { at: DevicePtr(HOST), bytes: 16 });
    let written = client.send(&on(2, vec![operation(WRITE_VALUE_32, HOST + 4, 9)]));
    assert_eq!(client.get(), Some(Got::MirrorChanged(HOST, vec![(4, vec![9, 0, 0, 0])])));
    assert_eq!(client.get(), progress(2, written));
    let waiting = client.send(&on(1, vec![operation(WAIT_VALUE_32, HOST, 3)]));
    client.nothing_comes();
    client.send(&WriteMirror { at: DevicePtr(HOST), runs: vec![MirrorRun { offset: 0, bytes: &[3] }] });
    // The fake looks at its words when something is issued.
    client.send(&on(2, vec![operation(WRITE_VALUE_32, BASE, 1)]));
    assert_eq!(client.get(), progress(1, waiting));
}

/// A program that looks at the word takes the work before it for complete, which the worker may not have seen to.
#[test]
fn mirrored_words_are_not_told_before_their_operation_is_complete_and_then_behind_all_else() {
    let mut client = with_streams();
    client.ok(&MirrorMemory { at: DevicePtr(HOST), bytes: 16 });
    let operations = vec![operation(WAIT_VALUE_32, BASE, 1), operation(WRITE_VALUE_32, HOST + 4, 0x0101)];
    let written = client.send(&on(1, operations));
    client.ok(&SynchronizeStream { stream: StreamId(2) });
    let host = client.device.host(HOST);
    // The device is further than the worker knows.
    host.lock().unwrap()[4..9].copy_from_slice(&[1, 1, 0, 0, 5]);
    client.send(&SynchronizeStream { stream: StreamId(2) });
    assert_eq!(client.get(), Some(Got::MirrorChanged(HOST, vec![(8, vec![5])])));
    assert!(matches!(client.get(), Some(Got::Reply { status: 0, .. })));
    // A kernel has written something else.
    host.lock().unwrap()[4..8].copy_from_slice(&[2, 0, 0, 0]);
    client.send(&SynchronizeStream { stream: StreamId(2) });
    assert_eq!(client.get(), Some(Got::MirrorChanged(HOST, vec![(4, vec![2])])));
    assert!(matches!(client.get(), Some(Got::Reply { status: 0, .. })));
    host.lock().unwrap()[15] = 6;
    client.send(&on(2, vec![operation(WRITE_VALUE_32, BASE, 1)]));
    assert_eq!(client.get(), Some(Got::MirrorChanged(HOST, vec![(15, vec![6])])));
    assert_eq!(client.get(), Some(Got::MirrorChanged(HOST, vec![(4, vec![1, 1, 0, 0])])), "whole");
    assert_eq!(client.get(), progress(1, written));
}

/// A graph that waits for a word and writes another, instantiated.
fn with_graph(client: &mut Client, wait: u64, write: u64) -> GraphId {
    let graph = GraphId(70);
    client.send(&CreateGraph { graph });
    client.send(&AddGraphEmpty { graph, after: Vec::new() });
    let operations = vec![operation(WAIT_VALUE_32, wait, 1), operation(WRITE_VALUE_32, write, 7)];
    let after = vec![GraphEdge { from: 0, port: 0, kind: 0 }];
    client.send(&AddGraphWords { graph, after, operations });
    client.ok(&InstantiateGraph { graph, flags: 0 });
    graph
}

#[test]
fn wait_of_a_graph_holds_up_its_stream_and_nothing_stops_for_room_meanwhile() {
    let mut client = with_streams();
    let graph = with_graph(&mut client, BASE, BASE + 4);
    let launched = client.send(&LaunchGraph { graph, stream: StreamId(1) });
    client.ok(&SynchronizeStream { stream: StreamId(2) });
    let bytes = vec![5; (PIECE_BYTES / 2).min(usize::try_from(BLOCK).unwrap() - 4096)];
    for _ in 0..2 + super::buffer_bytes().upload / bytes.len() {
        client.send(&CopyToDevice { stream: StreamId(1), to: DevicePtr(BASE + 4096), bytes: &bytes });
    }
    let asked = client.send(&SynchronizeStream { stream: StreamId(1) });
    is_released(client, launched, asked);
}

#[test]
fn words_of_a_graph_follow_a_change_and_mirrored_ones_are_reported() {
    let mut client = with_streams();
    client.ok(&MirrorMemory { at: DevicePtr(HOST), bytes: 16 });
    let graph = with_graph(&mut client, BASE, BASE + 4);
    let operations = vec![operation(WAIT_VALUE_32, BASE + 8, 0), operation(WRITE_VALUE_32, HOST + 4, 9)];
    client.send(&SetGraphWords { graph, node: 1, operations });
    let launched = client.send(&LaunchGraph { graph, stream: StreamId(1) });
    assert_eq!(client.get(), Some(Got::MirrorChanged(HOST, vec![(4, vec![9, 0, 0, 0])])));
    assert_eq!(client.get(), progress(1, launched));
    let words = client.break_with(&AddGraphWords { graph: GraphId(70), after: Vec::new(), operations: Vec::new() });
    assert!(words.contains("operations of a batch"), "{words}");
}

#[test]
fn batches_that_cannot_be_violate_the_protocol() {
    for operations in [vec![], vec![operation(WRITE_VALUE_32, BASE, 1); 256], vec![operation(7, BASE, 1)]] {
        let words = with_streams().break_with(&on(1, operations));
        assert!(words.contains("operation"), "{words}");
    }
}
