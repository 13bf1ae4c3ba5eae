//! Launch attributes, clusters and tensor maps against a scripted server: what is sent, what is remembered, what waits.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use floe_abi::*;
use floe_session::Client;
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

fn function(client: &Client) -> Function {
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    client.module_get_function(module, c"add").unwrap()
}

fn attribute(id: u32, words: &[u64]) -> LaunchAttribute {
    // The bytes behind the value are the program's, whatever they are.
    let mut value = LaunchAttributeValue { words: [u64::MAX; 8] };
    value.words[..words.len()].copy_from_slice(words);
    LaunchAttribute { id, value, ..LaunchAttribute::default() }
}

fn cluster(x: u32) -> LaunchAttribute {
    attribute(launch_attribute::CLUSTER_DIMENSION, &[u64::from(x) | 1 << 32, 1])
}

fn description(function: Function, attributes: &[LaunchAttribute]) -> Launch<'_> {
    Launch {
        function,
        grid: [8, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 0,
        stream: Stream::LEGACY,
        cooperative: false,
        attributes,
        arguments: KernelArguments::NONE,
    }
}

/// Launches the scripted kernel on a stream.
fn launch_on(client: &Client, function: Function, stream: Stream) -> CudaResult<()> {
    launch(client, function, [1, 1, 1], [1, 1, 1], stream, (0, 0, 0, 0))
}

/// The library's kernel, as programs launch it.
fn kernel(client: &Client, library: Library) -> Function {
    Function(client.library_get_kernel(library, c"add").unwrap().0)
}

#[test]
fn what_a_thread_has_launched_again_and_again_is_refused_when_it_is_gone() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let function = client.module_get_function(module, c"add").unwrap();
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let (kernel, stream) = (kernel(client, library), client.stream_create(0).unwrap());
    let again_and_again = |function, stream| [(); 3].map(|()| launch_on(client, function, stream));
    assert_eq!(again_and_again(function, stream), [Ok(()); 3]);
    assert_eq!(again_and_again(kernel, Stream::LEGACY), [Ok(()); 3]);
    client.stream_destroy(stream).unwrap();
    assert_eq!(again_and_again(function, stream), [Err(CudaError::INVALID_HANDLE); 3]);
    client.module_unload(module).unwrap();
    assert_eq!(again_and_again(function, Stream::LEGACY), [Err(CudaError::INVALID_HANDLE); 3]);
    client.library_unload(library).unwrap();
    assert_eq!(again_and_again(kernel, Stream::LEGACY), [Err(CudaError::INVALID_HANDLE); 3]);
}

#[test]
fn an_object_that_another_thread_destroyed_is_refused() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (function, stream) = (function(client), client.stream_create(0).unwrap());
    launch_on(client, function, stream).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| client.stream_destroy(stream).unwrap()).join().unwrap();
    });
    assert_eq!(launch_on(client, function, stream), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn launches_after_a_reset_find_nothing_of_before_it_but_the_kernels_of_libraries() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let (function, kernel) = (function(client), kernel(client, library));
    for stream in [Stream::LEGACY, Stream::PER_THREAD] {
        assert_eq!([launch_on(client, function, stream), launch_on(client, kernel, stream)], [Ok(()); 2]);
    }
    client.device_primary_ctx_reset(Device(0)).unwrap();
    for stream in [Stream::LEGACY, Stream::PER_THREAD] {
        assert_eq!(launch_on(client, function, stream), Err(CudaError::INVALID_HANDLE));
        assert_eq!(launch_on(client, kernel, stream), Ok(()));
    }
    client.ctx_set_current(Context::NULL).unwrap();
    assert_eq!(launch_on(client, kernel, Stream::LEGACY), Err(CudaError::INVALID_CONTEXT));
}

/// Runs `act` in another thread that has this thread's context.
fn elsewhere(client: &'static Client, act: impl FnOnce() + Send) {
    let context = client.ctx_get_current().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.ctx_set_current(context).unwrap();
            act();
        });
    });
}

/// Launches the scripted kernel with more shared memory than kernels have unless they ask for it.
fn launch_large(client: &Client, function: Function) -> CudaResult<()> {
    let mut value = 0_u64;
    let mut pointers = [std::ptr::from_mut(&mut value).cast::<std::ffi::c_void>(); 4];
    // SAFETY: one valid pointer per parameter of the scripted kernel, until the call returns.
    let arguments = unsafe { KernelArguments::new(pointers.as_mut_ptr(), std::ptr::null_mut()) }?;
    client.launch_kernel(&Launch { shared_bytes: 64 << 10, arguments, ..description(function, &[]) })
}

