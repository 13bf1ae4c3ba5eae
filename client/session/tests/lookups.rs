//! Look-ups of kernels that the image describes, with `--far`: what is posted, what waits, and what becomes of a server that says
//! otherwise.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_wrap, reason = "a test may fail")]

mod scripted;

use floe_abi::{CudaError, CudaResult, Device, Function, Kernel, Stream, function_attribute as a};
use floe_image::ImageKind;
use floe_session::Client;
use floe_surface::*;
use floe_wire::{Attribute, FindKernelReply, LoadLibraryReply, Parameter, Request};
use scripted::*;

/// Machine code of kernels of a pointer and a number, for sm_90 and for sm_90a.
const CODE: &[u8] = include_bytes!("../../../boundary/image/tests/data/bounds.fatbin");
const INVALID_IMAGE: u32 = 200;

fn image() -> Image<'static> {
    Image { kind: ImageKind::Fatbin, containers: vec![CODE.into()] }
}

/// What a device says of these kernels.
fn facts(parameters: &[(u32, u32)]) -> FindKernelReply {
    let attribute = |number: u32, value| Attribute { number: number as i32, value };
    FindKernelReply {
        parameters: parameters.iter().map(|(offset, bytes)| Parameter { offset: *offset, bytes: *bytes }).collect(),
        attributes: vec![
            attribute(a::MAX_THREADS_PER_BLOCK, 256),
            attribute(a::SHARED_SIZE_BYTES, 4000),
            attribute(a::MAX_DYNAMIC_SHARED_SIZE_BYTES, 45_000),
        ],
    }
}

/// A far server that has machine code run, and says this of kernels and loads. If it holds its answers, they come behind the first
/// launch.
fn server(parameters: &'static [(u32, u32)], status: u32, holds: bool) -> Server {
    let mut held = holds.then(Vec::new);
    let answer = move |is_load: bool, sequence: u64, peer: &mut Peer| match (status, is_load) {
        (0, true) => peer.reply_borrowed(sequence, &LoadLibraryReply::default()),
        (0, false) => peer.reply(sequence, &facts(parameters)),
        _ => peer.reply_with(sequence, status, 0, "it is damaged", &[]),
    };
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::FindKernel(find) if find.name == "missing" => Flow::Usual,
        Request::LoadLibrary(_) | Request::FindKernel(_) => {
            let is_load = matches!(request, Request::LoadLibrary(_));
            match &mut held {
                Some(held) => held.push((is_load, sequence)),
                None => answer(is_load, sequence, peer),
            }
            Flow::Done
        }
        Request::Launch(_) => {
            held.take().into_iter().flatten().for_each(|(is_load, sequence)| answer(is_load, sequence, peer));
            Flow::Usual
        }
        _ => Flow::Usual,
    };
    Server::start(Options { code: 1, is_far: true, script: Some(Box::new(script)), ..Options::default() })
}

