//! Memory and events between processes, seen from one process: the messages that go to its own worker. Two clients stand for two
//! processes, each on a thread of its own, with a scripted server of one daemon.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use floe_abi::{
    CudaError, DevicePtr, FabricHandle, HostPointer, IpcEventHandle, IpcMemHandle, MemAllocationProperties,
    MemLocation, MemPoolProperties, PoolPointerData, Stream, event_flags, handle_type, location_type,
    pointer_attribute,
};
use floe_surface::*;
use floe_wire::{ImportBlockReply, ReadSignalsReply, RecordSignalReply, Request};
use scripted::*;

/// Bytes of the blocks that the importers' servers hand out.
const BLOCK: u64 = 2 << 20;
const SHARED: u32 = event_flags::INTERPROCESS | event_flags::DISABLE_TIMING;

/// A server of one daemon, which imports whatever it is asked for while `gone` is not set.
fn server(session: u64, gone: &Arc<AtomicBool>) -> Server {
    let gone = Arc::clone(gone);
    let records = AtomicU64::new(0);
    let mut imported = HashSet::new();
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
        match request {
            Request::ImportBlock(_) | Request::ImportSignals(_) if gone.load(Ordering::Acquire) => {
                peer.reply_with(sequence, CudaError::INVALID_HANDLE.code(), 0, "no such ticket", &[]);
            }
            Request::ImportBlock(import) => {
                imported.insert(import.block);
                peer.reply(sequence, &ImportBlockReply { bytes: BLOCK });
            }
            Request::ReleaseBlock(release) if imported.remove(&release.block) => {}
            Request::RecordSignal(_) => {
                let count = records.fetch_add(1, Ordering::AcqRel) + 1;
                peer.reply(sequence, &RecordSignalReply { count });
            }
            // What was recorded is not complete.
            Request::ReadSignals(_) => {
                let recorded = records.load(Ordering::Acquire);
                peer.reply(sequence, &ReadSignalsReply { words: vec![recorded, recorded.saturating_sub(1)] });
            }
            _ => return Flow::Usual,
        }
        Flow::Done
    };
    Server::start(Options { server: [3; 16], session, script: Some(Box::new(script)), ..Options::default() })
}

fn two() -> (Server, Server, Arc<AtomicBool>) {
    let gone = Arc::default();
    (server(11, &gone), server(12, &gone), gone)
}

/// Does something in the other process: a thread has one current context.
fn there<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// The last request of this name.
fn last(server: &Server, name: &str) -> Seen {
    server.seen().into_iter().rfind(|seen| seen.name == name).unwrap()
}

#[test]
fn an_allocation_is_exported_once_by_its_block_and_withdrawn_when_it_is_freed() {
    let (owner, ..) = two();
    let client = client(&owner);
    client.mem_alloc(512).unwrap();
    let at = client.mem_alloc(1000).unwrap();
    let handle = client.ipc_get_mem_handle(at).unwrap();
    assert_eq!(client.ipc_get_mem_handle(DevicePtr(at.0 + 999)), Ok(handle));
    assert_eq!(owner.count("Export"), 1);
    let (created, exported) = (last(&owner, "CreateBlock"), last(&owner, "Export"));
    let (Request::CreateBlock(created), Request::Export(exported)) = (created.request(), exported.request()) else {
        unreachable!()
    };
    assert_eq!((exported.scope, exported.object, exported.key.len()), (1, created.block.0, 32));
    client.mem_free(at).unwrap();
    client.ctx_synchronize().unwrap();
    owner.wait_for("Withdraw", 1);
    let again = client.mem_alloc(1000).unwrap();
    assert_eq!(again, at);
    assert_ne!(client.ipc_get_mem_handle(again), Ok(handle));
}

