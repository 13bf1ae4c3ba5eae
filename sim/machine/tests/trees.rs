//! Searches in a tree, by warps, by threads and by blocks: loads whose addresses come from loads, lanes that part, barriers.
//! The same queries go to every kernel, with every set of vector instructions, on one worker and two, and in pieces.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "values are bits here, and the modules serve several test programs"
)]

mod rig;
#[path = "kernels/tree.rs"]
mod tree;

use floe_machine::{FaultKind, Grid, Level, Outcome, Pool};
use rig::{Rig, parameters};

const TREE: &str = include_str!("kernels/tree.ptx");
const BASE: u64 = 0x2000_0000_0000;
const KEYS: u32 = 5000;
const QUERIES: u32 = 300;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn queries() -> Vec<u32> {
    (0..QUERIES).map(|index| index.wrapping_mul(0x9e37_79b1) % (3 * KEYS)).collect()
}

/// Runs a kernel of the tree; gives the outcome and the words of `out`.
fn run(device: &mut Rig, kernel: &str, grid: u32, values: &[Vec<u8>], out: u64) -> (Outcome, Vec<u32>) {
    let program = device.load(TREE).expect("the program");
    let kernel = program.kernel(kernel).expect("the kernel");
    let launch = device.launch(&kernel, grid, 128, parameters(&kernel, values).expect("parameters"));
    let outcome = device.run(launch).expect("an end");
    let words = device.download(out, 4 * QUERIES as usize);
    (outcome, words.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// Every way to run a kernel.
fn devices() -> impl Iterator<Item = Rig> {
    let ways = [(1, false), (2, false), (2, true)];
    Level::available().into_iter().flat_map(move |level| {
        ways.into_iter().map(move |(workers, in_pieces)| {
            let mut device = Rig::new(BASE, workers, level);
            device.in_pieces = in_pieces;
            device
        })
    })
}

#[test]
fn searches_by_warps_and_by_threads_find_what_is_in_the_tree() {
    let pairs: Vec<(u32, u32)> = (0..KEYS).map(|key| (3 * key + 1, key + 7)).collect();
    let (nodes, root) = tree::tree(&pairs);
    let expected: Vec<u32> = queries()
        .iter()
        .map(|query| pairs.iter().find(|(key, _)| key == query).map_or(0, |(_, value)| *value))
        .collect();
    assert!(expected.iter().filter(|value| **value != 0).count() > 50, "enough queries find their key");
    for mut device in devices() {
        for kernel in ["search_by_warps", "search_by_threads"] {
            let (nodes, queries) = (device.upload(&bytes(&nodes)), device.upload(&bytes(&queries())));
            let out = device.allocate(4 * u64::from(QUERIES));
            let number = |value: u32| value.to_le_bytes().to_vec();
            let address = |value: u64| value.to_le_bytes().to_vec();
            let values = [address(nodes), number(root), address(queries), address(out), number(QUERIES)];
            let (outcome, found) = run(&mut device, kernel, QUERIES.div_ceil(128), &values, out);
            assert_eq!(outcome, Outcome::Done);
            assert_eq!(found, expected, "{kernel}");
        }
    }
}

#[test]
fn searches_by_blocks_find_what_is_in_the_array() {
    let keys: Vec<u32> = (0..KEYS).map(|key| 3 * key).collect();
    let expected: Vec<u32> = queries().iter().map(|query| if query % 3 == 0 { query / 3 + 1 } else { 0 }).collect();
    for mut device in devices() {
        let (keys, queries) = (device.upload(&bytes(&keys)), device.upload(&bytes(&queries())));
        let out = device.allocate(4 * u64::from(QUERIES));
        let values = [
            keys.to_le_bytes().to_vec(),
            KEYS.to_le_bytes().to_vec(),
            queries.to_le_bytes().to_vec(),
            out.to_le_bytes().to_vec(),
        ];
        let (outcome, found) = run(&mut device, "search_by_blocks", QUERIES, &values, out);
        assert_eq!(outcome, Outcome::Done);
        assert_eq!(found, expected);
    }
}

#[test]
fn a_child_that_is_nowhere_faults_whichever_lane_goes_there() {
    let pairs: Vec<(u32, u32)> = (0..KEYS).map(|key| (3 * key + 1, key + 7)).collect();
    let (mut nodes, root) = tree::tree(&pairs);
    // The child of the root's smallest key lies far outside of what is mapped.
    nodes[root as usize * 32] = 0x0100_0000;
    for mut device in devices() {
        let (nodes, queries) = (device.upload(&bytes(&nodes)), device.upload(&bytes(&queries())));
        let out = device.allocate(4 * u64::from(QUERIES));
        let number = |value: u32| value.to_le_bytes().to_vec();
        let address = |value: u64| value.to_le_bytes().to_vec();
        let values = [address(nodes), number(root), address(queries), address(out), number(QUERIES)];
        let (outcome, _) = run(&mut device, "search_by_threads", QUERIES.div_ceil(128), &values, out);
        let Outcome::Fault(fault) = outcome else { panic!("no fault: {outcome:?}") };
        assert_eq!(fault.kind, FaultKind::IllegalAddress);
        assert!(fault.address > BASE + rig::MAPPED, "the address that is nowhere: {:#x}", fault.address);
    }
}

/// A hundred looks at a clock by each warp, whatever it says: a busy machine changes nothing. Every lane counts itself before.
const LOOKS: &str = r"
.version 7.0
.target sm_50
.address_size 64
.visible .entry looks(.param .u64 counted, .param .u64 seen) {
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [counted];
    ld.param.u64 %rd2, [seen];
    atom.global.add.u32 %r1, [%rd1], 1;
    mov.u32 %r2, 0;
AGAIN:
    mov.u64 %rd3, %globaltimer;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 100;
    @%p1 bra AGAIN;
    ld.global.u32 %r3, [%rd1];
    mov.u32 %r4, %tid.x;
    mul.wide.u32 %rd4, %r4, 4;
    add.u64 %rd5, %rd2, %rd4;
    st.global.u32 [%rd5], %r3;
    ret;
}
";

#[test]
fn a_warp_that_waits_by_the_clock_lets_the_others_of_its_block_run() {
    let threads = 8 * 32_u32;
    for level in Level::available() {
        let mut device = Rig::new(BASE, 1, level);
        let program = device.load(LOOKS).expect("the program");
        let kernel = program.kernel("looks").expect("the kernel");
        let (counted, seen) = (device.allocate(4), device.allocate(4 * u64::from(threads)));
        let values = [counted, seen].map(|value| value.to_le_bytes().to_vec());
        let launch = device.launch(&kernel, 1, threads, parameters(&kernel, &values).expect("parameters"));
        let grid = Grid::new(launch).expect("a grid");
        // Without end, so that only waiting can have another warp's turn come.
        grid.set_quantum(u32::MAX);
        assert_eq!(grid.run(&Pool::new(1)), Outcome::Done);
        let words = device.download(seen, 4 * threads as usize);
        assert_eq!(words[..4], threads.to_le_bytes(), "the first warp saw all others begin");
    }
}
