//! The memory of a vGPU: its quota and use, or the GPU's without a quota. A handle comes in, bytes go out. They equal
//! those of `cuMemGetInfo`, at most 100 ms late.

use floe_nvml::{Bar1Memory, Base, Device, Memory, MemoryCalls, MemoryV2, NvmlResult, Reading};

use crate::vgpu::Bytes;
use crate::vgpus::Vgpus;

impl Vgpus {
    fn bytes(&self, device: Device) -> NvmlResult<Bytes> {
        let seen = self.see(device, false)?;
        Ok(seen.vgpu().bytes(&seen.answer, seen.gpu(), std::process::id()))
    }
}

impl MemoryCalls for Vgpus {
    fn device_get_memory_info(&self, device: Device) -> NvmlResult<Memory> {
        let Bytes { total, free } = self.bytes(device)?;
        Ok(Memory { total, free, used: total - free })
    }

    fn device_get_memory_info_v2(&self, device: Device, memory: MemoryV2) -> NvmlResult<MemoryV2> {
        let Bytes { total, free } = self.bytes(device)?;
        // CUDA does not count the driver's own memory.
        Ok(MemoryV2 { version: memory.version, total, reserved: 0, free, used: total - free })
    }

    fn device_get_bar1_memory_info(&self, device: Device) -> NvmlResult<Bar1Memory> {
        Ok(Bar1Memory {
            total: self.reading(device, Reading::Bar1Total)?,
            free: self.reading(device, Reading::Bar1Free)?,
            used: self.reading(device, Reading::Bar1Used)?,
        })
    }
}
