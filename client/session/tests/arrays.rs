//! Arrays and textures as the program meets them: what is sent, what is refused here, and when memory comes back.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use floe_abi::{Array, Array3dDescriptor, CudaError, DevicePtr, ResourceDescriptor, Stream, TextureDescriptor};
use floe_surface::texture_references::TextureReferenceState;
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

/// Floats; 1 MiB of them.
const FLOATS: Array3dDescriptor =
    Array3dDescriptor { width: 512, height: 256, depth: 2, format: 0x20, channels: 1, flags: 2 };

fn host_end(bytes: &mut [u8], pitch: usize, slice: usize) -> CopyEnd {
    CopyEnd { place: CopyPlace::Host(host(bytes)), pitch, slice }
}

fn in_array(array: Array, at: [usize; 3]) -> CopyEnd {
    CopyEnd { place: CopyPlace::Array(array, at), pitch: 0, slice: 0 }
}

#[test]
fn boxes_of_arrays_go_out_and_come_back() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (first, second) = (client.array_create(&FLOATS).unwrap(), client.array_create(&FLOATS).unwrap());
    assert_eq!(client.array_get_descriptor(first), Ok(FLOATS));
    let mut input: Vec<u8> = (0..2 * 3 * 10).collect();
    let [width, height, depth] = [8, 3, 2];
    let (source, destination) = (host_end(&mut input, 10, 30), in_array(first, [4, 7, 0]));
    client.memcpy_box(Stream::LEGACY, &CopyBox { source, destination, width, height, depth }).unwrap();
    let (source, destination) = (in_array(first, [4, 7, 0]), in_array(second, [0, 0, 0]));
    client.memcpy_box(Stream::LEGACY, &CopyBox { source, destination, width, height, depth }).unwrap();
    let mut output = vec![0; 48];
    let (source, destination) = (in_array(second, [0; 3]), host_end(&mut output, 8, 24));
    client.memcpy_box(Stream::LEGACY, &CopyBox { source, destination, width, height, depth }).unwrap();
    let expected: Vec<u8> = (0..6).flat_map(|row| row * 10..row * 10 + 8).collect();
    assert_eq!(output, expected);
    // Two slices went one after the other.
    let kinds = ["CopyBoxToDevice", "CopyBoxOnDevice", "CopyBoxFromDevice", "CopyToDevice"];
    assert_eq!(kinds.map(|kind| server.count(kind)), [2, 1, 1, 0]);
}

#[test]
fn boxes_outside_an_array_are_refused_and_not_sent() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let array = client.array_create(&FLOATS).unwrap();
    let mut bytes = vec![0; 4096];
    for (at, [width, height, depth]) in [
        ([0, 0, 0], [2049, 1, 1]),
        ([2046, 0, 0], [3, 1, 1]),
        ([0, 256, 0], [4, 1, 1]),
        ([0, 0, 1], [4, 1, 2]),
        ([usize::MAX, 0, 0], [4, 1, 1]),
    ] {
        let (source, destination) = (host_end(&mut bytes, width, width), in_array(array, at));
        let copy = CopyBox { source, destination, width, height, depth };
        assert_eq!(client.memcpy_box(Stream::LEGACY, &copy), Err(CudaError::INVALID_VALUE), "{at:?}");
    }
    let nobodys = CopyBox::line(CopyPlace::Array(Array(0x77), [0; 3]), CopyPlace::Host(host(&mut bytes)), 4);
    assert_eq!(client.memcpy_box(Stream::LEGACY, &nobodys), Err(CudaError::INVALID_HANDLE));
    assert_eq!(server.count("CopyBoxToDevice"), 0);
}

