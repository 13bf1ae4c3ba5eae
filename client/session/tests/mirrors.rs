//! Host memory that kernels reach, against a scripted server: what is sent before what, and what a wait brings.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use floe_abi::*;
use floe_session::Client;
use floe_surface::*;
use floe_wire::{MirrorChanged, MirrorRun, Request};
use scripted::*;

/// The server's bytes of each mirror.
type Seen = Arc<Mutex<HashMap<u64, Vec<u8>>>>;

/// A server whose "kernels" add one to the first byte of every mirror, and which sends the change before it answers a
/// synchronize.
fn counting_server() -> (Server, Seen) {
    counting_server_with(Options::default())
}

fn counting_server_with(options: Options) -> (Server, Seen) {
    let mirrors = Seen::default();
    let seen = Arc::clone(&mirrors);
    let mut told: HashMap<u64, u8> = HashMap::new();
    let script = move |request: &Request<'_>, _: u64, peer: &mut Peer| {
        let mut seen = seen.lock().unwrap();
        match request {
            Request::MirrorMemory(m) => {
                seen.insert(m.at.0, vec![0; m.bytes as usize]);
            }
            Request::UnmirrorMemory(m) => {
                seen.remove(&m.at.0).expect("it was mirrored");
            }
            Request::WriteMirror(m) => {
                let memory = seen.get_mut(&m.at.0).expect("it was mirrored");
                for run in &m.runs {
                    memory[run.offset as usize..][..run.bytes.len()].copy_from_slice(run.bytes);
                }
                told.insert(m.at.0, memory[0]);
            }
            Request::Launch(_) => seen.values_mut().for_each(|memory| memory[0] += 1),
            Request::SynchronizeContext(_) | Request::SynchronizeStream(_) => {
                for (at, memory) in seen.iter() {
                    if told.get(at) != Some(&memory[0]) {
                        let runs = vec![MirrorRun { offset: 0, bytes: &memory[..1] }];
                        let _ = peer.sender.post(&MirrorChanged { at: floe_wire::DevicePtr(*at), runs });
                        told.insert(*at, memory[0]);
                    }
                }
            }
            _ => {}
        }
        Flow::Usual
    };
    (Server::start(Options { script: Some(Box::new(script)), maps: true, ..options }), mirrors)
}

fn range_of(bytes: &mut [u8]) -> HostRange {
    host(bytes)
}

fn function(client: &Client) -> Function {
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    client.module_get_function(module, c"add").unwrap()
}

#[test]
fn memory_allocated_for_kernels_is_there_before_any_names_it() {
    let (server, seen) = counting_server();
    let client = client(&server);
    let function = function(client);
    let pointer = client.mem_host_alloc(64, host_alloc_flags::DEVICEMAP).unwrap();
    pinned(pointer, 64).write(&[5]).unwrap();
    // Its address is nowhere among these.
    launch_with(client, function, [1, 1, 1], &[]).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!((server.count("MirrorMemory"), seen.lock().unwrap()[&pointer.0][0]), (1, 6));
    // What is more than a client mirrors unasked waits until it is asked for.
    client.mem_host_alloc(32 << 20, host_alloc_flags::DEVICEMAP).unwrap();
    assert_eq!(server.count("MirrorMemory"), 1);
}

#[test]
fn memory_whose_device_pointer_is_asked_for_is_kept_equal_on_both_sides() {
    let (server, seen) = counting_server();
    let client = client(&server);
    let function = function(client);
    let pointer = client.mem_host_alloc(64, host_alloc_flags::PORTABLE).unwrap();
    let memory = pinned(pointer, 64);
    memory.write(&[5, 6, 7]).unwrap();
    assert_eq!(server.count("MirrorMemory"), 0);
    assert_eq!(client.mem_host_get_device_pointer(pointer, 0), Ok(DevicePtr(pointer.0)));
    assert_eq!(client.mem_host_get_device_pointer(pointer, 0), Ok(DevicePtr(pointer.0)));
    for _ in 0..2 {
        launch_with(client, function, [1, 1, 1], &[]).unwrap();
    }
    client.ctx_synchronize().unwrap();
    assert_eq!(memory.to_vec()[..4], [7, 6, 7, 0], "two launches counted");
    memory.sub(0, 1).unwrap().write(&[40]).unwrap();
    launch_with(client, function, [1, 1, 1], &[]).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(memory.to_vec()[..2], [41, 6]);
    assert_eq!(
        (server.count("MirrorMemory"), server.count("WriteMirror")),
        (1, 2),
        "only what changed, when it changed"
    );
    assert_eq!(seen.lock().unwrap()[&pointer.0][..4], [41, 6, 7, 0]);
    client.mem_free_host(pointer).unwrap();
    assert_eq!((server.count("UnmirrorMemory"), seen.lock().unwrap().len()), (1, 0));
}

