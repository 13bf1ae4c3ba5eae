//! Flags and members of structs with values that are not the default: each reaches the server, is kept and read back, or is
//! refused with CUDA's code. Tables by noun; what a flag does is tested with its noun.
#![allow(missing_docs, clippy::unwrap_used, clippy::undocumented_unsafe_blocks, reason = "a test may fail")]

mod scripted;

use floe_abi::*;
use floe_session::Client;
use floe_surface::marshal::{graph as graphs, stream as streams};
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

const INVALID: CudaResult<()> = Err(CudaError::INVALID_VALUE);
const UNSUPPORTED: CudaResult<()> = Err(CudaError::NOT_SUPPORTED);

/// What `of` finds in the messages the server has got so far.
fn sent<T>(client: &Client, server: &Server, of: impl Fn(&Request<'_>) -> Option<T>) -> Vec<T> {
    // A call, so that everything posted so far has been seen.
    client.mem_get_info().unwrap();
    server.seen().iter().filter_map(|seen| of(&seen.request())).collect()
}

#[test]
fn contexts_keep_their_flags_or_are_refused() {
    use context_flags as is;
    let server = Server::start(Options::default());
    let client = client(&server);
    let kept = [is::SCHED_SPIN, is::SCHED_YIELD | is::MAP_HOST, is::SCHED_BLOCKING_SYNC, is::SYNC_MEMOPS];
    for flags in kept {
        client.ctx_create(flags, Device(0)).unwrap();
        assert_eq!(client.ctx_get_flags(), Ok(flags), "{flags:#x}");
        client.ctx_set_flags(is::LMEM_RESIZE_TO_MAX).unwrap();
        assert_eq!(client.ctx_get_flags(), Ok(is::LMEM_RESIZE_TO_MAX));
        client.ctx_destroy(client.ctx_get_current().unwrap()).unwrap();
    }
    let refused = [(is::SCHED_MASK, INVALID), (0x100, INVALID), (is::COREDUMP_ENABLE, UNSUPPORTED)];
    for (flags, answer) in refused {
        assert_eq!(client.ctx_create(flags, Device(0)).map(drop), answer, "{flags:#x}");
        assert_eq!(client.ctx_set_flags(flags), answer, "{flags:#x}");
        assert_eq!(client.device_primary_ctx_set_flags(Device(0), flags), answer, "{flags:#x}");
    }
}

#[test]
fn streams_and_events_are_made_with_their_flags() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let stream = client.stream_create_with_priority(stream_flags::NON_BLOCKING, -1).unwrap();
    assert_eq!(client.stream_create(2).map(drop), INVALID);
    let made = sent(client, &server, |request| match request {
        Request::CreateStream(stream) => Some((stream.flags, stream.priority)),
        _ => None,
    });
    assert_eq!(made, [(stream_flags::NON_BLOCKING, client.stream_get_priority(stream).unwrap())]);

    use event_flags::{BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS};
    let event = client.event_create(BLOCKING_SYNC | DISABLE_TIMING).unwrap();
    client.event_create(INTERPROCESS | DISABLE_TIMING).unwrap();
    for flags in [INTERPROCESS, 8, u32::MAX] {
        assert_eq!(client.event_create(flags).map(drop), INVALID, "{flags}");
    }
    let made = sent(client, &server, |request| match request {
        Request::CreateEvent(event) => Some(event.flags),
        _ => None,
    });
    // What two processes share is made when it is handed on.
    assert_eq!(made, [BLOCKING_SYNC | DISABLE_TIMING, DISABLE_TIMING]);
    // External records and waits are for captures.
    let outside = Err(CudaError::ILLEGAL_STATE);
    assert_eq!([1, 2].map(|flags| client.event_record_with_flags(event, stream, flags)), [outside, INVALID]);
    assert_eq!([1, 2].map(|flags| client.stream_wait_event(stream, event, flags)), [outside, INVALID]);
}

