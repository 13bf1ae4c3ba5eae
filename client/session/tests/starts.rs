//! Starts of a program against scripted servers: what a second one asks for ahead, and what it does with the answers.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use floe_abi::{Device, Function, LaunchAttribute, LaunchAttributeValue, Stream, function_attribute, launch_attribute};
use floe_session::Client;
use floe_surface::*;
use floe_wire::{
    Attribute, ClusterOccupancyReply, LoadLibraryReply, MaxActiveBlocksReply, Request, SetKernelAttributeReply,
};
use scripted::*;

/// Dynamic shared memory that the program sets.
const SHARED: i32 = 65_536;

/// A far server that says how kernels are set, or something else.
fn server(says: fn(i32) -> i32) -> Server {
    let mut shared = 49_152;
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::SetKernelAttribute(set) => {
            shared = set.value;
            let values = [
                (function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES, says(shared)),
                (function_attribute::PREFERRED_SHARED_MEMORY_CARVEOUT, 0),
                (function_attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0),
            ];
            let attributes = values.map(|(number, value)| Attribute { number: number as i32, value }).to_vec();
            peer.reply(sequence, &SetKernelAttributeReply { attributes });
            Flow::Done
        }
        // It has all contents.
        Request::LoadLibrary(_) => {
            peer.reply_borrowed(sequence, &LoadLibraryReply::default());
            Flow::Done
        }
        Request::MaxActiveBlocks(_) => {
            peer.reply(sequence, &MaxActiveBlocksReply { blocks: if shared == SHARED { 2 } else { 4 } });
            Flow::Done
        }
        Request::ClusterOccupancy(asked) => {
            let named = asked.attributes.first().map_or(0, |attribute| u32::from(attribute.value[0]));
            let count = if asked.grid_x == named { 1000 + named } else { 0 };
            peer.reply(sequence, &ClusterOccupancyReply { count: count as i32 });
            Flow::Done
        }
        _ => Flow::Usual,
    };
    Server::start(Options { is_far: true, script: Some(Box::new(script)), ..Options::default() })
}

/// A program with `--far` whose starts are noted in this folder.
fn far_client(server: &Server, cache: &str) -> &'static Client {
    client_of(server, &[("FLOE_FAR", "1"), ("XDG_CACHE_HOME", cache)])
}

/// The kernel `add` of a library that the program brings.
fn kernel(client: &Client) -> Function {
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    client.kernel_get_function(client.library_get_kernel(library, c"add").unwrap()).unwrap()
}

/// A program that asks how a kernel fits, as it is and as it sets it.
fn start(server: &Server, cache: &str, first: impl FnOnce(&Client)) -> &'static Client {
    let client = far_client(server, cache);
    first(client);
    let function = kernel(client);
    let blocks = |function: Function| client.occupancy_max_active_blocks_per_multiprocessor(function, 128, 0, 0);
    assert_eq!(blocks(function), Ok(4));
    client.func_set_attribute(function, 8, SHARED).unwrap();
    assert_eq!(blocks(function), Ok(2));
    client.func_set_attribute(function, 8, 49_152).unwrap();
    assert_eq!(blocks(function), Ok(4));
    client.mem_get_info().unwrap();
    client
}

/// Names of what such a start sends about libraries and kernels. A thread has one current context, whatever client it is of.
fn sent(says: fn(i32) -> i32, cache: &str, first: fn(&Client)) -> Vec<&'static str> {
    let run = move || {
        let server = server(says);
        start(&server, cache, first).exiting();
        let names = ["LoadLibrary", "FindKernel", "UnloadLibrary", "SetKernelAttribute", "MaxActiveBlocks"];
        server.names().into_iter().filter(|name| names.contains(name)).collect()
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
fn kernels_are_asked_about_as_they_were_set_and_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().display().to_string();
    let (ask, set) = ("MaxActiveBlocks", "SetKernelAttribute");
    // The program asks, sets, asks, and sets again.
    let first = sent(|value| value, &cache, |_| ());
    assert_eq!(first[first.len() - 4..], [ask, set, ask, set]);
    // Asked about as found, set, asked about, set back; then the program sets it twice and asks nothing.
    let second = sent(|value| value, &cache, |_| ());
    assert_eq!(second, ["LoadLibrary", "FindKernel", ask, set, ask, set, set, set]);
    // Answers for a kernel that was not set so are not believed.
    let third = sent(|_| 7, &cache, |_| ());
    assert_eq!(third, ["LoadLibrary", "FindKernel", ask, set, ask, set, set, ask, set]);
}

