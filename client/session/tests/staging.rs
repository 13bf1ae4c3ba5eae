//! Copies of pageable memory through staging slots, against a scripted server. Some bytes go through slots, some
//! travel; threads and streams share the slots, and no copy waits for ever for one.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use floe_abi::*;
use floe_session::Client;
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

/// More pieces for four threads than one stream may have slots.
const LARGE: usize = 4 << 20;
/// The shortest pieces.
const SHORT: usize = 128 << 10;

fn sharing() -> Options {
    Options { shares: true, ..Options::default() }
}

/// A client with so many copying threads and its primary context current.
fn copying(server: &Server, threads: &str) -> &'static Client {
    let client = client_with(&[server], &[("FLOE_COPY_THREADS", threads)]);
    client.init(0).unwrap();
    client.ctx_set_current(client.device_primary_ctx_retain(Device(0)).unwrap()).unwrap();
    client
}

/// Bytes no two of which look alike.
fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| ((index + seed) / 3 * 7) as u8).collect()
}

fn counts<const N: usize>(server: &Server, names: [&str; N]) -> [usize; N] {
    names.map(|name| server.count(name))
}

fn there_and_back(threads: &str) {
    let server = Server::start(sharing());
    let client = copying(&server, threads);
    let at = client.mem_alloc(LARGE + 10).unwrap();
    let (mut source, mut target) = (bytes(LARGE + 5, 1), vec![0; LARGE + 5]);
    let to = at.offset(3).unwrap();
    client.memcpy_htod_async(to, host(&mut source), Stream::LEGACY).unwrap();
    // All of it has been read.
    source.fill(0);
    client.memcpy_dtoh(Stream::LEGACY, host(&mut target), to).unwrap();
    assert!(target == bytes(LARGE + 5, 1));
    assert_eq!(counts(&server, ["CopyToDevice", "CopyFromDevice", "ShareMemory", "MapShared"]), [0, 0, 1, 1]);
    let counted = client.statistics();
    let all = LARGE as u64 + 5;
    assert_eq!((counted.staged_to_device, counted.bytes_to_device), (all, all));
    assert_eq!((counted.staged_from_device, counted.bytes_from_device), (all, all));
    assert_eq!((counted.shared_to_device, counted.shared_from_device), (0, 0));
}

#[test]
fn one_thread_copies_through_slots() {
    there_and_back("1");
}

#[test]
fn several_threads_copy_through_slots() {
    there_and_back("4");
}

#[test]
fn more_than_there_are_slots_goes_through_them() {
    let server = Server::start(sharing());
    let client = copying(&server, "2");
    let mut source = bytes(40 << 20, 2);
    let at = client.mem_alloc(source.len()).unwrap();
    client.memcpy_htod(Stream::LEGACY, at, host(&mut source)).unwrap();
    let mut target = vec![0; source.len()];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut target), at).unwrap();
    assert!(target == source);
    assert_eq!(counts(&server, ["CopyToDevice", "CopyFromDevice"]), [0, 0]);
    assert!(server.count("CopyOnDevice") >= 80, "a slot is 1 MiB");
}

#[test]
fn a_copy_to_the_device_waits_for_nothing_once_there_are_slots() {
    let server = Server::start(sharing());
    let client = copying(&server, "2");
    let at = client.mem_alloc(LARGE).unwrap();
    // Three times so much has slots at once.
    let mut source = bytes(3 * SHORT, 3);
    client.memcpy_htod(Stream::LEGACY, at, host(&mut source)).unwrap();
    let waits = |client: &Client| client.statistics().waited.iter().sum::<u64>();
    let before = waits(client);
    counted(client, |client| client.memcpy_htod(Stream::LEGACY, at, host(&mut source))).unwrap();
    counted(client, |client| client.memcpy_htod_async(at, host(&mut source), Stream::LEGACY)).unwrap();
    assert_eq!(waits(client), before);
}

#[test]
fn little_travels_and_wants_no_slots() {
    let server = Server::start(sharing());
    let client = copying(&server, "2");
    let at = client.mem_alloc(LARGE).unwrap();
    let mut source = bytes(60_000, 4);
    client.memcpy_htod(Stream::LEGACY, at, host(&mut source)).unwrap();
    let mut target = vec![0; source.len()];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut target), at).unwrap();
    assert!(target == source);
    assert_eq!(counts(&server, ["ShareMemory", "CopyOnDevice", "CopyToDevice", "CopyFromDevice"]), [0, 0, 1, 1]);
}

