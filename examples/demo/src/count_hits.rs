//! Monte Carlo: points of a unit square inside the quarter circle. Each thread's generator is seeded by its number, so the
//! count is known exactly; the CPU counts the same points.

use anyhow::{Result, ensure};
use cudarc::driver::{LaunchConfig, PushKernelArg};

use crate::device::Device;

const BLOCKS: u32 = 64;
const THREADS: u32 = 256;
const DRAWS: u32 = 64;

pub(crate) fn run(device: &Device) -> Result<String> {
    let stream = &device.stream;
    let mut on_hits = stream.alloc_zeros::<u64>(1)?;
    let kernel = device.kernel("count_hits")?;
    let shape = LaunchConfig { grid_dim: (BLOCKS, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut on_hits).arg(&DRAWS);
    // SAFETY: the arguments are those of `count_hits` in demo.cu; the buffer holds its one counter.
    unsafe { launch.launch(shape) }?;
    let hits = stream.clone_dtoh(&on_hits)?[0];
    let expected: u64 = (0..BLOCKS * THREADS).map(hits_of_thread).sum();
    ensure!(hits == expected, "{hits} points counted, the CPU counts {expected}");
    let points = f64::from(BLOCKS * THREADS) * f64::from(DRAWS);
    Ok(format!("{hits} of {points} points, as the CPU counts, π ≈ {:.4}", 4.0 * hits as f64 / points))
}

/// The count of one thread of the kernel.
fn hits_of_thread(thread: u32) -> u64 {
    let mut state = thread.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        u64::from(state >> 12)
    };
    let mut inside = 0;
    for _ in 0..DRAWS {
        let (x, y) = (draw(), draw());
        inside += u64::from(x * x + y * y < 1 << 40);
    }
    inside
}
