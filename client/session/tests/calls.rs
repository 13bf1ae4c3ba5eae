//! Typical sequences of driver calls against a scripted server: which messages they send, in which order, and how often they
//! wait.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use floe_abi::{CudaError, Device, DevicePtr, Stream, event_flags};
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

#[test]
fn vector_add_waits_five_times_once_a_context_exists() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let library = counted(client, |client| client.library_load_data(ptx(), &mut JitOptions::none())).unwrap();
    let kernel = counted(client, |client| client.library_get_kernel(library, c"add")).unwrap();
    let mut input = vec![7u8; 4096];
    let buffers: Vec<DevicePtr> = (0..3).map(|_| counted(client, |client| client.mem_alloc(4096)).unwrap()).collect();
    for buffer in &buffers[..2] {
        counted(client, |client| client.memcpy_htod(Stream::LEGACY, *buffer, host(&mut input))).unwrap();
    }
    let parameters = (buffers[0].0, buffers[1].0, buffers[2].0, 1024);
    let function = kernel.as_function();
    counted(client, |client| launch(client, function, [4, 1, 1], [256, 1, 1], Stream::LEGACY, parameters)).unwrap();
    counted(client, |client| client.ctx_synchronize()).unwrap();
    let mut output = vec![0u8; 4096];
    counted(client, |client| client.memcpy_dtoh(Stream::LEGACY, host(&mut output), buffers[0])).unwrap();
    for buffer in buffers {
        counted(client, |client| client.mem_free(buffer)).unwrap();
    }
    client.library_unload(library).unwrap();
    client.device_primary_ctx_release(Device(0)).unwrap();

    assert_eq!(output, input);
    server.wait_for("ResetContext", 1);
    assert_eq!(
        server.names(),
        [
            "LoadLibrary",
            "UnloadLibrary",
            "LibraryPart",
            "LoadLibrary",
            "FindKernel",
            "CreateBlock",
            "MapBlock",
            "CopyToDevice",
            "CopyToDevice",
            "Launch",
            "SynchronizeContext",
            "CopyFromDevice",
            "UnloadLibrary",
            "ResetContext"
        ]
    );
    let statistics = client.statistics();
    assert_eq!(statistics.waits_with_context, 5, "load, find, block, synchronize, copy back");
    assert_eq!((statistics.bytes_to_device, statistics.bytes_from_device), (8192, 4096));
}

#[test]
fn parameters_arrive_packed_by_the_kernels_layout() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let function = client.module_get_function(module, c"add").unwrap();
    launch(client, function, [1, 1, 1], [32, 1, 1], Stream::LEGACY, (1, 2, 3, 4)).unwrap();
    client.ctx_synchronize().unwrap();
    let seen = server.seen();
    let request = seen.iter().find(|seen| seen.name == "Launch").unwrap();
    let Request::Launch(launch) = request.request() else { panic!("a launch") };
    let mut expected = Vec::new();
    for word in [1u64, 2, 3] {
        expected.extend(word.to_le_bytes());
    }
    expected.extend(4u32.to_le_bytes());
    assert_eq!(launch.parameters, expected);
    assert_eq!((launch.grid_x, launch.block_x, launch.stream.0), (1, 32, 0));
}

#[test]
fn what_cuda_refuses_at_once_sends_nothing() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let function = client.module_get_function(module, c"add").unwrap();
    let before = server.names().len();
    let try_launch = |grid, block| launch(client, function, grid, block, Stream::LEGACY, (0, 0, 0, 0));
    assert_eq!(try_launch([0, 1, 1], [32, 1, 1]), Err(CudaError::INVALID_VALUE));
    assert_eq!(try_launch([1, 1, 1], [2048, 1, 1]), Err(CudaError::INVALID_VALUE));
    assert_eq!(try_launch([1, 70000, 1], [1, 1, 1]), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_alloc(0), Err(CudaError::INVALID_VALUE));
    assert_eq!(
        client.memset_d32(Stream::LEGACY, DevicePtr(0x2000_0000_0000), 0, 1),
        Err(CudaError::INVALID_VALUE),
        "no allocation there"
    );
    assert_eq!(server.names().len(), before);
}

