//! Host memory that kernels reach, against the device in memory.
//! In: messages over a socket pair, and what a kernel would write. Out: the verdict.
//! The fake's host memory is reached by the test as a kernel reaches it.

use std::time::{Duration, Instant};

use floe_abi::CudaError;

use super::*;

const AT: u64 = 0x6000_0000_1000;

fn run(offset: u32, bytes: &[u8]) -> MirrorRun<'_> {
    MirrorRun { offset, bytes }
}

#[test]
fn changes_of_the_client_reach_the_device_and_changes_of_the_device_come_before_the_wait_is_over() {
    let mut client = Client::new();
    client.ok(&MirrorMemory { at: DevicePtr(AT), bytes: 16 });
    client.send(&WriteMirror { at: DevicePtr(AT), runs: vec![run(0, &[1, 2]), run(8, &[9])] });
    client.ok(&SynchronizeContext {});
    let host = client.device.host(AT);
    assert_eq!(host.lock().unwrap()[..9], [1, 2, 0, 0, 0, 0, 0, 0, 9]);
    host.lock().unwrap()[4..6].copy_from_slice(&[5, 6]);
    let sent = client.send(&SynchronizeContext {});
    assert_eq!(client.get(), Some(Got::MirrorChanged(AT, vec![(4, vec![5, 6])])), "exactly what changed");
    assert!(matches!(client.get(), Some(Got::Reply { request, status: 0, .. }) if request == sent));
    // Sent once.
    client.ok(&SynchronizeContext {});
    host.lock().unwrap()[15] = 1;
    client.send(&UnmirrorMemory { at: DevicePtr(AT) });
    assert_eq!(client.get(), Some(Got::MirrorChanged(AT, vec![(15, vec![1])])));
    assert!(matches!(client.get(), Some(Got::Reply { status: 0, .. })));
}

/// A program that has the time between two events takes them for complete.
#[test]
fn what_kernels_wrote_comes_before_the_time_between_events_behind_them() {
    let mut client = Client::new();
    client.ok(&MirrorMemory { at: DevicePtr(AT), bytes: 4 });
    for event in [1, 2] {
        client.send(&CreateEvent { event: EventId(event), flags: 0 });
        client.send(&RecordEvent { event: EventId(event), stream: StreamId(0), flags: 0 });
    }
    client.ok(&SynchronizeContext {});
    client.device.host(AT).lock().unwrap()[0] = 1;
    let asked = client.send(&ElapsedTime { start: EventId(1), end: EventId(2) });
    assert_eq!(client.get(), Some(Got::MirrorChanged(AT, vec![(0, vec![1])])));
    assert!(matches!(client.get(), Some(Got::Reply { request, status: 0, .. }) if request == asked));
    let body = client.ok(&ElapsedTime { start: EventId(1), end: EventId(2) });
    assert_eq!(ElapsedTime::decode_reply(&body).unwrap().milliseconds, 1.0);
}

#[test]
fn host_function_behind_a_kernel_sees_what_it_wrote() {
    let mut client = Client::new();
    client.ok(&MirrorMemory { at: DevicePtr(AT), bytes: 4 });
    client.device.host(AT).lock().unwrap()[0] = 1;
    client.send(&HostFunction { stream: StreamId(0), function: FunctionId(3) });
    assert_eq!(client.get(), Some(Got::MirrorChanged(AT, vec![(0, vec![1])])));
    assert_eq!(client.get(), Some(Got::RunHostFunction(3)));
    client.send(&HostFunctionDone { function: FunctionId(3) });
}

/// What lets the stream go on comes behind the change, and is not queued.
#[test]
fn changes_of_the_client_come_through_while_the_issuer_waits_for_their_stream() {
    let mut client = Client::new();
    client.ok(&MirrorMemory { at: DevicePtr(AT), bytes: 4 });
    client.send(&HostFunction { stream: StreamId(0), function: FunctionId(3) });
    assert_eq!(client.get(), Some(Got::RunHostFunction(3)));
    // This load is not over before the function is.
    let hash = hash_of(b"kernel k");
    client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"kernel k" });
    let load = LoadLibrary { contents: vec![content(b"kernel k", &hash)], at_once: true, ..text(LibraryId(1)) };
    let loaded = client.send(&load);
    client.send(&WriteMirror { at: DevicePtr(AT), runs: vec![run(0, &[7])] });
    let host = client.device.host(AT);
    let patience = Instant::now() + Duration::from_secs(60);
    while host.lock().unwrap()[0] != 7 {
        assert!(Instant::now() < patience, "it stands behind the load");
        std::thread::yield_now();
    }
    client.send(&HostFunctionDone { function: FunctionId(3) });
    assert!(matches!(client.get(), Some(Got::Reply { request, status: 0, .. }) if request == loaded));
}

