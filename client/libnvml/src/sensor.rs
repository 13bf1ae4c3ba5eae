//! Sensors whose answer needs more than one reading. Numbers of clocks, sensors and fields come in, readings go out. A
//! number that NVML does not have gives INVALID_ARGUMENT; one that the server cannot read gives NOT_SUPPORTED.

use floe_nvml::{Base, Device, FieldValue, NvmlError, NvmlResult, Reading, SensorCalls, Temperature, Utilization};

use crate::process::now;
use crate::vgpus::Vgpus;

/// `NVML_FI_DEV_…`: fields that are readings, and whether the value is 64 bits wide.
const FIELDS: &[(u32, Reading, bool)] = &[
    (82, Reading::TemperatureMemory, false),
    (83, Reading::Energy, true),
    (94, Reading::LinkReplays, false),
    (185, Reading::Power, false),
    (186, Reading::Power, false),
    (187, Reading::PowerLimitLeast, false),
    (188, Reading::PowerLimitMost, false),
    (189, Reading::PowerLimitDefault, false),
    (190, Reading::PowerLimitEnforced, false),
    (191, Reading::Energy, true),
    (192, Reading::PowerLimit, false),
];
/// `NVML_VALUE_TYPE_UNSIGNED_INT` and `…_UNSIGNED_LONG_LONG`.
const KINDS: [u32; 2] = [1, 3];
/// `NVML_TEMPERATURE_THRESHOLD_COUNT`.
const THRESHOLDS: u32 = 8;
/// `NVML_CLOCK_ID_COUNT`.
const CLOCK_IDS: u32 = 4;

impl Vgpus {
    fn narrow(&self, device: Device, reading: Reading) -> NvmlResult<u32> {
        u32::try_from(self.reading(device, reading)?).map_err(|_| NvmlError::UNKNOWN)
    }
}

impl SensorCalls for Vgpus {
    fn device_get_utilization_rates(&self, device: Device) -> NvmlResult<Utilization> {
        let gpu = self.narrow(device, Reading::GpuUtilization)?;
        // The CPU device has no memory of its own to be busy.
        let memory = match self.narrow(device, Reading::MemoryUtilization) {
            Err(NvmlError::NOT_SUPPORTED) => 0,
            other => other?,
        };
        Ok(Utilization { gpu, memory })
    }

    fn device_get_temperature(&self, device: Device, sensor: u32) -> NvmlResult<u32> {
        match sensor {
            0 => self.narrow(device, Reading::Temperature),
            _ => Err(NvmlError::INVALID_ARGUMENT),
        }
    }

    fn device_get_temperature_v(&self, device: Device, temperature: Temperature) -> NvmlResult<Temperature> {
        let degrees = self.device_get_temperature(device, temperature.sensor)?;
        let degrees = i32::try_from(degrees).map_err(|_| NvmlError::UNKNOWN)?;
        Ok(Temperature { temperature: degrees, ..temperature })
    }

    fn device_get_temperature_threshold(&self, device: Device, threshold: u32) -> NvmlResult<u32> {
        let reading = match threshold {
            0 => Reading::TemperatureShutdown,
            1 => Reading::TemperatureSlowdown,
            2 => Reading::TemperatureMemoryMost,
            3 => Reading::TemperatureGpuMost,
            _ if threshold < THRESHOLDS => return Err(NvmlError::NOT_SUPPORTED),
            _ => return Err(NvmlError::INVALID_ARGUMENT),
        };
        self.narrow(device, reading)
    }

    fn device_get_clock_info(&self, device: Device, clock: u32) -> NvmlResult<u32> {
        let reading = match clock {
            0 => Reading::ClockGraphics,
            1 => Reading::ClockSm,
            2 => Reading::ClockMemory,
            3 => Reading::ClockVideo,
            _ => return Err(NvmlError::INVALID_ARGUMENT),
        };
        self.narrow(device, reading)
    }

    fn device_get_max_clock_info(&self, device: Device, clock: u32) -> NvmlResult<u32> {
        let reading = match clock {
            0 => Reading::ClockGraphicsMost,
            1 => Reading::ClockSmMost,
            2 => Reading::ClockMemoryMost,
            3 => Reading::ClockVideoMost,
            _ => return Err(NvmlError::INVALID_ARGUMENT),
        };
        self.narrow(device, reading)
    }

    fn device_get_clock(&self, device: Device, clock: u32, which: u32) -> NvmlResult<u32> {
        match which {
            0 => self.device_get_clock_info(device, clock),
            _ if which < CLOCK_IDS => Err(NvmlError::NOT_SUPPORTED),
            _ => Err(NvmlError::INVALID_ARGUMENT),
        }
    }

    fn device_get_field_values(&self, device: Device, values: &mut [FieldValue]) -> NvmlResult<()> {
        self.check(device)?;
        for value in values {
            let began = now();
            let outcome = match FIELDS.iter().find(|(field, ..)| *field == value.field) {
                Some((_, reading, true)) => self.reading(device, *reading).map(|number| (number, true)),
                Some((_, reading, false)) => self.narrow(device, *reading).map(|number| (number.into(), false)),
                None => match self.link_field(device, value.field, value.scope) {
                    Some(told) => told.map(|number| (number.into(), false)),
                    None => Err(NvmlError::NOT_SUPPORTED),
                },
            };
            value.time = i64::try_from(began).unwrap_or(i64::MAX);
            value.latency = i64::try_from(now().saturating_sub(began)).unwrap_or(i64::MAX);
            match outcome {
                Ok((number, wide)) => {
                    // Every machine floe runs on is little-endian: a narrow member is the value's first bytes.
                    (value.result, value.value, value.kind) = (0, number, KINDS[usize::from(wide)]);
                }
                Err(error) => value.result = error.code(),
            }
        }
        Ok(())
    }
}
