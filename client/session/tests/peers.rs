//! Between vGPUs: which messages copies, events, and access to another's memory become, and when blocks go back.
//! In: scripted servers of one machine or several. Out: what each was told.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use floe_abi::{Context, CudaError, Device, DevicePtr, Event, MemAccess, MemAllocationProperties, MemLocation, Stream};
use floe_abi::{access_flags, allocation_type, location_type};
use floe_session::Client;
use floe_surface::{
    ContextCalls, CopyCalls, DeviceCalls, EventCalls, MemoryCalls, MemsetCalls, PoolCalls, StreamCalls,
    VirtualMemoryCalls,
};
use floe_wire::{Request, WINDOW_BASE, WINDOW_BYTES};
use scripted::*;

const BYTES: usize = 4096;

/// A program with vGPUs of one server.
struct Beside {
    machine: Machine,
    servers: Vec<Server>,
    client: &'static Client,
    contexts: Vec<Context>,
}

fn options(machine: &Machine, session: u64) -> Options {
    Options { server: [200; 16], session, machine: machine.clone(), ..Options::default() }
}

fn beside(count: u64) -> Beside {
    beside_with(count, |options, _| options)
}

fn beside_with(count: u64, change: impl Fn(Options, u64) -> Options) -> Beside {
    let machine = Machine::default();
    let servers: Vec<_> = (0..count).map(|index| Server::start(change(options(&machine, 10 + index), index))).collect();
    let client = client_with(&servers.iter().collect::<Vec<_>>(), &[]);
    client.init(0).unwrap();
    let count = i32::try_from(count).unwrap();
    let contexts = (0..count).map(|device| client.device_primary_ctx_retain(Device(device)).unwrap()).collect();
    Beside { machine, servers, client, contexts }
}

impl Beside {
    fn select(&self, device: usize) {
        self.client.ctx_set_current(self.contexts[device]).unwrap();
    }

    fn allocate(&self, device: usize, bytes: usize) -> DevicePtr {
        self.select(device);
        self.client.mem_alloc(bytes).unwrap()
    }

    /// A stream that waits for no default stream.
    fn stream(&self, device: usize) -> Stream {
        self.select(device);
        self.client.stream_create(1).unwrap()
    }

    fn recorded(&self, device: usize, stream: Stream) -> Event {
        self.select(device);
        let event = self.client.event_create(2).unwrap();
        self.client.event_record(event, stream).unwrap();
        event
    }

    /// The messages a server has had by now, those of the handshake excluded.
    fn names(&self, device: usize) -> Vec<&'static str> {
        self.settle(device);
        self.servers[device].names()
    }

    /// Has everything posted read by the server.
    fn settle(&self, device: usize) {
        self.select(device);
        self.client.mem_get_info().unwrap();
    }

    fn count(&self, device: usize, name: &str) -> usize {
        self.settle(device);
        self.servers[device].count(name)
    }

    fn copied(&self) -> (u64, u64) {
        let statistics = self.client.statistics();
        (statistics.bytes_to_device, statistics.bytes_from_device)
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index % 241) as u8).collect()
}

#[test]
fn a_copy_between_vgpus_of_one_server_is_the_streams_devices_and_passes_no_client() {
    let program = beside(2);
    let (from, to) = (program.allocate(0, BYTES), program.allocate(1, BYTES));
    program.machine.write(from.0, &pattern(BYTES));
    let stream = program.stream(0);
    let [target, source] = [1, 0].map(|device| program.contexts[device]);
    let before = program.copied();
    for _ in 0..2 {
        program.client.memcpy_peer_async(to, target, from, source, BYTES, stream).unwrap();
    }
    assert_eq!(program.count(0, "CopyOnDevice"), 2);
    assert_eq!(program.machine.read(to.0, BYTES as u64), pattern(BYTES));
    assert_eq!((program.copied(), program.count(0, "ImportBlock")), (before, 1), "{:?}", program.names(0));
    for name in ["CopyFromDevice", "CopyToDevice", "SynchronizeStream", "HostFunction"] {
        assert_eq!((program.count(0, name), program.count(1, name)), (0, 0), "{name}");
    }
}