/// A neighbour that is told of the memory adds to what was copied there, not below it.
#[test]
fn copies_that_have_returned_are_over_before_their_memory_is_exported() {
    let (owner, ..) = two();
    let client = client(&owner);
    let (at, other) = (client.mem_alloc(1000).unwrap(), client.stream_create(1).unwrap());
    client.memcpy_htod_async(at, host(&mut [2; 16]), other).unwrap();
    client.memcpy_htod(Stream::LEGACY, at, host(&mut [1; 1000])).unwrap();
    assert_eq!(owner.count("SynchronizeStream"), 0);
    client.ipc_get_mem_handle(at).unwrap();
    let names = owner.names();
    let place = |name| names.iter().rposition(|other| *other == name).unwrap();
    assert!(place("SynchronizeStream") < place("Export"), "{names:?}");
    assert_eq!(owner.count("SynchronizeStream"), 1, "nobody takes what the other stream copies for over");
    client.memcpy_htod(Stream::LEGACY, at, host(&mut [3; 16])).unwrap();
    assert_eq!(owner.count("SynchronizeStream"), 2);
    client.ipc_get_mem_handle(client.mem_alloc(3 << 20).unwrap()).unwrap();
    assert_eq!(owner.count("SynchronizeStream"), 2);
}

#[test]
fn an_opened_allocation_lies_in_its_block_and_is_unmapped_by_the_last_close() {
    let (owner, opener, _) = two();
    let handle = there(|| {
        let exporting = client(&owner);
        exporting.mem_alloc(512).unwrap();
        exporting.ipc_get_mem_handle(exporting.mem_alloc(1000).unwrap()).unwrap()
    });
    let client = client(&opener);
    let opened = client.ipc_open_mem_handle(handle, 1).unwrap();
    assert_eq!(client.ipc_open_mem_handle(handle, 1), Ok(opened));
    opener.wait_for("MapBlock", 1);
    assert_eq!((opener.count("ImportBlock"), opener.count("MapBlock")), (1, 1));
    let (imported, mapped) = (last(&opener, "ImportBlock"), last(&opener, "MapBlock"));
    let (Request::ImportBlock(imported), Request::MapBlock(mapped)) = (imported.request(), mapped.request()) else {
        unreachable!()
    };
    let exported = last(&owner, "Export");
    let Request::Export(exported) = exported.request() else { unreachable!() };
    assert_eq!((imported.session, imported.ticket, imported.key), (11, exported.ticket, exported.key));
    assert_eq!(opened.0, mapped.at.0 + 512);
    assert_eq!(client.mem_get_address_range(DevicePtr(opened.0 + 10)), Ok((opened, 1000)));
    let capable = client.pointer_get_attribute(pointer_attribute::IS_LEGACY_CUDA_IPC_CAPABLE, opened);
    assert_eq!(capable, Ok(PointerAttribute::IsLegacyIpcCapable(false)));
    client.memset_d8(Stream::LEGACY, opened, 7, 1000).unwrap();
    assert_eq!(client.ipc_get_mem_handle(opened), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_free(opened), Err(CudaError::INVALID_VALUE));
    client.ipc_close_mem_handle(opened).unwrap();
    assert_eq!(opener.count("UnmapRange"), 0);
    client.ipc_close_mem_handle(opened).unwrap();
    client.ctx_synchronize().unwrap();
    opener.wait_for("ReleaseBlock", 1);
    assert_eq!(client.ipc_close_mem_handle(opened), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.memset_d8(Stream::LEGACY, opened, 7, 1000), Err(CudaError::INVALID_VALUE));
}

#[test]
fn two_allocations_of_one_block_are_mapped_once_and_each_is_asked_for() {
    let (owner, opener, gone) = two();
    let handles: Vec<_> = there(|| {
        let exporting = client(&owner);
        (0..3).map(|_| exporting.ipc_get_mem_handle(exporting.mem_alloc(1000).unwrap()).unwrap()).collect()
    });
    let client = client(&opener);
    let first = client.ipc_open_mem_handle(handles[0], 1).unwrap();
    let second = client.ipc_open_mem_handle(handles[1], 1).unwrap();
    assert_eq!(second.0 - first.0, 1024);
    client.ctx_synchronize().unwrap();
    opener.wait_for("MapBlock", 1);
    assert_eq!((opener.count("ImportBlock"), opener.count("MapBlock")), (2, 1));
    gone.store(true, Ordering::Release);
    assert_eq!(client.ipc_open_mem_handle(handles[2], 1), Err(CudaError::INVALID_HANDLE));
    // What is open already needs nobody.
    assert_eq!(client.ipc_open_mem_handle(handles[1], 1), Ok(second));
}

