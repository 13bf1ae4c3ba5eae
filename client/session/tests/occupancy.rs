//! What a kernel is and how it fits the device: which questions are sent, and which answers are remembered.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use floe_abi::{CudaError, Device};
use floe_session::Client;
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

#[test]
fn names_attributes_and_occupancy_are_asked_once() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let kernel = client.library_get_kernel(library, c"add").unwrap();
    assert_eq!(client.library_get_kernel(library, c"add"), Ok(kernel));
    let function = client.kernel_get_function(kernel).unwrap();
    for _ in 0..3 {
        assert_eq!(client.func_get_attribute(0, function), Ok(1024));
        assert_eq!(client.kernel_get_attribute(1, kernel, Device(0)), Ok(0));
        assert_eq!(client.occupancy_max_active_blocks_per_multiprocessor(function, 128, 0, 0), Ok(4));
        client.func_set_attribute(kernel.as_function(), 8, 65536).unwrap();
    }
    assert_eq!(client.func_get_attribute(8, function), Ok(65536), "kernel and function are one");
    assert_eq!(client.func_get_param_info(function, 3), Ok((24, 4)));
    assert_eq!(client.func_get_param_info(function, 4), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.func_get_param_info(kernel.as_function(), 0), Err(CudaError::INVALID_HANDLE));
    assert_eq!(server.count("FindKernel"), 1);
    assert_eq!(server.count("SetKernelAttribute"), 1);
    assert_eq!(server.count("MaxActiveBlocks"), 2, "an attribute may change the answer");
}

#[test]
fn attributes_that_every_device_takes_are_set_without_waiting_and_occupancy_remembers_each_setting() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let function = client.kernel_get_function(client.library_get_kernel(library, c"add").unwrap()).unwrap();
    let step = || {
        for bytes in [65_536, 98_304] {
            counted(client, |client| client.func_set_attribute(function, 8, bytes)).unwrap();
            let blocks = |client: &Client| client.occupancy_max_active_blocks_per_multiprocessor(function, 128, 0, 0);
            assert_eq!(counted(client, blocks), Ok(4));
        }
    };
    step();
    let before = client.statistics().waits_with_context;
    step();
    assert_eq!(client.statistics().waits_with_context, before);
    // More than any device has: only the server can say what that is answered with.
    counted(client, |client| client.func_set_attribute(function, 8, 1 << 30)).unwrap();
    assert_eq!(client.statistics().waits_with_context, before + 1);
}

#[test]
fn who_asks_about_two_sizes_of_blocks_waits_for_no_other() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let function = client.kernel_get_function(client.library_get_kernel(library, c"add").unwrap()).unwrap();
    let ask = |block: i32, shared: usize| {
        let blocks =
            |client: &Client| client.occupancy_max_active_blocks_per_multiprocessor(function, block, shared, 0);
        let before = client.statistics().waits_with_context;
        assert_eq!(counted(client, blocks), Ok(4));
        client.statistics().waits_with_context - before
    };
    // Sizes that are no whole warps are no walk.
    assert_eq!([ask(33, 0), ask(34, 0), ask(1024, 0)], [1; 3]);
    assert_eq!(server.count("MaxActiveBlocks"), 3);
    assert_eq!(ask(992, 0), 1);
    let others: u64 = (1..=32).map(|warps| ask(warps * 32, 0)).sum();
    assert_eq!((others, server.count("MaxActiveBlocks")), (0, 2 + 32));
    // With other shared memory it is another walk.
    assert_eq!([ask(32, 1024), ask(64, 1024), ask(96, 1024)], [1, 1, 0]);
    // What was asked before an attribute changed is not taken.
    client.func_set_cache_config(function, 1).unwrap();
    assert_eq!([ask(96, 1024), ask(128, 1024), ask(160, 1024)], [1, 1, 0]);
}

#[test]
fn occupancy_is_asked_again_where_something_else_than_a_setting_has_changed_and_after_an_error() {
    let mut asked = 0;
    let server = Server::scripted(move |request, sequence, peer| match request {
        Request::MaxActiveBlocks(_) => {
            asked += 1;
            if asked == 1 {
                peer.reply_with(sequence, CudaError::INVALID_VALUE.code(), 0, "", &[]);
                return Flow::Done;
            }
            Flow::Usual
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let function = client.kernel_get_function(client.library_get_kernel(library, c"add").unwrap()).unwrap();
    let blocks = || client.occupancy_max_active_blocks_per_multiprocessor(function, 128, 0, 0);
    assert_eq!([blocks(), blocks(), blocks()], [Err(CudaError::INVALID_VALUE), Ok(4), Ok(4)]);
    assert_eq!(server.count("MaxActiveBlocks"), 2, "an error is not remembered");
    client.ctx_set_cache_config(1).unwrap();
    assert_eq!([blocks(), blocks()], [Ok(4), Ok(4)]);
    client.ctx_set_limit(0, 4096).unwrap();
    assert_eq!([blocks(), blocks()], [Ok(4), Ok(4)]);
    client.func_set_cache_config(function, 1).unwrap();
    assert_eq!([blocks(), blocks()], [Ok(4), Ok(4)]);
    assert_eq!(server.count("MaxActiveBlocks"), 5);
}

#[test]
fn an_answer_that_came_while_the_kernel_was_set_otherwise_is_not_remembered() {
    let (mut held, mut settings) = (Vec::new(), 0);
    let server = Server::scripted(move |request, sequence, peer| match request {
        // The first question is answered behind both settings.
        Request::MaxActiveBlocks(_) if settings < 2 => {
            held.push(sequence);
            Flow::Done
        }
        Request::SetKernelAttribute(_) => {
            settings += 1;
            peer.handle(request, sequence);
            if settings == 2 {
                let question = Request::MaxActiveBlocks(floe_wire::MaxActiveBlocks::default());
                held.drain(..).for_each(|sequence| peer.handle(&question, sequence));
            }
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let library = client.library_load_data(ptx(), &mut JitOptions::none()).unwrap();
    let function = client.kernel_get_function(client.library_get_kernel(library, c"add").unwrap()).unwrap();
    let context = client.ctx_get_current().unwrap();
    let blocks = || client.occupancy_max_active_blocks_per_multiprocessor(function, 128, 0, 0);
    let before = client.func_get_attribute(8, function).unwrap();
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            client.ctx_set_current(context).unwrap();
            blocks()
        });
        server.wait_for("MaxActiveBlocks", 1);
        client.func_set_attribute(function, 8, 65_536).unwrap();
        client.func_set_attribute(function, 8, before).unwrap();
        // Sends what is posted.
        client.mem_get_info().unwrap();
        assert_eq!(asks.join().unwrap(), Ok(4));
    });
    assert_eq!(server.count("MaxActiveBlocks"), 1);
    assert_eq!([blocks(), blocks()], [Ok(4), Ok(4)]);
    assert_eq!(server.count("MaxActiveBlocks"), 2);
}