#[test]
fn bytes_that_another_vgpu_may_read_are_there_when_a_copy_returns() {
    let program = beside(2);
    let to = program.allocate(1, BYTES);
    let send = || {
        program.select(1);
        program.client.memcpy_htod(Stream::LEGACY, to, host(&mut pattern(64))).unwrap();
        program.servers[1].count("SynchronizeStream")
    };
    assert_eq!(send(), 0);
    program.select(0);
    program.client.ctx_enable_peer_access(program.contexts[1], 0).unwrap();
    assert_eq!(program.servers[1].count("SynchronizeStream"), 1, "those of the copy before");
    assert_eq!(send(), 2);
}

#[test]
fn a_stream_of_a_third_vgpu_has_both_blocks() {
    let program = beside(3);
    let (from, to) = (program.allocate(0, BYTES), program.allocate(1, BYTES));
    program.machine.write(from.0, &pattern(BYTES));
    let stream = program.stream(2);
    program.client.memcpy_dtod_async(to, from, BYTES, stream).unwrap();
    assert_eq!((program.count(2, "ImportBlock"), program.count(2, "CopyOnDevice")), (2, 1));
    assert_eq!(program.machine.read(to.0, BYTES as u64), pattern(BYTES));
}

#[test]
fn the_programs_bytes_and_fills_reach_another_vgpus_memory_in_the_streams_order() {
    let program = beside(2);
    let there = program.allocate(1, BYTES);
    let stream = program.stream(0);
    program.client.memset_d8_async(there, 7, 16, stream).unwrap();
    let mut bytes = pattern(16);
    program.client.memcpy_htod_async(there.offset(16).unwrap(), host(&mut bytes), stream).unwrap();
    let mut output = [0u8; 32];
    program.client.memcpy_dtoh_async(host(&mut output), there, stream).unwrap();
    assert_eq!(output[16..], bytes);
    assert_eq!((program.count(0, "ImportBlock"), program.count(0, "Fill")), (1, 1));
    for name in ["Fill", "CopyToDevice", "CopyFromDevice"] {
        assert_eq!(program.count(1, name), 0, "{name}");
    }
}

#[test]
fn a_copy_of_the_default_stream_is_in_order_of_both_default_streams() {
    let program = beside(2);
    let (from, to) = (program.allocate(0, BYTES), program.allocate(1, BYTES));
    program.client.memset_d8(Stream::LEGACY, to, 1, BYTES).unwrap();
    program.select(0);
    let [target, source] = [1, 0].map(|device| program.contexts[device]);
    program.client.memcpy_peer(Stream::LEGACY, to, target, from, source, BYTES).unwrap();
    let (here, there) = (program.names(0), program.names(1));
    let place = |names: &[&str], name: &str| names.iter().position(|other| *other == name).unwrap();
    assert!(place(&here, "AwaitSignal") < place(&here, "CopyOnDevice"), "{here:?}");
    assert!(place(&here, "CopyOnDevice") < place(&here, "RaiseSignal"), "{here:?}");
    assert!(place(&there, "Fill") < place(&there, "RaiseSignal"), "{there:?}");
    assert!(place(&there, "RaiseSignal") < place(&there, "AwaitSignal"), "{there:?}");
}

#[test]
fn memory_freed_while_another_vgpu_copies_from_it_goes_back_behind_the_copy() {
    let program = beside(2);
    let large = 32 << 20;
    let (from, to) = (program.allocate(1, large), program.allocate(0, BYTES));
    let stream = program.stream(0);
    program.client.memcpy_dtod_async(to, from, BYTES, stream).unwrap();
    // More than is kept, so that it is released when it can be.
    let kept = program.allocate(1, 64 << 20);
    program.client.mem_free(from).unwrap();
    program.client.mem_free(kept).unwrap();
    assert_eq!(program.count(0, "ReleaseBlock"), 0);
    program.client.stream_synchronize(stream).unwrap();
    program.select(1);
    program.client.mem_pool_trim_to(program.client.device_get_default_mem_pool(Device(1)).unwrap(), 0).unwrap();
    assert_eq!((program.count(0, "UnmapRange"), program.count(0, "ReleaseBlock")), (1, 1));
    assert_eq!(program.count(1, "ReleaseBlock"), 2);
}