#[test]
fn of_a_block_the_program_has_what_it_has_opened_and_may_not_unmap_it() {
    let (owner, opener, _) = two();
    let handles: Vec<_> = there(|| {
        let exporting = client(&owner);
        (0..2).map(|_| exporting.ipc_get_mem_handle(exporting.mem_alloc(1000).unwrap()).unwrap()).collect()
    });
    let client = client(&opener);
    let first = client.ipc_open_mem_handle(handles[0], 1).unwrap();
    let second = client.ipc_open_mem_handle(handles[1], 1).unwrap();
    let beyond = DevicePtr(second.0 + 4096);
    assert_eq!(client.memset_d8(Stream::LEGACY, beyond, 7, 16), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_get_address_range(beyond), Err(CudaError::NOT_FOUND));
    let block = DevicePtr(first.0 & !(BLOCK - 1));
    assert_eq!(client.mem_unmap(block, BLOCK as usize), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_address_free(block, BLOCK as usize), Err(CudaError::INVALID_VALUE));
    assert!(client.mem_retain_allocation_handle(HostPointer(first.0)).is_err());
    client.ipc_close_mem_handle(second).unwrap();
    assert_eq!(client.memset_d8(Stream::LEGACY, second, 7, 16), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.pointer_get_attribute(pointer_attribute::MEMORY_TYPE, second), Err(CudaError::INVALID_VALUE));
    client.memset_d8(Stream::LEGACY, first, 7, 1000).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(opener.count("UnmapRange"), 0);
}

