//! Host memory and stream order: when bytes are read, when they are there, and how host functions fit in.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use floe_abi::{Context, CudaError, Stream};
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

/// Holds copies to the host back until a synchronize, and fills them with 0xAB.
fn lazy_copies() -> Server {
    let mut held: Vec<(u64, u64)> = Vec::new();
    Server::scripted(move |request, sequence, peer| match request {
        Request::CopyFromDevice(copy) => {
            held.push((sequence, copy.bytes));
            Flow::Done
        }
        // All of them come behind the copies: their data goes first.
        Request::SynchronizeStream(_)
        | Request::SynchronizeContext(_)
        | Request::ResetContext(_)
        | Request::HostFunction(_)
        | Request::CopyLate(_) => {
            for (request, bytes) in held.drain(..) {
                peer.deliver(request, 0, &vec![0xab; bytes as usize]);
                peer.reply(request, &());
            }
            Flow::Usual
        }
        _ => Flow::Usual,
    })
}

#[test]
fn a_copy_into_pinned_memory_returns_at_once_and_is_there_after_the_synchronize() {
    let server = lazy_copies();
    let client = client(&server);
    let at = client.mem_alloc(4096).unwrap();
    let pointer = client.mem_alloc_host(4096).unwrap();
    let range = pinned(pointer, 4096);
    counted(client, |client| client.memcpy_dtoh_async(range, at, Stream::LEGACY)).unwrap();
    assert_eq!(range.to_vec(), vec![0; 4096]);
    counted(client, |client| client.stream_synchronize(Stream::LEGACY)).unwrap();
    assert_eq!(range.to_vec(), vec![0xab; 4096]);
    let statistics = client.statistics();
    assert_eq!(statistics.made, [0, 1, 1]);
    assert_eq!(statistics.waited, [0, 0, 1], "posts do not wait");
}

#[test]
fn a_copy_into_registered_memory_is_like_one_into_pinned() {
    let server = lazy_copies();
    let client = client(&server);
    let at = client.mem_alloc(64).unwrap();
    let mut bytes = vec![0u8; 64];
    client.mem_host_register(host(&mut bytes), 0).unwrap();
    client.memcpy_dtoh_async(host(&mut bytes), at, Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    client.mem_host_unregister(floe_abi::HostPointer(bytes.as_ptr() as u64)).unwrap();
    assert_eq!(bytes, vec![0xab; 64]);
}

#[test]
fn giving_up_a_context_waits_for_copies_into_memory_the_program_may_free_then() {
    let server = lazy_copies();
    let client = client(&server);
    let at = client.mem_alloc(64).unwrap();
    let mut bytes = vec![0u8; 64];
    client.mem_host_register(host(&mut bytes), 0).unwrap();
    client.memcpy_dtoh_async(host(&mut bytes), at, Stream::LEGACY).unwrap();
    client.device_primary_ctx_release(floe_abi::Device(0)).unwrap();
    assert_eq!(bytes, vec![0xab; 64]);
    // The registration went with the context.
    client.device_primary_ctx_retain(floe_abi::Device(0)).unwrap();
    client.mem_host_register(host(&mut bytes), 0).unwrap();
}

#[test]
fn a_copy_into_pageable_memory_waits() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(64).unwrap();
    let (mut input, mut output) = ([3u8; 64], [0u8; 64]);
    client.memcpy_htod_async(at, host(&mut input), Stream::LEGACY).unwrap();
    input.fill(4);
    client.memcpy_dtoh_async(host(&mut output), at, Stream::LEGACY).unwrap();
    assert_eq!(output, [3; 64], "the source was read by the call");
}

#[test]
fn a_copy_from_memory_that_is_still_being_written_reads_it_afterwards() {
    let server = lazy_copies();
    let client = client(&server);
    let (from, to) = (client.mem_alloc(64).unwrap(), client.mem_alloc(64).unwrap());
    let pointer = client.mem_alloc_host(64).unwrap();
    let stream = client.stream_create(1).unwrap();
    client.memcpy_dtoh_async(pinned(pointer, 64), from, stream).unwrap();
    client.memcpy_htod_async(to, pinned(pointer, 64), stream).unwrap();
    server.wait_for("CopyLate", 1);
    client.stream_synchronize(stream).unwrap();
    let seen = server.seen();
    let late = seen.iter().find(|seen| seen.name == "LateBytes").expect("they were sent");
    let Request::LateBytes(late) = late.request() else { panic!("bytes") };
    assert_eq!(late.bytes, [0xab; 64]);
}