/// Copies with a server that refuses requests of this name.
fn travels_when_refused(name: &'static str) {
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        if request.name() != name {
            return Flow::Usual;
        }
        peer.reply_with(sequence, 2, 0, "no more", &[]);
        Flow::Done
    };
    let server = Server::start(Options { script: Some(Box::new(script)), ..sharing() });
    let client = copying(&server, "2");
    let at = client.mem_alloc(LARGE).unwrap();
    let mut source = bytes(LARGE, 5);
    let mut target = vec![0; LARGE];
    for _ in 0..2 {
        client.memcpy_htod(Stream::LEGACY, at, host(&mut source)).unwrap();
        client.memcpy_dtoh(Stream::LEGACY, host(&mut target), at).unwrap();
        assert!(target == source);
    }
    assert_eq!(counts(&server, [name, "CopyOnDevice", "CopyToDevice", "CopyFromDevice"]), [1, 0, 2, 2]);
    assert_eq!((client.statistics().staged_to_device, client.statistics().staged_from_device), (0, 0));
}

#[test]
fn bytes_travel_where_the_server_shares_nothing() {
    travels_when_refused("ShareMemory");
}

#[test]
fn bytes_travel_where_the_server_takes_no_slots() {
    travels_when_refused("MapShared");
}

#[test]
fn many_threads_copy_both_ways_at_once() {
    let server = Server::start(sharing());
    let client = copying(&server, "4");
    let context = client.device_primary_ctx_retain(Device(0)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            scope.spawn(move || {
                client.ctx_set_current(context).unwrap();
                let stream = client.stream_create(1).unwrap();
                let length = (LARGE >> (thread % 3)) + thread * 7;
                let at = client.mem_alloc(length).unwrap();
                for round in 0..3 {
                    let mut source = bytes(length, thread * 1000 + round);
                    let mut target = vec![0; length];
                    client.memcpy_htod_async(at, host(&mut source), stream).unwrap();
                    client.memcpy_dtoh_async(host(&mut target), at, stream).unwrap();
                    assert!(target == source, "thread {thread}, round {round}");
                }
            });
        }
    });
    let counted = client.statistics();
    let all = [counted.bytes_to_device, counted.bytes_from_device];
    assert!(counted.staged_to_device <= all[0] && counted.staged_from_device <= all[1]);
    assert!(counted.staged_to_device > 0 && counted.staged_from_device > 0);
}

