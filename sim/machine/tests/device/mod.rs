//! A device for tests: memory with a bump allocator, a program, launches with typed arguments.
//! Nothing here is clever; a test that needs more does it itself.
#![allow(dead_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use floe_machine::{GRANULE, Grid, Heap, Launch, Level, Memory, Outcome, Pool, Program, Services, Store};

/// A device with 256 MiB at addresses of its own.
pub struct Device {
    pub memory: Arc<Memory>,
    pub services: Arc<Services>,
    pub program: Arc<Program>,
    pub printed: Arc<Mutex<Vec<u8>>>,
    pub pool: Pool,
    next: AtomicU64,
}

const BYTES: u64 = 256 << 20;
const HEAP: u64 = 4 << 20;

impl Device {
    pub fn new(texts: &[&str]) -> Self {
        Self::at(Level::best(), texts)
    }

    pub fn at(level: Level, texts: &[&str]) -> Self {
        static BASES: AtomicU64 = AtomicU64::new(0x2000_0000_0000);
        Self::placed(BASES.fetch_add(1 << 40, Ordering::Relaxed), level, texts)
    }

    pub fn placed(base: u64, level: Level, texts: &[&str]) -> Self {
        let memory = Memory::reserve(base, 1 << 36).expect("address space");
        let store = Store::new(BYTES).expect("store");
        let backing = store.create(BYTES).expect("backing");
        memory.map(base, BYTES, &backing, 0).expect("map");
        let next = AtomicU64::new(base + GRANULE);
        let mut allocate = |bytes: u64, align: u64| Some(bump(&next, bytes, align));
        let program = Program::load_at(level, texts, &memory, &mut allocate).expect("program");
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (out, err) = (Arc::clone(&printed), Arc::clone(&printed));
        let mut services = Services::new(Arc::clone(&memory));
        services.printf = Box::new(move |bytes| out.lock().expect("no panic").extend_from_slice(bytes));
        services.assertion = Box::new(move |bytes| err.lock().expect("no panic").extend_from_slice(bytes));
        services.heap = Some(Arc::new(Heap::new(bump(&next, HEAP, 256), HEAP)));
        Self { memory, services: Arc::new(services), program, printed, pool: Pool::new(2), next }
    }

    pub fn allocate(&self, bytes: u64) -> u64 {
        bump(&self.next, bytes, 256)
    }

    pub fn upload<T: Copy>(&self, values: &[T]) -> u64 {
        // SAFETY: the values' own bytes; tests pass numbers, which have no padding.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        let address = self.allocate(bytes.len() as u64);
        self.memory.write(address, bytes).expect("write");
        address
    }

    pub fn download<T: Copy + Default>(&self, address: u64, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        // SAFETY: the values' own bytes; any bytes are numbers.
        let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), size_of::<T>() * count) };
        self.memory.read(address, bytes).expect("read");
        values
    }

    pub fn launch(&self, name: &str, grid: [u32; 3], block: [u32; 3], arguments: &[Argument]) -> Launch {
        let kernel = self.program.kernel(name).unwrap_or_else(|error| panic!("{error}"));
        let mut parameters = vec![0; kernel.parameter_bytes as usize];
        assert_eq!(kernel.parameters.len(), arguments.len(), "arguments of {name}");
        for (place, argument) in kernel.parameters.iter().zip(arguments) {
            let bytes = argument.bytes();
            assert_eq!(bytes.len(), place.size as usize, "argument at {}", place.offset);
            parameters[place.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        let services = Arc::clone(&self.services);
        Launch { kernel, grid, block, dynamic_shared: 0, parameters, cooperative: false, services }
    }

    pub fn run(&self, name: &str, grid: [u32; 3], block: [u32; 3], arguments: &[Argument]) -> Outcome {
        Grid::new(self.launch(name, grid, block, arguments)).expect("grid").run(&self.pool)
    }

    /// The part of the memory that was given out.
    pub fn everything(&self) -> Vec<u8> {
        let used = self.next.load(Ordering::Relaxed) - self.memory.base() - GRANULE;
        self.download(self.memory.base() + GRANULE, used as usize)
    }

    pub fn overwrite(&self, bytes: &[u8]) {
        self.memory.write(self.memory.base() + GRANULE, bytes).expect("write");
    }

    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut *self.printed.lock().expect("no panic"))).into_owned()
    }
}

fn bump(next: &AtomicU64, bytes: u64, align: u64) -> u64 {
    let align = align.max(1);
    let update = |at: u64| Some(at.next_multiple_of(align) + bytes);
    next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).expect("always some").next_multiple_of(align)
}

/// A kernel's argument.
pub enum Argument {
    Pointer(u64),
    Int(i32),
    Float(f32),
    Bytes(Vec<u8>),
}

impl Argument {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Pointer(value) => value.to_le_bytes().to_vec(),
            Self::Int(value) => value.to_le_bytes().to_vec(),
            Self::Float(value) => value.to_le_bytes().to_vec(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}