static RAN: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn count(user: *mut c_void) {
    RAN.fetch_add(user as u32, Ordering::SeqCst);
}

#[test]
fn a_host_function_runs_once_and_the_stream_continues() {
    let server = Server::start(Options::default());
    let client = client(&server);
    // SAFETY: the function takes its argument for a number.
    let function = unsafe { HostFunction::new(count, 5 as *mut c_void) };
    client.launch_host_func(Stream::LEGACY, function).unwrap();
    client.stream_synchronize(Stream::LEGACY).unwrap();
    assert_eq!(RAN.load(Ordering::SeqCst), 5);
    // The function's thread may be quicker than the program's.
    let names = server.names();
    let [first, others @ ..] = names.as_slice() else { panic!("{names:?}") };
    let others: std::collections::BTreeSet<&str> = others.iter().copied().collect();
    assert_eq!((*first, names.len()), ("HostFunction", 3), "{names:?}");
    assert_eq!(others, ["HostFunctionDone", "SynchronizeStream"].into());
}

static REFUSED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn never(_: *mut c_void) {
    REFUSED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn host_functions_and_late_copies_the_server_refuses_are_over_and_read_nothing() {
    let mut refused = Vec::new();
    let server = Server::scripted(move |request, _, peer| match request {
        Request::HostFunction(message) => {
            refused.push(message.function);
            Flow::Done
        }
        Request::CopyLate(message) => {
            refused.push(message.function);
            for function in refused.drain(..) {
                peer.sender.post(&floe_wire::RunHostFunction { function, status: 2 }).unwrap();
            }
            Flow::Done
        }
        Request::HostFunctionDone(_) => Flow::Done,
        _ => Flow::Usual,
    });
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    let source = pinned(client.mem_alloc_host(16).unwrap(), 16);
    // SAFETY: the function does not look at its argument.
    let function = unsafe { HostFunction::new(never, std::ptr::null_mut()) };
    client.launch_host_func(Stream::LEGACY, function).unwrap();
    client.memcpy_htod_async(at, source, Stream::LEGACY).unwrap();
    server.wait_for("HostFunctionDone", 2);
    // Nothing is left that might write the source.
    client.memcpy_htod_async(at, source, Stream::LEGACY).unwrap();
    client.stream_synchronize(Stream::LEGACY).unwrap();
    assert_eq!((server.count("CopyLate"), server.count("CopyToDevice"), server.count("LateBytes")), (1, 1, 0));
    assert_eq!(REFUSED.load(Ordering::SeqCst), 0);
}

struct Baton {
    go: mpsc::Receiver<()>,
    target: HostRange,
}

impl Baton {
    /// A host function that writes when the test lets it. The baton stays as long as the process: a test that fails
    /// does not wait for the function.
    fn function(self) -> HostFunction {
        // SAFETY: the baton is never freed.
        unsafe { HostFunction::new(write_when_told, std::ptr::from_mut(Box::leak(Box::new(self))).cast()) }
    }
}

unsafe extern "C" fn write_when_told(user: *mut c_void) {
    // SAFETY: `Baton::function` gives a baton that is never freed.
    let baton = unsafe { &*user.cast::<Baton>() };
    // A test that fails tells nothing.
    if baton.go.recv().is_ok() {
        baton.target.write(&[9; 16]).unwrap();
    }
}

#[test]
fn a_copy_behind_a_host_function_reads_what_the_function_wrote() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    let source = pinned(client.mem_alloc_host(16).unwrap(), 16);
    let (told, go) = mpsc::channel();
    let function = Baton { go, target: source }.function();
    let stream = client.stream_create(1).unwrap();
    client.launch_host_func(stream, function).unwrap();
    client.memcpy_htod_async(at, source, stream).unwrap();
    // The program continues, so it can be the one that lets the function return.
    told.send(()).unwrap();
    client.stream_synchronize(stream).unwrap();
    let mut output = [0u8; 16];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut output), at).unwrap();
    assert_eq!(output, [9; 16]);
}