#[test]
fn boxes_that_cut_elements_are_copied_to_the_byte() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (first, second) = (client.array_create(&FLOATS).unwrap(), client.array_create(&FLOATS).unwrap());
    let line = |to, from, bytes| client.memcpy_box(Stream::LEGACY, &CopyBox::line(to, from, bytes)).unwrap();
    let row = |array, offset| CopyPlace::Array(array, [offset, 0, 0]);
    let (mut input, mut other, mut output): (Vec<u8>, _, _) = ((0..8).collect(), [99], [0; 8]);
    line(row(first, 0), CopyPlace::Host(host(&mut input)), 8);
    line(row(first, 3), CopyPlace::Host(host(&mut other)), 1);
    line(row(second, 5), row(first, 2), 4);
    line(CopyPlace::Host(host(&mut output[..3])), row(second, 6), 3);
    // Two rows of two slices, from the middle of the last element of the first row on.
    let [width, height, depth] = [2, 2, 2];
    let (source, destination) = (host_end(&mut input, 2, 4), in_array(first, [2046, 254, 0]));
    client.memcpy_box(Stream::LEGACY, &CopyBox { source, destination, width, height, depth }).unwrap();
    let (source, destination) = (in_array(first, [2047, 254, 1]), host_end(&mut output[3..5], 1, 2));
    client.memcpy_box(Stream::LEGACY, &CopyBox { source, destination, width: 1, height: 2, depth: 1 }).unwrap();
    assert_eq!(output, [99, 4, 5, 5, 7, 0, 0, 0]);
}

#[test]
fn an_array_goes_back_when_its_work_is_over_and_its_memory_serves_the_next() {
    let server = Server::start(Options { memory: 5 << 20, ..Options::default() });
    let client = client(&server);
    let memory = client.mem_alloc(16).unwrap();
    let kept: Vec<Array> = std::iter::from_fn(|| client.array_create(&FLOATS).ok()).collect();
    assert_eq!(client.array_create(&FLOATS), Err(CudaError::OUT_OF_MEMORY));
    client.memset_d8(Stream::LEGACY, memory, 0, 16).unwrap();
    client.array_destroy(kept[0]).unwrap();
    assert_eq!(server.count("DestroyArray"), 0, "the fill may still run");
    client.array_create(&FLOATS).unwrap();
    assert_eq!(server.count("DestroyArray"), 1);
    client.array_destroy(kept[1]).unwrap();
    server.wait_for("DestroyArray", 2);
    assert_eq!(client.array_destroy(kept[1]), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn an_array_that_another_thread_destroys_stays_until_its_copy_is_sent() {
    const ROUNDS: usize = 5;
    const DEPTH: usize = 16;
    let server = Server::start(Options::default());
    let client = client(&server);
    let deep = Array3dDescriptor { height: 1024, depth: DEPTH, ..FLOATS };
    let small = Array3dDescriptor { width: 1, height: 0, depth: 0, ..FLOATS };
    for _ in 0..ROUNDS {
        let array = client.array_create(&deep).unwrap();
        let others: Vec<Array> = (0..64).map(|_| client.array_create(&small).unwrap()).collect();
        let sent = server.count("CopyBoxToDevice");
        // Every row is a page that the system has yet to make: the client is slower than the server.
        let mut input = vec![0; (DEPTH << 22) + 4096];
        let (source, destination) = (host_end(&mut input, 4096, 4096 << 10), in_array(array, [0; 3]));
        let copy = CopyBox { source, destination, width: 4, height: 1024, depth: DEPTH };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while server.count("CopyBoxToDevice") == sent {
                    std::thread::yield_now();
                }
                // Each looks for arrays that may be released. Between two slices nothing may be outstanding.
                client.array_destroy(array).unwrap();
                for other in &others {
                    std::thread::sleep(std::time::Duration::from_micros(50));
                    client.array_destroy(*other).unwrap();
                }
            });
            client.memcpy_box(Stream::LEGACY, &copy).unwrap();
        });
    }
    client.stream_synchronize(Stream::LEGACY).unwrap();
    client.array_create(&small).unwrap();
    server.wait_for("DestroyArray", ROUNDS * 65);
}

