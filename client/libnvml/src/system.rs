//! The library and the machine: initialization and shutdown, versions, names of processes. Each answer is this
//! machine's or the first server's. It never counts devices.

use floe_nvml::{ConfidentialSettings, ConfidentialState, NvmlError, NvmlResult, Reading, SystemCalls};

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

    /// The most that a server of the vGPUs says; all must say something.
    fn most(&self, reading: Reading) -> NvmlResult<u32> {
        let ready = self.ready()?;
        let told: NvmlResult<Vec<u64>> = ready.vgpus.iter().map(|vgpu| vgpu.lasting(reading)).collect();
        let most = told?.into_iter().max().ok_or(NvmlError::NOT_SUPPORTED)?;
        u32::try_from(most).map_err(|_| NvmlError::UNKNOWN)
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

    fn system_get_conf_compute_state(&self) -> NvmlResult<ConfidentialState> {
        Ok(ConfidentialState {
            environment: self.most(Reading::ConfidentialEnvironment)?,
            enabled: self.most(Reading::Confidential)?,
            tools: self.most(Reading::ConfidentialTools)?,
        })
    }

    fn system_get_conf_compute_settings(&self, settings: ConfidentialSettings) -> NvmlResult<ConfidentialSettings> {
        let ConfidentialState { environment, enabled, tools } = self.system_get_conf_compute_state()?;
        let several = self.most(Reading::ConfidentialSeveral)?;
        Ok(ConfidentialSettings { version: settings.version, environment, enabled, tools, several })
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

#[cfg(test)]
mod tests {
    use floe_nvml::Versioned;
    use floe_wire::{GpuTelemetry, ReadTelemetryReply, Reading as Told};

    use super::*;
    use crate::vgpus::tests::library;

    /// The settings that a program sees of one vGPU for each of these.
    fn settings(told: &[&[(Reading, u64)]]) -> NvmlResult<ConfidentialSettings> {
        let number = |(reading, value): &(Reading, u64)| Told { number: reading.number(), value: *value };
        let gpu = |readings: &&[(Reading, u64)]| GpuTelemetry {
            readings: readings.iter().map(number).collect(),
            ..GpuTelemetry::default()
        };
        let reply = |gpu| ReadTelemetryReply { gpus: vec![gpu], ..ReadTelemetryReply::default() };
        let replies: Vec<_> = told.iter().map(gpu).map(reply).collect();
        let version = ConfidentialSettings::VERSION;
        let asked = ConfidentialSettings { version, environment: 9, enabled: 9, tools: 9, several: 9 };
        library(&replies).system_get_conf_compute_settings(asked)
    }

    fn all(enabled: u64, several: u64) -> [(Reading, u64); 4] {
        [
            (Reading::Confidential, enabled),
            (Reading::ConfidentialEnvironment, 0),
            (Reading::ConfidentialTools, 0),
            (Reading::ConfidentialSeveral, several),
        ]
    }

    #[test]
    fn one_confidential_server_makes_the_system_confidential() {
        let told = settings(&[&all(0, 0), &all(1, 2)]).expect("all say");
        assert_eq!((told.enabled, told.several, told.environment), (1, 2, 0));
        assert_eq!(settings(&[&all(0, 0)]).map(|told| told.enabled), Ok(0));
    }

    #[test]
    fn nobody_answers_for_a_server_that_does_not_say() {
        assert_eq!(settings(&[&all(0, 0), &[]]), Err(NvmlError::NOT_SUPPORTED));
        assert_eq!(settings(&[]), Err(NvmlError::NOT_SUPPORTED));
        assert_eq!(settings(&[&all(1 << 32, 0)]), Err(NvmlError::UNKNOWN));
    }
}