/// A program on its own thread, since a thread has one current context; whether it is far.
fn run<T: Send>(server: &Server, far: &str, program: impl FnOnce(&'static Client) -> T + Send) -> T {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().display().to_string();
    let run = || program(client_of(server, &[("FLOE_FAR", far), ("XDG_CACHE_HOME", &cache)]));
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

fn good() -> Server {
    server(&[(0, 8), (8, 4)], 0, false)
}

/// What a call returned, and how often it waited.
fn waits<T>(client: &Client, call: impl FnOnce(&Client) -> T) -> (T, u64) {
    let before = client.statistics().waits_with_context;
    let result = counted(client, call);
    (result, client.statistics().waits_with_context - before)
}

/// Its result, where it waited once at most: an answer to what was posted may be here by then.
fn at_most_one<T>((result, waits): (T, u64)) -> T {
    assert!(waits <= 1, "{waits}");
    result
}

fn as_function(kernel: Kernel) -> Function {
    Function(kernel.0)
}

fn launch_of(client: &Client, function: Function, threads: u32) -> CudaResult<()> {
    launch(client, function, [1, 1, 1], [threads, 1, 1], Stream::LEGACY, (0, 0, 0, 0))
}

#[test]
fn kernels_that_the_image_describes_are_looked_up_and_launched_without_waiting() {
    let server = good();
    run(&server, "1", |client| {
        let library = client.library_load_data(image(), &mut JitOptions::none()).unwrap();
        let (kernel, count) = waits(client, |client| client.library_get_kernel(library, c"plain").unwrap());
        let (launched, launch) = waits(client, |client| launch_of(client, as_function(kernel), 128));
        let (more, second) = waits(client, |client| client.library_get_kernel(library, c"bounded").unwrap());
        let (places, info) = waits(client, |client| client.kernel_get_param_info(more, 1));
        assert_eq!((launched, places), (Ok(()), Ok((8, 4))));
        assert_eq!([count, launch, second, info], [0; 4]);
        client.mem_get_info().unwrap();
        let sent = ["LibraryPart", "LoadLibrary", "FindKernel", "Launch", "FindKernel"];
        let names: Vec<_> = server.names().into_iter().filter(|name| sent.contains(name)).collect();
        assert_eq!(names, sent);
        // Launches of clusters depend on more, and what the image does not have the server says.
        assert_eq!(waits(client, |client| client.library_get_kernel(library, c"clustered").map(drop)), (Ok(()), 1));
        let missing = waits(client, |client| client.library_get_kernel(library, c"missing").map(drop));
        assert_eq!(missing, (Err(CudaError::NOT_FOUND), 1));
    });
}

#[test]
fn near_servers_and_devices_that_take_anything_are_asked() {
    for (far, code) in [("0", 1), ("1", 0), ("1", 2)] {
        let server = Server::start(Options { code, is_far: true, ..Options::default() });
        run(&server, far, |client| {
            let library = client.library_load_data(image(), &mut JitOptions::none()).unwrap();
            let ((), count) = waits(client, |client| client.library_get_kernel(library, c"plain").map(drop).unwrap());
            assert!(count > 0, "{far} {code}");
        });
    }
}

#[test]
fn a_launch_that_not_every_device_takes_waits_and_has_the_devices_answer() {
    let server = good();
    run(&server, "1", |client| {
        let library = client.library_load_data(image(), &mut JitOptions::none()).unwrap();
        let function = as_function(client.library_get_kernel(library, c"bounded").unwrap());
        assert_eq!(waits(client, |client| launch_of(client, function, 256)), (Ok(()), 0));
        let kernel = client.library_get_kernel(library, c"plain").unwrap();
        // The code has no bound, the device has: as for every launch, at once.
        let over = at_most_one(waits(client, |client| launch_of(client, as_function(kernel), 2048)));
        assert_eq!(over, Err(CudaError::INVALID_VALUE));
        assert_eq!(launch_of(client, as_function(kernel), 512), Err(CudaError::LAUNCH_OUT_OF_RESOURCES));
    });
}

#[test]
fn attributes_are_the_devices_and_what_was_set_meanwhile_stays() {
    let server = good();
    run(&server, "1", |client| {
        let module = client.module_load_data(&image(), &mut JitOptions::none()).unwrap();
        let (function, count) = waits(client, |client| client.module_get_function(module, c"plain").unwrap());
        assert_eq!(count, 0);
        let set = |number, value| waits(client, |client| client.func_set_attribute(function, number, value));
        assert_eq!(set(a::MAX_DYNAMIC_SHARED_SIZE_BYTES, 65_536), (Ok(()), 0));
        let get = |number| waits(client, |client| client.func_get_attribute(number, function));
        assert_eq!(at_most_one(get(a::SHARED_SIZE_BYTES)), Ok(4000));
        assert_eq!(get(a::MAX_DYNAMIC_SHARED_SIZE_BYTES), (Ok(65_536), 0));
        assert_eq!(get(a::MAX_THREADS_PER_BLOCK), (Ok(256), 0));
        assert_eq!(server.count("FindKernel"), 1);
    });
}

#[test]
fn a_question_about_fitting_goes_with_the_look_up() {
    let server = good();
    run(&server, "1", |client| {
        let library = client.library_load_data(image(), &mut JitOptions::none()).unwrap();
        let function = as_function(client.library_get_kernel(library, c"plain").unwrap());
        let blocks = |block| {
            waits(client, |client| client.occupancy_max_active_blocks_per_multiprocessor(function, block, 0, 0))
        };
        assert_eq!(at_most_one(blocks(128)), Ok(4));
        assert_eq!(blocks(128), (Ok(4), 0));
        assert_eq!(server.count("MaxActiveBlocks"), 1);
        assert_eq!(server.names().iter().rev().take(2).collect::<Vec<_>>(), [&"MaxActiveBlocks", &"FindKernel"]);
    });
}

#[test]
fn a_failure_comes_late_and_the_next_look_up_says_why() {
    let server = server(&[], INVALID_IMAGE, true);
    run(&server, "1", |client| {
        let library = client.library_load_data(image(), &mut JitOptions::none()).unwrap();
        let kernel = client.library_get_kernel(library, c"plain").unwrap();
        let attribute = |client: &Client| client.kernel_get_attribute(0, kernel, Device(0));
        assert_eq!(launch_of(client, as_function(kernel), 32), Ok(()));
        assert_eq!(waits(client, attribute).0, Err(CudaError::INVALID_IMAGE));
        let loads = server.count("LoadLibrary");
        // It is loaded again, and waited for.
        assert_eq!(waits(client, |client| launch_of(client, as_function(kernel), 32)).0, Err(CudaError::INVALID_IMAGE));
        assert_eq!(waits(client, attribute).0, Err(CudaError::INVALID_IMAGE));
        assert!(server.count("LoadLibrary") > loads);
        let other = waits(client, |client| client.library_get_kernel(library, c"bounded").map(drop));
        assert_eq!(other, (Err(CudaError::INVALID_IMAGE), 1));
        client.library_unload(library).unwrap();
    });
}

#[test]
fn a_device_that_has_other_parameters_than_the_image_leaves_a_context_beyond_use() {
    let server = server(&[(0, 8), (8, 8)], 0, true);
    run(&server, "1", |client| {
        let at = client.mem_alloc(64).unwrap();
        let library = client.library_load_data(image(), &mut JitOptions::none()).unwrap();
        let kernel = client.library_get_kernel(library, c"plain").unwrap();
        let function = client.kernel_get_function(kernel).unwrap();
        assert_eq!(launch_of(client, function, 32), Ok(()));
        // What it has written is not read, also where it is used no more and something else has failed.
        let mut read = [0; 64];
        for _ in 0..3 {
            assert_eq!(client.memcpy_dtoh(Stream::LEGACY, host(&mut read), at), Err(CudaError::LAUNCH_FAILED));
        }
        assert_eq!(launch_of(client, function, 32), Err(CudaError::LAUNCH_FAILED));
        client.device_primary_ctx_reset(Device(0)).unwrap();
        client.mem_alloc(64).unwrap();
    });
}
