//! c = a + b over a million elements; the CPU's sums must be equal bit for bit.

use anyhow::{Result, ensure};
use cudarc::driver::{LaunchConfig, PushKernelArg};

use crate::device::Device;

const COUNT: u32 = 1 << 20;

pub(crate) fn run(device: &Device) -> Result<String> {
    let a: Vec<f32> = (0..COUNT).map(|i| (i % 1000) as f32 * 0.25).collect();
    let b: Vec<f32> = (0..COUNT).map(|i| (i % 777) as f32 * 0.125).collect();
    let stream = &device.stream;
    let (on_a, on_b) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let mut on_c = stream.alloc_zeros::<f32>(COUNT as usize)?;
    let kernel = device.kernel("vector_add")?;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&on_a).arg(&on_b).arg(&mut on_c).arg(&COUNT);
    // SAFETY: the arguments are those of `vector_add` in demo.cu, and each buffer holds COUNT elements.
    unsafe { launch.launch(LaunchConfig::for_num_elems(COUNT)) }?;
    let c = stream.clone_dtoh(&on_c)?;
    let wrong = a.iter().zip(&b).zip(&c).position(|((a, b), c)| a + b != *c);
    ensure!(wrong.is_none(), "element {} is wrong", wrong.unwrap_or_default());
    Ok(format!("{COUNT} sums equal the CPU's"))
}
