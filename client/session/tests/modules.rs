//! Modules against a server that keeps their contents: which bytes travel, and how many waits a load takes.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use floe_abi::{Context, CudaError, Device};
use floe_image::ImageKind;
use floe_surface::*;
use floe_wire::{LoadLibraryReply, Request};
use scripted::*;

/// PTX for sm_90 and sm_75, machine code for sm_90; its kernel is `sums`.
const FATBIN: &[u8] = include_bytes!("../../../boundary/image/tests/data/sums_default.fatbin");
/// Machine code of another toolchain's run: for sm_90 and sm_100.
const OTHER: &[u8] = include_bytes!("../../../boundary/image/tests/data/wide.fatbin");

/// An image the program keeps, as the CUDA runtime's are.
fn fatbin(bytes: &'static [u8]) -> Image<'static> {
    Image { kind: ImageKind::Fatbin, containers: vec![bytes.into()] }
}

/// An image the program may free after the load.
fn owned(bytes: &[u8]) -> Image<'static> {
    Image { kind: ImageKind::Fatbin, containers: vec![bytes.to_vec().into()] }
}

/// The bytes of all parts the server was sent.
fn bytes_sent(server: &Server) -> usize {
    let seen = server.seen();
    let parts = seen.iter().map(|seen| match seen.request() {
        Request::LibraryPart(part) => part.bytes.len(),
        _ => 0,
    });
    parts.sum()
}

#[test]
fn library_of_machine_code_waits_for_its_first_kernel_and_loads_with_the_same_question() {
    let server = Server::start(Options { code: 1, ..Options::default() });
    let client = client(&server);
    let library = client.library_load_data(fatbin(FATBIN), &mut JitOptions::none()).unwrap();
    assert_eq!(server.names(), Vec::<&str>::new());
    client.library_get_kernel(library, c"sums").unwrap();
    let first =
        ["LoadLibrary", "FindKernel", "UnloadLibrary", "LibraryPart", "LibraryPart", "LoadLibrary", "FindKernel"];
    assert_eq!(server.names(), first);

    let again = client.library_load_data(fatbin(FATBIN), &mut JitOptions::none()).unwrap();
    let before = client.statistics().waits_with_context;
    let kernel = counted(client, |client| client.library_get_kernel(again, c"sums")).unwrap();
    assert_eq!(server.names()[first.len()..], ["LoadLibrary", "FindKernel"]);
    assert_eq!(client.statistics().waits_with_context - before, 1);
    counted(client, |client| client.kernel_get_attribute(0, kernel, Device(0))).unwrap();
    assert_eq!(client.statistics().waits_with_context - before, 1, "what a kernel is came with it");
    let statistics = client.statistics();
    assert_eq!((statistics.modules_known, statistics.modules_sent), (1, 1));
    assert_eq!(statistics.module_bytes_sent, bytes_sent(&server) as u64);
}

#[test]
fn a_variable_is_asked_for_with_its_library() {
    let server = Server::start(Options { code: 1, ..Options::default() });
    let client = client(&server);
    let library = client.library_load_data(fatbin(FATBIN), &mut JitOptions::none()).unwrap();
    client.library_get_kernel(library, c"sums").unwrap();
    let again = client.library_load_data(fatbin(FATBIN), &mut JitOptions::none()).unwrap();
    let before = (server.names().len(), client.statistics().waits_with_context);
    let variable = counted(client, |client| client.library_get_global(again, c"variable")).unwrap();
    assert_eq!(server.names()[before.0..], ["LoadLibrary", "FindGlobal"]);
    assert_eq!(client.statistics().waits_with_context - before.1, 1);
    assert_eq!(client.library_get_global(again, c"variable"), Ok(variable));
    assert_eq!(server.count("FindGlobal"), 1);
}

#[test]
fn a_cubin_for_the_device_waits_for_its_first_kernel() {
    let server = Server::start(Options { code: 1, ..Options::default() });
    let client = client(&server);
    let cubin = |container| {
        let entries = floe_image::Fatbin::parse(container, &floe_image::Limits::default()).unwrap().entries;
        entries.into_iter().find(|entry| entry.kind == floe_image::EntryKind::Cubin).unwrap().payload.to_vec()
    };
    let image = |bytes: Vec<u8>| Image { kind: ImageKind::Cubin, containers: vec![bytes.into()] };
    let code = cubin(FATBIN);
    let library = client.library_load_data(image(code.clone()), &mut JitOptions::none()).unwrap();
    assert_eq!(server.count("LoadLibrary"), 0);
    client.library_get_kernel(library, c"sums").unwrap();
    assert_eq!(bytes_sent(&server), code.len());
    // Whether the device takes another one is the driver's to say, at once.
    let mut other = code;
    other[49] = 100;
    let loads = server.count("LoadLibrary");
    client.library_load_data(image(other), &mut JitOptions::none()).unwrap();
    assert!(server.count("LoadLibrary") > loads);
}