#[test]
fn shared_memory_another_thread_asked_for_is_there_at_the_next_launch() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    for function in [function(client), kernel(client, library)] {
        launch_on(client, function, Stream::LEGACY).unwrap();
        assert_eq!(launch_large(client, function), Err(CudaError::INVALID_VALUE));
        let most = function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
        elsewhere(client, || client.func_set_attribute(function, most, 96 << 10).unwrap());
        assert_eq!(launch_large(client, function), Ok(()));
    }
}

#[test]
fn a_capture_another_thread_began_holds_for_the_next_launch() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (function, stream) = (function(client), client.stream_create(0).unwrap());
    let streams = [stream, Stream::LEGACY];
    assert_eq!(streams.map(|stream| launch_on(client, function, stream)), [Ok(()); 2]);
    elsewhere(client, || {
        // SAFETY: it is given no pointer.
        unsafe { marshal::stream::cuStreamBeginCapture_v2(client, Stream::LEGACY, stream, 2) }.unwrap();
    });
    let refused = Err(CudaError::STREAM_CAPTURE_IMPLICIT);
    assert_eq!(streams.map(|stream| launch_on(client, function, stream)), [Ok(()), refused]);
    server.wait_for("Launch", 2);
    client.mem_get_info().unwrap();
    assert_eq!(server.count("Launch"), 2, "what is captured is not sent");
}

#[test]
fn a_kernel_is_launched_on_the_gpu_that_is_current() {
    let servers = [Server::start(Options::default()), Server::start(Options::default())];
    let client = begun(client_with(&[&servers[0], &servers[1]], &[]));
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let kernel = kernel(client, library);
    let contexts = [0, 1].map(|device| client.device_primary_ctx_retain(Device(device)).unwrap());
    for _ in 0..3 {
        for context in contexts {
            client.ctx_set_current(context).unwrap();
            launch_on(client, kernel, Stream::LEGACY).unwrap();
        }
    }
    for (server, context) in servers.iter().zip(contexts) {
        client.ctx_set_current(context).unwrap();
        client.ctx_synchronize().unwrap();
        assert_eq!(server.count("Launch"), 3);
    }
}

#[test]
fn questions_about_clusters_are_asked_once_until_an_attribute_changes() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let function = function(client);
    let attributes = [cluster(2)];
    for _ in 0..3 {
        assert_eq!(client.occupancy_max_active_clusters(&description(function, &attributes)), Ok(10));
        assert_eq!(client.occupancy_max_potential_cluster_size(&description(function, &[])), Ok(11));
    }
    assert_eq!(server.count("ClusterOccupancy"), 2);
    client.func_set_attribute(function, function_attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1).unwrap();
    client.occupancy_max_active_clusters(&description(function, &attributes)).unwrap();
    assert_eq!(server.count("ClusterOccupancy"), 3);
}

#[test]
fn the_first_launch_with_clusters_of_a_shape_waits_and_later_ones_do_not() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let function = function(client);
    for blocks in [4, 8, 16] {
        launch_with(client, function, [blocks, 1, 1], &[cluster(2)]).unwrap();
    }
    assert_eq!(server.count("MaxActiveBlocks"), 1);
    launch_with(client, function, [5, 1, 1], &[cluster(2)]).unwrap();
    assert_eq!(server.count("MaxActiveBlocks"), 2, "no whole clusters: only the device can say");
    launch_with(client, function, [4, 1, 1], &[cluster(1)]).unwrap();
    assert_eq!(server.count("MaxActiveBlocks"), 2, "a cluster of one block is none");
}

#[test]
fn a_launch_the_device_refuses_for_its_clusters_fails_at_once() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::MaxActiveBlocks(_) => {
            let refused = CudaError::INVALID_CLUSTER_SIZE.code();
            peer.reply_with(sequence, 0, refused, "", &4_i32.to_le_bytes());
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let function = function(client);
    for _ in 0..2 {
        let refused = launch_with(client, function, [16, 1, 1], &[cluster(16)]);
        assert_eq!(refused, Err(CudaError::INVALID_CLUSTER_SIZE));
    }
}