#[test]
fn a_streams_attributes_are_read_back_as_they_were_set() {
    use launch_attribute as is;
    let server = Server::start(Options::default());
    let client = client(&server);
    let (stream, other) = (client.stream_create(0).unwrap(), client.stream_create(0).unwrap());
    let values = [
        (is::ACCESS_POLICY_WINDOW, [0x1000, 64, 2 << 32, 1, 0, 0, 0, 0]),
        (is::SYNCHRONIZATION_POLICY, [4, 0, 0, 0, 0, 0, 0, 0]),
        (is::MEM_SYNC_DOMAIN_MAP, [0x0203, 0, 0, 0, 0, 0, 0, 0]),
        (is::MEM_SYNC_DOMAIN, [1, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (attribute, words) in values {
        // What nobody has set can be set again.
        let unset = client.stream_get_attribute(stream, attribute).unwrap();
        client.stream_set_attribute(stream, attribute, &unset).unwrap();
        let value = LaunchAttributeValue { words };
        client.stream_set_attribute(stream, attribute, &value).unwrap();
        assert_eq!(client.stream_get_attribute(stream, attribute), Ok(value), "{attribute}");
        let nameless = LaunchAttributeValue { words: [u64::MAX; 8] };
        if attribute != is::MEM_SYNC_DOMAIN_MAP {
            assert_eq!(client.stream_set_attribute(stream, attribute, &nameless), INVALID, "{attribute}");
        }
    }
    let (least, greatest) = client.ctx_get_stream_priority_range().unwrap();
    for (wanted, kept) in [(greatest, greatest), (greatest - 7, greatest), (least + 7, least)] {
        let value = LaunchAttributeValue::from_u32(wanted.cast_unsigned());
        client.stream_set_attribute(stream, is::PRIORITY, &value).unwrap();
        assert_eq!(client.stream_get_priority(stream), Ok(kept));
        let kept = LaunchAttributeValue::from_u32(kept.cast_unsigned());
        assert_eq!(client.stream_get_attribute(stream, is::PRIORITY), Ok(kept));
    }
    client.stream_copy_attributes(other, stream).unwrap();
    let copied = client.stream_get_attribute(other, is::MEM_SYNC_DOMAIN).unwrap();
    assert_eq!(copied.as_u32(), 1);
    for attribute in [is::COOPERATIVE, is::CLUSTER_DIMENSION, is::PROGRAMMATIC_EVENT, 999] {
        let value = LaunchAttributeValue::from_u32(1);
        assert_eq!(client.stream_set_attribute(stream, attribute, &value), INVALID, "{attribute}");
        assert_eq!(client.stream_get_attribute(stream, attribute).map(drop), INVALID, "{attribute}");
    }
}

#[test]
fn a_stream_that_is_none_has_no_green_context() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let mut green = GreenContext(7);
    let ask = |stream, green: &mut GreenContext| unsafe {
        streams::cuStreamGetGreenCtx(client, Stream::LEGACY, stream, std::ptr::from_mut(green))
    };
    assert_eq!(ask(Stream(0x1234), &mut green), Err(CudaError::INVALID_HANDLE));
    assert_eq!(ask(Stream::NULL, &mut green), Ok(()));
    assert!(green.is_null());
}

#[test]
fn host_memory_keeps_the_flags_it_can_have() {
    let server = Server::start(Options::default());
    let client = client(&server);
    for flags in 0..8 {
        let pointer = client.mem_host_alloc(64, flags).unwrap();
        assert_eq!(client.mem_host_get_flags(pointer), Ok(flags));
        client.mem_free_host(pointer).unwrap();
    }
    assert_eq!(client.mem_host_alloc(64, 8).map(drop), INVALID);
    let mut bytes = vec![0; 8192];
    let range = host(&mut bytes);
    use host_register_flags as is;
    for flags in [is::PORTABLE, is::DEVICEMAP, is::READ_ONLY, is::PORTABLE | is::READ_ONLY] {
        client.mem_host_register(range, flags).unwrap();
        client.mem_host_unregister(range.pointer()).unwrap();
    }
    assert_eq!(client.mem_host_register(range, is::IOMEMORY), UNSUPPORTED);
    assert_eq!(client.mem_host_register(range, 16), INVALID);
    let pinned = client.mem_alloc_host(64).unwrap();
    assert_eq!(client.mem_host_get_device_pointer(pinned, 1).map(drop), INVALID);
}

fn of_device(flags: MemAllocationFlags) -> MemAllocationProperties {
    let location = MemLocation { kind: location_type::DEVICE, id: 0 };
    MemAllocationProperties { kind: allocation_type::PINNED, location, flags, ..MemAllocationProperties::default() }
}

#[test]
fn physical_memory_tells_what_it_is_and_not_what_was_asked_for() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let asked = MemAllocationFlags { compression_type: 1, gpu_direct_rdma_capable: 1, usage: 2, reserved: [0; 4] };
    let memory = client.mem_create(2 << 20, &of_device(asked), 0).unwrap();
    let got = client.mem_get_allocation_properties_from_handle(memory).unwrap().flags;
    assert_eq!((got.compression_type, got.gpu_direct_rdma_capable, got.usage), (0, 0, 2));
    let refused = [
        (MemAllocationFlags { usage: 1, ..MemAllocationFlags::default() }, UNSUPPORTED),
        (MemAllocationFlags { usage: 8, ..MemAllocationFlags::default() }, INVALID),
        (MemAllocationFlags { compression_type: 2, ..MemAllocationFlags::default() }, INVALID),
    ];
    for (flags, answer) in refused {
        assert_eq!(client.mem_create(2 << 20, &of_device(flags), 0).map(drop), answer, "{flags:?}");
    }
    assert_eq!(client.mem_create(2 << 20, &of_device(MemAllocationFlags::default()), 1).map(drop), INVALID);
    assert_eq!(server.count("CreateBlock"), 1);
    use device_attribute as a;
    for attribute in
        [a::GENERIC_COMPRESSION_SUPPORTED, a::SPARSE_CUDA_ARRAY_SUPPORTED, a::MEM_DECOMPRESS_ALGORITHM_MASK]
    {
        assert_eq!(client.device_get_attribute(attribute, Device(0)), Ok(0), "{attribute}");
    }
}

fn pool(client: &Client, properties: MemPoolProperties) -> CudaResult<MemPool> {
    let location = MemLocation { kind: location_type::DEVICE, id: 0 };
    client.mem_pool_create(&MemPoolProperties { kind: allocation_type::PINNED, location, ..properties })
}

#[test]
fn a_pool_gives_out_no_more_than_its_size() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let stream = client.stream_create(1).unwrap();
    let small = pool(client, MemPoolProperties { max_size: 1 << 20, ..MemPoolProperties::default() }).unwrap();
    let large = pool(client, MemPoolProperties::default()).unwrap();
    let first = client.mem_alloc_from_pool_async(1 << 19, small, stream).unwrap();
    assert_eq!(client.mem_alloc_from_pool_async(1 << 20, small, stream), Err(CudaError::OUT_OF_MEMORY));
    client.mem_alloc_from_pool_async(1 << 20, large, stream).unwrap();
    client.mem_free_async(first, stream).unwrap();
    client.mem_alloc_from_pool_async(1 << 20, small, stream).unwrap();
    assert_eq!(client.mem_alloc_from_pool_async(1, small, stream), Err(CudaError::OUT_OF_MEMORY));
    // The device's current pool has its size, too.
    client.device_set_mem_pool(Device(0), small).unwrap();
    assert_eq!(client.mem_alloc_async(1, stream), Err(CudaError::OUT_OF_MEMORY));
}