#[test]
fn a_refused_ticket_is_told_where_it_is_asked_for_and_no_handle_of_it_is_kept() {
    let refused = Arc::new(AtomicBool::new(true));
    let is_refused = Arc::clone(&refused);
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::Export(_) if is_refused.load(Ordering::Acquire) => {
            peer.reply_with(sequence, CudaError::OUT_OF_MEMORY.code(), 0, "more tickets than: 4096", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    };
    let owner = Server::start(Options { server: [3; 16], script: Some(Box::new(script)), ..Options::default() });
    let client = client(&owner);
    let at = client.mem_alloc(1000).unwrap();
    assert_eq!(client.ipc_get_mem_handle(at), Err(CudaError::OUT_OF_MEMORY));
    client.ctx_synchronize().unwrap();
    refused.store(false, Ordering::Release);
    assert!(client.ipc_get_mem_handle(at).is_ok());
    assert_eq!(owner.count("Export"), 2);
}

#[test]
fn an_open_handle_with_another_secret_is_asked_for() {
    let (owner, opener, gone) = two();
    let handle = there(|| {
        let exporting = client(&owner);
        exporting.ipc_get_mem_handle(exporting.mem_alloc(1000).unwrap()).unwrap()
    });
    let client = client(&opener);
    let opened = client.ipc_open_mem_handle(handle, 1).unwrap();
    let mut forged = handle;
    forged.bytes[25] ^= 1;
    gone.store(true, Ordering::Release);
    assert_eq!(client.ipc_open_mem_handle(forged, 1), Err(CudaError::INVALID_HANDLE));
    assert_eq!(opener.count("ImportBlock"), 2);
    client.ipc_close_mem_handle(opened).unwrap();
    assert_eq!(client.ipc_close_mem_handle(opened), Err(CudaError::INVALID_VALUE));
}

#[test]
fn garbage_own_handles_and_other_servers_are_told_apart() {
    let (owner, ..) = two();
    let client = client(&owner);
    let handle = client.ipc_get_mem_handle(client.mem_alloc(1000).unwrap()).unwrap();
    assert_eq!(client.ipc_open_mem_handle(handle, 1), Err(CudaError::INVALID_CONTEXT));
    assert_eq!(client.ipc_open_mem_handle(handle, 2), Err(CudaError::INVALID_VALUE));
    let garbage = IpcMemHandle { bytes: [7; 64] };
    assert_eq!(client.ipc_open_mem_handle(garbage, 1), Err(CudaError::INVALID_VALUE));
    let no_event = IpcEventHandle { bytes: handle.bytes };
    assert_eq!(client.ipc_open_event_handle(no_event), Err(CudaError::MAP_FAILED));
    let elsewhere = Server::start(Options::default());
    let refused = there(|| scripted::client(&elsewhere).ipc_open_mem_handle(handle, 1));
    assert_eq!(refused, Err(CudaError::NOT_SUPPORTED));
    assert_eq!(elsewhere.count("ImportBlock"), 0);
}

#[test]
fn a_block_that_is_smaller_than_its_handle_says_is_given_back() {
    let (owner, opener, _) = two();
    // Its block is larger than those that the opener's server has.
    let handle = there(|| {
        let exporting = client(&owner);
        exporting.ipc_get_mem_handle(exporting.mem_alloc(64 << 20).unwrap()).unwrap()
    });
    let client = client(&opener);
    assert_eq!(client.ipc_open_mem_handle(handle, 1), Err(CudaError::INVALID_VALUE));
    client.ctx_synchronize().unwrap();
    opener.wait_for("ReleaseBlock", 1);
}

#[test]
fn a_reset_withdraws_what_was_exported_and_forgets_what_was_opened() {
    let (owner, opener, _) = two();
    let handle = there(|| {
        let exporting = client(&owner);
        let handle = exporting.ipc_get_mem_handle(exporting.mem_alloc(1000).unwrap()).unwrap();
        exporting.device_primary_ctx_reset(floe_abi::Device(0)).unwrap();
        handle
    });
    owner.wait_for("Withdraw", 1);
    let client = client(&opener);
    let opened = client.ipc_open_mem_handle(handle, 1).unwrap();
    client.device_primary_ctx_reset(floe_abi::Device(0)).unwrap();
    assert_eq!(client.ipc_close_mem_handle(opened), Err(CudaError::INVALID_VALUE));
}

#[test]
fn an_event_is_shared_from_its_export_on_with_what_it_had_recorded() {
    let (owner, opener, _) = two();
    let handle = there(|| exported_event(&owner));
    opened_event(&opener, handle);
}

/// Exports an event that has recorded work which is not complete, and records it once more.
fn exported_event(owner: &Server) -> IpcEventHandle {
    let exporting = client(owner);
    let stream = exporting.stream_create(1).unwrap();
    let event = exporting.event_create(SHARED).unwrap();
    exporting.memset_d8_async(exporting.mem_alloc(16).unwrap(), 1, 16, stream).unwrap();
    exporting.event_record(event, stream).unwrap();
    let handle = exporting.ipc_get_event_handle(event).unwrap();
    assert_eq!(exporting.ipc_get_event_handle(event), Ok(handle));
    // Counted behind what was recorded before, on a stream of its own.
    assert_eq!((owner.count("CreateSignals"), owner.count("WaitEvent"), owner.count("RecordSignal")), (1, 1, 1));
    exporting.event_record(event, stream).unwrap();
    assert_eq!(exporting.event_query(event), Err(CudaError::NOT_READY));
    // Its own record counts where another process takes the page along in its end.
    assert_eq!((owner.count("RecordEvent"), owner.count("RecordSignal")), (2, 2));
    exporting.event_destroy(event).unwrap();
    owner.wait_for("Withdraw", 1);
    owner.wait_for("DestroyEvent", 1);
    handle
}

fn opened_event(opener: &Server, handle: IpcEventHandle) {
    let client = client(opener);
    let opened = client.ipc_open_event_handle(handle).unwrap();
    client.event_record(opened, Stream::LEGACY).unwrap();
    client.stream_wait_event(Stream::LEGACY, opened, 0).unwrap();
    client.event_synchronize(opened).unwrap();
    assert_eq!((opener.count("ImportSignals"), opener.count("RecordSignal"), opener.count("AwaitSignal")), (1, 1, 2));
    let awaited = last(opener, "AwaitSignal");
    let Request::AwaitSignal(awaited) = awaited.request() else { unreachable!() };
    assert_eq!((awaited.word, awaited.value), (1, 1));
    assert_eq!(client.event_elapsed_time(opened, opened), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.ipc_get_event_handle(opened), Err(CudaError::INVALID_VALUE));
    client.event_destroy(opened).unwrap();
    client.ctx_synchronize().unwrap();
    opener.wait_for("DropSignals", 1);
    assert_eq!((opener.count("CreateEvent"), opener.count("DestroyEvent")), (0, 0));
}

#[test]
fn when_a_process_ends_its_events_are_refused_and_ones_own_are_ones_own_alone() {
    let script = |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::RecordSignal(_) => {
            peer.reply(sequence, &RecordSignalReply { count: (1 << 62) + 1 });
            Flow::Done
        }
        Request::ReadSignals(_) => {
            peer.reply(sequence, &ReadSignalsReply { words: vec![(1 << 62) + 1, 1 << 62] });
            Flow::Done
        }
        _ => Flow::Usual,
    };
    let of_one_daemon = |session| {
        Server::start(Options { server: [4; 16], session, script: Some(Box::new(script)), ..Options::default() })
    };
    let (owner, opener) = (of_one_daemon(11), of_one_daemon(12));
    let handle = there(|| {
        let exporting = client(&owner);
        let event = exporting.event_create(SHARED).unwrap();
        let handle = exporting.ipc_get_event_handle(event).unwrap();
        exporting.event_record(event, Stream::LEGACY).unwrap();
        exporting.stream_wait_event(Stream::LEGACY, event, 0).unwrap();
        exporting.event_synchronize(event).unwrap();
        assert_eq!((owner.count("WaitEvent"), owner.count("SynchronizeEvent")), (1, 1));
        handle
    });
    let client = client(&opener);
    let opened = client.ipc_open_event_handle(handle).unwrap();
    assert_eq!(client.event_query(opened), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.event_synchronize(opened), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.stream_wait_event(Stream::LEGACY, opened, 0), Err(CudaError::INVALID_HANDLE));
    // A value that no word of a program has would end the session.
    assert_eq!(owner.count("AwaitSignal") + opener.count("AwaitSignal"), 0);
    client.event_destroy(opened).unwrap();
}

