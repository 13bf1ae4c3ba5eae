//! Times of small kernels of different kinds on one worker: what a change to the machine makes faster or slower.
//! Prints milliseconds of processor time, best of several rounds, for each instruction set this processor has. Results are
//! not checked here; the tests do that on the same kernels.

use std::sync::Arc;
use std::time::Instant;

use floe_machine::{GRANULE, Grid, Launch, Level, Memory, Outcome, Pool, Program, Services, Store};

#[path = "../tests/kernels/tree.rs"]
mod tree;

const KERNELS: [&str; 2] = [include_str!("../tests/kernels/first.ptx"), include_str!("../tests/kernels/tree.ptx")];
const BASE: u64 = 0x2000_0000_0000;
/// Kernel, grid, block, parameters.
type Case = (&'static str, [u32; 3], [u32; 3], Vec<Vec<u8>>);

const MILLION: u32 = 1 << 20;
const QUARTER: u32 = MILLION / 4;

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(7);
    let bytes = 48 * GRANULE;
    let memory = Memory::reserve(BASE, 1 << 40).expect("address space");
    let backing = Store::new(bytes).and_then(|store| store.create(bytes)).expect("device memory");
    memory.map(BASE, bytes, &backing, 0).expect("mapping");
    memory.fill(BASE, 0x3f80_0000, 4, 3 * MILLION as usize).expect("fill");
    let services = Arc::new(Services::new(Arc::clone(&memory)));
    let pool = Pool::new(1);
    let at = |index: u64| (BASE + index * 4 * u64::from(MILLION)).to_le_bytes().to_vec();
    let number = |value: u32| value.to_le_bytes().to_vec();
    let blocks = MILLION / 256;
    let pairs: Vec<(u32, u32)> = (0..QUARTER).map(|key| (2 * key + 1, key + 1)).collect();
    let (nodes, root) = tree::tree(&pairs);
    // Every other query finds its key, in no order.
    let queries: Vec<u32> = (0..QUARTER).map(|index| index.wrapping_mul(0x9e37_79b1) % (2 * QUARTER)).collect();
    memory.write(BASE + 4 * 4 * u64::from(MILLION), &bytes_of(&nodes)).expect("tree");
    memory.write(BASE + 5 * 4 * u64::from(MILLION), &bytes_of(&queries)).expect("queries");
    memory.write(BASE + 6 * 4 * u64::from(MILLION), &bytes_of(&(0..MILLION).collect::<Vec<_>>())).expect("keys");
    let search = vec![at(4), number(root), at(5), at(3), number(QUARTER)];
    let cases: [Case; 10] = [
        ("vecadd", [blocks, 1, 1], [256, 1, 1], vec![at(0), at(1), at(2), number(MILLION)]),
        ("reduce", [blocks / 8, 1, 1], [256, 1, 1], vec![at(0), at(2), number(MILLION)]),
        ("histogram", [64, 1, 1], [256, 1, 1], vec![at(0), at(2), number(MILLION)]),
        ("mandelbrot", [32, 32, 1], [16, 16, 1], vec![at(3), number(512), number(256)]),
        ("calls", [64, 1, 1], [64, 1, 1], vec![at(3)]),
        ("spinlock", [8, 1, 1], [64, 1, 1], vec![at(3)]),
        ("search_by_warps", [QUARTER / 16 / 256, 1, 1], [256, 1, 1], search.clone()),
        ("search_by_threads", [QUARTER / 256, 1, 1], [256, 1, 1], search),
        ("search_by_blocks", [4096, 1, 1], [256, 1, 1], vec![at(6), number(MILLION), at(5), at(3)]),
        ("waits", [512, 1, 1], [256, 1, 1], vec![at(3), at(7), 5000_u64.to_le_bytes().to_vec()]),
    ];
    for level in Level::available() {
        let mut next = BASE + 47 * GRANULE;
        let mut allocate = |bytes: u64, align: u64| {
            let address = next.next_multiple_of(align);
            next = address + bytes;
            Some(address)
        };
        let program = Program::load_at(level, &KERNELS, &memory, &mut allocate).expect("program");
        for (name, grid, block, parameters) in &cases {
            let mut best = f64::MAX;
            for _ in 0..rounds {
                let launch = Launch {
                    kernel: program.kernel(name).expect("kernel"),
                    grid: *grid,
                    block: *block,
                    dynamic_shared: 0,
                    parameters: aligned(parameters),
                    cooperative: false,
                    services: Arc::clone(&services),
                };
                let grid = Grid::new(launch).expect("grid");
                let start = Instant::now();
                assert_eq!(grid.run(&pool), Outcome::Done);
                best = best.min(start.elapsed().as_secs_f64());
            }
            println!("{level:?} {name:18} {:8.2} ms", 1e3 * best);
        }
    }
}

/// Parameters one after the other, each at a multiple of its size.
fn aligned(parameters: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for parameter in parameters {
        bytes.resize(bytes.len().next_multiple_of(parameter.len()), 0);
        bytes.extend(parameter);
    }
    bytes
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