#[test]
fn a_copy_of_a_batch_behind_a_host_function_reads_pageable_memory_when_its_turn_comes() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    let source = HostBlock::new(16).unwrap();
    let (told, go) = mpsc::channel();
    let function = Baton { go, target: source.range() }.function();
    let stream = client.stream_create(1).unwrap();
    client.launch_host_func(stream, function).unwrap();
    let here = floe_abi::DevicePtr(source.pointer().0);
    // SAFETY: memory of the device, and of the test's own that lives until its end.
    let [to, from] = [at, here].map(|end| unsafe { UnifiedRange::new(end, 16) });
    client.memcpy_in_order(to, from, stream).unwrap();
    told.send(()).unwrap();
    client.stream_synchronize(stream).unwrap();
    let mut output = [0u8; 16];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut output), at).unwrap();
    assert_eq!(output, [9; 16]);
}

#[test]
fn a_synchronous_copy_of_pinned_memory_is_over_where_other_streams_could_tell() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    let source = pinned(client.mem_alloc_host(16).unwrap(), 16);
    client.memcpy_htod(Stream::LEGACY, at, source).unwrap();
    client.stream_create(0).unwrap();
    client.memcpy_htod(Stream::LEGACY, at, source).unwrap();
    assert_eq!(server.count("SynchronizeStream"), 0, "all streams wait for the copy's");
    client.stream_create(1).unwrap();
    client.memcpy_htod(Stream::LEGACY, at, HostBlock::new(16).unwrap().range()).unwrap();
    assert_eq!(server.count("SynchronizeStream"), 0, "CUDA promises nothing of pageable memory");
    client.memcpy_htod(Stream::LEGACY, at, source).unwrap();
    assert_eq!(server.count("SynchronizeStream"), 1);
}

#[test]
fn bytes_read_late_go_past_all_that_waits_at_the_server_and_hold_up_no_other_copy() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(4096).unwrap();
    let source = pinned(client.mem_alloc_host(64).unwrap(), 64);
    let (told, go) = mpsc::channel();
    let function = Baton { go, target: source.sub(0, 16).unwrap() }.function();
    let (stream, other) = (client.stream_create(1).unwrap(), client.stream_create(1).unwrap());
    client.launch_host_func(stream, function).unwrap();
    client.memcpy_htod_async(at, source, stream).unwrap();
    // The function may write this source too, for all that is known; the other stream's turn comes at once.
    client.memcpy_htod_async(at.offset(1024).unwrap(), source, other).unwrap();
    client.stream_synchronize(other).unwrap();
    assert_eq!((server.count("LateBytes"), server.count("HostFunctionDone")), (1, 0), "{:?}", server.names());
    told.send(()).unwrap();
    client.ctx_synchronize().unwrap();
    server.wait_for("LateBytes", 2);
    let names = server.names();
    let place = |name| names.iter().rposition(|other| *other == name).unwrap();
    assert!(place("HostFunctionDone") < place("LateBytes"), "{names:?}");
    assert_eq!((server.count("CopyLate"), server.count("CopyToDevice")), (2, 0));
    let mut output = [0u8; 64];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut output), at).unwrap();
    assert_eq!(output[..16], [9; 16]);
}

#[test]
fn rows_of_a_box_behind_a_host_function_are_read_late_without_their_gaps() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(64).unwrap();
    let source = pinned(client.mem_alloc_host(64).unwrap(), 64);
    let (told, go) = mpsc::channel();
    let function = Baton { go, target: source.sub(16, 16).unwrap() }.function();
    let stream = client.stream_create(1).unwrap();
    client.launch_host_func(stream, function).unwrap();
    // Three rows of 4 bytes, 16 apart there, 8 apart here: only the middle one is the function's.
    let copy = boxed(4, 3, (CopyPlace::Host(source.sub(0, 36).unwrap()), 16), (CopyPlace::Device(at, 20), 8));
    client.memcpy_box_async(&copy, stream).unwrap();
    told.send(()).unwrap();
    client.stream_synchronize(stream).unwrap();
    let mut output = [0u8; 24];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut output), at).unwrap();
    let expected = [[0; 8].as_slice(), &[9; 4], &[0; 12]].concat();
    assert_eq!(output.as_slice(), expected);
}