#[test]
fn events_of_one_process_have_no_handle() {
    let (owner, ..) = two();
    let client = client(&owner);
    let event = client.event_create(event_flags::DISABLE_TIMING).unwrap();
    assert_eq!(client.ipc_get_event_handle(event), Err(CudaError::INVALID_HANDLE));
    let shared = client.event_create(SHARED).unwrap();
    let handle = client.ipc_get_event_handle(shared).unwrap();
    assert_eq!(client.ipc_open_event_handle(handle), Err(CudaError::INVALID_CONTEXT));
    assert_eq!(owner.count("RecordSignal"), 0);
}

#[test]
fn a_pool_hands_its_allocations_on_and_takes_none_back_for_itself() {
    let (owner, opener, _) = two();
    let (file, data) = there(|| exported_pool(&owner));
    let client = client(&opener);
    let by_descriptor = |file: &OwnedFd| ShareableHandle::Descriptor(file.try_clone().unwrap());
    let shared = by_descriptor(&file);
    let imported = client.mem_pool_import_from_shareable_handle(borrowed(&shared)).unwrap();
    let refused = client.mem_alloc_from_pool_async(16, imported, Stream::LEGACY);
    assert_eq!(refused, Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_import_from_shareable_handle(borrowed(&shared)), Err(CudaError::NOT_SUPPORTED), "a pool");
    let other = by_descriptor(&std::fs::File::open("/proc/self/exe").unwrap().into());
    assert_eq!(client.mem_import_from_shareable_handle(borrowed(&other)), Err(CudaError::UNKNOWN));
    assert_eq!(client.mem_pool_import_from_shareable_handle(borrowed(&other)), Err(CudaError::UNKNOWN));
    let opened = client.mem_pool_import_pointer(imported, &data).unwrap();
    let garbage = PoolPointerData { bytes: [1; 64] };
    assert_eq!(client.mem_pool_import_pointer(imported, &garbage), Err(CudaError::INVALID_VALUE));
    let own = client.mem_pool_create(&shared_pool()).unwrap();
    assert_eq!(client.mem_pool_import_pointer(own, &data), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.ipc_close_mem_handle(opened), Err(CudaError::INVALID_VALUE));
    client.mem_free_async(opened, Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    opener.wait_for("ReleaseBlock", 1);
    assert_eq!(client.mem_free(opened), Err(CudaError::INVALID_VALUE));
}

/// What one process gave, as another takes it.
fn borrowed(handle: &ShareableHandle<OwnedFd>) -> ShareableHandle<BorrowedFd<'_>> {
    match handle {
        ShareableHandle::Descriptor(file) => ShareableHandle::Descriptor(file.as_fd()),
        ShareableHandle::Fabric(bytes) => ShareableHandle::Fabric(*bytes),
    }
}

