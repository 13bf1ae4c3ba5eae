//! The kernel that hashes memory, run by the CPU device's machine: its hashes are those of the function in Rust.
//! In: the committed PTX. Out: the verdict. No driver is called.

use std::sync::Arc;

use floe_device::{HASH_KERNEL, HASH_UNIT, HashKey, UNIT_HASH_BYTES, UnitHash, hash_grid};
use floe_machine::{Grid, Launch, Level, Memory, Outcome, Pool, Program, Services, Store};

include!("../src/hash/golden.rs");

const BASE: u64 = 0x2000_0000_0000;
/// Bytes of the device.
const MAPPED: u64 = 8 << 20;
/// Where the hashes go.
const HASHES: u64 = BASE + (6 << 20);

/// Runs the kernel over bytes.
fn hashed(level: Level, key: HashKey, bytes: &[u8]) -> Vec<UnitHash> {
    let memory = Memory::reserve(BASE, 1 << 30).expect("address space");
    let store = Store::new(MAPPED).expect("a store");
    let backing = store.create(MAPPED).expect("room");
    memory.map(BASE, MAPPED, &backing, 0).expect("a mapping");
    memory.write(BASE, bytes).expect("mapped");
    // What lies behind the last hash stays.
    memory.write(HASHES, &[0xaa; 512]).expect("mapped");
    let program = Program::load_at(level, &[HASH_KERNEL], &memory, &mut |_, _| None).expect("the text loads");
    let kernel = program.kernel("floe_hash").expect("it is there");
    let units = bytes.len() as u64 / HASH_UNIT;
    let (grid, block, parameters) = hash_grid(BASE, units, HASHES, key).expect("it fits");
    let services = Arc::new(Services::new(Arc::clone(&memory)));
    let launch = Launch { kernel, grid, block, dynamic_shared: 0, parameters, cooperative: false, services };
    assert_eq!(Grid::new(launch).expect("a grid").run(&Pool::new(2)), Outcome::Done);
    let mut written = [0; 512];
    memory.read(HASHES, &mut written).expect("mapped");
    let (hashes, behind) = written.split_at(usize::try_from(units).expect("few") * UNIT_HASH_BYTES);
    assert!(behind.iter().all(|byte| *byte == 0xaa), "it writes no more than its hashes");
    hashes.as_chunks().0.to_vec()
}

/// The values at both points as a hash has them.
fn bytes_of([one, other]: [u64; 2]) -> UnitHash {
    (u128::from(one) | u128::from(other) << 64).to_le_bytes()
}

#[test]
fn the_kernel_gives_the_golden_values_on_every_level() {
    let key = HashKey::of([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
    let bytes: Vec<u8> = GOLDEN.iter().flat_map(|(seed, _)| unit(*seed)).collect();
    for level in Level::available() {
        let golden: Vec<UnitHash> = GOLDEN.iter().map(|(_, golden)| bytes_of(*golden)).collect();
        assert_eq!(hashed(level, key, &bytes), golden, "{level:?}");
    }
}

#[test]
fn kernel_and_function_agree_at_the_edges_of_the_field_and_over_many_units() {
    let half = |byte| std::iter::repeat_n(byte, 32 << 10);
    let mut bytes: Vec<u8> = [0xff, 0xff, 0, 0xff, 0, 0].into_iter().flat_map(half).collect();
    (0..13).for_each(|seed| bytes.extend(unit(seed)));
    for random in [[0, 1], [u64::MAX, u64::MAX / 2], [(1 << 61) - 2, (1 << 61) - 4], [12_345, 1 << 60]] {
        let key = HashKey::of(random);
        assert_eq!(hashed(Level::best(), key, &bytes), key.hashes(&bytes).collect::<Vec<_>>(), "{random:?}");
    }
}
