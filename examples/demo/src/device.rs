//! The first device with the demo's kernels loaded.

use std::sync::Arc;

use anyhow::{Context, Result};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream};
use cudarc::nvrtc::Ptx;

/// nvcc's output for `demo.cu`.
const KERNELS: &str = include_str!("../demo.ptx");

/// A device, a stream on it, the kernels.
pub(crate) struct Device {
    context: Arc<CudaContext>,
    kernels: Arc<CudaModule>,
    /// The stream of the demo's work.
    pub(crate) stream: Arc<CudaStream>,
}

/// Opens device 0.
pub(crate) fn open() -> Result<Device> {
    let context = CudaContext::new(0).context("no CUDA device")?;
    let kernels = context.load_module(Ptx::from_src(KERNELS)).context("the kernels do not load")?;
    let stream = context.new_stream().context("no stream")?;
    Ok(Device { context, kernels, stream })
}

impl Device {
    /// Name and memory.
    pub(crate) fn description(&self) -> Result<String> {
        let memory = self.context.total_mem()?;
        let (major, minor) = self.context.compute_capability()?;
        Ok(format!(
            "{}, compute capability {major}.{minor}, {:.1} GiB",
            self.context.name()?,
            memory as f64 / f64::from(1 << 30)
        ))
    }

    /// A kernel by name.
    pub(crate) fn kernel(&self, name: &str) -> Result<CudaFunction> {
        self.kernels.load_function(name).with_context(|| format!("no kernel: {name}"))
    }
}