#[test]
fn shapes_that_cannot_be_are_refused_here() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let refused = |descriptor: Array3dDescriptor| client.array_create(&descriptor).unwrap_err();
    assert_eq!(refused(Array3dDescriptor { width: 0, ..FLOATS }), CudaError::INVALID_VALUE);
    assert_eq!(refused(Array3dDescriptor { height: 0, ..FLOATS }), CudaError::INVALID_VALUE);
    assert_eq!(refused(Array3dDescriptor { format: 0x91, ..FLOATS }), CudaError::NOT_SUPPORTED);
    assert_eq!(refused(Array3dDescriptor { flags: 0x40, ..FLOATS }), CudaError::NOT_SUPPORTED);
    assert_eq!(server.count("CreateArray"), 0);
}

#[test]
fn textures_have_the_servers_numbers_and_remember_what_they_were_made_from() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let array = client.array_create(&FLOATS).unwrap();
    let resource = ResourceDescriptor { place: array.0, ..ResourceDescriptor::default() };
    let how = TextureDescriptor { filter_mode: 1, ..TextureDescriptor::default() };
    let texture = client.tex_object_create(&resource, &how, None).unwrap();
    assert!(texture.0 > 1000, "the server's number");
    assert_eq!(client.tex_object_get_resource_desc(texture), Ok(resource));
    assert_eq!(client.tex_object_get_texture_desc(texture), Ok(how));
    assert_eq!(client.tex_object_get_resource_view_desc(texture), Err(CudaError::INVALID_VALUE));
    let surface = client.surf_object_create(&resource).unwrap();
    assert_eq!(client.surf_object_get_resource_desc(surface), Ok(resource));
    client.tex_object_destroy(texture).unwrap();
    assert_eq!(client.tex_object_destroy(texture), Err(CudaError::INVALID_VALUE));
    client.surf_object_destroy(surface).unwrap();
    server.wait_for("DestroySurface", 1);
    let plain = client.array_create(&Array3dDescriptor { flags: 0, ..FLOATS }).unwrap();
    let of = |kind, place| ResourceDescriptor { kind, place, format: 0x20, channels: 1, extent: 64, ..resource };
    assert!(client.surf_object_create(&of(0, plain.0)).is_ok(), "whatever the array was made for");
    assert_eq!(client.tex_object_create(&of(1, array.0), &how, None), Err(CudaError::INVALID_HANDLE), "no levels");
    let memory = client.mem_alloc(64).unwrap();
    assert!(client.tex_object_create(&of(2, memory.0), &how, None).is_ok());
    assert_eq!(client.surf_object_create(&of(2, memory.0)), Err(CudaError::INVALID_VALUE));
    let beyond = DevicePtr(memory.0 + (1 << 40)).0;
    assert_eq!(client.tex_object_create(&of(2, beyond), &how, None), Err(CudaError::INVALID_VALUE), "nobody's");
}

#[test]
fn a_texture_reference_is_asked_for_once_and_told_of_what_is_there() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    assert_eq!(client.module_get_tex_ref(module, c"nothing"), Err(CudaError::NOT_FOUND));
    let reference = client.module_get_tex_ref(module, c"image").unwrap();
    assert_eq!(client.module_get_tex_ref(module, c"image"), Ok(reference));
    assert_eq!(server.count("SetTextureReference"), 2);
    let array = client.array_create(&FLOATS).unwrap();
    let memory = client.mem_alloc(4096).unwrap();
    let bind = |kind, place| {
        let resource = ResourceDescriptor { kind, place, extent: 64, format: 0x20, channels: 1, ..Default::default() };
        let state = TextureReferenceState { resource: Some(resource), ..TextureReferenceState::default() };
        client.bind_texture_reference(module, c"image", &state)
    };
    bind(0, array.0).unwrap();
    bind(2, memory.0).unwrap();
    let last = server.seen().into_iter().rfind(|seen| seen.name == "SetTextureReference").unwrap();
    let Request::SetTextureReference(told) = last.request() else { unreachable!() };
    assert_eq!((told.name, told.resource[0].at, told.description.mode_z), ("image", memory, 1));
    assert_eq!(bind(2, memory.0 + (1 << 40)), Err(CudaError::INVALID_VALUE), "nobody's");
    assert_eq!(bind(1, array.0), Err(CudaError::INVALID_HANDLE), "no levels");
    assert_eq!(server.count("SetTextureReference"), 4);
    client.module_unload(module).unwrap();
    assert_eq!(bind(0, array.0), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.module_get_tex_ref(module, c"image"), Err(CudaError::INVALID_HANDLE), "it ended with its module");
}