#[test]
fn copies_and_fills_stay_within_their_allocation() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(1000).unwrap();
    let mut bytes = vec![0u8; 1025];
    assert_eq!(client.memcpy_htod(Stream::LEGACY, at, host(&mut bytes)), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.memcpy_dtoh(Stream::LEGACY, host(&mut bytes), at), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.memset_d8(Stream::LEGACY, at, 1, 1025), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.memset_d32(Stream::LEGACY, DevicePtr(at.0 + 2), 1, 1), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.memset_d8(Stream::LEGACY, at, 1, 1000), Ok(()));
    assert_eq!(client.memset_d8(Stream::LEGACY, DevicePtr(at.0 + 1000), 1, 24), Ok(()), "what it is rounded up to");
    assert_eq!(client.memcpy_htod(Stream::LEGACY, at, host(&mut bytes[..0])), Ok(()));
}

#[test]
fn a_large_copy_travels_in_pieces_and_arrives_whole() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let size = 9 << 20;
    let mut input: Vec<u8> = (0..size).map(|index: usize| (index % 251) as u8).collect();
    let at = client.mem_alloc(size).unwrap();
    client.memcpy_htod(Stream::LEGACY, at, host(&mut input)).unwrap();
    let mut output = vec![0u8; size];
    client.memcpy_dtoh(Stream::LEGACY, host(&mut output), at).unwrap();
    assert!(output == input);
    assert_eq!(server.count("CopyToDevice"), 3);
}

#[test]
fn a_kernel_that_is_not_there_is_not_found() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    assert_eq!(client.library_get_kernel(library, c"missing"), Err(CudaError::NOT_FOUND));
    assert_eq!(client.library_get_kernel_count(library), Ok(2));
}

#[test]
fn the_primary_context_has_one_handle_and_is_active_only_while_retained() {
    let server = Server::start(Options::default());
    let client = client_with(&[&server], &[]);
    client.init(0).unwrap();
    let early = client.primary_context(Device(0)).unwrap();
    assert_eq!(client.device_primary_ctx_get_state(Device(0)), Ok((0, false)));
    assert_eq!(client.ctx_get_device(), Err(CudaError::INVALID_CONTEXT));
    let context = client.device_primary_ctx_retain(Device(0)).unwrap();
    assert_eq!(context, early);
    assert_eq!(client.device_primary_ctx_get_state(Device(0)), Ok((0, true)));
    client.ctx_push_current(context).unwrap();
    assert_eq!(client.ctx_get_device(), Ok(Device(0)));
    client.device_primary_ctx_release(Device(0)).unwrap();
    assert_eq!(client.mem_alloc(16), Err(CudaError::CONTEXT_IS_DESTROYED));
    assert_eq!(client.device_primary_ctx_release(Device(0)), Err(CudaError::INVALID_CONTEXT));
    assert_eq!(client.ctx_pop_current(), Ok(context));
}

#[test]
fn a_reset_forgets_handles_and_libraries_load_again() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let kernel = client.library_get_kernel(library, c"add").unwrap();
    let stream = client.stream_create(0).unwrap();
    let at = client.mem_alloc(64).unwrap();
    client.device_primary_ctx_reset(Device(0)).unwrap();
    let context = client.device_primary_ctx_retain(Device(0)).unwrap();
    client.ctx_set_current(context).unwrap();
    assert_eq!(client.stream_query(stream), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.mem_free(at), Err(CudaError::INVALID_VALUE));
    launch(client, kernel.as_function(), [1, 1, 1], [1, 1, 1], Stream::LEGACY, (0, 0, 0, 0)).unwrap();
    assert_eq!(
        (server.count("LoadLibrary"), server.count("LibraryPart")),
        (3, 1),
        "its bytes are known the second time"
    );
}

#[test]
fn a_primary_context_that_was_reset_comes_back_when_its_holder_uses_it() {
    let server = Server::start(Options::default());
    let client = client(&server);
    client.mem_alloc(64).unwrap();
    client.device_primary_ctx_reset(Device(0)).unwrap();
    assert_eq!(client.device_primary_ctx_get_state(Device(0)), Ok((0, false)));
    client.mem_alloc(64).unwrap();
    assert_eq!(client.device_primary_ctx_get_state(Device(0)), Ok((0, true)));
    client.device_primary_ctx_release(Device(0)).unwrap();
    assert_eq!(client.mem_alloc(64), Err(CudaError::CONTEXT_IS_DESTROYED));
    assert_eq!(client.device_primary_ctx_release(Device(0)), Err(CudaError::INVALID_CONTEXT));
}

#[test]
fn per_thread_streams_are_made_on_demand_one_per_thread() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let context = client.ctx_get_current().unwrap();
    let own = client.stream_get_id(Stream::PER_THREAD).unwrap();
    assert_eq!(client.stream_get_id(Stream::PER_THREAD), Ok(own));
    let other = std::thread::spawn(move || {
        client.ctx_set_current(context).unwrap();
        client.stream_get_id(Stream::PER_THREAD).unwrap()
    });
    assert_ne!(other.join().unwrap(), own);
    server.wait_for("DestroyStream", 1);
    assert_eq!(server.count("CreateStream"), 2);
}