#[test]
fn all_present_and_future_blocks_are_mapped_where_access_is_enabled() {
    let program = beside(2);
    let present = program.allocate(1, BYTES);
    program.select(0);
    assert_eq!(program.client.device_can_access_peer(Device(0), Device(1)), Ok(true));
    program.client.ctx_enable_peer_access(program.contexts[1], 0).unwrap();
    assert_eq!(program.count(0, "ImportBlock"), 1);
    let enable = || program.client.ctx_enable_peer_access(program.contexts[1], 0);
    assert_eq!(enable(), Err(CudaError::PEER_ACCESS_ALREADY_ENABLED));
    let future = program.allocate(1, 32 << 20);
    // Before the program knows the address.
    assert_eq!(program.servers[0].count("ImportBlock"), 2);
    assert_eq!(program.count(0, "MapBlock"), 2);
    assert!(mapped(&program.servers[0]).contains(&future.0) && mapped(&program.servers[0]).contains(&present.0));
    program.select(0);
    program.client.ctx_disable_peer_access(program.contexts[1]).unwrap();
    let disabled = program.client.ctx_disable_peer_access(program.contexts[1]);
    assert_eq!(disabled, Err(CudaError::PEER_ACCESS_NOT_ENABLED));
    program.allocate(1, 32 << 20);
    assert_eq!(program.servers[0].count("ImportBlock"), 2);
}

/// The addresses of other windows that a server was told to map at.
fn mapped(server: &Server) -> Vec<u64> {
    let seen = server.seen();
    let maps = seen.iter().filter_map(|seen| match seen.request() {
        Request::MapBlock(map) => Some(map.at.0),
        _ => None,
    });
    maps.collect()
}

#[test]
fn vgpus_of_two_servers_are_no_peers() {
    let (first, second) = (Server::start(Options::default()), Server::start(Options::default()));
    let client = client_with(&[&first, &second], &[]);
    client.init(0).unwrap();
    let contexts = [0, 1].map(|device| client.device_primary_ctx_retain(Device(device)).unwrap());
    client.ctx_set_current(contexts[0]).unwrap();
    assert_eq!(client.device_can_access_peer(Device(0), Device(1)), Ok(false));
    assert_eq!(client.ctx_enable_peer_access(contexts[1], 0), Err(CudaError::PEER_ACCESS_UNSUPPORTED));
    assert_eq!(client.device_get_p2p_attribute(2, Device(0), Device(1)), Ok(0));
}

#[test]
fn an_event_of_another_vgpu_is_a_word_that_its_worker_raises() {
    let program = beside(2);
    let (here, there) = (program.stream(0), program.stream(1));
    let event = program.recorded(1, there);
    for _ in 0..3 {
        program.client.stream_wait_event(here, event, 0).unwrap();
    }
    assert_eq!((program.count(0, "AwaitSignal"), program.count(1, "RaiseSignal")), (3, 3));
    assert_eq!((program.count(0, "CreateSignals"), program.count(1, "ImportSignals")), (1, 1));
    assert_eq!((program.count(0, "HostFunction"), program.count(1, "SynchronizeStream")), (0, 0));
    // Three waits at a time need three words.
    let seen = program.servers[0].seen();
    let mut words: Vec<_> = seen.iter().filter_map(awaited).collect();
    words.dedup();
    assert_eq!(words.len(), 3);
}

fn awaited(seen: &Seen) -> Option<(u32, u64)> {
    match seen.request() {
        Request::AwaitSignal(wait) => Some((wait.word, wait.value)),
        _ => None,
    }
}

#[test]
fn a_word_is_used_again_with_a_higher_value_when_the_wait_is_known_to_be_over() {
    let program = beside(2);
    let (here, there) = (program.stream(0), program.stream(1));
    for _ in 0..2 {
        let event = program.recorded(1, there);
        program.client.stream_wait_event(here, event, 0).unwrap();
        program.client.stream_synchronize(here).unwrap();
        for _ in 0..600 {
            program.client.event_record(event, there).unwrap();
            program.client.stream_wait_event(here, event, 0).unwrap();
        }
        program.client.stream_synchronize(here).unwrap();
    }
    program.settle(0);
    let mut highest = std::collections::HashMap::new();
    let seen = program.servers[0].seen();
    for seen in &seen {
        if let Request::AwaitSignal(wait) = seen.request() {
            let last = highest.insert((wait.signals.0, wait.word), wait.value);
            assert!(last.is_none_or(|last| last < wait.value), "word {} of {}", wait.word, wait.signals.0);
        }
    }
    assert!(program.servers[0].count("CreateSignals") <= 2);
}

