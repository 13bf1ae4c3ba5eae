//! Pinned memory that client and worker share, against a scripted server: which messages go, which calls wait, and
//! which bytes travel if the server refuses the memory.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use floe_abi::*;
use floe_session::Client;
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

const LARGE: usize = 1 << 20;

fn sharing() -> Options {
    Options { shares: true, maps: true, ..Options::default() }
}

fn counts(server: &Server, names: &[&str]) -> Vec<usize> {
    names.iter().map(|name| server.count(name)).collect()
}

/// A device allocation and a pinned block of `LARGE` bytes.
fn memory(client: &Client) -> (DevicePtr, HostRange) {
    (client.mem_alloc(LARGE).unwrap(), pinned(client.mem_alloc_host(LARGE).unwrap(), LARGE))
}

fn waits(client: &Client) -> u64 {
    client.statistics().waited.iter().sum()
}

#[test]
fn device_reads_and_writes_pinned_memory_and_no_byte_travels() {
    let server = Server::start(sharing());
    let client = client(&server);
    let (device, host) = memory(client);
    let bytes: Vec<u8> = (0..LARGE).map(|index| (index / 3) as u8).collect();
    host.write(&bytes).unwrap();
    let other = pinned(client.mem_host_alloc(LARGE, host_alloc_flags::PORTABLE).unwrap(), LARGE);
    let before = waits(client);
    counted(client, |client| client.memcpy_htod_async(device, host, Stream::LEGACY)).unwrap();
    counted(client, |client| client.memcpy_dtoh_async(other, device, Stream::LEGACY)).unwrap();
    let little = other.sub(0, 4).unwrap();
    counted(client, |client| client.memcpy_dtoh_async(little, device, Stream::LEGACY)).unwrap();
    assert_eq!(waits(client), before, "all of it is posted");
    counted(client, |client| client.stream_synchronize(Stream::LEGACY)).unwrap();
    assert_eq!(waits(client), before + 1);
    assert!(other.to_vec() == bytes);
    assert_eq!(
        counts(&server, &["ShareMemory", "MapShared", "CopyOnDevice", "CopyToDevice", "CopyFromDevice"]),
        [1, 2, 3, 0, 0]
    );
    let counted = client.statistics();
    assert_eq!((counted.shared_to_device, counted.bytes_to_device), (LARGE as u64, LARGE as u64));
    assert_eq!((counted.shared_from_device, counted.bytes_from_device), (LARGE as u64 + 4, LARGE as u64 + 4));
}

#[test]
fn a_block_the_worker_is_asked_for_holds_up_no_copy_of_another() {
    let (mut blocks, mut held) = (0, None);
    let server = Server::start(Options {
        // The second block's answer comes when the first was copied.
        script: Some(Box::new(move |request, sequence, peer| match request {
            Request::MapShared(_) => {
                blocks += 1;
                held = (blocks == 2).then_some(sequence);
                if held.is_some() { Flow::Done } else { Flow::Usual }
            }
            Request::CopyOnDevice(_) => {
                if let Some(asked) = held.take() {
                    peer.reply(asked, &floe_wire::MapSharedReply { reached: true });
                }
                Flow::Usual
            }
            _ => Flow::Usual,
        })),
        ..sharing()
    });
    let client = client(&server);
    let (device, host) = memory(client);
    let context = client.ctx_get_current().unwrap();
    let second = std::thread::spawn(move || {
        client.ctx_set_current(context).unwrap();
        client.mem_alloc_host(LARGE).unwrap()
    });
    server.wait_for("MapShared", 2);
    let copy = std::thread::spawn(move || {
        client.ctx_set_current(context).unwrap();
        client.memcpy_htod_async(device, host, Stream::LEGACY).unwrap();
    });
    // Said by the server when it comes; a test that waited for the thread itself would stand still with it.
    server.wait_for("CopyOnDevice", 1);
    join(copy);
    let second = pinned(join(second), LARGE);
    client.memcpy_htod_async(device, second, Stream::LEGACY).unwrap();
    client.stream_synchronize(Stream::LEGACY).unwrap();
    assert_eq!(counts(&server, &["MapShared", "CopyOnDevice"]), [2, 2]);
}