/// As cuBLASLt looks for the largest cluster that fits.
#[test]
fn a_walk_through_sizes_of_clusters_waits_once_at_a_first_start() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().display().to_string();
    let server = server(|value| value);
    let client = far_client(&server, &cache);
    let function = kernel(client);
    let fit = |size: u32| {
        let value = LaunchAttributeValue { words: [u64::from(size) | 1 << 32, 1, 0, 0, 0, 0, 0, 0] };
        let attributes = [LaunchAttribute { id: launch_attribute::CLUSTER_DIMENSION, value, ..Default::default() }];
        client.occupancy_max_active_clusters(&Launch {
            function,
            grid: [size, 1, 1],
            block: [128, 1, 1],
            shared_bytes: 0,
            stream: Stream::LEGACY,
            cooperative: false,
            attributes: &attributes,
            arguments: KernelArguments::NONE,
        })
    };
    assert_eq!(fit(3), Ok(1003));
    // What was asked for with it is here.
    client.mem_get_info().unwrap();
    let before = client.statistics().waits_with_context;
    for size in 1..=32 {
        assert_eq!(fit(size), Ok(1000 + size as i32));
    }
    assert_eq!(client.statistics().waits_with_context, before);
    assert_eq!(server.count("ClusterOccupancy"), 32);
    // Set otherwise, it is asked again.
    client.func_set_attribute(function, function_attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1).unwrap();
    assert_eq!(fit(9), Ok(1009));
    client.mem_get_info().unwrap();
    assert_eq!(server.count("ClusterOccupancy"), 64);
}

#[test]
fn a_program_that_asks_about_many_clusters_foresees_a_bounded_number() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().display().to_string();
    let server = server(|value| value);
    let client = far_client(&server, &cache);
    let function = kernel(client);
    let value = LaunchAttributeValue { words: [2 | 1 << 32, 1, 0, 0, 0, 0, 0, 0] };
    let attributes = [LaunchAttribute { id: launch_attribute::CLUSTER_DIMENSION, value, ..Default::default() }];
    for shared_bytes in 0..500 {
        let fit = client.occupancy_max_active_clusters(&Launch {
            function,
            grid: [2, 1, 1],
            block: [128, 1, 1],
            shared_bytes,
            stream: Stream::LEGACY,
            cooperative: false,
            attributes: &attributes,
            arguments: KernelArguments::NONE,
        });
        assert_eq!(fit, Ok(1002));
    }
    client.mem_get_info().unwrap();
    let asked = server.count("ClusterOccupancy");
    assert!(asked < 500 + 5000, "{asked}");
}

#[test]
fn the_first_allocations_of_a_first_start_share_a_block_that_nobody_waits_for() {
    const MIB: usize = 1 << 20;
    // What PyTorch and cuBLAS allocate for a first result.
    const SIZES: [usize; 5] = [20 * MIB, 2 * MIB, 32 * MIB, 32 * MIB, 4 * MIB];
    let run = |cache: &str, memory| {
        let server = Server::start(Options { memory, is_far: true, ..Options::default() });
        let client = far_client(&server, cache);
        kernel(client);
        let before = client.statistics().waits_with_context;
        let all = SIZES.map(|bytes| counted(client, |client| client.mem_alloc(bytes)).unwrap());
        let waits = client.statistics().waits_with_context - before;
        for at in all {
            client.mem_free(at).unwrap();
        }
        client.mem_get_info().unwrap();
        client.exiting();
        (waits, server.count("CreateBlock"))
    };
    let run = |cache: &str, memory| std::thread::scope(|scope| scope.spawn(|| run(cache, memory)).join().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().display().to_string();
    // Also the second one, which knows what the first one had.
    for start in 0..2 {
        assert_eq!(run(&cache, 8 << 30), (0, 1), "{start}");
    }
    // Of less memory nothing is asked for ahead.
    let other = tempfile::tempdir().unwrap();
    assert_eq!(run(&other.path().display().to_string(), 1 << 30), (5, 5));
}

#[test]
fn a_small_allocation_of_a_first_start_leaves_a_large_one_its_room() {
    const MIB: usize = 1 << 20;
    let run = |far: &'static str, cache: &str, memory| {
        let server = Server::start(Options { memory, is_far: true, ..Options::default() });
        let client = client_of(&server, &[("FLOE_FAR", far), ("XDG_CACHE_HOME", cache)]);
        kernel(client);
        client.mem_alloc(1024).unwrap();
        let large = client.mem_alloc(460 * MIB).map(drop);
        client.exiting();
        large
    };
    let run = |far, cache: &str, memory| std::thread::scope(|scope| scope.spawn(|| run(far, cache, memory)).join());
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [near, far] = [0, 1].map(|at| folders[at].path().display().to_string());
    assert_eq!(run("0", &near, 512 << 20).unwrap(), Ok(()));
    assert_eq!(run("1", &near, 512 << 20).unwrap(), Ok(()), "a first start");
    // One that has had a shared block elsewhere.
    for memory in [8 << 30, 512 << 20] {
        assert_eq!(run("1", &far, memory).unwrap(), Ok(()), "{memory}");
    }
}