#[test]
fn pools_of_other_kinds_are_refused() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let answer = |properties| pool(client, properties).map(drop);
    assert_eq!(answer(MemPoolProperties { usage: 2, ..MemPoolProperties::default() }), Ok(()));
    assert_eq!(answer(MemPoolProperties { usage: 4, ..MemPoolProperties::default() }), INVALID);
    assert_eq!(answer(MemPoolProperties { handle_types: 8, ..MemPoolProperties::default() }), Ok(()), "fabric handles");
    assert_eq!(answer(MemPoolProperties { handle_types: 2, ..MemPoolProperties::default() }), UNSUPPORTED);
}

/// Waits of a stream that the server has seen.
fn waits(server: &Server) -> usize {
    server.count("SynchronizeStream")
}

/// Every synchronous call that CUDA lets return before the device is done, and whether each waited.
fn early_calls_wait(client: &Client, server: &Server, at: DevicePtr) -> Vec<bool> {
    let (legacy, context) = (Stream::LEGACY, client.ctx_get_current().unwrap());
    let to = DevicePtr(at.0 + 1024);
    let calls: [&dyn Fn() -> CudaResult<()>; 4] = [
        &|| client.memset_d8(legacy, at, 1, 64),
        &|| client.memset_d2d32(legacy, at, 64, 1, 4, 2),
        &|| client.memcpy_dtod(legacy, to, at, 64),
        &|| client.memcpy_peer(legacy, to, context, at, context, 64),
    ];
    let waited = |call: &&dyn Fn() -> CudaResult<()>| {
        let before = waits(server);
        call().unwrap();
        waits(server) > before
    };
    calls.iter().map(waited).collect()
}

