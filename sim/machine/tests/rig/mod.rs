//! A device for tests that load one text after another: memory with a simple allocator, a pool, captured output.
//! PTX text and parameter bytes come in, an outcome and buffers' bytes go out, all through the public interface.
//! A launch that does not end is cancelled and reported, so that one bad kernel does not hold up the others.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_machine::{
    Backing, Grid, Heap, Kernel, Launch, Level, LoadError, Memory, Outcome, Pool, Program, Services, Snapshot, Store,
};

/// Bytes mapped from the first device address on; everything beyond is a hole.
pub const MAPPED: u64 = 64 << 20;
/// Bytes at the end of the mapped range that the device heap has.
const HEAP: u64 = 8 << 20;
/// Bytes of the reserved range.
const RESERVED: u64 = 1 << 32;
/// Time limit of a launch; all of them take milliseconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// A device with 64 MiB.
pub struct Rig {
    pub memory: Arc<Memory>,
    pub services: Arc<Services>,
    /// Whether every launch is stopped as often as possible and continued from the snapshot's bytes.
    pub in_pieces: bool,
    level: Level,
    pool: Pool,
    printed: Arc<Mutex<Vec<u8>>>,
    next: u64,
    _backing: Arc<Backing>,
}

impl Rig {
    /// A device of `workers` threads whose addresses begin at `base`, executing with the vector instructions of `level`.
    pub fn new(base: u64, workers: usize, level: Level) -> Rig {
        let memory = Memory::reserve(base, RESERVED).expect("a reservation");
        let store = Store::new(MAPPED).expect("a store");
        let backing = store.create(MAPPED).expect("room for the whole store");
        memory.map(base, MAPPED, &backing, 0).expect("a mapping");
        let mut services = Services::new(Arc::clone(&memory));
        let printed = Arc::new(Mutex::new(Vec::new()));
        let prints = Arc::clone(&printed);
        services.printf = Box::new(move |bytes| prints.lock().expect("no panic").extend_from_slice(bytes));
        services.heap = Some(Heap::new(base + MAPPED - HEAP, HEAP).into());
        services.multiprocessors = 4;
        services.stack_limit = 64 << 10;
        let pool = Pool::new(workers);
        Rig {
            services: Arc::new(services),
            memory,
            in_pieces: false,
            level,
            pool,
            printed,
            next: base,
            _backing: backing,
        }
    }

    /// The address of `bytes` new bytes, zero at first, aligned to 256.
    pub fn allocate(&mut self, bytes: u64) -> u64 {
        self.allocate_aligned(bytes, 256).expect("room on the device")
    }

    fn allocate_aligned(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let address = self.next.checked_next_multiple_of(align.max(256))?;
        let end = address.checked_add(bytes)?;
        if end > self.memory.base() + MAPPED - HEAP {
            return None;
        }
        self.next = end;
        Some(address)
    }

    /// A new buffer with these bytes.
    pub fn upload(&mut self, bytes: &[u8]) -> u64 {
        let address = self.allocate(bytes.len().max(1) as u64);
        self.memory.write(address, bytes).expect("mapped");
        address
    }

    /// The bytes of a buffer.
    pub fn download(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read(address, &mut bytes).expect("mapped");
        bytes
    }

    /// Loads PTX text.
    pub fn load(&mut self, ptx: &str) -> Result<Arc<Program>, LoadError> {
        let (memory, level) = (Arc::clone(&self.memory), self.level);
        Program::load_at(level, &[ptx], &memory, &mut |bytes, align| self.allocate_aligned(bytes, align))
    }

    /// Runs a launch to its end.
    pub fn run(&self, launch: Launch) -> Result<Outcome, String> {
        let mut grid = Grid::new(launch.clone()).map_err(|error| error.to_string())?;
        let begin = Instant::now();
        loop {
            let outcome = self.run_once(&grid)?;
            if outcome != Outcome::Stopped {
                return Ok(outcome);
            }
            if begin.elapsed() > PATIENCE {
                return Err("does not end in pieces".to_owned());
            }
            let bytes = grid.snapshot().map_err(|error| error.to_string())?.to_bytes().to_vec();
            let snapshot = Snapshot::from_bytes(&bytes).map_err(|error| error.to_string())?;
            grid = Grid::resume(launch.clone(), &snapshot).map_err(|error| error.to_string())?;
        }
    }

    /// One run of a grid; in pieces, a stop follows it at once.
    fn run_once(&self, grid: &Arc<Grid>) -> Result<Outcome, String> {
        let (sender, receiver) = channel();
        if self.in_pieces {
            grid.set_quantum(0);
        }
        self.pool.submit(
            grid,
            Box::new(move |outcome| {
                // The receiver has gone when nobody waits any longer.
                let _ = sender.send(outcome);
            }),
        );
        if self.in_pieces {
            // Long enough for a worker to begin.
            std::thread::sleep(Duration::from_micros(20));
            grid.stop();
        }
        match receiver.recv_timeout(PATIENCE) {
            Ok(outcome) => Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => Err("the pool dropped the launch".to_owned()),
            Err(RecvTimeoutError::Timeout) => {
                grid.cancel();
                let after = receiver.recv_timeout(PATIENCE);
                Err(format!("does not end; after being cancelled: {after:?}"))
            }
        }
    }

    /// A launch of one kernel; the caller may change what it likes.
    pub fn launch(&self, kernel: &Arc<Kernel>, grid: u32, block: u32, parameters: Vec<u8>) -> Launch {
        Launch {
            kernel: Arc::clone(kernel),
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            dynamic_shared: 0,
            parameters,
            cooperative: false,
            services: Arc::clone(&self.services),
        }
    }

    /// Output of kernels so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().expect("no panic")).into_owned()
    }
}

/// The parameter buffer of a kernel from its parameters' bytes, in order.
pub fn parameters(kernel: &Kernel, values: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    if kernel.parameters.len() != values.len() {
        return Err(format!("kernel has {} parameters, given: {}", kernel.parameters.len(), values.len()));
    }
    let mut buffer = vec![0; kernel.parameter_bytes as usize];
    for (parameter, value) in kernel.parameters.iter().zip(values) {
        let (offset, size) = (parameter.offset as usize, parameter.size as usize);
        if size != value.len() {
            return Err(format!("parameter at {offset} has {size} bytes, given: {}", value.len()));
        }
        buffer[offset..offset + size].copy_from_slice(value);
    }
    Ok(buffer)
}