/// What each has is its own, whoever is first.
#[test]
fn threads_that_begin_at_once_have_memory_of_their_own() {
    const MIB: usize = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().display().to_string();
    for round in 0..20 {
        let server = Server::start(Options { memory: 8 << 30, is_far: true, ..Options::default() });
        let client = far_client(&server, &cache);
        let context = client.ctx_get_current().unwrap();
        let work = |thread: usize| {
            client.ctx_set_current(context).unwrap();
            let mut mine = Vec::new();
            for turn in 0..12 {
                let bytes = [1000, 3 * MIB, 128 * MIB, 40 * MIB, MIB][(thread * 7 + turn + round) % 5];
                let at = client.mem_alloc(bytes).unwrap();
                if (turn + thread).is_multiple_of(3) {
                    client.mem_free(at).unwrap();
                } else {
                    mine.push((at.0, bytes as u64));
                }
                if turn == 5 && thread == 0 {
                    client.device_graph_mem_trim(Device(0)).unwrap();
                }
            }
            mine
        };
        let mut all: Vec<_> = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        for pair in all.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
        }
        for (at, _) in all {
            client.mem_free(floe_abi::DevicePtr(at)).unwrap();
        }
        client.mem_get_info().unwrap();
    }
}

#[test]
fn what_is_not_brought_goes_back_when_memory_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().display().to_string();
    let first = sent(|value| value, &cache, |_| ());
    let second = sent(|value| value, &cache, |client| client.device_graph_mem_trim(Device(0)).unwrap());
    assert_eq!(second[..3], ["LoadLibrary", "FindKernel", "UnloadLibrary"]);
    // Asked for again as the program brings it.
    assert_eq!(second[3..5], ["LoadLibrary", "FindKernel"]);
    assert!(!first.contains(&"UnloadLibrary"), "{first:?}");
}

#[test]
fn what_is_small_is_sent_far_without_asking_and_what_is_large_is_asked_for() {
    let loads = |far: &str, more: usize| {
        let (folder, far) = (tempfile::tempdir().unwrap(), far.to_owned());
        let cache = folder.path().display().to_string();
        // A thread has one current context, whatever client it is of.
        let run = move || {
            let server = Server::start(Options { is_far: true, ..Options::default() });
            let client = client_of(&server, &[("FLOE_FAR", &far), ("XDG_CACHE_HOME", &cache)]);
            let mut image = ptx();
            image.containers[0].to_mut().extend(std::iter::repeat_n(b'\n', more));
            let library = client.library_load_data(image, &mut JitOptions::none()).unwrap();
            client.library_get_kernel(library, c"add").unwrap();
            server.count("LoadLibrary")
        };
        std::thread::spawn(run).join().unwrap()
    };
    assert_eq!(loads("1", 0), 1);
    assert_eq!(loads("1", 5 << 20), 2, "it is not sent to a server that may have it");
    assert_eq!(loads("0", 0), 2, "near, a question costs less than the bytes");
}