#[test]
fn synchronous_calls_wait_while_memory_is_marked_so() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (at, other) = (client.mem_alloc(4096).unwrap(), client.mem_alloc(4096).unwrap());
    let ask = |at| client.pointer_get_attribute(pointer_attribute::SYNC_MEMOPS, at);
    let set = |at, value| client.pointer_set_attribute(value, pointer_attribute::SYNC_MEMOPS, at);
    assert_eq!(early_calls_wait(client, &server, at), [false; 4]);
    set(at, 1).unwrap();
    let inside = DevicePtr(at.0 + 100);
    assert_eq!(ask(inside), Ok(PointerAttribute::SyncMemops(true)));
    assert_eq!(ask(other), Ok(PointerAttribute::SyncMemops(false)));
    assert_eq!(early_calls_wait(client, &server, at), [true; 4]);
    let before = waits(&server);
    client.memset_d8_async(at, 1, 64, Stream::LEGACY).unwrap();
    client.memcpy_dtod_async(other, at, 64, Stream::LEGACY).unwrap();
    assert_eq!(waits(&server), before, "asynchronous calls never wait");
    set(inside, 0).unwrap();
    assert_eq!(early_calls_wait(client, &server, at), [false; 4]);
    set(other, 1).unwrap();
    client.mem_free(other).unwrap();
    assert_eq!(early_calls_wait(client, &server, at), [false; 4], "the mark goes with the memory");
    assert_eq!(set(at, 2), INVALID);
    assert_eq!(set(DevicePtr(0x1234), 1), INVALID);
}

#[test]
fn synchronous_calls_wait_in_a_context_made_so() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(4096).unwrap();
    client.ctx_set_flags(context_flags::SYNC_MEMOPS).unwrap();
    assert_eq!(early_calls_wait(client, &server, at), [true; 4]);
    client.ctx_set_flags(0).unwrap();
    assert_eq!(early_calls_wait(client, &server, at), [false; 4]);
}

/// The options of a load, as C passes them.
fn options(wishes: &[(u32, u64)]) -> JitOptions {
    let keys: Vec<u32> = wishes.iter().map(|(option, _)| *option).collect();
    let mut values: Vec<u64> = wishes.iter().map(|(_, value)| *value).collect();
    let count = u32::try_from(keys.len()).unwrap();
    unsafe { JitOptions::from_c(count, keys.as_ptr(), values.as_mut_ptr().cast()) }.unwrap()
}