static STATUS: AtomicU32 = AtomicU32::new(99);

unsafe extern "C" fn note_status(_stream: u64, status: u32, _user: *mut c_void) {
    STATUS.store(status, Ordering::SeqCst);
}

#[test]
fn a_callback_gets_the_streams_status() {
    let server = Server::start(Options::default());
    let client = client(&server);
    // SAFETY: the function uses none of its pointers.
    let callback = unsafe { StreamCallback::new(note_status, 1, std::ptr::null_mut()) };
    client.stream_add_callback(Stream::LEGACY, callback).unwrap();
    client.stream_synchronize(Stream::LEGACY).unwrap();
    assert_eq!(STATUS.load(Ordering::SeqCst), 0);
}

fn boxed(width: usize, height: usize, source: (CopyPlace, usize), destination: (CopyPlace, usize)) -> CopyBox {
    let end = |(place, pitch): (CopyPlace, usize)| CopyEnd { place, pitch, slice: pitch * height };
    CopyBox { source: end(source), destination: end(destination), width, height, depth: 1 }
}

#[test]
fn a_box_goes_to_the_device_and_back_with_its_gaps() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (at, pitch) = client.mem_alloc_pitch(6, 4, 4).unwrap();
    assert_eq!(pitch, 512);
    let span = 3 * pitch + 6;
    let mut input: Vec<u8> = (0..40).collect();
    let up = boxed(6, 4, (CopyPlace::Host(host(&mut input)), 10), (CopyPlace::Device(at, span), pitch));
    client.memcpy_box(Stream::LEGACY, &up).unwrap();
    let mut output = vec![0u8; 32];
    let down = boxed(6, 4, (CopyPlace::Device(at, span), pitch), (CopyPlace::Host(host(&mut output)), 8));
    client.memcpy_box(Stream::LEGACY, &down).unwrap();
    for row in 0..4u8 {
        let from = usize::from(row) * 8;
        let expected: Vec<u8> = (row * 10..row * 10 + 6).collect();
        assert_eq!(output[from..from + 6], expected);
        assert_eq!(output[from + 6..from + 8], [0, 0]);
    }
    assert_eq!((server.count("CopyBoxToDevice"), server.count("CopyBoxFromDevice")), (1, 1));
}

#[test]
fn a_box_finds_pinned_memory_that_is_called_the_devices() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(64).unwrap();
    let memory = pinned(client.mem_alloc_host(64).unwrap(), 64);
    memory.write(&(0..64).collect::<Vec<u8>>()).unwrap();
    let named = CopyPlace::Device(floe_abi::DevicePtr(memory.pointer().0), 36);
    client.memcpy_box(Stream::LEGACY, &boxed(4, 3, (named, 16), (CopyPlace::Device(at, 20), 8))).unwrap();
    let mut output = [0u8; 20];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut output), at).unwrap();
    let expected = [[0, 1, 2, 3], [0; 4], [16, 17, 18, 19], [0; 4], [32, 33, 34, 35]].concat();
    assert_eq!(output.as_slice(), expected);
}

#[test]
fn a_stream_that_waits_for_another_vgpu_holds_up_no_host_function() {
    // The other vGPU never finishes.
    let there = Server::scripted(|request, _, _| match request {
        Request::SynchronizeStream(_) => Flow::Done,
        _ => Flow::Usual,
    });
    let here = Server::start(Options::default());
    let client = client_with(&[&here, &there], &[]);
    client.init(0).unwrap();
    let contexts: Vec<_> =
        (0..2).map(|device| client.device_primary_ctx_retain(floe_abi::Device(device)).unwrap()).collect();
    client.ctx_set_current(contexts[1]).unwrap();
    let event = client.event_create(0).unwrap();
    client.event_record(event, Stream::LEGACY).unwrap();
    client.ctx_set_current(contexts[0]).unwrap();
    let (waiting, other) = (client.stream_create(1).unwrap(), client.stream_create(1).unwrap());
    client.stream_wait_event(waiting, event, 0).unwrap();
    there.wait_for("SynchronizeStream", 1);
    // SAFETY: the function takes its argument for a number.
    let function = unsafe { HostFunction::new(count_nothing, std::ptr::null_mut()) };
    client.launch_host_func(other, function).unwrap();
    here.wait_for("HostFunctionDone", 1);
}

