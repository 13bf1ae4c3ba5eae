//! What is read of a GPU, as plain data. Answers of a library come in, numbers and texts go out, also in the wire's form.
//! It reads nothing itself.

use std::collections::BTreeMap;

use floe_device::nvml_wrapper::error::NvmlError;
use floe_nvml::Reading;
use floe_wire::SessionTelemetry;

use crate::usage::request::Tenant;

/// Numbers that were read.
pub(crate) type Readings = Vec<(Reading, u64)>;

/// Numbers as the wire has them.
pub(crate) fn to_wire(readings: &Readings) -> Vec<floe_wire::Reading> {
    readings.iter().map(|(reading, value)| floe_wire::Reading { number: reading.number(), value: *value }).collect()
}

/// A sample of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TelemetrySample {
    pub(crate) readings: Readings,
    /// Per worker process.
    pub(crate) workers: BTreeMap<u32, Readings>,
    /// The device's constant texts.
    pub(crate) labels: Labels,
}

impl TelemetrySample {
    /// A session on the GPU, with how busy its worker keeps it.
    pub(crate) fn session_to_wire(&self, tenant: &Tenant) -> SessionTelemetry {
        SessionTelemetry {
            pid: tenant.pid,
            ordinal: tenant.ordinal,
            memory: tenant.quota,
            used: tenant.used,
            readings: self.workers.get(&tenant.worker).map(to_wire).unwrap_or_default(),
        }
    }
}

/// Texts about a device; empty if unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) serial: String,
    pub(crate) part: String,
    pub(crate) firmware: String,
}

/// A GPU to be read.
#[derive(Debug, Clone)]
pub(crate) struct Target<'a> {
    pub(crate) index: u32,
    /// Its 16-byte id.
    pub(crate) uuid: &'a [u8],
    /// Process ids of the workers on it.
    pub(crate) workers: Vec<u32>,
}

/// The readings collected so far.
#[derive(Default)]
pub(super) struct Samples(pub(super) Readings);

impl Samples {
    pub(super) fn into_readings(self) -> Readings {
        self.0
    }

    pub(super) fn extend(&mut self, reading: Reading, value: Option<u64>) {
        self.0.extend(value.map(|value| (reading, value)));
    }

    pub(super) fn add(&mut self, reading: Reading, value: Result<impl Into<u64>, NvmlError>) {
        self.0.extend(value.ok().map(|value| (reading, value.into())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_does_not_say_is_left_out() {
        let mut samples = Samples(Vec::new());
        samples.add(Reading::Power, Ok(70_000_u32));
        samples.add(Reading::Temperature, Err::<u32, _>(NvmlError::NotSupported));
        assert_eq!(samples.0, [(Reading::Power, 70_000)]);
    }
}