#[test]
fn a_librarys_options_go_with_every_load_of_it() {
    let servers = [Server::start(Options::default()), Server::start(Options::default())];
    let client = begun(client_with(&[&servers[0], &servers[1]], &[]));
    // A count of none is not the server's to know.
    let wishes = [(jit_option::MAX_REGISTERS, 32), (jit_option::GLOBAL_SYMBOL_COUNT, 0)];
    let library = client.library_load_data(ptx(), &mut options(&wishes)).unwrap();
    let kernel = client.library_get_kernel(library, c"add").unwrap();
    client.kernel_get_attribute(0, kernel, Device(1)).unwrap();
    let loads = |server: &Server| {
        let of = |request: &Request<'_>| match request {
            Request::LoadLibrary(load) => Some(load.options.iter().map(|it| (it.option, it.value)).collect()),
            _ => None,
        };
        server.seen().iter().filter_map(|seen| of(&seen.request())).collect::<Vec<Vec<_>>>()
    };
    let first = loads(&servers[0]).len();
    client.device_primary_ctx_reset(Device(0)).unwrap();
    client.kernel_get_attribute(0, kernel, Device(0)).unwrap();
    assert!(loads(&servers[0]).len() > first && first > 0 && !loads(&servers[1]).is_empty());
    for options in servers.iter().flat_map(loads) {
        assert_eq!(options, [(0, 32)]);
    }
    let named = client.library_load_data(ptx(), &mut options(&[(jit_option::GLOBAL_SYMBOL_NAMES, 8)]));
    assert_eq!(named.map(drop), UNSUPPORTED);
}

fn instantiate(client: &'static Client, graph: Graph, flags: u64) -> CudaResult<GraphExec> {
    let mut exec = GraphExec::NULL;
    unsafe { graphs::cuGraphInstantiateWithFlags(client, &raw mut exec, graph, flags) }.map(|()| exec)
}

#[test]
fn graphs_are_instantiated_with_their_flags_or_refused() {
    use graph_instantiate_flags as is;
    let server = Server::start(Options::default());
    let client = client(&server);
    let graph = client.graphs().create();
    let mut node = GraphNode::NULL;
    unsafe { graphs::cuGraphAddEmptyNode(client, &raw mut node, graph, std::ptr::null(), 0) }.unwrap();
    for flags in [is::AUTO_FREE_ON_LAUNCH, is::USE_NODE_PRIORITY, is::AUTO_FREE_ON_LAUNCH | is::USE_NODE_PRIORITY] {
        let exec = instantiate(client, graph, flags.into()).unwrap();
        let mut kept = 0;
        unsafe { graphs::cuGraphExecGetFlags(client, exec, &raw mut kept) }.unwrap();
        assert_eq!(kept, u64::from(flags));
    }
    let refused = [(u64::from(is::UPLOAD), INVALID), (u64::from(is::DEVICE_LAUNCH), UNSUPPORTED), (16, INVALID)];
    for (flags, answer) in refused {
        assert_eq!(instantiate(client, graph, flags).map(drop), answer, "{flags}");
    }
}

#[test]
fn nodes_whose_zeros_are_none_are_refused() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (graph, at) = (client.graphs().create(), client.mem_alloc(4096).unwrap());
    let plain = GraphNodeParams { kind: graph_node_type::EMPTY, reserved0: [0; 3], words: [0; 29], reserved2: 0 };
    let mut node = GraphNode::NULL;
    let mut add = |mut params: GraphNodeParams| unsafe {
        graphs::cuGraphAddNode(client, &raw mut node, graph, std::ptr::null(), 0, &raw mut params)
    };
    assert_eq!(add(plain), Ok(()));
    assert_eq!(add(GraphNodeParams { reserved0: [0, 0, 1], ..plain }), INVALID);
    assert_eq!(add(GraphNodeParams { reserved2: 1, ..plain }), INVALID);
    // Flags and padding, the context, the copy: a line of 16 bytes.
    let copy = Memcpy3d {
        source_memory_type: memory_type::DEVICE,
        source_device: at.0,
        destination_memory_type: memory_type::DEVICE,
        destination_device: at.0 + 64,
        width_bytes: 16,
        height: 1,
        depth: 1,
        ..Memcpy3d::default()
    };
    let copies = |flags: u64| {
        let mut params = GraphNodeParams { kind: graph_node_type::MEMCPY, ..plain };
        params.words[0] = flags;
        unsafe { params.words.as_mut_ptr().add(2).cast::<Memcpy3d>().write(copy) };
        params
    };
    assert_eq!([add(copies(0)), add(copies(1)), add(copies(1 << 32))], [Ok(()), INVALID, INVALID]);
}