#[test]
fn copies_a_program_waits_for_are_over_when_the_call_returns() {
    let server = Server::start(sharing());
    let client = client(&server);
    let (device, host) = memory(client);
    host.write(&[7; 100]).unwrap();
    client.memcpy_htod(Stream::LEGACY, device, host).unwrap();
    assert_eq!(counts(&server, &["CopyOnDevice", "SynchronizeStream"]), [1, 1]);
    host.write(&[0; 100]).unwrap();
    client.memcpy_dtoh(Stream::LEGACY, host.sub(50, 100).unwrap(), device).unwrap();
    assert_eq!(host.to_vec()[45..55], [0, 0, 0, 0, 0, 7, 7, 7, 7, 7]);
    assert_eq!(counts(&server, &["CopyOnDevice", "SynchronizeStream"]), [2, 2]);
    // A few bytes are sent rather than waited for, unless something may still write them.
    client.memcpy_htod(Stream::LEGACY, device, host.sub(50, 4).unwrap()).unwrap();
    server.wait_for("CopyToDevice", 1);
    assert_eq!(server.count("SynchronizeStream"), 2);
    client.memcpy_dtoh_async(host, device, Stream::LEGACY).unwrap();
    client.memcpy_htod(Stream::LEGACY, device, host.sub(0, 4).unwrap()).unwrap();
    assert_eq!(counts(&server, &["CopyToDevice", "CopyOnDevice", "SynchronizeStream"]), [1, 4, 3]);
}

#[test]
fn boxes_of_pinned_memory_are_the_devices_to_copy() {
    let server = Server::start(sharing());
    let client = client(&server);
    let (device, host) = memory(client);
    host.write(&(0..64).collect::<Vec<u8>>()).unwrap();
    let end = |place, pitch| CopyEnd { place, pitch, slice: 0 };
    let (rows, target) = (CopyPlace::Host(host.sub(1, 20).unwrap()), CopyPlace::Device(device, 104));
    let copy = CopyBox { source: end(rows, 8), destination: end(target, 50), width: 4, height: 3, depth: 1 };
    client.memcpy_box_async(&copy, Stream::LEGACY).unwrap();
    let back = CopyPlace::Host(host.sub(1000, 20).unwrap());
    let copy = CopyBox { source: end(target, 50), destination: end(back, 8), width: 4, height: 3, depth: 1 };
    client.memcpy_box(Stream::LEGACY, &copy).unwrap();
    assert_eq!(host.to_vec()[1000..1012], [1, 2, 3, 4, 0, 0, 0, 0, 9, 10, 11, 12]);
    assert_eq!(counts(&server, &["CopyBoxOnDevice", "CopyBoxToDevice", "CopyBoxFromDevice"]), [2, 0, 0]);
}

#[test]
fn kernels_and_fills_are_given_the_programs_own_addresses() {
    let server = Server::start(sharing());
    let client = client(&server);
    let bytes = 64 << 20;
    let pointer = client.mem_host_alloc(bytes, host_alloc_flags::DEVICEMAP).unwrap();
    let at = DevicePtr(pointer.0);
    assert_eq!(client.mem_host_get_device_pointer(pointer, 0), Ok(at));
    assert_eq!(client.pointer_get_attribute(pointer_attribute::MAPPED, at), Ok(PointerAttribute::Mapped(true)));
    assert_eq!(
        client.pointer_get_attribute(pointer_attribute::MEMORY_TYPE, at),
        Ok(PointerAttribute::MemoryType(memory_type::HOST))
    );
    assert_eq!(client.mem_host_get_flags(pointer), Ok(host_alloc_flags::DEVICEMAP));
    client.memset_d32_async(at, 5, 16, Stream::LEGACY).unwrap();
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let function = client.module_get_function(module, c"add").unwrap();
    launch(client, function, [1; 3], [32, 1, 1], Stream::LEGACY, (pointer.0, pointer.0 + 8, 0, 1)).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(counts(&server, &["MirrorMemory", "WriteMirror", "Fill", "Launch"]), [0, 0, 1, 1]);
}

#[test]
fn freeing_has_the_worker_let_go_first() {
    let server = Server::start(sharing());
    let client = client(&server);
    let (device, host) = memory(client);
    client.memcpy_dtoh_async(host, device, Stream::LEGACY).unwrap();
    client.mem_free_host(host.pointer()).unwrap();
    assert_eq!(server.names().last(), Some(&"UnmapShared"));
    assert_eq!(client.mem_free_host(host.pointer()), Err(CudaError::INVALID_VALUE));
    let again = client.mem_alloc_host(LARGE).unwrap();
    assert_ne!(again, host.pointer(), "never the same place twice");
}

