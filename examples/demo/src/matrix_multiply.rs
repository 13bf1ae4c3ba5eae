//! c = a · b for 256 × 256 matrices of small integers, whose sums are exact in f32: the CPU's product must be equal.

use anyhow::{Result, ensure};
use cudarc::driver::{LaunchConfig, PushKernelArg};

use crate::device::Device;

const SIZE: u32 = 256;
/// Threads of a block in each direction; demo.cu's TILE.
const TILE: u32 = 16;

pub(crate) fn run(device: &Device) -> Result<String> {
    let count = SIZE * SIZE;
    let a: Vec<f32> = (0..count).map(|i| (i * 7 % 13) as f32 - 6.0).collect();
    let b: Vec<f32> = (0..count).map(|i| (i * 5 % 11) as f32 - 5.0).collect();
    let stream = &device.stream;
    let (on_a, on_b) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let mut on_c = stream.alloc_zeros::<f32>(count as usize)?;
    let kernel = device.kernel("matrix_multiply")?;
    let shape =
        LaunchConfig { grid_dim: (SIZE / TILE, SIZE / TILE, 1), block_dim: (TILE, TILE, 1), shared_mem_bytes: 0 };
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&on_a).arg(&on_b).arg(&mut on_c).arg(&SIZE);
    // SAFETY: the arguments are those of `matrix_multiply` in demo.cu, each matrix holds SIZE × SIZE elements, and SIZE is
    // a multiple of TILE.
    unsafe { launch.launch(shape) }?;
    let c = stream.clone_dtoh(&on_c)?;
    ensure!(c == on_the_cpu(&a, &b), "the product is wrong");
    Ok(format!("{SIZE} × {SIZE} product equals the CPU's"))
}

fn on_the_cpu(a: &[f32], b: &[f32]) -> Vec<f32> {
    let size = SIZE as usize;
    let mut c = vec![0.0; size * size];
    for (row, out) in a.chunks(size).zip(c.chunks_mut(size)) {
        for (factor, b_row) in row.iter().zip(b.chunks(size)) {
            out.iter_mut().zip(b_row).for_each(|(sum, b)| *sum += factor * b);
        }
    }
    c
}
