//! Times of small kernels of different kinds on one worker: what a change to the machine makes faster or slower.
//! Prints milliseconds of processor time, best of several rounds, for each instruction set this processor has. Results are
//! not checked here; the tests do that on the same kernels.

use std::sync::Arc;
use std::time::Instant;

use floe_machine::{GRANULE, Grid, Launch, Level, Memory, Outcome, Pool, Program, Services, Store};

const KERNELS: &str = include_str!("../tests/kernels/first.ptx");
const BASE: u64 = 0x2000_0000_0000;
/// Kernel, grid, block, parameters.
type Case = (&'static str, [u32; 3], [u32; 3], Vec<Vec<u8>>);

const MILLION: u32 = 1 << 20;

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(7);
    let bytes = 32 * GRANULE;
    let memory = Memory::reserve(BASE, 1 << 40).expect("address space");
    let backing = Store::new(bytes).and_then(|store| store.create(bytes)).expect("device memory");
    memory.map(BASE, bytes, &backing, 0).expect("mapping");
    memory.fill(BASE, 0x3f80_0000, 4, 3 * MILLION as usize).expect("fill");
    let services = Arc::new(Services::new(Arc::clone(&memory)));
    let pool = Pool::new(1);
    let at = |index: u64| (BASE + index * 4 * u64::from(MILLION)).to_le_bytes().to_vec();
    let number = |value: u32| value.to_le_bytes().to_vec();
    let blocks = MILLION / 256;
    let cases: [Case; 6] = [
        ("vecadd", [blocks, 1, 1], [256, 1, 1], vec![at(0), at(1), at(2), number(MILLION)]),
        ("reduce", [blocks / 8, 1, 1], [256, 1, 1], vec![at(0), at(2), number(MILLION)]),
        ("histogram", [64, 1, 1], [256, 1, 1], vec![at(0), at(2), number(MILLION)]),
        ("mandelbrot", [32, 32, 1], [16, 16, 1], vec![at(3), number(512), number(256)]),
        ("calls", [64, 1, 1], [64, 1, 1], vec![at(3)]),
        ("spinlock", [8, 1, 1], [64, 1, 1], vec![at(3)]),
    ];
    for level in Level::available() {
        let mut next = BASE + 31 * GRANULE;
        let mut allocate = |bytes: u64, align: u64| {
            let address = next.next_multiple_of(align);
            next = address + bytes;
            Some(address)
        };
        let program = Program::load_at(level, &[KERNELS], &memory, &mut allocate).expect("program");
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
            println!("{level:?} {name:12} {:8.2} ms", 1e3 * best);
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
