//! Contexts that stay, on the CPU device of `FLOE_DIST`, else of `target/dist`.
//! In: a reset. Out: what was made before it, and the limits that the context had first.

mod device;

use device::cpu_device;
use floe_device::{Device as _, Gpu, PlainCalls as _};

#[test]
fn a_context_that_is_kept_outlives_its_resets_and_has_its_first_limits() {
    const STACK: i32 = 0;
    let mut gpu = Gpu::start(&cpu_device(), floe_device::Place::Among(0), || ()).expect("a CPU device");
    let first = gpu.costs().expect("its limits").defaults.stack;
    let event = gpu.event_create(0).expect("an event");
    gpu.reset().expect("a new context");
    assert!(gpu.event_query(event).is_err(), "it was of the context before");
    gpu.keep_context().expect("its limits");
    let event = gpu.event_create(0).expect("an event");
    for _ in 0..2 {
        gpu.set_limit(STACK, 2 * first).expect("a limit");
        gpu.reset().expect("the same context");
        assert_eq!(gpu.costs().expect("its limits").defaults.stack, first);
        assert_eq!(gpu.event_query(event), Ok(()));
    }
}