/// A gate that holds streams until the test opens it, or fails.
struct Hold(&'static AtomicBool);

impl Hold {
    /// The flag stays as long as the process: a test that fails does not wait for the functions that look at it.
    fn new() -> Self {
        Self(Box::leak(Box::default()))
    }

    /// A host function that returns when the gate opens.
    fn function(&self) -> HostFunction {
        // SAFETY: the flag is never freed.
        unsafe { HostFunction::new(until_told, std::ptr::from_ref(self.0).cast_mut().cast()) }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Returns when the flag it is given says so.
unsafe extern "C" fn until_told(flag: *mut c_void) {
    // SAFETY: `Hold` gives its flag, which is never freed.
    let flag = unsafe { &*flag.cast::<AtomicBool>() };
    while !flag.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_stream_that_is_held_keeps_nobody_from_copying_and_the_program_goes_on() {
    let server = Server::start(sharing());
    let client = copying(&server, "4");
    let [held, other] = [0, 1].map(|_| client.stream_create(1).unwrap());
    let (at, there) = (client.mem_alloc(LARGE).unwrap(), client.mem_alloc(LARGE).unwrap());
    let hold = Hold::new();
    client.launch_host_func(held, hold.function()).unwrap();
    let mut source = bytes(LARGE, 6);
    // Its stream gets no further, so it has some slots for good and the rest travels.
    client.memcpy_htod_async(at, host(&mut source), held).unwrap();
    let staged = client.statistics().staged_to_device;
    assert!((1..LARGE as u64).contains(&staged), "{staged} bytes");
    // The other stream gets the rest: four slots at once, and more as its server answers.
    let mut target = vec![0; LARGE];
    client.memcpy_htod_async(there, host(&mut source[..4 * SHORT]), other).unwrap();
    assert_eq!(client.statistics().staged_to_device, staged + 4 * SHORT as u64);
    client.memcpy_htod_async(there, host(&mut source), other).unwrap();
    client.memcpy_dtoh_async(host(&mut target), there, other).unwrap();
    assert!(target == source);
    drop(hold);
    client.stream_synchronize(held).unwrap();
    target.fill(0);
    client.memcpy_dtoh(Stream::LEGACY, host(&mut target), at).unwrap();
    assert!(target == source);
}

#[test]
fn streams_that_are_held_may_have_all_slots_and_bytes_travel() {
    let server = Server::start(sharing());
    let client = copying(&server, "4");
    let hold = Hold::new();
    let at = client.mem_alloc(LARGE).unwrap();
    let mut source = bytes(LARGE, 7);
    let streams = [0, 1].map(|_| client.stream_create(1).unwrap());
    for stream in streams {
        client.launch_host_func(stream, hold.function()).unwrap();
        client.memcpy_htod_async(at, host(&mut source), stream).unwrap();
    }
    let (free, staged) = (client.stream_create(1).unwrap(), client.statistics().staged_to_device);
    let mut target = vec![1; LARGE];
    client.memcpy_htod_async(at, host(&mut source), free).unwrap();
    client.memcpy_dtoh_async(host(&mut target), at, free).unwrap();
    assert!(target == source);
    assert_eq!(client.statistics().staged_to_device, staged);
    assert_eq!(client.statistics().staged_from_device, 0);
    drop(hold);
    for stream in streams {
        client.stream_synchronize(stream).unwrap();
    }
}

/// A server that hangs up at the copy of this number.
fn hanging_up(at: usize) -> Server {
    let mut copies = 0;
    let script = move |request: &Request<'_>, _: u64, _: &mut Peer| match request {
        Request::CopyOnDevice(_) => {
            copies += 1;
            if copies == at { Flow::HangUp } else { Flow::Usual }
        }
        _ => Flow::Usual,
    };
    Server::start(Options { script: Some(Box::new(script)), ..sharing() })
}

#[test]
fn a_link_that_breaks_ends_copies_in_both_directions() {
    let copy = |threads, at, to_device| {
        let server = hanging_up(at);
        let client = copying(&server, threads);
        let device = client.mem_alloc(40 << 20).unwrap();
        let mut target = vec![0; 40 << 20];
        let result = if to_device {
            let copied = client.memcpy_htod(Stream::LEGACY, device, host(&mut target));
            copied.and_then(|()| client.ctx_synchronize())
        } else {
            client.memcpy_dtoh(Stream::LEGACY, host(&mut target), device)
        };
        assert_eq!(result, Err(CudaError::DEVICE_UNAVAILABLE));
    };
    // Each in a thread of its own, which has no context of another client.
    std::thread::scope(|scope| {
        for (threads, at, to_device) in [("1", 1, true), ("1", 7, false), ("4", 7, true), ("4", 1, false)] {
            scope.spawn(move || copy(threads, at, to_device));
        }
    });
}

#[test]
fn a_failure_is_reported_as_that_of_a_posted_copy() {
    let mut first = true;
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::SynchronizeStream(_) if std::mem::take(&mut first) => {
            peer.reply_with(sequence, 0, CudaError::INVALID_VALUE.code(), "a copy failed", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    };
    let server = Server::start(Options { script: Some(Box::new(script)), ..sharing() });
    let client = copying(&server, "1");
    let at = client.mem_alloc(LARGE).unwrap();
    let mut source = bytes(LARGE, 8);
    client.memcpy_htod(Stream::LEGACY, at, host(&mut source)).unwrap();
    assert_eq!(client.ctx_synchronize(), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.ctx_synchronize(), Ok(()));
}

#[test]
fn a_copy_to_the_host_reports_the_failure_of_its_stream() {
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::SynchronizeStream(_) => {
            peer.reply_with(sequence, CudaError::ILLEGAL_ADDRESS.code(), 0, "", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    };
    let server = Server::start(Options { script: Some(Box::new(script)), ..sharing() });
    let client = copying(&server, "3");
    let at = client.mem_alloc(LARGE).unwrap();
    let mut target = bytes(LARGE, 9);
    for _ in 0..2 {
        let result = client.memcpy_dtoh(Stream::LEGACY, host(&mut target), at);
        assert_eq!(result, Err(CudaError::ILLEGAL_ADDRESS));
    }
}

#[test]
fn slots_are_offered_again_after_a_reset() {
    let server = Server::start(sharing());
    let client = copying(&server, "2");
    for _ in 0..2 {
        client.ctx_set_current(client.device_primary_ctx_retain(Device(0)).unwrap()).unwrap();
        let at = client.mem_alloc(LARGE).unwrap();
        let mut source = bytes(LARGE, 10);
        client.memcpy_htod(Stream::LEGACY, at, host(&mut source)).unwrap();
        client.device_primary_ctx_reset(Device(0)).unwrap();
    }
    assert_eq!(counts(&server, ["ShareMemory", "MapShared", "CopyToDevice"]), [1, 2, 0]);
}
