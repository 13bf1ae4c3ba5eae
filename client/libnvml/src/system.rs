//! The library and the machine: initialization and shutdown, versions, names of processes. Each answer is this
//! machine's or the first server's. It never counts devices.

use floe_nvml::{NvmlError, NvmlResult, SystemCalls};

use crate::vgpus::Vgpus;

/// Having no GPU is no error.
const FLAG_NO_GPUS: u32 = 1;
/// The driver version whose interface the CPU device has, for when no server has NVIDIA's driver.
const OWN_DRIVER: &str = "580.0";

impl Vgpus {
    /// The driver of the first vGPU's server.
    fn driver(&self) -> NvmlResult<String> {
        let ready = self.ready()?;
        let Some(first) = ready.servers.first() else { return Ok(OWN_DRIVER.to_owned()) };
        let answer = first.answer(false).ok_or(NvmlError::GPU_IS_LOST)?;
        Ok(if answer.driver.is_empty() { OWN_DRIVER.to_owned() } else { answer.driver.clone() })
    }
}

impl SystemCalls for Vgpus {
    fn init_v2(&self) -> NvmlResult<()> {
        self.begin(false)
    }

    fn init_with_flags(&self, flags: u32) -> NvmlResult<()> {
        self.begin(flags & FLAG_NO_GPUS != 0)
    }

    fn shutdown(&self) -> NvmlResult<()> {
        self.end()
    }

    fn system_get_driver_version(&self) -> NvmlResult<String> {
        self.driver()
    }

    fn system_get_nvml_version(&self) -> NvmlResult<String> {
        Ok(format!("{}.{}", floe_abi::DRIVER_VERSION / 1000, self.driver()?))
    }

    fn system_get_cuda_driver_version_v2(&self) -> NvmlResult<i32> {
        Ok(floe_abi::DRIVER_VERSION)
    }

    fn system_get_process_name(&self, pid: u32) -> NvmlResult<String> {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| NvmlError::NOT_FOUND)?;
        let name = line.split(|byte| *byte == 0).next().filter(|name| !name.is_empty());
        match name {
            Some(name) => Ok(String::from_utf8_lossy(name).into_owned()),
            // A kernel thread has a name but no command line.
            None => std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .map(|name| name.trim().to_owned())
                .map_err(|_| NvmlError::NOT_FOUND),
        }
    }
}