#[test]
fn an_event_in_a_launch_travels_by_its_id_and_is_recorded_by_it() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let function = function(client);
    let event = client.event_create(event_flags::DISABLE_TIMING).unwrap();
    let timed = client.event_create(event_flags::DEFAULT).unwrap();
    let wish = |event: Event| [attribute(launch_attribute::PROGRAMMATIC_EVENT, &[event.0, 0])];
    assert_eq!(launch_with(client, function, [1, 1, 1], &wish(timed)), Err(CudaError::INVALID_VALUE));
    assert_eq!(launch_with(client, function, [1, 1, 1], &wish(Event(77))), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.event_query(event), Ok(()), "never recorded");
    assert_eq!(server.count("QueryEvent"), 0);
    launch_with(client, function, [1, 1, 1], &wish(event)).unwrap();
    assert_eq!(client.event_query(event), Ok(()));
    assert_eq!(server.count("QueryEvent"), 1, "recorded now");
    // The event is no sign that the launch is over.
    client.ctx_synchronize().unwrap();
    assert_eq!(server.count("SynchronizeContext"), 1);

    let seen = server.seen();
    let created = seen.iter().find_map(|seen| match seen.request() {
        Request::CreateEvent(created) => Some(created.event.0),
        _ => None,
    });
    let launch = seen.iter().find(|seen| seen.name == "Launch").unwrap();
    let Request::Launch(launch) = launch.request() else { panic!("a launch") };
    assert_eq!(launch.attributes[0].value.len(), 16);
    assert_eq!(launch.attributes[0].value[..8], created.unwrap().to_le_bytes());
}

#[test]
fn a_node_the_device_updates_is_refused_by_name() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let function = function(client);
    let node = attribute(launch_attribute::DEVICE_UPDATABLE_KERNEL_NODE, &[1, 0]);
    assert_eq!(launch_with(client, function, [1, 1, 1], &[node]), Err(CudaError::NOT_SUPPORTED));
    assert_eq!(server.count("Launch"), 0);
}

fn shape(rows: u64) -> TensorShape {
    TensorShape {
        data_type: 6,
        rank: 2,
        dimensions: [64, rows, 0, 0, 0],
        strides: [128, 0, 0, 0],
        element_strides: [1, 1, 0, 0, 0],
        form: TensorForm::Tiled { box_dimensions: [64, 64, 0, 0, 0] },
        interleave: 0,
        swizzle: 3,
        promotion: 2,
        fill: 0,
    }
}

#[test]
fn a_tensor_map_is_asked_for_once_per_shape_and_moved_here() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let first = client.tensor_map_encode(&shape(1024), DevicePtr(0x2000_0000_0000)).unwrap();
    let second = client.tensor_map_encode(&shape(1024), DevicePtr(0x2000_0000_1000)).unwrap();
    assert_eq!((second.address(), second.words[1..] == first.words[1..]), (DevicePtr(0x2000_0000_1000), true));
    assert_eq!(server.count("EncodeTensorMap"), 1);
    client.tensor_map_encode(&shape(512), DevicePtr(0x2000_0000_0000)).unwrap();
    assert_eq!(server.count("EncodeTensorMap"), 2);
    // Alignments that only some shapes allow are judged where the map is made.
    client.tensor_map_encode(&shape(1024), DevicePtr(0x2000_0000_0010)).unwrap();
    let odd = client.tensor_map_encode(&shape(1024), DevicePtr(0x2000_0000_0008));
    assert_eq!(odd, Err(CudaError::INVALID_VALUE));
    assert_eq!(server.count("EncodeTensorMap"), 4);
}

#[test]
fn a_fill_of_pinned_memory_happens_here_in_stream_order() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let pointer = client.mem_host_alloc(16, 0).unwrap();
    client.memset_d2d8(Stream::LEGACY, DevicePtr(pointer.0 + 1), 8, 7, 2, 2).unwrap();
    let bytes = pinned(pointer, 16).to_vec();
    assert_eq!(bytes, [0, 7, 7, 0, 0, 0, 0, 0, 0, 7, 7, 0, 0, 0, 0, 0]);
    let outside = client.memset_d32(Stream::LEGACY, DevicePtr(pointer.0), 0, 5);
    assert_eq!(outside, Err(CudaError::INVALID_VALUE));
    assert_eq!((server.count("HostFunction"), server.count("Fill")), (1, 0));
}