#[test]
fn pinned_memory_used_like_a_devices_is_reached_by_kernels_without_asking_for_a_pointer() {
    let (server, seen) = counting_server();
    let client = client(&server);
    let function = function(client);
    let pointer = client.mem_host_alloc(8, 0).unwrap();
    let memory = pinned(pointer, 8);
    memory.write(&[9; 8]).unwrap();
    client.memset_d32_async(DevicePtr(pointer.0), 0, 2, Stream::LEGACY).unwrap();
    launch_with(client, function, [1, 1, 1], &[]).unwrap();
    let mut bytes = [0u8; 8];
    client.memcpy_dtoh_async(host(&mut bytes), DevicePtr(pointer.0), Stream::LEGACY).unwrap();
    assert_eq!(bytes[0], 10, "what the kernel made of what the program wrote; the scripted device fills nothing");
    let sent = ["MirrorMemory", "Fill", "CopyFromDevice"].map(|name| server.count(name));
    assert_eq!(sent, [1, 1, 0], "the device fills it, and the bytes come with the wait");
    // Memory of no size the client would look through before every launch stays the host's.
    let large = client.mem_host_alloc(32 << 20, 0).unwrap();
    client.memset_d32_async(DevicePtr(large.0), 7, 2, Stream::LEGACY).unwrap();
    assert_eq!(pinned(large, 8).to_vec(), [7, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn a_kernel_reaches_the_pinned_memory_it_is_given_the_address_of() {
    let (server, _) = counting_server();
    let client = client(&server);
    let function = function(client);
    let (given, other) = (client.mem_host_alloc(8, 0).unwrap(), client.mem_host_alloc(8, 0).unwrap());
    pinned(given, 8).write(&[3]).unwrap();
    for _ in 0..2 {
        launch(client, function, [1, 1, 1], [32, 1, 1], Stream::LEGACY, (0, given.0 + 4, 0, 1)).unwrap();
    }
    client.ctx_synchronize().unwrap();
    assert_eq!(server.count("MirrorMemory"), 1);
    assert_eq!((pinned(given, 8).to_vec()[0], pinned(other, 8).to_vec()[0]), (5, 0));
}

#[test]
fn a_change_is_sent_ahead_of_the_launch_that_reads_it() {
    let (server, _) = counting_server();
    let client = client(&server);
    let function = function(client);
    let pointer = client.mem_host_alloc(8, 0).unwrap();
    client.mem_host_get_device_pointer(pointer, 0).unwrap();
    pinned(pointer, 8).write(&[1]).unwrap();
    launch_with(client, function, [1, 1, 1], &[]).unwrap();
    client.ctx_synchronize().unwrap();
    let names = server.names();
    let order: Vec<_> = names.iter().filter(|name| ["WriteMirror", "Launch"].contains(name)).collect();
    assert_eq!(order, [&"WriteMirror", &"Launch"]);
}

/// Adds one to a byte.
unsafe extern "C" fn add_one(at: *mut c_void) {
    // SAFETY: the tests give it a byte of pinned memory.
    unsafe { *at.cast::<u8>() += 1 };
}

/// Where the first message of each name was, in the server's order.
fn places<const N: usize>(server: &Server, names: [&str; N]) -> [Option<usize>; N] {
    let all = server.names();
    names.map(|name| all.iter().position(|its| *its == name))
}

#[test]
fn what_a_function_of_the_program_writes_is_sent_ahead_of_its_end() {
    let (server, seen) = counting_server();
    let client = client(&server);
    let pointer = client.mem_host_alloc(64, 0).unwrap();
    client.mem_host_get_device_pointer(pointer, 0).unwrap();
    // SAFETY: the memory outlives the function.
    let function = unsafe { HostFunction::new(add_one, pointer.0 as *mut c_void) };
    client.launch_host_func(Stream::LEGACY, function).unwrap();
    // A kernel behind it needs no call of the program's to see the byte.
    server.wait_for("HostFunctionDone", 1);
    let [written, done] = places(&server, ["WriteMirror", "HostFunctionDone"]);
    assert!(written.is_some() && written < done, "{:?}", server.names());
    assert_eq!(seen.lock().unwrap()[&pointer.0][0], 1);
}

static GOES: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn stands(_: *mut c_void) {
    while !GOES.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// The worker may be in a call of the driver's that waits for the function.
#[test]
fn a_function_of_the_program_ends_while_the_server_makes_a_mirror() {
    let mut held = None;
    let script: Script = Box::new(move |request, sequence, peer| match request {
        Request::MirrorMemory(m) if m.bytes == 128 => {
            held = Some(sequence);
            GOES.store(true, Ordering::Release);
            Flow::Done
        }
        Request::HostFunctionDone(_) => {
            let request = held.take().expect("it stood until then");
            let reply = floe_wire::Reply { request, status: 0, earlier: 0, detail: "", body: &[] };
            peer.sender.send(&reply, |_| ()).unwrap();
            Flow::Usual
        }
        _ => Flow::Usual,
    });
    let server = Server::start(Options { script: Some(script), maps: true, ..Options::default() });
    let client = client(&server);
    let [first, second] = [64, 128].map(|bytes| client.mem_host_alloc(bytes, 0).unwrap());
    client.mem_host_get_device_pointer(first, 0).unwrap();
    pinned(first, 64).write(&[1]).unwrap();
    // SAFETY: the function does not use its argument.
    client.launch_host_func(Stream::LEGACY, unsafe { HostFunction::new(stands, std::ptr::null_mut()) }).unwrap();
    let context = client.ctx_get_current().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.ctx_set_current(context).unwrap();
            assert_eq!(client.mem_host_get_device_pointer(second, 0), Ok(DevicePtr(second.0)));
        });
        server.wait_for("HostFunctionDone", 1);
    });
    let [written, done] = places(&server, ["WriteMirror", "HostFunctionDone"]);
    assert!(written.is_some() && written < done, "{:?}", server.names());
}