#[test]
fn a_level_is_taken_once_and_ends_with_its_mipmapped_array() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let mipmapped = client.mipmapped_array_create(&FLOATS, 100).unwrap();
    let level = |number| client.mipmapped_array_get_level(mipmapped, number);
    let (first, third) = (level(0).unwrap(), level(2).unwrap());
    assert_eq!((level(0), level(2)), (Ok(first), Ok(third)));
    assert_eq!(level(9).map(|last| client.array_get_descriptor(last).unwrap().width), Ok(1));
    assert_eq!(level(10), Err(CudaError::INVALID_VALUE));
    assert_eq!(
        client.array_get_descriptor(third),
        Ok(Array3dDescriptor { width: 128, height: 64, depth: 1, ..FLOATS })
    );
    let mut bytes = [3; 8];
    let mut copy = |array, at| CopyBox::line(CopyPlace::Array(array, at), CopyPlace::Host(host(&mut bytes)), 8);
    let copies = [copy(third, [504, 63, 0]), copy(third, [508, 63, 0])];
    client.memcpy_box(Stream::LEGACY, &copies[0]).unwrap();
    assert_eq!(client.memcpy_box(Stream::LEGACY, &copies[1]), Err(CudaError::INVALID_VALUE));
    let (how, of) = (TextureDescriptor::default(), |kind, place| ResourceDescriptor {
        kind,
        place,
        ..ResourceDescriptor::default()
    });
    for resource in [of(1, mipmapped.0), of(0, first.0)] {
        let texture = client.tex_object_create(&resource, &how, None).unwrap();
        assert_eq!(client.tex_object_get_resource_desc(texture), Ok(resource));
    }
    assert_eq!(client.tex_object_create(&of(0, mipmapped.0), &how, None), Err(CudaError::INVALID_HANDLE));
    assert_eq!(client.array_destroy(third), Err(CudaError::INVALID_HANDLE), "a level by itself");
    assert_eq!(client.array_destroy(Array(mipmapped.0)), Err(CudaError::INVALID_HANDLE));
    client.stream_synchronize(Stream::LEGACY).unwrap();
    client.mipmapped_array_destroy(mipmapped).unwrap();
    for gone in [level(0), client.array_get_descriptor(first).map(|_| first)] {
        assert_eq!(gone, Err(CudaError::INVALID_HANDLE));
    }
    assert_eq!(client.mipmapped_array_destroy(mipmapped), Err(CudaError::INVALID_HANDLE));
    server.wait_for("DestroyArray", 1);
    assert_eq!(["CreateArray", "TakeLevel", "DestroyArray"].map(|kind| server.count(kind)), [1, 3, 1]);
}

