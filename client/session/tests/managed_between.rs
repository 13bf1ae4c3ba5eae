//! Managed memory that work of another vGPU uses: a touch waits for that work, though its own vGPU has none. One test, since
//! managed memory is at one address in a process.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use floe_abi::{Device, attach_flags};
use floe_surface::*;
use scripted::*;

#[test]
fn a_touch_waits_for_work_of_other_vgpus_on_the_memory() {
    let machine = Machine::default();
    let servers = [10, 11].map(|session| {
        Server::start(Options { server: [200; 16], session, machine: machine.clone(), ..Options::default() })
    });
    let client = client_with(&servers.each_ref().map(|server| server), &[]);
    client.init(0).unwrap();
    let [here, there] = [0, 1].map(|device| client.device_primary_ctx_retain(Device(device)).unwrap());
    client.ctx_set_current(there).unwrap();
    let memory = client.mem_alloc_managed(4096, attach_flags::GLOBAL).unwrap();
    let touch = || {
        // SAFETY: managed memory of this test's, touched by its one thread.
        unsafe { (memory.0 as *mut u8).write_volatile(1) }
    };
    client.ctx_set_current(here).unwrap();
    let stream = client.stream_create(1).unwrap();
    let waits = || servers.each_ref().map(|server| server.count("SynchronizeContext"));

    client.memset_d8_async(memory, 7, 4096, stream).unwrap();
    assert_eq!(waits(), [0, 0], "the fill is queued");
    touch();
    assert_eq!(waits()[0], 1, "{:?}", servers[0].names());
    // What is over is waited for no more, and a stream that the program destroys has its work still.
    client.ctx_synchronize().unwrap();
    let before = waits();
    client.memset_d8_async(memory, 7, 4096, stream).unwrap();
    client.stream_destroy(stream).unwrap();
    touch();
    assert_eq!(waits()[0], before[0] + 1);
    let before = waits();
    touch();
    assert_eq!(waits(), before, "nothing was put on it since");
    client.mem_free(memory).unwrap();
}
