//! Hashes of device memory beside resets of the context, on the CPU device of `FLOE_DIST`, else of `target/dist`.
//! In: a thread that hashes without end, and one that resets. Out: no hash fails, and all are the same.

mod device;

use std::sync::atomic::{AtomicBool, Ordering};

use device::cpu_device;
use floe_abi::DevicePtr;
use floe_device::{Device as _, Gpu, HASH_UNIT, HashKey};

const AT: DevicePtr = DevicePtr(0x2000_0000_0000);
const BYTES: u64 = 2 << 20;

#[test]
fn a_hash_beside_a_reset_is_of_the_old_context_or_of_the_new_one() {
    let gpu = Gpu::start(&cpu_device(), floe_device::Place::Among(0), || ()).expect("a CPU device");
    assert_eq!(gpu.reserve(BYTES, AT), Ok(AT));
    let memory = gpu.create_memory(BYTES).expect("memory");
    gpu.map(AT, BYTES, 0, memory).expect("mapped");
    gpu.set_access(AT, BYTES, 3).expect("accessible");
    let key = HashKey::of([3, 5]);
    let first = gpu.hash(AT, BYTES, key).expect("hashed");
    assert_eq!(first.len() as u64, BYTES / HASH_UNIT);
    let is_over = AtomicBool::new(false);
    let hashes = std::thread::scope(|scope| {
        let hashing = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::SeqCst) {
                gpu.enter().expect("a context");
                assert_eq!(gpu.hash(AT, BYTES, key).as_deref(), Ok(&first[..]), "hash {count}");
                count += 1;
            }
            count
        });
        for _ in 0..200 {
            gpu.reset().expect("reset");
        }
        is_over.store(true, Ordering::SeqCst);
        hashing.join().expect("no hash fails")
    });
    println!("hashes beside 200 resets: {hashes}");
}