unsafe extern "C" fn count_nothing(_: *mut c_void) {}

#[test]
fn memory_of_one_vgpu_is_copied_to_another_through_the_client() {
    let (first, second) = (Server::start(Options::default()), Server::start(Options::default()));
    let client = client_with(&[&first, &second], &[]);
    client.init(0).unwrap();
    assert_eq!(client.device_get_count(), Ok(2));
    let contexts: Vec<_> =
        (0..2).map(|device| client.device_primary_ctx_retain(floe_abi::Device(device)).unwrap()).collect();
    client.ctx_set_current(contexts[1]).unwrap();
    let there = client.mem_alloc(1 << 20).unwrap();
    client.ctx_set_current(contexts[0]).unwrap();
    let here = client.mem_alloc(1 << 20).unwrap();
    let mut bytes: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 241) as u8).collect();
    client.memcpy_htod(Stream::LEGACY, here, host(&mut bytes)).unwrap();
    client.memcpy_peer(Stream::LEGACY, there, contexts[1], here, contexts[0], 1 << 20).unwrap();
    let mut output = vec![0u8; 1 << 20];
    // SAFETY: both ranges live until the copy is over; the source is a device address.
    let (to, from) = unsafe {
        let to = floe_abi::DevicePtr(output.as_mut_ptr() as u64);
        (UnifiedRange::new(to, output.len()), UnifiedRange::new(there, output.len()))
    };
    client.memcpy(Stream::LEGACY, to, from).unwrap();
    assert!(output == bytes);
    assert_eq!(client.device_can_access_peer(floe_abi::Device(0), floe_abi::Device(1)), Ok(false));
}

#[test]
fn a_copy_between_vgpus_tells_variables_at_one_address_apart() {
    let (first, second) = (Server::start(Options::default()), Server::start(Options::default()));
    let client = client_with(&[&first, &second], &[]);
    client.init(0).unwrap();
    let variable = |device| {
        let context = client.device_primary_ctx_retain(floe_abi::Device(device)).unwrap();
        client.ctx_set_current(context).unwrap();
        let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
        (client.module_get_global(module, c"counter").unwrap().0, context)
    };
    let (here, there) = (variable(0), variable(1));
    assert_eq!(here.0, there.0);
    // The second vGPU is current.
    let mut bytes = [7u8; 64];
    client.memcpy_htod(Stream::LEGACY, there.0, host(&mut bytes)).unwrap();
    client.ctx_set_current(here.1).unwrap();
    client.memcpy_peer(Stream::LEGACY, here.0, here.1, there.0, there.1, 64).unwrap();
    let mut output = [0u8; 64];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut output), here.0).unwrap();
    assert_eq!(output, bytes);
    // The same for boxes: here's is all 9 now, there's all 7.
    client.memcpy_htod(Stream::LEGACY, here.0, host(&mut [9u8; 64])).unwrap();
    let end = |at| CopyEnd { place: CopyPlace::Device(at, 28), pitch: 16, slice: 32 };
    let copy = CopyBox { source: end(there.0), destination: end(here.0), width: 12, height: 2, depth: 1 };
    let peers = |source, destination| PeerBox { copy, source, destination };
    client.memcpy_box_peer(Stream::LEGACY, &peers(Some(there.1), Some(here.1))).unwrap();
    client.memcpy_dtoh(Stream::LEGACY, host(&mut output), here.0).unwrap();
    let expected: Vec<u8> = (0..64).map(|at| if at < 28 && at % 16 < 12 { 7 } else { 9 }).collect();
    assert_eq!(output[..], expected);
    for context in [Context::NULL, Context(1)] {
        let refused = client.memcpy_box_peer(Stream::LEGACY, &peers(Some(context), Some(here.1)));
        assert_eq!(refused, Err(CudaError::INVALID_CONTEXT));
    }
    let own = client.mem_alloc(64).unwrap();
    let elsewhere = PeerBox { copy: CopyBox { source: end(own), ..copy }, ..peers(Some(there.1), Some(here.1)) };
    assert_eq!(client.memcpy_box_peer(Stream::LEGACY, &elsewhere), Err(CudaError::INVALID_VALUE), "here's memory");
}