/// A program with a vGPU each of two servers that have the same mirror; the stream of the first waits for a kernel of the second.
fn waits_for_a_kernel_elsewhere(options: [Options; 2]) -> ([Server; 2], u64, Seen) {
    let [(here, seen), (there, _)] = options.map(counting_server_with);
    let client = client_with(&[&here, &there], &[]);
    client.init(0).unwrap();
    let contexts = [0, 1].map(|device| client.device_primary_ctx_retain(Device(device)).unwrap());
    client.ctx_set_current(contexts[0]).unwrap();
    let pointer = client.mem_host_alloc(64, host_alloc_flags::PORTABLE).unwrap();
    for context in contexts {
        client.ctx_set_current(context).unwrap();
        client.mem_host_get_device_pointer(pointer, 0).unwrap();
    }
    launch_with(client, function(client), [1, 1, 1], &[]).unwrap();
    let event = client.event_create(2).unwrap();
    client.event_record(event, Stream::LEGACY).unwrap();
    client.ctx_set_current(contexts[0]).unwrap();
    let stream = client.stream_create(1).unwrap();
    client.stream_wait_event(stream, event, 0).unwrap();
    ([here, there], pointer.0, seen)
}

fn what_it_wrote_is_sent_ahead_of_the_end_of_the_wait(options: [Options; 2]) {
    let ([here, _there], pointer, seen) = waits_for_a_kernel_elsewhere(options);
    here.wait_for("RaiseNow", 1);
    let [written, raised] = places(&here, ["WriteMirror", "RaiseNow"]);
    assert!(written.is_some() && written < raised, "{:?}", here.names());
    assert_eq!(seen.lock().unwrap()[&pointer][0], 1);
}

#[test]
fn what_a_kernel_of_another_server_wrote_is_sent_ahead_of_the_end_of_the_wait_for_it() {
    what_it_wrote_is_sent_ahead_of_the_end_of_the_wait([Options::default(), Options::default()]);
}

#[test]
fn what_a_kernel_of_another_vgpu_wrote_is_sent_ahead_of_the_end_of_the_wait_for_it() {
    let machine = Machine::default();
    let of_one_server =
        |session| Options { server: [200; 16], session, machine: machine.clone(), ..Options::default() };
    what_it_wrote_is_sent_ahead_of_the_end_of_the_wait([10, 11].map(of_one_server));
}