#[test]
fn memory_has_one_passport_by_its_descriptor_and_by_its_fabric_handle() {
    let (owner, opener, gone) = two();
    let location = MemLocation { kind: location_type::DEVICE, id: 0 };
    let made_for = |requested_handle_types| MemAllocationProperties {
        kind: 1,
        requested_handle_types,
        location,
        ..MemAllocationProperties::default()
    };
    let (file, fabric, exporting, memory) = there(|| {
        let exporting = client(&owner);
        let bytes = exporting.mem_get_allocation_granularity(&made_for(0), 0).unwrap();
        let make = |types| exporting.mem_create(bytes, &made_for(types), 0).unwrap();
        let export = |memory, kind| exporting.mem_export_to_shareable_handle(memory, kind);
        let (plain, only_fabric, both) = (make(1), make(8), make(9));
        assert!(matches!(export(plain, ShareableKind::Fabric), Err(CudaError::INVALID_VALUE)));
        assert!(matches!(export(only_fabric, ShareableKind::Descriptor), Err(CudaError::INVALID_VALUE)));
        assert_eq!(exporting.mem_create(bytes, &made_for(10), 0), Err(CudaError::NOT_SUPPORTED), "Windows'");
        let (file, fabric) = (export(both, ShareableKind::Descriptor), export(both, ShareableKind::Fabric));
        let (file, fabric) = (file.unwrap(), fabric.unwrap());
        // In its own process it is the same memory.
        assert_eq!(exporting.mem_import_from_shareable_handle(borrowed(&fabric)), Ok(both));
        exporting.mem_release(both).unwrap();
        (file, fabric, exporting, both)
    });
    let client = client(&opener);
    client.mem_import_from_shareable_handle(borrowed(&file)).unwrap();
    client.mem_import_from_shareable_handle(borrowed(&fabric)).unwrap();
    let asked = opener.seen().into_iter().filter_map(|seen| match seen.request() {
        Request::ImportBlock(import) => Some(import.ticket.0),
        _ => None,
    });
    assert_eq!(asked.collect::<HashSet<_>>().len(), 1, "one ticket for both");
    assert_eq!(opener.count("ImportBlock"), 2);
    let ShareableHandle::Fabric(bytes) = &fabric else { panic!("{fabric:?}") };
    // What is none, and what is another's, as an H200's driver has it.
    let refused = |handle: &FabricHandle| client.mem_import_from_shareable_handle(ShareableHandle::Fabric(*handle));
    assert_eq!(refused(&FabricHandle { bytes: [7; 64] }), Err(CudaError::NOT_SUPPORTED));
    let pool = client.mem_pool_import_from_shareable_handle(ShareableHandle::Fabric(*bytes));
    assert_eq!(pool, Err(CudaError::NOT_SUPPORTED), "memory is no pool");
    gone.store(true, Ordering::Release);
    assert_eq!(refused(bytes), Err(CudaError::NOT_SUPPORTED), "released");
    let by_file = client.mem_import_from_shareable_handle(borrowed(&file));
    assert_eq!(by_file, Err(CudaError::INVALID_HANDLE), "released");
    there(|| exporting.mem_release(memory).unwrap());
    owner.wait_for("ReleaseBlock", 1);
    assert_eq!(owner.count("Export"), 1);
}

fn shared_pool() -> MemPoolProperties {
    let location = MemLocation { kind: location_type::DEVICE, id: 0 };
    let handle_types = ShareableKind::ALL;
    MemPoolProperties { kind: 1, handle_types, location, ..MemPoolProperties::default() }
}