/// A server that answers no SynchronizeStream before it is told to.
fn reluctant(options: Options) -> (Server, mpsc::Sender<()>) {
    let (go, going) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(Some(going)));
    let script: Script = Box::new(move |request, sequence, peer| {
        let Request::SynchronizeStream(_) = request else { return Flow::Usual };
        let Some(going) = held.lock().unwrap().take() else { return Flow::Usual };
        let sender = peer.sender.clone();
        std::thread::spawn(move || {
            let _ = going.recv();
            let reply = floe_wire::Reply { request: sequence, status: 0, earlier: 0, detail: "", body: &[] };
            let _ = sender.send(&reply, |_| ());
        });
        Flow::Done
    });
    (Server::start(Options { script: Some(script), ..options }), go)
}

#[test]
fn an_event_of_another_server_is_raised_by_the_client_and_no_thread_of_a_driver_stands() {
    let (there, go) = reluctant(Options::default());
    let here = Server::start(Options::default());
    let client = client_with(&[&here, &there], &[]);
    client.init(0).unwrap();
    let contexts = [0, 1].map(|device| client.device_primary_ctx_retain(Device(device)).unwrap());
    client.ctx_set_current(contexts[1]).unwrap();
    let event = client.event_create(2).unwrap();
    client.event_record(event, Stream::LEGACY).unwrap();
    client.ctx_set_current(contexts[0]).unwrap();
    let stream = client.stream_create(1).unwrap();
    client.stream_wait_event(stream, event, 0).unwrap();
    here.wait_for("AwaitSignal", 1);
    there.wait_for("SynchronizeStream", 1);
    client.mem_get_info().unwrap();
    assert_eq!((here.count("RaiseNow"), here.count("HostFunction")), (0, 0));
    go.send(()).unwrap();
    here.wait_for("RaiseNow", 1);
    let seen = here.seen();
    let raised = seen.iter().find_map(|seen| match seen.request() {
        Request::RaiseNow(raise) => Some((raise.word, raise.value)),
        _ => None,
    });
    let (word, value) = seen.iter().find_map(awaited).unwrap();
    assert_eq!(raised, Some((word, value)));
}

#[test]
fn work_done_elsewhere_for_a_stream_waits_for_what_the_stream_itself_would_wait_for() {
    let (here, there) = (Server::start(Options::default()), Server::start(Options::default()));
    let client = client_with(&[&here, &there], &[]);
    client.init(0).unwrap();
    let contexts = [0, 1].map(|device| client.device_primary_ctx_retain(Device(device)).unwrap());
    client.ctx_set_current(contexts[0]).unwrap();
    let (target, local) = (client.mem_alloc(64).unwrap(), client.mem_alloc(64).unwrap());
    client.ctx_set_current(contexts[1]).unwrap();
    let own = client.mem_alloc(64).unwrap();
    let (blocking, unblocking) = (client.stream_create(0).unwrap(), client.stream_create(1).unwrap());
    client.memset_d8_async(own, 1, 64, Stream::LEGACY).unwrap();
    // The stream has no work, but its next waits for the fill. It is done on the other server.
    client.memset_d8_async(target, 2, 64, blocking).unwrap();
    there.wait_for("HostFunction", 1);
    here.wait_for("AwaitSignal", 1);
    here.wait_for("RaiseNow", 1);
    client.memset_d8_async(own, 1, 64, Stream::LEGACY).unwrap();
    client.memset_d8_async(local, 2, 64, unblocking).unwrap();
    assert_eq!((there.count("HostFunction"), here.count("AwaitSignal")), (1, 1), "this stream waits for no other");
}