/// A synchronous copy brings home what kernels wrote; another is the device's, from its mirror, and waits for nothing.
#[test]
fn copies_from_mirrored_memory_have_what_kernels_write_there() {
    let (server, _) = counting_server();
    let client = client(&server);
    let function = function(client);
    let pointer = client.mem_host_alloc(4, 0).unwrap();
    let at = client.mem_alloc(4).unwrap();
    let place = client.mem_host_get_device_pointer(pointer, 0).unwrap();
    launch_with(client, function, [1, 1, 1], &[]).unwrap();
    client.memcpy_htod(Stream::LEGACY, at, pinned(pointer, 4)).unwrap();
    let mut bytes = [9; 4];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut bytes), at).unwrap();
    assert_eq!(bytes, [1, 0, 0, 0]);
    // The device pointer is as good as the host's.
    client.memcpy_htod(Stream::LEGACY, DevicePtr(pointer.0), host(&mut [8; 4])).unwrap();
    client.memcpy_dtod(Stream::LEGACY, at, DevicePtr(pointer.0), 4).unwrap();
    client.memcpy_dtoh(Stream::LEGACY, host(&mut bytes), at).unwrap();
    assert_eq!(bytes, [8; 4]);
    pinned(pointer, 4).write(&[7]).unwrap();
    let before = server.count("SynchronizeStream");
    client.memcpy_htod_async(at, pinned(pointer, 4), Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(server.count("SynchronizeStream"), before);
    let seen = server.seen();
    let mut last = seen.iter().rev().map(|seen| seen.request());
    let copy = last.find_map(|request| if let Request::CopyOnDevice(copy) = request { Some(copy) } else { None });
    assert_eq!(copy.map(|copy| (copy.to.0, copy.from.0, copy.bytes)), Some((at.0, place.0, 4)));
    assert!(matches!(last.next(), Some(Request::WriteMirror(_))), "what the program wrote goes ahead");
}