#[test]
fn missing_kernel_is_not_found_and_the_library_is_loaded() {
    let server = Server::start(Options { code: 1, ..Options::default() });
    let client = client(&server);
    let library = client.library_load_data(fatbin(FATBIN), &mut JitOptions::none()).unwrap();
    assert_eq!(client.library_get_kernel(library, c"missing"), Err(CudaError::NOT_FOUND));
    client.library_get_kernel(library, c"sums").unwrap();
    assert_eq!(server.count("LoadLibrary"), 2);
}

#[test]
fn device_gets_what_it_takes_of_a_fat_binary() {
    // A thread has one current context, whatever client it is of.
    let sent = |code, bytes: &'static [u8]| {
        let run = move || {
            let server = Server::start(Options { code, ..Options::default() });
            client(&server).module_load_data(&fatbin(bytes), &mut JitOptions::none()).unwrap();
            bytes_sent(&server)
        };
        std::thread::spawn(run).join().unwrap()
    };
    let takes = floe_image::Takes::MachineCode(floe_image::ComputeCapability { major: 9, minor: 0 });
    for bytes in [FATBIN, OTHER] {
        let machine_code = fatbin(bytes).kept_for(&[takes], &floe_image::Limits::default()).size();
        assert_eq!(sent(1, bytes) as u64, machine_code);
        assert!(machine_code < bytes.len() as u64);
        assert_eq!(sent(0, bytes), bytes.len());
    }
    assert!(sent(2, FATBIN) < 1000, "compressed PTX");
}

#[test]
fn forced_compilation_sends_the_ptx_too_and_loads_at_once() {
    let server = Server::start(Options { code: 1, ..Options::default() });
    let client = client_with(&[&server], &[("CUDA_FORCE_PTX_JIT", "1")]);
    client.init(0).unwrap();
    client.ctx_set_current(client.device_primary_ctx_retain(Device(0)).unwrap()).unwrap();
    client.library_load_data(fatbin(FATBIN), &mut JitOptions::none()).unwrap();
    assert_eq!(bytes_sent(&server), FATBIN.len());
}

#[test]
fn image_the_program_does_not_keep_is_kept_without_what_no_device_takes() {
    let server = Server::start(Options { code: 1, ..Options::default() });
    let client = client(&server);
    let library = client.library_load_data(owned(OTHER), &mut JitOptions::none()).unwrap();
    client.library_get_kernel(library, c"wide").unwrap();
    // After a reset it is loaded again, from what was kept.
    client.device_primary_ctx_reset(Device(0)).unwrap();
    client.ctx_set_current(client.device_primary_ctx_retain(Device(0)).unwrap()).unwrap();
    client.library_get_kernel_count(library).unwrap();
    let seen = bytes_sent(&server);
    assert!(server.count("LibraryPart") == 1 && seen < OTHER.len(), "{seen} bytes");
}

#[test]
fn functions_of_a_module_are_looked_up_together() {
    let held = std::sync::Mutex::new(Vec::new());
    let server = Server::scripted(move |request, sequence, peer| match request {
        // Answered when both have come: a client that waits for the first asks for no second.
        Request::FindKernel(_) => {
            let mut held = held.lock().unwrap();
            held.push(sequence);
            if held.len() == 2 {
                held.drain(..).for_each(|sequence| peer.handle(request, sequence));
            }
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let mut functions = [floe_abi::Function::NULL; 2];
    client.module_enumerate_functions(&mut functions, module).unwrap();
    assert_eq!(client.module_get_function(module, c"scale"), Ok(functions[1]));
    assert_ne!(functions[0], functions[1]);
    assert_eq!(server.count("FindKernel"), 2);
}

#[test]
fn damaged_container_goes_as_it_is_and_at_once() {
    let server = Server::start(Options { code: 1, ..Options::default() });
    let client = client(&server);
    client.library_load_data(fatbin(&FATBIN[..500]), &mut JitOptions::none()).unwrap();
    assert_eq!(bytes_sent(&server), 500);
}

#[test]
fn server_that_lacks_for_ever_what_it_was_sent_is_not_asked_for_ever() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::LoadLibrary(_) => {
            peer.reply_borrowed(sequence, &LoadLibraryReply { missing: vec![0], info: "" });
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    assert_eq!(client.module_load_data(&ptx(), &mut JitOptions::none()), Err(CudaError::UNKNOWN));
    assert_eq!(server.count("LoadLibrary"), 3);
    assert_ne!(client.ctx_get_current(), Ok(Context::NULL));
}

#[test]
fn a_server_that_lacks_more_than_there_is_gets_what_there_is() {
    let mut asked = 0;
    let server = Server::scripted(move |request, sequence, peer| match request {
        Request::LoadLibrary(_) => {
            asked += 1;
            let missing = if asked == 1 { vec![0, 1, 0, u32::MAX] } else { Vec::new() };
            peer.reply_borrowed(sequence, &LoadLibraryReply { missing, info: "" });
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    assert_eq!((server.count("LoadLibrary"), server.count("LibraryPart")), (2, 1));
}
