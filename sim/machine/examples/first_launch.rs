//! Measures the time from PTX text to a kernel that can be launched: parse, link, lower.
//! Arguments are PTX files. Prints, for the slowest kernel of each file, the median over rounds of loading the whole module
//! and lowering that kernel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_machine::{GRANULE, Level, Memory, Program, Store};

const ROUNDS: usize = 9;
const BASE: u64 = 0x2000_0000_0000;

fn main() {
    let memory = Memory::reserve(BASE, 1 << 40).expect("address space");
    let bytes = 64 * GRANULE;
    let backing = Store::new(bytes).and_then(|store| store.create(bytes)).expect("device memory");
    memory.map(BASE, bytes, &backing, 0).expect("mapping");
    for path in std::env::args().skip(1) {
        let text = Arc::new(std::fs::read_to_string(&path).expect("a PTX file"));
        let (name, kernels, time) = slowest(&text, &memory);
        let file = path.rsplit('/').next().unwrap_or(&path);
        println!(
            "{:8.3} ms  {file}, {} bytes, {kernels} kernels, slowest: {name}",
            time.as_secs_f64() * 1e3,
            text.len()
        );
    }
}

/// The slowest kernel's name, how many kernels there are, and the median time from text to that kernel.
fn slowest(text: &Arc<String>, memory: &Arc<Memory>) -> (String, usize, Duration) {
    let names: Vec<String> = load(text, memory).kernel_names().into_iter().map(str::to_owned).collect();
    let timed = |name: &String| {
        let mut times: Vec<Duration> = (0..ROUNDS).map(|_| once(text, memory, name)).collect();
        times.sort();
        (name.clone(), names.len(), times[ROUNDS / 2])
    };
    names.iter().map(timed).max_by_key(|(_, _, time)| *time).expect("a file with kernels")
}

fn once(text: &Arc<String>, memory: &Arc<Memory>, name: &str) -> Duration {
    let start = Instant::now();
    load(text, memory).kernel(name).expect("a kernel the machine can run");
    start.elapsed()
}

fn load(text: &Arc<String>, memory: &Arc<Memory>) -> Arc<Program> {
    let mut next = BASE;
    let mut place = |bytes: u64, align: u64| {
        let at = next.next_multiple_of(align.max(1));
        next = at + bytes;
        Some(at)
    };
    Program::load_shared(Level::best(), std::slice::from_ref(text), memory, &mut place)
        .expect("a module the machine can load")
}
