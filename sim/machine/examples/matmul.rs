//! How fast the machine multiplies matrices, against the plain triple loop of `gcc -O3 -march=native`, in one run.
//! Compiles the loop at run time, runs both by turns with one and two threads, prints rates per processor second and their
//! ratio. An argument says how many rounds (5), a second one the level (`baseline`, `avx2`, `avx512`).

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use floe_machine::{GRANULE, Grid, Launch, Level, Memory, Outcome, Pool, Program, Services, Store};

const N: usize = 512;
/// The same number, as the kernel takes it.
const SIZE: u32 = 512;
const KERNELS: &str = include_str!("../tests/kernels/first.ptx");
const LOOP: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define N 512
static float a[N * N], b[N * N], c[N * N];
static int threads;
/* As the CPU reference of the CUDA samples: pointers and a size that the compiler does not know. */
__attribute__((noinline)) static void multiply(const float *a, const float *b, float *c, int n, int first, int step) {
    for (int i = first; i < n; i += step)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}
static volatile int size = N;
static void *rows(void *number) {
    multiply(a, b, c, size, (int)(long)number, threads);
    return 0;
}
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
int main(int argc, char **argv) {
    threads = atoi(argv[1]);
    for (int i = 0; i < N * N; i++) a[i] = i % 7, b[i] = i % 5;
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    pthread_t workers[64];
    for (long t = 0; t < threads; t++) pthread_create(&workers[t], 0, rows, (void *)t);
    for (int t = 0; t < threads; t++) pthread_join(workers[t], 0);
    printf("%.9f %.9f %g\n", now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu, c[12345]);
}
"#;

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let level = match std::env::args().nth(2).as_deref() {
        Some("baseline") => Level::Baseline,
        Some("avx2") => Level::Avx2,
        _ => Level::best(),
    };
    let folder = std::env::temp_dir().join(format!("floe-matmul-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    std::fs::write(folder.join("loop.c"), LOOP).expect("written");
    let built = Command::new("gcc")
        .args(["-O3", "-march=native", "-pthread", "-o", "loop", "loop.c"])
        .current_dir(&folder)
        .status();
    assert!(built.expect("gcc").success(), "gcc compiles the loop");
    let device = Device::new(level);
    println!("{level:?}, {N}^3, best of {rounds}; GFLOP per processor second (and per second of the clock)");
    for threads in [1, 2] {
        let pool = Pool::new(threads);
        let mut best = [[f64::MAX; 2]; 3];
        for _ in 0..rounds {
            let output = Command::new(folder.join("loop")).arg(threads.to_string()).output().expect("runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let seconds: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            keep(&mut best[0], [seconds[0], seconds[1]]);
            keep(&mut best[1], device.multiply("matmul16", 16, &pool));
            keep(&mut best[2], device.multiply("matmul32", 32, &pool));
        }
        let rate = |seconds: f64| 2.0 * (N * N * N) as f64 / seconds * 1e-9;
        for (name, best, reference) in
            [("C loop", best[0], best[0]), ("TILE 16", best[1], best[0]), ("TILE 32", best[2], best[0])]
        {
            println!(
                "{threads} threads  {name:8}  {:6.2} ({:6.2})   ratio {:5.2} ({:5.2})",
                rate(best[1]),
                rate(best[0]),
                reference[1] / best[1],
                reference[0] / best[0]
            );
        }
    }
    // The folder is under the system's temporary one; leaving it behind would be no harm.
    let _ = std::fs::remove_dir_all(folder);
}

fn keep(best: &mut [f64; 2], seconds: [f64; 2]) {
    for (best, seconds) in best.iter_mut().zip(seconds) {
        *best = best.min(seconds);
    }
}

struct Device {
    memory: Arc<Memory>,
    services: Arc<Services>,
    program: Arc<Program>,
    matrices: [u64; 3],
}

impl Device {
    fn new(level: Level) -> Self {
        let base = 0x2000_0000_0000;
        let bytes = 16 * GRANULE;
        let memory = Memory::reserve(base, 1 << 40).expect("address space");
        let backing = Store::new(bytes).and_then(|store| store.create(bytes)).expect("device memory");
        memory.map(base, bytes, &backing, 0).expect("mapping");
        let start = Instant::now();
        let program =
            Program::load_at(level, &[KERNELS], &memory, &mut |_, _| Some(base + 15 * GRANULE)).expect("program");
        let kernel = program.kernel("matmul32").expect("kernel");
        println!("load and lower: {:?}, {} registers", start.elapsed(), kernel.registers);
        let matrices = [base, base + 2 * GRANULE, base + 4 * GRANULE];
        let values =
            |modulus: usize| -> Vec<u8> { (0..N * N).flat_map(|i| ((i % modulus) as f32).to_le_bytes()).collect() };
        memory.write(matrices[0], &values(7)).expect("write");
        memory.write(matrices[1], &values(5)).expect("write");
        let services = Arc::new(Services::new(Arc::clone(&memory)));
        Self { memory, services, program, matrices }
    }

    /// Seconds of the clock and of the processor.
    fn multiply(&self, name: &str, tile: u32, pool: &Pool) -> [f64; 2] {
        let kernel = self.program.kernel(name).expect("kernel");
        let mut parameters: Vec<u8> = self.matrices.iter().flat_map(|address| address.to_le_bytes()).collect();
        parameters.extend(SIZE.to_le_bytes());
        let blocks = SIZE / tile;
        let launch = Launch {
            kernel,
            grid: [blocks, blocks, 1],
            block: [tile, tile, 1],
            dynamic_shared: 0,
            parameters,
            cooperative: false,
            services: Arc::clone(&self.services),
        };
        let grid = Grid::new(launch).expect("grid");
        let (wall, processor) = (Instant::now(), processor_seconds());
        assert_eq!(grid.run(pool), Outcome::Done);
        let seconds = [wall.elapsed().as_secs_f64(), processor_seconds() - processor];
        let mut bytes = [0; 4];
        self.memory.read(self.matrices[2] + 4 * 12345, &mut bytes).expect("read");
        let (row, column) = (12345 / N, 12345 % N);
        let expected: f32 = (0..N).map(|k| ((row * N + k) % 7) as f32 * ((k * N + column) % 5) as f32).sum();
        assert_eq!(f32::from_le_bytes(bytes), expected);
        seconds
    }
}

/// Processor time of this process.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours to write.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "the clock exists");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