#[test]
fn a_wait_ends_when_the_other_server_is_gone() {
    // The server goes when the wait is under way: before that the wait itself would be refused.
    let (go, going) = mpsc::channel::<()>();
    let going = Mutex::new(going);
    let there = Server::scripted(move |request, _, _| match request {
        Request::SynchronizeStream(_) => {
            let _ = going.lock().unwrap().recv();
            Flow::HangUp
        }
        _ => Flow::Usual,
    });
    let here = Server::start(Options::default());
    let client = client_with(&[&here, &there], &[]);
    client.init(0).unwrap();
    let contexts = [0, 1].map(|device| client.device_primary_ctx_retain(Device(device)).unwrap());
    client.ctx_set_current(contexts[1]).unwrap();
    let event = client.event_create(2).unwrap();
    client.event_record(event, Stream::LEGACY).unwrap();
    client.ctx_set_current(contexts[0]).unwrap();
    client.stream_wait_event(Stream::LEGACY, event, 0).unwrap();
    go.send(()).unwrap();
    here.wait_for("RaiseNow", 1);
}

#[test]
fn an_event_behind_bytes_for_the_host_is_over_when_they_are_here() {
    // The bytes of the copy to the host come late, and what is said behind them.
    let (go, going) = mpsc::channel::<()>();
    let (held, mut copied) = (Mutex::new(Some(going)), None);
    let script = Mutex::new(Some(Box::new(move |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        match request {
            Request::CopyFromDevice(copy) => copied = Some((sequence, vec![5; copy.bytes as usize])),
            Request::SynchronizeStream(_) => {
                let (copied, going) = (copied.take().unwrap(), held.lock().unwrap().take().unwrap());
                let sender = peer.sender.clone();
                std::thread::spawn(move || {
                    let _ = going.recv();
                    let _ = sender.post(&floe_wire::Delivery { request: copied.0, offset: 0, bytes: &copied.1 });
                    for request in [copied.0, sequence] {
                        let reply = floe_wire::Reply { request, status: 0, earlier: 0, detail: "", body: &[] };
                        let _ = sender.send(&reply, |_| ());
                    }
                });
            }
            _ => return Flow::Usual,
        }
        Flow::Done
    }) as Script));
    let program = beside_with(2, |options, index| {
        let script = (index == 1).then(|| script.lock().unwrap().take()).flatten();
        Options { script, ..options }
    });
    let at = program.allocate(1, 64);
    let memory = pinned(program.client.mem_alloc_host(64).unwrap(), 64);
    let (here, there) = (program.stream(0), program.stream(1));
    program.select(1);
    program.client.memcpy_dtoh_async(memory, at, there).unwrap();
    let event = program.recorded(1, there);
    program.select(0);
    program.client.stream_wait_event(here, event, 0).unwrap();
    // The device's word would come before the bytes.
    program.servers[1].wait_for("SynchronizeStream", 1);
    assert_eq!(program.servers[1].count("RaiseSignal"), 0);
    go.send(()).unwrap();
    program.servers[0].wait_for("RaiseNow", 1);
    assert_eq!(memory.to_vec(), [5; 64]);
}

fn properties(device: i32) -> MemAllocationProperties {
    let location = MemLocation { kind: location_type::DEVICE, id: device };
    MemAllocationProperties { kind: allocation_type::PINNED, location, ..Default::default() }
}

fn access(device: i32, flags: u32) -> MemAccess {
    MemAccess { location: MemLocation { kind: location_type::DEVICE, id: device }, flags }
}

#[test]
fn physical_memory_is_mapped_at_any_windows_addresses_and_for_several_devices() {
    let program = beside(2);
    let (client, bytes) = (program.client, 2 << 20);
    program.select(0);
    let at = client.mem_address_reserve(bytes, 0, DevicePtr(0), 0).unwrap();
    assert!(at.0 < WINDOW_BASE + WINDOW_BYTES);
    let memory = client.mem_create(bytes, &properties(1), 0).unwrap();
    client.mem_map(at, bytes, 0, memory, 0).unwrap();
    let both = [access(0, access_flags::READ), access(1, access_flags::READWRITE)];
    client.mem_set_access(at, bytes, &both).unwrap();
    // Others may import what is mapped, also when its last handle is gone.
    client.mem_release(memory).unwrap();
    assert_eq!((program.count(0, "ImportBlock"), program.count(1, "ReleaseBlock")), (1, 0));
    for wish in &both {
        assert_eq!(client.mem_get_access(&wish.location, at), Ok(u64::from(wish.flags)));
    }
    assert_eq!((mapped(&program.servers[0]), mapped(&program.servers[1])), (vec![at.0], vec![at.0]));
    client.mem_unmap(at, bytes).unwrap();
    assert_eq!((program.count(0, "ReleaseBlock"), program.count(1, "ReleaseBlock")), (1, 1));
    client.mem_address_free(at, bytes).unwrap();
}