/// Exports a pool and an allocation of it.
fn exported_pool(owner: &Server) -> (OwnedFd, PoolPointerData) {
    let exporting = client(owner);
    let pool = exporting.mem_pool_create(&shared_pool()).unwrap();
    let file = match exporting.mem_pool_export_to_shareable_handle(pool, ShareableKind::Descriptor).unwrap() {
        ShareableHandle::Descriptor(file) => file,
        other => panic!("{other:?}"),
    };
    let plain = MemPoolProperties { handle_types: handle_type::POSIX_FILE_DESCRIPTOR, ..shared_pool() };
    let plain = exporting.mem_pool_create(&plain).unwrap();
    let refused = exporting.mem_pool_export_to_shareable_handle(plain, ShareableKind::Fabric);
    assert!(matches!(refused, Err(CudaError::INVALID_VALUE)), "not made for it");
    let default = exporting.device_get_default_mem_pool(floe_abi::Device(0)).unwrap();
    assert!(matches!(
        exporting.mem_pool_export_to_shareable_handle(default, ShareableKind::Descriptor),
        Err(CudaError::INVALID_VALUE)
    ));
    let at = exporting.mem_alloc_from_pool_async(1000, pool, Stream::LEGACY).unwrap();
    assert_eq!(exporting.ipc_get_mem_handle(at), Err(CudaError::INVALID_VALUE));
    let data = exporting.mem_pool_export_pointer(at).unwrap();
    let plain = exporting.mem_alloc_async(1000, Stream::LEGACY).unwrap();
    assert_eq!(exporting.mem_pool_export_pointer(plain), Err(CudaError::INVALID_VALUE));
    (file, data)
}

/// The size of an imported block is the server's word, which may be any number.
#[test]
fn no_size_that_a_server_says_of_a_block_ends_the_program() {
    for bytes in [0, 1, 511, BLOCK - 1, BLOCK + 1, 1 << 41, (1 << 47) + 1, u64::MAX - BLOCK, u64::MAX] {
        let (owner, of_pool, _) = two();
        let location = MemLocation { kind: location_type::DEVICE, id: 0 };
        let made = MemAllocationProperties { kind: 1, requested_handle_types: 1, location, ..Default::default() };
        let (memory, handle) = there(|| {
            let exporting = client(&owner);
            let physical = exporting.mem_create(BLOCK as usize, &made, 0).unwrap();
            let memory = exporting.mem_export_to_shareable_handle(physical, ShareableKind::Descriptor).unwrap();
            let handle = exporting.ipc_get_mem_handle(exporting.mem_alloc(1000).unwrap()).unwrap();
            (memory, handle)
        });
        let (pool, data) = there(|| exported_pool(&of_pool));
        let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| {
            match request {
                Request::ImportBlock(_) => peer.reply(sequence, &ImportBlockReply { bytes }),
                Request::ReleaseBlock(_) | Request::MapBlock(_) | Request::UnmapRange(_) => {}
                _ => return Flow::Usual,
            }
            Flow::Done
        };
        let options = Options { server: [3; 16], session: 13, script: Some(Box::new(script)), ..Options::default() };
        let opener = Server::start(options);
        there(|| {
            let client = client(&opener);
            let opened = client.ipc_open_mem_handle(handle, 1);
            opened.iter().for_each(|at| client.ipc_close_mem_handle(*at).unwrap());
            let pool = client.mem_pool_import_from_shareable_handle(ShareableHandle::Descriptor(pool.as_fd())).unwrap();
            let opened = client.mem_pool_import_pointer(pool, &data);
            opened.iter().for_each(|at| client.mem_free(*at).unwrap());
            let imported = client.mem_import_from_shareable_handle(borrowed(&memory)).unwrap();
            let range = client.mem_address_reserve(BLOCK as usize, 0, DevicePtr(0), 0).unwrap();
            for (size, offset) in [(BLOCK, 0), (0, 0), (BLOCK, BLOCK), (BLOCK, u64::MAX - BLOCK + 1)] {
                if client.mem_map(range, size as usize, offset as usize, imported, 0).is_ok() {
                    client.mem_unmap(range, size as usize).unwrap();
                }
            }
            client.mem_release(imported).unwrap();
            client.ctx_synchronize().unwrap();
        });
    }
}