#[test]
fn each_server_gets_a_free_whatever_another_answers() {
    let script = |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        let Request::UnmapShared(_) = request else { return Flow::Usual };
        peer.reply_with(sequence, CudaError::ILLEGAL_ADDRESS.code(), 0, "", &[]);
        Flow::Done
    };
    let first = Server::start(Options { script: Some(Box::new(script)), ..sharing() });
    let second = Server::start(sharing());
    let client = client_with(&[&first, &second], &[]);
    client.init(0).unwrap();
    client.ctx_set_current(client.device_primary_ctx_retain(Device(0)).unwrap()).unwrap();
    let host = pinned(client.mem_alloc_host(LARGE).unwrap(), LARGE);
    client.ctx_set_current(client.device_primary_ctx_retain(Device(1)).unwrap()).unwrap();
    let device = client.mem_alloc(LARGE).unwrap();
    client.memcpy_htod_async(device, host, Stream::LEGACY).unwrap();
    assert_eq!(client.mem_free_host(host.pointer()), Err(CudaError::ILLEGAL_ADDRESS));
    assert_eq!([&first, &second].map(|server| server.count("UnmapShared")), [1, 1]);
}

#[test]
fn memory_is_offered_again_after_a_reset() {
    let server = Server::start(sharing());
    let client = client(&server);
    let (_, host) = memory(client);
    client.device_primary_ctx_reset(Device(0)).unwrap();
    let context = client.device_primary_ctx_retain(Device(0)).unwrap();
    client.ctx_set_current(context).unwrap();
    let device = client.mem_alloc(LARGE).unwrap();
    client.memcpy_htod_async(device, host, Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(counts(&server, &["ShareMemory", "MapShared", "CopyOnDevice", "CopyToDevice"]), [1, 2, 1, 0]);
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
    let client = client(&server);
    let (device, host) = memory(client);
    host.write(&[9; 9]).unwrap();
    client.memcpy_htod_async(device, host, Stream::LEGACY).unwrap();
    client.memcpy_dtoh_async(host.sub(100, 9).unwrap(), device, Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(host.to_vec()[99..110], [0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0]);
    assert_eq!(counts(&server, &[name, "CopyOnDevice", "CopyToDevice", "CopyFromDevice"]), [1, 0, 1, 1]);
    assert_eq!(client.statistics().shared_to_device, 0);
    client.mem_free_host(host.pointer()).unwrap();
    assert_eq!(server.count("UnmapShared"), 0);
}

#[test]
fn memory_travels_where_the_server_shares_none() {
    travels_when_refused("ShareMemory");
}

#[test]
fn memory_travels_that_the_server_does_not_take() {
    travels_when_refused("MapShared");
}

#[test]
fn pinned_memory_outlives_its_server() {
    let server = Server::start(Options {
        script: Some(Box::new(|request: &Request<'_>, _: u64, _: &mut Peer| match request {
            Request::SynchronizeContext(_) => Flow::HangUp,
            _ => Flow::Usual,
        })),
        ..sharing()
    });
    let client = client(&server);
    let (device, host) = memory(client);
    host.write(&[5; 5]).unwrap();
    client.memcpy_htod_async(device, host, Stream::LEGACY).unwrap();
    assert_eq!(client.ctx_synchronize(), Err(CudaError::DEVICE_UNAVAILABLE));
    assert_eq!(host.to_vec()[..6], [5, 5, 5, 5, 5, 0]);
    client.mem_free_host(host.pointer()).unwrap();
}

/// Memory of the program: a file in memory, mapped where the kernel likes.
struct Mapped {
    file: std::fs::File,
    at: *mut u8,
}

const PAGES: usize = 4;
const PAGE_BYTES: usize = 4096;

#[allow(unsafe_code, reason = "a program maps its memory so")]
impl Mapped {
    fn new() -> Self {
        let file = rustix::fs::memfd_create("program", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, (PAGES * PAGE_BYTES) as u64).unwrap();
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        let kind = rustix::mm::MapFlags::SHARED;
        // SAFETY: new pages at an address of the kernel's choice.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), PAGES * PAGE_BYTES, access, kind, &file, 0) };
        Self { file: file.into(), at: at.unwrap().cast() }
    }

    fn range(&self, offset: usize, bytes: usize) -> HostRange {
        pinned(HostPointer(self.at as u64 + offset as u64), bytes)
    }
}

#[test]
fn a_registered_file_is_the_workers_to_map_at_its_own_address() {
    let server = Server::start(sharing());
    let client = client(&server);
    let (memory, device) = (Mapped::new(), client.mem_alloc(LARGE).unwrap());
    // Parts of pages are registered; whole pages are shared.
    let host = memory.range(PAGE_BYTES + 100, PAGE_BYTES);
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    let at = DevicePtr(host.pointer().0);
    assert_eq!(client.mem_host_get_device_pointer(host.pointer(), 0), Ok(at));
    let inside = HostPointer(at.0 + 5);
    assert_eq!(client.mem_host_get_device_pointer(inside, 0), Ok(DevicePtr(inside.0)));
    host.write(&[1, 2, 3, 4]).unwrap();
    client.memcpy_htod_async(device, host, Stream::LEGACY).unwrap();
    client.memcpy_dtoh_async(host.sub(8, 4).unwrap(), device, Stream::LEGACY).unwrap();
    client.stream_synchronize(Stream::LEGACY).unwrap();
    assert_eq!(host.to_vec()[..12], [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(counts(&server, &["ShareFile", "CopyOnDevice", "CopyToDevice", "MirrorMemory"]), [1, 2, 0, 0]);
    client.mem_host_unregister(host.pointer()).unwrap();
    assert_eq!(server.names().last(), Some(&"UnmapShared"));
    assert_eq!(client.mem_host_get_device_pointer(host.pointer(), 0), Err(CudaError::INVALID_VALUE));
    drop(memory.file);
}

#[test]
fn a_registered_file_whose_address_is_taken_has_a_device_address_of_its_own() {
    let memory = Mapped::new();
    let start = memory.at as u64;
    let taken = start..start + (PAGES * PAGE_BYTES) as u64;
    let server = Server::start(Options { taken, ..sharing() });
    let client = client(&server);
    let device = client.mem_alloc(LARGE).unwrap();
    let host = memory.range(PAGE_BYTES + 100, PAGE_BYTES);
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    let at = client.mem_host_get_device_pointer(host.pointer(), 0).unwrap();
    assert!(at.0 != host.pointer().0 && at.0 % 4096 == 100, "{at:?}");
    let can = client.device_get_attribute(device_attribute::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, Device(0));
    assert_eq!(can, Ok(0));
    let ask = |attribute, at| client.pointer_get_attribute(attribute, at);
    let own = DevicePtr(host.pointer().0);
    assert_eq!(ask(pointer_attribute::DEVICE_POINTER, own), Ok(PointerAttribute::DevicePointer(at)));
    assert_eq!(
        ask(pointer_attribute::HOST_POINTER, DevicePtr(at.0 + 7)),
        Ok(PointerAttribute::HostPointer(HostPointer(own.0 + 7)))
    );
    assert_eq!(ask(pointer_attribute::MAPPED, own), Ok(PointerAttribute::Mapped(true)));
    // Copies name it by either address, and its bytes do not travel.
    host.write(&[1, 2, 3, 4]).unwrap();
    client.memcpy_htod_async(device, host, Stream::LEGACY).unwrap();
    client.memcpy_dtod_async(DevicePtr(at.0 + 8), device, 4, Stream::LEGACY).unwrap();
    client.memset_d32_async(DevicePtr(own.0 + 12), 5, 1, Stream::LEGACY).unwrap();
    client.stream_synchronize(Stream::LEGACY).unwrap();
    assert_eq!(host.to_vec()[..12], [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(
        counts(&server, &["ShareFile", "CopyOnDevice", "CopyToDevice", "MirrorMemory", "Fill"]),
        [2, 2, 0, 0, 1]
    );
    assert_eq!(client.mem_free_host(HostPointer(at.0)), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_host_unregister(HostPointer(at.0)), Err(CudaError::HOST_MEMORY_NOT_REGISTERED));
    client.mem_host_unregister(host.pointer()).unwrap();
    assert_eq!(server.names().last(), Some(&"UnmapShared"));
    assert_eq!(client.pointer_get_attribute(pointer_attribute::MEMORY_TYPE, at), Err(CudaError::INVALID_VALUE));
}

#[test]
fn two_registrations_of_one_page_are_both_reached() {
    let server = Server::start(sharing());
    let client = client(&server);
    let memory = Mapped::new();
    let [first, second] = [0, 64].map(|offset| memory.range(offset, 64));
    client.mem_host_register(first, 0).unwrap();
    client.mem_host_register(second, 0).unwrap();
    for host in [first, second] {
        client.mem_host_get_device_pointer(host.pointer(), 0).unwrap();
    }
    client.mem_host_unregister(first.pointer()).unwrap();
    second.write(&[9]).unwrap();
    let at = client.mem_host_get_device_pointer(second.pointer(), 0).unwrap();
    let device = client.mem_alloc(64).unwrap();
    client.memcpy_dtod_async(device, at, 8, Stream::LEGACY).unwrap();
    let mut bytes = [0; 1];
    client.memcpy_dtoh_async(host(&mut bytes), device, Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(bytes, [9]);
    assert_eq!(counts(&server, &["ShareFile", "MirrorMemory"]), [3, 0], "the second was refused at its own address");
}

fn add(client: &Client) -> Function {
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    client.module_get_function(module, c"add").unwrap()
}

/// A program with a device of each of two servers; that of the first one is current.
fn with_two(servers: [&Server; 2]) -> &'static Client {
    let client = client_with(&servers, &[]);
    client.init(0).unwrap();
    client.ctx_set_current(client.device_primary_ctx_retain(Device(0)).unwrap()).unwrap();
    client
}

#[test]
fn kernels_of_every_device_reach_registered_memory_whose_device_pointer_one_has() {
    let [first, second] = [Server::start(sharing()), Server::start(sharing())];
    let client = with_two([&first, &second]);
    let memory = Mapped::new();
    let host = memory.range(PAGE_BYTES, PAGE_BYTES);
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    let at = host.pointer().0;
    assert_eq!(client.mem_host_get_device_pointer(host.pointer(), 0), Ok(DevicePtr(at)));
    assert_eq!([&first, &second].map(|server| server.count("ShareFile")), [1, 0], "the other is not waited for");
    // Also after a reset, which takes it from the worker.
    for offers in [1, 2] {
        client.ctx_set_current(client.device_primary_ctx_retain(Device(1)).unwrap()).unwrap();
        let add = add(client);
        for _ in 0..2 {
            launch(client, add, [1; 3], [32, 1, 1], Stream::LEGACY, (at, at + 8, 0, 1)).unwrap();
        }
        client.ctx_synchronize().unwrap();
        assert_eq!([&first, &second].map(|server| server.count("ShareFile")), [1, offers]);
        assert_eq!(second.count("MirrorMemory"), 0);
        if offers == 1 {
            client.device_primary_ctx_reset(Device(1)).unwrap();
        }
    }
    client.mem_host_unregister(host.pointer()).unwrap();
    assert_eq!([&first, &second].map(|server| server.count("UnmapShared")), [1, 1]);
}

#[test]
fn a_device_that_cannot_have_registered_memory_is_asked_once() {
    let memory = Mapped::new();
    let host = memory.range(PAGE_BYTES, PAGE_BYTES);
    let at = host.pointer().0;
    let refuses = |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        let (Request::ShareFile(_) | Request::MirrorMemory(_)) = request else { return Flow::Usual };
        peer.reply_with(sequence, CudaError::OUT_OF_MEMORY.code(), 0, "no more", &[]);
        Flow::Done
    };
    let first = Server::start(sharing());
    let second = Server::start(Options { script: Some(Box::new(refuses)), ..sharing() });
    let client = with_two([&first, &second]);
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    assert_eq!(client.mem_host_get_device_pointer(host.pointer(), 0), Ok(DevicePtr(at)));
    client.ctx_set_current(client.device_primary_ctx_retain(Device(1)).unwrap()).unwrap();
    let add = add(client);
    for _ in 0..10 {
        launch(client, add, [1; 3], [32, 1, 1], Stream::LEGACY, (at, at + 8, 0, 1)).unwrap();
    }
    client.ctx_synchronize().unwrap();
    assert_eq!([second.count("ShareFile"), second.count("MirrorMemory")], [1, 1]);
    client.mem_host_unregister(host.pointer()).unwrap();
}

#[test]
fn a_second_address_of_a_mirror_is_the_same_for_all_devices() {
    let host = amid_other_bytes();
    let at = host.pointer().0;
    let refuses = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::MirrorMemory(m) if m.at.0 == at => {
            peer.reply_with(sequence, CudaError::NOT_SUPPORTED.code(), 0, "taken", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    };
    let first = Server::start(Options { script: Some(Box::new(refuses)), ..sharing() });
    let second = Server::start(sharing());
    let client = with_two([&first, &second]);
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    let place = client.mem_host_get_device_pointer(host.pointer(), 0).unwrap();
    assert_ne!(place.0, at);
    client.ctx_set_current(client.device_primary_ctx_retain(Device(1)).unwrap()).unwrap();
    launch(client, add(client), [1; 3], [32, 1, 1], Stream::LEGACY, (place.0, place.0 + 8, 0, 1)).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(client.mem_host_get_device_pointer(host.pointer(), 0), Ok(place));
    assert_eq!([&first, &second].map(|server| server.count("MirrorMemory")), [2, 1]);
    client.mem_host_unregister(host.pointer()).unwrap();
}

/// Private pages of the program.
fn private() -> HostRange {
    let layout = std::alloc::Layout::from_size_align(PAGES * PAGE_BYTES, PAGE_BYTES).unwrap();
    #[allow(unsafe_code, reason = "a program has memory")]
    // SAFETY: the layout has a size. It is never freed.
    let at = unsafe { std::alloc::alloc_zeroed(layout) };
    pinned(HostPointer(at as u64), PAGES * PAGE_BYTES)
}

/// A part of private pages: the first page and the last one have bytes that are not in it, so no page is exchanged.
fn amid_other_bytes() -> HostRange {
    private().sub(16, 2 * PAGE_BYTES).unwrap()
}

/// Whether this machine exchanges private pages for a file's: all of it is a kernel's or its operator's to allow.
fn exchanges() -> bool {
    let pages = private();
    floe_touch::Exchanged::begin(&(pages.pointer().0..pages.pointer().0 + pages.len() as u64)).is_some()
}

#[test]
fn registered_private_pages_become_a_files_when_kernels_use_them_and_private_again() {
    if !exchanges() {
        return;
    }
    let server = Server::start(sharing());
    let client = client(&server);
    let (host, device) = (private(), client.mem_alloc(LARGE).unwrap());
    host.write(&[1, 2, 3, 4]).unwrap();
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    assert_eq!(server.count("ShareFile"), 0, "nobody needs it yet");
    let at = DevicePtr(host.pointer().0);
    for _ in 0..2 {
        assert_eq!(client.mem_host_get_device_pointer(host.pointer(), 0), Ok(at));
    }
    client.memcpy_htod_async(device, host, Stream::LEGACY).unwrap();
    client.memcpy_dtoh_async(host.sub(8, 4).unwrap(), device, Stream::LEGACY).unwrap();
    client.stream_synchronize(Stream::LEGACY).unwrap();
    assert_eq!(host.to_vec()[..12], [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(counts(&server, &["ShareFile", "CopyOnDevice", "CopyToDevice", "MirrorMemory"]), [1, 2, 0, 0]);
    client.mem_host_unregister(host.pointer()).unwrap();
    assert_eq!(server.count("UnmapShared"), 1);
    assert_eq!(host.to_vec()[..12], [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4], "its bytes stay");
    // Registered again it is private memory as before, also after a context that had it.
    client.mem_host_register(host, 0).unwrap();
    client.mem_host_get_device_pointer(host.pointer(), 0).unwrap();
    assert_eq!(counts(&server, &["ShareFile", "MirrorMemory"]), [2, 0]);
    client.device_primary_ctx_reset(Device(0)).unwrap();
    assert_eq!(host.to_vec()[..4], [1, 2, 3, 4]);
}

#[test]
fn private_pages_whose_address_is_taken_have_a_device_address_of_their_own() {
    if !exchanges() {
        return;
    }
    let host = private();
    let own = host.pointer().0;
    let server = Server::start(Options { taken: own..own + 1, ..sharing() });
    let client = client(&server);
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    let at = client.mem_host_get_device_pointer(host.pointer(), 0).unwrap();
    assert_ne!(at.0, own);
    host.write(&[6]).unwrap();
    let device = client.mem_alloc(8).unwrap();
    client.memcpy_dtod_async(device, at, 1, Stream::LEGACY).unwrap();
    client.memcpy_dtod_async(DevicePtr(at.0 + 1), device, 1, Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(host.to_vec()[..3], [6, 6, 0]);
    client.mem_host_unregister(host.pointer()).unwrap();
    assert_eq!(host.to_vec()[..3], [6, 6, 0]);
    assert_eq!(counts(&server, &["ShareFile", "MirrorMemory", "UnmapShared"]), [2, 0, 1]);
}

#[test]
fn private_pages_that_the_server_does_not_take_are_private_and_mirrored() {
    let script = |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        let Request::ShareFile(_) = request else { return Flow::Usual };
        peer.reply_with(sequence, CudaError::OUT_OF_MEMORY.code(), 0, "no more", &[]);
        Flow::Done
    };
    let server = Server::start(Options { script: Some(Box::new(script)), ..sharing() });
    let client = client(&server);
    let host = private();
    host.write(&[5]).unwrap();
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    assert_eq!(client.mem_host_get_device_pointer(host.pointer(), 0), Ok(DevicePtr(host.pointer().0)));
    assert_eq!((server.count("MirrorMemory"), host.to_vec()[0]), (1, 5));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let range = host.pointer().0..host.pointer().0 + host.len() as u64;
    assert!(floe_touch::shared_file(&maps, &range).is_none(), "private again");
    client.mem_host_unregister(host.pointer()).unwrap();
}

#[test]
fn registered_memory_amid_other_bytes_is_mirrored_where_kernels_use_it() {
    let server = Server::start(sharing());
    let client = client(&server);
    let host = amid_other_bytes();
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    assert_eq!(counts(&server, &["ShareFile", "MirrorMemory"]), [0, 0]);
    assert_eq!(client.mem_host_get_device_pointer(host.pointer(), 0), Ok(DevicePtr(host.pointer().0)));
    assert_eq!(counts(&server, &["ShareFile", "MirrorMemory"]), [0, 1]);
    client.mem_host_unregister(host.pointer()).unwrap();
}

#[test]
fn a_kernel_of_another_device_has_registered_memory_mirrored_that_it_is_given() {
    let [first, second] = [Server::start(sharing()), Server::start(sharing())];
    let client = with_two([&first, &second]);
    let host = amid_other_bytes();
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    let at = client.mem_host_get_device_pointer(host.pointer(), 0).unwrap().0;
    assert_eq!([&first, &second].map(|server| server.count("MirrorMemory")), [1, 0]);
    client.ctx_set_current(client.device_primary_ctx_retain(Device(1)).unwrap()).unwrap();
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let function = client.module_get_function(module, c"add").unwrap();
    for _ in 0..2 {
        launch(client, function, [1; 3], [32, 1, 1], Stream::LEGACY, (at, at + 8, 0, 1)).unwrap();
    }
    client.ctx_synchronize().unwrap();
    assert_eq!([&first, &second].map(|server| server.count("MirrorMemory")), [1, 1]);
    client.mem_host_unregister(host.pointer()).unwrap();
}

#[test]
fn a_second_address_of_shared_pages_is_mirrored_elsewhere_until_they_are_unregistered() {
    let memory = Mapped::new();
    let start = memory.at as u64;
    let taken = start..start + (PAGES * PAGE_BYTES) as u64;
    let first = Server::start(Options { taken, ..sharing() });
    // A server that is not of this machine.
    let second = Server::start(Options { shares: false, ..sharing() });
    let client = with_two([&first, &second]);
    let host = memory.range(PAGE_BYTES, PAGE_BYTES);
    client.mem_host_register(host, host_register_flags::DEVICEMAP).unwrap();
    let at = client.mem_host_get_device_pointer(host.pointer(), 0).unwrap().0;
    assert_ne!(at, start);
    client.ctx_set_current(client.device_primary_ctx_retain(Device(1)).unwrap()).unwrap();
    let add = add(client);
    launch(client, add, [1; 3], [32, 1, 1], Stream::LEGACY, (at, at + 8, 0, 1)).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(counts(&second, &["MirrorMemory", "UnmirrorMemory"]), [1, 0]);
    // Asked itself, it has the memory already.
    assert_eq!(client.mem_host_get_device_pointer(host.pointer(), 0), Ok(DevicePtr(at)));
    assert_eq!(counts(&second, &["MirrorMemory", "UnmirrorMemory"]), [1, 0]);
    client.mem_host_unregister(host.pointer()).unwrap();
    assert_eq!(counts(&second, &["MirrorMemory", "UnmirrorMemory"]), [1, 1]);
    // Nothing looks at pages that are gone.
    launch(client, add, [1; 3], [32, 1, 1], Stream::LEGACY, (0, 0, 0, 1)).unwrap();
    client.ctx_synchronize().unwrap();
}