#[test]
fn a_copy_is_not_made_by_a_vgpu_whose_access_was_taken() {
    let program = beside(2);
    let (client, bytes) = (program.client, 2 << 20);
    program.select(0);
    let memory = client.mem_create(bytes, &properties(0), 0).unwrap();
    let at = client.mem_address_reserve(bytes, 0, DevicePtr(0), 0).unwrap();
    client.mem_map(at, bytes, 0, memory, 0).unwrap();
    client.mem_set_access(at, bytes, &[0, 1].map(|device| access(device, access_flags::READWRITE))).unwrap();
    client.mem_set_access(at, bytes, &[access(1, access_flags::NONE)]).unwrap();
    let to = program.allocate(0, BYTES);
    let stream = program.stream(1);
    client.memcpy_dtod_async(to, at, BYTES, stream).unwrap();
    assert_eq!((program.count(1, "CopyOnDevice"), program.count(0, "CopyOnDevice")), (0, 1));
    client.mem_set_access(at, bytes, &[access(1, access_flags::READ)]).unwrap();
    client.memcpy_dtod_async(to, at, BYTES, stream).unwrap();
    assert_eq!(program.count(1, "CopyOnDevice"), 1);
}

/// The worker waits inside the driver then, and could take no host function's end.
#[test]
fn access_is_taken_when_the_vgpu_has_nothing_left_to_do() {
    let program = beside(2);
    let (client, bytes) = (program.client, 2 << 20);
    program.select(0);
    let memory = client.mem_create(bytes, &properties(0), 0).unwrap();
    let at = client.mem_address_reserve(bytes, 0, DevicePtr(0), 0).unwrap();
    client.mem_map(at, bytes, 0, memory, 0).unwrap();
    client.mem_set_access(at, bytes, &[0, 1].map(|device| access(device, access_flags::READWRITE))).unwrap();
    for device in [0, 1] {
        let stream = program.stream(device);
        client.memset_d8_async(at, 1, BYTES, stream).unwrap();
        let taken = [access(i32::try_from(device).unwrap(), access_flags::NONE)];
        client.mem_set_access(at, bytes, &taken).unwrap();
        let names = program.names(device);
        let last = |wanted: &str| names.iter().rposition(|name| *name == wanted);
        assert!(
            last("Fill") < last("SynchronizeContext") && last("SynchronizeContext") < last("SetAccess"),
            "{names:?}"
        );
    }
}

#[test]
fn a_pool_lets_others_in_and_says_so() {
    let program = beside(2);
    let (client, location) = (program.client, access(0, 0).location);
    program.allocate(1, BYTES);
    let pool = client.device_get_default_mem_pool(Device(1)).unwrap();
    assert_eq!(client.mem_pool_get_access(pool, &location), Ok(access_flags::NONE));
    client.mem_pool_set_access(pool, &[access(0, access_flags::READWRITE)]).unwrap();
    assert_eq!(client.mem_pool_get_access(pool, &location), Ok(access_flags::READWRITE));
    assert_eq!(program.count(0, "ImportBlock"), 1);
    client.mem_pool_set_access(pool, &[access(0, access_flags::NONE)]).unwrap();
    assert_eq!(client.mem_pool_get_access(pool, &location), Ok(access_flags::NONE));
}

#[test]
fn what_a_reset_ends_is_returned_before_its_addresses_are_used_again() {
    let program = beside(2);
    let (from, to) = (program.allocate(1, BYTES), program.allocate(0, BYTES));
    let stream = program.stream(0);
    program.client.memcpy_dtod_async(to, from, BYTES, stream).unwrap();
    program.client.device_primary_ctx_reset(Device(1)).unwrap();
    assert_eq!(program.count(0, "UnmapRange"), 0);
    let again = program.allocate(1, BYTES);
    assert_eq!(again, from);
    program.select(0);
    program.client.memcpy_dtod_async(to, again, BYTES, stream).unwrap();
    let names = program.names(0);
    let place = |name: &str| names.iter().rposition(|other| *other == name).unwrap();
    assert!(place("UnmapRange") < place("ImportBlock"), "{names:?}");
    assert_eq!(program.count(0, "ImportBlock"), 2);
}