#[test]
fn a_captured_copy_of_an_array_is_sent_at_every_launch() {
    use floe_surface::marshal::{graph as graphs, stream as streams};
    let server = Server::start(Options::default());
    let client = client(&server);
    let array = client.array_create(&FLOATS).unwrap();
    let stream = client.stream_create(1).unwrap();
    let (mut graph, mut exec) = (floe_abi::Graph::NULL, floe_abi::GraphExec::NULL);
    let mut bytes = [7; 4];
    let to = |at| CopyBox::line(CopyPlace::Array(array, at), CopyPlace::Host(host(&mut bytes)), 4);
    let (inside, outside) = ([8, 1, 1], [2046, 0, 0]);
    let [inside, outside] = [inside, outside].map(to);
    // SAFETY: handles are this client's, and the bytes live on.
    unsafe {
        streams::cuStreamBeginCapture_v2(client, Stream::LEGACY, stream, 1).unwrap();
        assert_eq!(client.memcpy_box_async(&outside, stream), Err(CudaError::INVALID_VALUE));
        client.memcpy_box_async(&inside, stream).unwrap();
        streams::cuStreamEndCapture(client, Stream::LEGACY, stream, &raw mut graph).unwrap();
        assert_eq!(server.count("CopyBoxToDevice"), 0);
        graphs::cuGraphInstantiateWithFlags(client, &raw mut exec, graph, 0).unwrap();
        for launch in 1..=2 {
            bytes.fill(launch);
            graphs::cuGraphLaunch(client, Stream::LEGACY, exec, stream).unwrap();
        }
    }
    client.stream_synchronize(stream).unwrap();
    assert_eq!(server.count("CopyBoxToDevice"), 2);
    let mut got = [0; 4];
    let copy = CopyBox::line(CopyPlace::Host(host(&mut got)), CopyPlace::Array(array, [8, 1, 1]), 4);
    client.memcpy_box(Stream::LEGACY, &copy).unwrap();
    assert_eq!(got, [2; 4]);
}

/// A server that ends a session that names what is not there would end this one.
#[test]
fn levels_that_one_thread_takes_and_another_destroys_are_named_only_while_they_are_there() {
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    // Arrays that there are, and what they are levels of.
    let (live, wrong) = (Mutex::new(HashMap::<u64, u64>::new()), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&wrong);
    let script = move |request: &floe_wire::Request<'_>, _: u64, _: &mut Peer| {
        let mut live = live.lock().unwrap();
        let known = match request {
            floe_wire::Request::CreateArray(made) => live.insert(made.array.0, 0).is_none(),
            floe_wire::Request::TakeLevel(taken) => {
                live.contains_key(&taken.of.0) && live.insert(taken.array.0, taken.of.0).is_none()
            }
            floe_wire::Request::CopyBoxToDevice(copy) => live.contains_key(&copy.to.array.0),
            floe_wire::Request::DestroyArray(ended) => {
                let was = live.remove(&ended.array.0).is_some();
                live.retain(|_, of| *of != ended.array.0);
                was
            }
            _ => true,
        };
        if !known {
            noted.lock().unwrap().push(format!("{request:?}"));
        }
        Flow::Usual
    };
    let server = Server::start(Options { script: Some(Box::new(script)), ..Options::default() });
    let client = client(&server);
    let (context, current) = (client.ctx_get_current().unwrap(), AtomicU64::new(0));
    const ROUNDS: usize = 300;
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            let (current, done) = (&current, &done);
            scope.spawn(move || {
                client.ctx_set_current(context).unwrap();
                let mut bytes = [0; 4];
                let mut number = thread;
                while done.load(Ordering::Relaxed) == 0 {
                    number = (number + 1) % 9;
                    let whole = floe_abi::MipmappedArray(current.load(Ordering::Relaxed));
                    let Ok(level) = client.mipmapped_array_get_level(whole, number) else { continue };
                    let place = CopyPlace::Array(level, [0; 3]);
                    let copy = CopyBox::line(place, CopyPlace::Host(host(&mut bytes)), 4);
                    let _ = client.memcpy_box(Stream::LEGACY, &copy);
                }
            });
        }
        for _ in 0..ROUNDS {
            let whole = client.mipmapped_array_create(&FLOATS, 9).unwrap();
            current.store(whole.0, Ordering::Relaxed);
            client.stream_synchronize(Stream::LEGACY).unwrap();
            client.mipmapped_array_destroy(whole).unwrap();
        }
        done.store(1, Ordering::Relaxed);
    });
    client.stream_synchronize(Stream::LEGACY).unwrap();
    client.mem_get_info().unwrap();
    assert_eq!(*wrong.lock().unwrap(), Vec::<String>::new());
    server.wait_for("DestroyArray", ROUNDS);
}