#[test]
fn a_fill_of_mirrored_memory_is_the_devices() {
    let (server, _) = counting_server();
    let client = client(&server);
    let pointer = client.mem_host_alloc(16, 0).unwrap();
    client.mem_host_get_device_pointer(pointer, 0).unwrap();
    client.memset_d32_async(DevicePtr(pointer.0), 0, 4, Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!((server.count("Fill"), server.count("HostFunction")), (1, 0));
}

#[test]
fn registered_memory_can_be_mirrored_and_unregistering_ends_it() {
    let (server, _) = counting_server();
    let client = client(&server);
    let mut bytes = vec![3_u8; 100];
    let range = host(&mut bytes);
    client.mem_host_register(range, host_register_flags::DEVICEMAP).unwrap();
    assert_eq!(client.mem_host_get_device_pointer(range.pointer(), 0), Ok(DevicePtr(range.pointer().0)));
    client.mem_host_unregister(range.pointer()).unwrap();
    assert_eq!((server.count("MirrorMemory"), server.count("UnmirrorMemory")), (1, 1));
    assert_eq!(client.mem_host_get_device_pointer(range.pointer(), 0), Err(CudaError::INVALID_VALUE));
}

#[test]
fn what_is_not_to_be_had_is_refused_by_name() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::MirrorMemory(_) => {
            peer.reply_with(sequence, CudaError::NOT_SUPPORTED.code(), 0, "the address is taken", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let small = client.mem_host_alloc(16, 0).unwrap();
    assert_eq!(client.mem_host_get_device_pointer(small, 0), Err(CudaError::NOT_SUPPORTED));
    assert_eq!(client.mem_host_get_device_pointer(small, 1), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_free_host(small), Ok(()));
    assert_eq!(server.count("UnmirrorMemory"), 0);
}

#[test]
fn registered_memory_whose_address_is_taken_is_mirrored_at_another() {
    let mut own = [1u8, 2, 3, 4, 5, 6, 7, 8];
    let host = range_of(&mut own);
    let (at, seen) = (host.pointer().0, Seen::default());
    let theirs = Arc::clone(&seen);
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::MirrorMemory(m) if m.at.0 == at => {
            peer.reply_with(sequence, CudaError::NOT_SUPPORTED.code(), 0, "taken", &[]);
            Flow::Done
        }
        Request::WriteMirror(m) => {
            for run in &m.runs {
                theirs.lock().unwrap().entry(m.at.0).or_default().extend_from_slice(run.bytes);
            }
            Flow::Usual
        }
        Request::SynchronizeContext(_) | Request::SynchronizeStream(_) => {
            for place in theirs.lock().unwrap().keys() {
                let runs = vec![MirrorRun { offset: 7, bytes: &[80] }];
                let _ = peer.sender.post(&MirrorChanged { at: floe_wire::DevicePtr(*place), runs });
            }
            Flow::Usual
        }
        _ => Flow::Usual,
    };
    let server = Server::start(Options { script: Some(Box::new(script)), maps: true, ..Options::default() });
    let client = client(&server);
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    let device = client.mem_host_get_device_pointer(host.pointer(), 0).unwrap();
    assert_ne!(device.0, at);
    assert_eq!(device.0 % 4096, at % 4096);
    assert_eq!(client.mem_host_get_device_pointer(HostPointer(at + 3), 0), Ok(DevicePtr(device.0 + 3)));
    let ask = |attribute, at| client.pointer_get_attribute(attribute, at);
    assert_eq!(ask(pointer_attribute::HOST_POINTER, device), Ok(PointerAttribute::HostPointer(host.pointer())));
    assert_eq!(ask(pointer_attribute::DEVICE_POINTER, DevicePtr(at)), Ok(PointerAttribute::DevicePointer(device)));
    // A fill by either address goes to the device's, and a copy by either reads the program's bytes.
    for named in [device, DevicePtr(at)] {
        client.memset_d32_async(named, 0, 1, Stream::LEGACY).unwrap();
    }
    launch_with(client, function(client), [1, 1, 1], &[]).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(seen.lock().unwrap()[&device.0], [1, 2, 3, 4, 5, 6, 7, 8], "sent once");
    assert_eq!(host.to_vec(), [1, 2, 3, 4, 5, 6, 7, 80], "what the device wrote");
    let mut bytes = [0u8; 8];
    client.memcpy_dtoh_async(range_of(&mut bytes), device, Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!((bytes[0], bytes[7], server.count("Fill"), server.count("MirrorMemory")), (1, 80, 2, 2));
    // Only the worker has memory at the second address. A copy that names it as the host's has the program's bytes all the same.
    // SAFETY: both are the program's; the second address is the device's pointer of such memory.
    let [there, here] =
        [device.0, range_of(&mut bytes).pointer().0].map(|at| unsafe { UnifiedRange::new(DevicePtr(at), 8) });
    client.memcpy(Stream::LEGACY, here, there).unwrap();
    assert_eq!((bytes[0], bytes[7]), (1, 80));
    bytes[0] = 9;
    client.memcpy(Stream::LEGACY, there, here).unwrap();
    assert_eq!(host.to_vec()[..2], [9, bytes[1]]);
    // SAFETY: as above; the last byte is not of it.
    let beyond = unsafe { UnifiedRange::new(DevicePtr(device.0 + 1), 8) };
    assert_eq!(client.memcpy(Stream::LEGACY, here, beyond), Err(CudaError::INVALID_VALUE));
    client.mem_host_unregister(host.pointer()).unwrap();
    assert_eq!(server.count("UnmirrorMemory"), 1);
    assert_eq!(client.mem_host_get_device_pointer(HostPointer(device.0), 0), Err(CudaError::INVALID_VALUE));
}

#[test]
fn what_changes_in_large_mirrors_is_sent_and_nothing_else() {
    let (server, seen) = counting_server();
    let client = client(&server);
    let function = function(client);
    let bytes = 64 << 20;
    let pointer = client.mem_host_alloc(bytes, host_alloc_flags::DEVICEMAP).unwrap();
    let memory = pinned(pointer, bytes);
    assert_eq!(client.mem_host_get_device_pointer(pointer, 0), Ok(DevicePtr(pointer.0)));
    assert_eq!(server.count("WriteMirror"), 0, "zeros on both sides");
    for (round, offset) in [1usize, 4095, 4096, (64 << 20) - 1, 70_000].into_iter().enumerate() {
        let value = 100 + round as u8;
        memory.sub(offset, 1).unwrap().write(&[value]).unwrap();
        launch_with(client, function, [1, 1, 1], &[]).unwrap();
        client.ctx_synchronize().unwrap();
        assert_eq!(seen.lock().unwrap()[&pointer.0][offset], value, "{offset}");
        // The device's own changes do not go back to it.
        assert_eq!(
            (server.count("WriteMirror"), memory.sub(0, 1).unwrap().to_vec()),
            (round + 1, vec![round as u8 + 1])
        );
    }
    client.mem_free_host(pointer).unwrap();
}

#[test]
fn mirrors_of_what_a_context_allocated_end_with_it() {
    let (server, seen) = counting_server();
    let client = client(&server);
    let kept = client.mem_host_alloc(64, host_alloc_flags::DEVICEMAP).unwrap();
    client.mem_host_get_device_pointer(kept, 0).unwrap();
    let context = client.ctx_create(0, Device(0)).unwrap();
    let pointer = client.mem_host_alloc(64, host_alloc_flags::DEVICEMAP).unwrap();
    client.mem_host_get_device_pointer(pointer, 0).unwrap();
    assert_eq!(seen.lock().unwrap().len(), 2);
    client.ctx_destroy(context).unwrap();
    assert_eq!(
        seen.lock().unwrap().keys().copied().collect::<Vec<_>>(),
        [kept.0],
        "16 MiB are not used up by what is over"
    );
    // The memory stays the program's until it frees it.
    pinned(pointer, 64).write(&[5]).unwrap();
    client.mem_free_host(pointer).unwrap();
}

#[test]
fn a_vgpu_that_fails_keeps_no_other_from_letting_go_of_memory() {
    let script = |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        let Request::UnmirrorMemory(_) = request else { return Flow::Usual };
        peer.reply_with(sequence, CudaError::ILLEGAL_ADDRESS.code(), 0, "", &[]);
        Flow::Done
    };
    let failing = Server::start(Options { script: Some(Box::new(script)), maps: true, ..Options::default() });
    let (other, seen) = counting_server();
    let client = client_with(&[&failing, &other], &[]);
    client.init(0).unwrap();
    let mut own = [0u8; 8];
    let host = range_of(&mut own);
    for device in [1, 0] {
        client.ctx_set_current(client.device_primary_ctx_retain(Device(device)).unwrap()).unwrap();
        client.mem_host_get_flags(host.pointer()).or_else(|_| client.mem_host_register(host, 2).map(|()| 0)).unwrap();
        client.mem_host_get_device_pointer(host.pointer(), 0).unwrap();
    }
    assert_eq!(client.mem_host_unregister(host.pointer()), Err(CudaError::ILLEGAL_ADDRESS));
    // The program gives its memory to something else now, and nobody may read it.
    assert_eq!((other.count("UnmirrorMemory"), seen.lock().unwrap().len()), (1, 0));
}

#[test]
fn beyond_the_servers_limit_memory_is_refused_and_the_program_goes_on() {
    let script = |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        let Request::MirrorMemory(_) = request else { return Flow::Usual };
        peer.reply_with(sequence, CudaError::OUT_OF_MEMORY.code(), 0, "of at most (--mirrored-memory): 0", &[]);
        Flow::Done
    };
    let server = Server::start(Options { script: Some(Box::new(script)), maps: true, ..Options::default() });
    let client = client(&server);
    let pointer = client.mem_host_alloc(64, host_alloc_flags::DEVICEMAP).unwrap();
    assert_eq!(client.mem_host_get_device_pointer(pointer, 0), Err(CudaError::OUT_OF_MEMORY));
    let device = client.mem_alloc(64).unwrap();
    client.memcpy_htod_async(device, pinned(pointer, 64), Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
}

/// Prints what a launch costs with mirrors of several sizes, of which the program writes nothing.
#[test]
#[ignore = "it measures"]
fn cost_of_a_launch_with_mirrors() {
    for bytes in [0usize, 1 << 20, 16 << 20, 256 << 20] {
        let server = Server::start(Options { maps: true, ..Options::default() });
        let client = client(&server);
        let function = function(client);
        if bytes > 0 {
            let pointer = client.mem_host_alloc(bytes, host_alloc_flags::DEVICEMAP).unwrap();
            client.mem_host_get_device_pointer(pointer, 0).unwrap();
        }
        launch_with(client, function, [1, 1, 1], &[]).unwrap();
        let begun = std::time::Instant::now();
        for _ in 0..20 {
            launch_with(client, function, [1, 1, 1], &[]).unwrap();
        }
        println!("{:>4} MiB: {:>9.1} µs a launch", bytes >> 20, begun.elapsed().as_secs_f64() * 1e6 / 20.0);
    }
}