#[test]
fn places_that_cannot_be_are_refused_and_taken_ones_too() {
    let mut client = Client::new();
    for at in [0, 4096, BASE, 0x7fff_ffff_f000] {
        let refused = client.call(&MirrorMemory { at: DevicePtr(at), bytes: 4096 }).0;
        assert_eq!(refused, CudaError::NOT_SUPPORTED.code(), "{at:#x}");
    }
    client.ok(&MirrorMemory { at: DevicePtr(AT), bytes: 4096 });
    let words = client.break_with(&MirrorMemory { at: DevicePtr(AT), bytes: 4096 });
    assert!(words.contains("a mirror starts there already"), "{words}");
}

/// A reset ends mirrors, and the client may not have heard of it yet.
#[test]
fn changes_of_a_mirror_that_has_ended_are_nothing() {
    let mut client = Client::new();
    client.ok(&MirrorMemory { at: DevicePtr(AT), bytes: 16 });
    client.ok(&ResetContext {});
    client.send(&WriteMirror { at: DevicePtr(AT), runs: vec![run(15, &[1, 2])] });
    client.ok(&SynchronizeContext {});
}

#[test]
fn numbers_that_do_not_fit_violate_the_protocol() {
    let mirrored = || {
        let mut client = Client::new();
        client.ok(&MirrorMemory { at: DevicePtr(AT), bytes: 16 });
        client
    };
    let words = mirrored().break_with(&WriteMirror { at: DevicePtr(AT), runs: vec![run(15, &[1, 2])] });
    assert!(words.ends_with("2 bytes at 15 of a mirror of: 16"), "{words}");
    let words = mirrored().break_with(&UnmirrorMemory { at: DevicePtr(AT + 1) });
    assert!(words.contains("no mirror starts at"), "{words}");
    let words = mirrored().break_with(&MirrorMemory { at: DevicePtr(AT + 4096), bytes: 0 });
    assert!(words.contains("an empty mirror"), "{words}");
}

#[test]
fn more_than_the_operator_allows_is_refused_and_the_session_continues() {
    let mut client = Client::new();
    client.ok(&MirrorMemory { at: DevicePtr(AT), bytes: 4096 });
    for bytes in [MIRRORED - 4095, u64::MAX] {
        let refused = client.call(&MirrorMemory { at: DevicePtr(AT + 4096), bytes }).0;
        assert_eq!(refused, CudaError::OUT_OF_MEMORY.code(), "{bytes}");
    }
    client.ok(&MirrorMemory { at: DevicePtr(AT + 4096), bytes: MIRRORED - 4096 });
}

/// A process has memory in whole pages, of which a client could name one byte each.
#[test]
fn a_mirror_counts_with_its_whole_pages() {
    let mut client = Client::new();
    let count = MIRRORED / 4096;
    for index in 0..count - 2 {
        client.ok(&MirrorMemory { at: DevicePtr(AT + index * 4096), bytes: 1 });
    }
    // Two bytes of two pages.
    let edge = AT + (count - 1) * 4096 - 1;
    client.ok(&MirrorMemory { at: DevicePtr(edge), bytes: 2 });
    let more = MirrorMemory { at: DevicePtr(AT + (count + 1) * 4096), bytes: 1 };
    assert_eq!(client.call(&more).0, CudaError::OUT_OF_MEMORY.code());
    client.ok(&UnmirrorMemory { at: DevicePtr(AT) });
    client.ok(&more);
}

#[test]
fn mirrors_are_of_the_sessions_host_memory_and_go_back_with_it() {
    let mut client = Client::planned(UnixStream::pair().unwrap(), Arc::new(Fake::default()), |plan| {
        plan.host_memory = 4 << 20;
        plan.mirrored_memory = 1 << 30;
    });
    for _ in 0..3 {
        let made = |index: &u64| {
            let mirror = MirrorMemory { at: DevicePtr(AT + index * 4096), bytes: 1 };
            client.call(&mirror).0 == 0
        };
        let count = (0..1000).take_while(made).count();
        assert!((10..200).contains(&count), "{count}");
        client.ok(&ResetContext {});
    }
}