/// Forks, has the child end as C programs do, and waits for it.
fn fork_a_child_that_exits() {
    // SAFETY: the child runs its last destructors and nothing else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: nothing of the child's is in use.
        unsafe { libc::exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is ours.
    assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
}

#[test]
fn a_child_that_exits_gives_up_no_stream_of_the_thread_that_forked() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let context = client.ctx_get_current().unwrap();
    let thread = std::thread::spawn(move || {
        client.ctx_set_current(context).unwrap();
        client.stream_get_id(Stream::PER_THREAD).unwrap();
        fork_a_child_that_exits();
        client.mem_get_info().unwrap();
        client.stream_query(Stream::PER_THREAD)
    });
    assert_eq!(thread.join().unwrap(), Ok(()));
    server.wait_for("DestroyStream", 1);
    assert_eq!(server.count("DestroyStream"), 1, "the thread's own, at its end");
}

#[test]
fn events_known_to_be_over_are_answered_without_asking() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(64).unwrap();
    let event = client.event_create(event_flags::DEFAULT).unwrap();
    assert_eq!(client.event_query(event), Ok(()), "never recorded");
    client.memset_d8(Stream::LEGACY, at, 0, 64).unwrap();
    client.event_record(event, Stream::LEGACY).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(client.event_query(event), Ok(()));
    assert_eq!(client.event_synchronize(event), Ok(()));
    assert_eq!(server.count("QueryEvent") + server.count("SynchronizeEvent"), 0);
    client.event_record(event, Stream::LEGACY).unwrap();
    assert_eq!(client.event_query(event), Ok(()));
    assert_eq!(server.count("QueryEvent"), 1);
    let untimed = client.event_create(event_flags::DISABLE_TIMING).unwrap();
    client.event_record(untimed, Stream::LEGACY).unwrap();
    assert_eq!(client.event_elapsed_time(event, untimed), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.event_elapsed_time(event, event), Ok(1.5));
    client.event_destroy(event).unwrap();
    assert_eq!(client.event_query(event), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn idle_streams_are_synchronized_without_asking() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let stream = client.stream_create_with_priority(1, -99).unwrap();
    assert_eq!(client.stream_get_priority(stream), Ok(-5));
    client.stream_synchronize(stream).unwrap();
    client.ctx_synchronize().unwrap();
    client.stream_query(Stream::LEGACY).unwrap();
    server.wait_for("CreateStream", 1);
    assert_eq!(server.names(), ["CreateStream"]);
    client.stream_destroy(stream).unwrap();
    assert_eq!(client.stream_destroy(stream), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn memory_that_the_program_maps_belongs_to_no_context() {
    use floe_abi::{MemAccess, MemAllocationProperties, MemLocation};
    let server = Server::start(Options::default());
    let client = client(&server);
    let location = MemLocation { kind: floe_abi::location_type::DEVICE, id: 0 };
    let properties = MemAllocationProperties { kind: 1, location, ..MemAllocationProperties::default() };
    let granularity = client.mem_get_allocation_granularity(&properties, 0).unwrap();
    let at = client.mem_address_reserve(granularity, 0, DevicePtr::NULL, 0).unwrap();
    let memory = client.mem_create(granularity, &properties, 0).unwrap();
    client.mem_map(at, granularity, 0, memory, 0).unwrap();
    client.mem_set_access(at, granularity, &[MemAccess { location, flags: 3 }]).unwrap();
    let (mut bytes, mut seen, other) = ([5u8; 16], [0u8; 16], client.mem_alloc(16).unwrap());
    let pooled = client.mem_alloc_async(16, Stream::LEGACY).unwrap();
    let pool = client.device_get_default_mem_pool(Device(0)).unwrap();
    let used = || client.mem_pool_get_attribute(pool, floe_abi::pool_attribute::USED_MEM_CURRENT);
    assert_ne!(used(), Ok(0));
    client.memcpy_htod(Stream::LEGACY, at, host(&mut bytes)).unwrap();
    client.device_primary_ctx_reset(Device(0)).unwrap();
    assert_eq!(server.count("ResetContext"), 0);
    assert_eq!(client.mem_free(other), Err(CudaError::INVALID_VALUE), "the context's own is gone");
    assert_eq!((used(), client.mem_free(pooled)), (Ok(0), Err(CudaError::INVALID_VALUE)), "and its pool has it back");
    client.memcpy_dtoh(Stream::LEGACY, host(&mut seen), at).unwrap();
    assert_eq!(seen, bytes);
    client.device_primary_ctx_release(Device(0)).unwrap();
    client.mem_unmap(at, granularity).unwrap();
    client.mem_release(memory).unwrap();
    client.mem_address_free(at, granularity).unwrap();
    assert_eq!(server.count("ResetContext"), 0);
    // The next context is as every other: nothing is left that outlives it.
    let context = client.device_primary_ctx_retain(Device(0)).unwrap();
    client.ctx_set_current(context).unwrap();
    client.mem_alloc(16).unwrap();
    client.device_primary_ctx_release(Device(0)).unwrap();
    server.wait_for("ResetContext", 1);
}

/// An H200's answers (driver 580.159, 2026-11-29).
#[test]
fn a_reserved_range_is_unmapped_with_its_gaps() {
    use floe_abi::{MemAllocationProperties, MemLocation};
    let server = Server::start(Options::default());
    let client = client(&server);
    let location = MemLocation { kind: floe_abi::location_type::DEVICE, id: 0 };
    let properties = MemAllocationProperties {
        kind: floe_abi::allocation_type::PINNED,
        location,
        ..MemAllocationProperties::default()
    };
    let granule = client.mem_get_allocation_granularity(&properties, 0).unwrap();
    let at = client.mem_address_reserve(8 * granule, 0, DevicePtr::NULL, 0).unwrap();
    let place = |granules: usize| DevicePtr(at.0 + (granules * granule) as u64);
    let [one, two] = [1, 2].map(|granules| client.mem_create(granules * granule, &properties, 0).unwrap());
    let wrong = Err(CudaError::INVALID_VALUE);
    for _ in 0..2 {
        assert_eq!(client.mem_unmap(at, 8 * granule), Ok(()), "nothing is mapped");
        client.mem_map(place(1), granule, 0, one, 0).unwrap();
        client.mem_map(place(4), 2 * granule, 0, two, 0).unwrap();
        for (from, count) in [(4, 1), (3, 2), (5, 2), (0, 0)] {
            assert_eq!(client.mem_unmap(place(from), count * granule), wrong, "{from} {count}");
        }
        assert_eq!(client.mem_unmap(place(64), granule), wrong, "nothing is reserved");
        assert_eq!(client.mem_address_free(at, 8 * granule), wrong, "something is mapped");
        assert_eq!(client.mem_unmap(at, 3 * granule), Ok(()), "the first with gaps beside it");
        assert_eq!(client.mem_unmap(at, 8 * granule), Ok(()), "the second");
    }
    [one, two].into_iter().for_each(|memory| client.mem_release(memory).unwrap());
    client.mem_address_free(at, 8 * granule).unwrap();
    assert_eq!(client.mem_unmap(at, granule), wrong, "it is reserved no more");
}

#[test]
fn virtual_memory_is_reserved_mapped_and_given_back() {
    use floe_abi::{MemAccess, MemAllocationProperties, MemLocation};
    let server = Server::start(Options::default());
    let client = client(&server);
    let location = MemLocation { kind: floe_abi::location_type::DEVICE, id: 0 };
    let properties = MemAllocationProperties { kind: 1, location, ..MemAllocationProperties::default() };
    let granularity = client.mem_get_allocation_granularity(&properties, 0).unwrap();
    let at = client.mem_address_reserve(4 * granularity, 0, DevicePtr::NULL, 0).unwrap();
    let windows = MemAllocationProperties { requested_handle_types: 2, ..properties };
    assert_eq!(client.mem_create(granularity, &windows, 0), Err(CudaError::NOT_SUPPORTED));
    // NCCL asks for the granularity of memory of the host, and does without where its making is refused.
    let of_host = MemLocation { kind: floe_abi::location_type::HOST_NUMA, id: 0 };
    let of_host = MemAllocationProperties { location: of_host, ..properties };
    assert_eq!(client.mem_get_allocation_granularity(&of_host, 0), Ok(2 << 20));
    assert_eq!(client.mem_create(2 << 20, &of_host, 0), Err(CudaError::NOT_SUPPORTED));
    let properties = MemAllocationProperties { requested_handle_types: 1, ..properties };
    let memory = client.mem_create(granularity, &properties, 0).unwrap();
    for (at, bytes, offset) in
        [(at, 2 * granularity, 0), (at, granularity, granularity), (DevicePtr(at.0 + 512), granularity, 0)]
    {
        assert_eq!(
            client.mem_map(at, bytes, offset, memory, 0),
            Err(CudaError::NOT_SUPPORTED),
            "not whole: {at:?} {bytes}"
        );
    }
    assert_eq!(client.mem_map(at, granularity, 0, memory, 1), Err(CudaError::INVALID_VALUE), "flags");
    client.mem_map(at, granularity, 0, memory, 0).unwrap();
    assert_eq!(client.mem_map(at, granularity, 0, memory, 0), Err(CudaError::INVALID_VALUE), "taken");
    let mut bytes = [5u8; 16];
    assert_eq!(
        client.memcpy_htod(Stream::LEGACY, at, host(&mut bytes)),
        Err(CudaError::INVALID_VALUE),
        "no access yet"
    );
    client.mem_set_access(at, granularity, &[MemAccess { location, flags: 3 }]).unwrap();
    client.memcpy_htod(Stream::LEGACY, at, host(&mut bytes)).unwrap();
    assert_eq!(client.mem_address_free(at, 4 * granularity), Err(CudaError::INVALID_VALUE), "mapped");
    client.mem_unmap(at, granularity).unwrap();
    client.mem_release(memory).unwrap();
    client.mem_address_free(at, 4 * granularity).unwrap();
    server.wait_for("ReleaseBlock", 1);
    assert_eq!(
        server.names(),
        ["CreateBlock", "MapBlock", "SetAccess", "CopyToDevice", "SynchronizeContext", "UnmapRange", "ReleaseBlock"]
    );
}

#[test]
fn pinned_memory_keeps_its_flags() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let pointer = client.mem_host_alloc(64, 2).unwrap();
    assert_eq!(client.mem_host_get_flags(pointer), Ok(2));
    assert_eq!(client.mem_free_host(pointer), Ok(()));
}

#[test]
fn pointers_are_distinguished_without_asking() {
    use floe_abi::pointer_attribute as ask;
    let server = Server::start(Options::default());
    let client = client(&server);
    let device = client.mem_alloc(100).unwrap();
    let pinned = client.mem_alloc_host(100).unwrap();
    // A call, so that everything posted so far has been seen.
    client.mem_get_info().unwrap();
    let asked = server.names().len();
    let inside = DevicePtr(device.0 + 99);
    assert_eq!(client.pointer_get_attribute(ask::MEMORY_TYPE, inside), Ok(PointerAttribute::MemoryType(2)));
    assert_eq!(client.pointer_get_attribute(ask::RANGE_START_ADDR, inside), Ok(PointerAttribute::RangeStart(device)));
    assert_eq!(
        client.pointer_get_attribute(ask::MEMORY_TYPE, DevicePtr(pinned.0 + 1)),
        Ok(PointerAttribute::MemoryType(1))
    );
    let local = 5u8;
    let unknown = DevicePtr(std::ptr::from_ref(&local) as u64);
    assert_eq!(client.pointer_get_attribute(ask::MEMORY_TYPE, unknown), Err(CudaError::INVALID_VALUE));
    assert_eq!(
        client.pointer_get_attribute(ask::MEMORY_TYPE, DevicePtr(device.0 + 100)),
        Err(CudaError::INVALID_VALUE)
    );
    assert_eq!(server.names().len(), asked);
}

#[test]
fn a_cooperative_grid_that_cannot_be_resident_is_refused() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let function = client.module_get_function(module, c"add").unwrap();
    let count = floe_abi::device_attribute::MULTIPROCESSOR_COUNT;
    assert_eq!(client.device_get_attribute(count, Device(0)), Ok(2));
    // The scripted device has room for four blocks of a kernel on each of its two multiprocessors.
    for (blocks, expected) in [(8, Ok(())), (9, Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE))] {
        let result = launch_as(client, function, [blocks, 1, 1], [32, 1, 1], Stream::LEGACY, (0, 0, 0, 0), true);
        assert_eq!(result, expected, "{blocks} blocks");
    }
}

#[test]
fn a_librarys_module_is_unloaded_with_its_library_only() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let module = client.library_get_module(library).unwrap();
    let function = client.module_get_function(module, c"add").unwrap();
    assert_eq!(client.func_get_module(function), Ok(module));
    assert_eq!(client.module_unload(module), Err(CudaError::INVALID_VALUE));
    client.library_unload(library).unwrap();
    assert_eq!(client.module_get_function(module, c"add"), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.func_get_attribute(0, function), Err(CudaError::INVALID_HANDLE));
    server.wait_for("UnloadLibrary", 1);
}
