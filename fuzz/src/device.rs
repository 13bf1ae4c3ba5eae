//! A device of a few megabytes that runs all kernels of a text, each for a bounded number of steps.
//! In goes a text, out comes how each kernel ended and the bytes it left in one buffer.
//! It never maps more than it has at first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use floe_machine::{
    GRANULE, Grid, Heap, Kernel, Launch, Level, Memory, Outcome, Pool, Program, Services, Snapshot, Store,
};

/// The first address, where the input is.
pub const BASE: u64 = 0x2000_0000_0000;
/// Reserved: the mapped part, and as much as 32 bits reach behind it.
const RESERVED: u64 = 1 << 33;
const MAPPED: u64 = 4 * GRANULE;
/// Of variables, in the second and third granule.
const VARIABLES: u64 = BASE + GRANULE;
/// Of device `malloc`, in the last granule.
const HEAP: u64 = BASE + 3 * GRANULE;
/// Bytes that kernels read, at the first address.
pub const INPUT: usize = 4 << 10;
/// Bytes that are compared.
pub const OUTPUT: usize = 64 << 10;
const OUTPUT_AT: u64 = BASE + (64 << 10);

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub level: Level,
    pub grid: u32,
    pub block: u32,
    /// Stopped as often as possible, and continued from the snapshot's bytes.
    pub in_pieces: bool,
}

/// The device.
pub struct Device {
    memory: Arc<Memory>,
    services: Arc<Services>,
    pool: Pool,
}

impl Device {
    /// The only one.
    pub fn get() -> &'static Self {
        static DEVICE: OnceLock<Device> = OnceLock::new();
        DEVICE.get_or_init(Self::new)
    }

    fn new() -> Self {
        let memory = Memory::reserve(BASE, RESERVED).expect("a reservation");
        let backing = Store::new(MAPPED).and_then(|store| store.create(MAPPED)).expect("room for the device's memory");
        memory.map(BASE, MAPPED, &backing, 0).expect("a mapping");
        let mut services = Services::new(Arc::clone(&memory));
        services.heap = Some(Arc::new(Heap::new(HEAP, 64 << 10)));
        services.stack_limit = 4 << 10;
        Self { memory, services: Arc::new(services), pool: Pool::new(1) }
    }

    /// Loads a text; its variables lie where those of the text before lay.
    pub fn load(&self, level: Level, text: &str) -> Option<Arc<Program>> {
        let next = AtomicU64::new(VARIABLES);
        let mut allocate = |bytes: u64, align: u64| {
            let start = next.load(Ordering::Relaxed).checked_next_multiple_of(align.max(1))?;
            let end = start.checked_add(bytes).filter(|end| *end <= HEAP)?;
            next.store(end, Ordering::Relaxed);
            Some(start)
        };
        Program::load_at(level, &[text], &self.memory, &mut allocate).ok()
    }

    /// Sets the memory that kernels read from now on; the memory that they write begins with zeros.
    pub fn prepare(&self, input: &[u8]) {
        let mut bytes: Vec<u8> = (0_u32..).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 13) as u8).take(INPUT).collect();
        bytes.iter_mut().zip(input).for_each(|(byte, given)| *byte ^= given);
        self.memory.write(BASE, &bytes).expect("mapped");
        self.memory.fill(OUTPUT_AT, 0, 1, OUTPUT).expect("mapped");
    }

    /// The bytes kernels left.
    pub fn output(&self) -> Vec<u8> {
        let mut bytes = vec![0; OUTPUT];
        self.memory.read(OUTPUT_AT, &mut bytes).expect("mapped");
        bytes
    }

    /// Runs a kernel; `None` where the launch is refused or takes more steps than it may.
    pub fn run(&self, kernel: &Arc<Kernel>, shape: Shape) -> Option<Outcome> {
        let launch = Launch {
            kernel: Arc::clone(kernel),
            grid: [shape.grid, 1, 1],
            block: [shape.block.min(kernel.max_threads), 1, 1],
            dynamic_shared: 256,
            parameters: parameters(kernel),
            cooperative: false,
            services: Arc::clone(&self.services),
        };
        let mut grid = Grid::new(launch.clone()).ok()?;
        if !shape.in_pieces {
            grid.set_quantum(1000);
            grid.set_quanta(40);
            return Some(grid.run(&self.pool)).filter(|outcome| *outcome != Outcome::Stopped);
        }
        for _ in 0..20 {
            grid.set_quantum(0);
            grid.set_quanta(3);
            let outcome = grid.run(&self.pool);
            if outcome != Outcome::Stopped {
                return Some(outcome);
            }
            let bytes = grid.snapshot().expect("stopped").to_bytes().to_vec();
            let snapshot = Snapshot::from_bytes(&bytes).expect("a snapshot");
            grid = Grid::resume(launch.clone(), &snapshot).expect("of this launch");
        }
        None
    }
}

/// Parameters: those of 8 bytes point by turns to what is read and to what is written, others are small numbers.
fn parameters(kernel: &Kernel) -> Vec<u8> {
    let mut bytes = vec![3; kernel.parameter_bytes as usize];
    let mut buffers = [BASE, OUTPUT_AT].into_iter().cycle();
    for parameter in kernel.parameters.iter().filter(|parameter| parameter.size == 8) {
        let address = buffers.next().expect("endless");
        bytes[parameter.offset as usize..][..8].copy_from_slice(&address.to_le_bytes());
    }
    bytes
}
