//! Device settings that are not a single reading: counters of memory errors. A kind and a counter come in, a number
//! goes out. No program can change a setting.

use floe_nvml::{Base, Device, ModeCalls, NvmlError, NvmlResult, Reading};

use crate::vgpus::Vgpus;

impl ModeCalls for Vgpus {
    fn device_get_total_ecc_errors(&self, device: Device, kind: u32, counter: u32) -> NvmlResult<u64> {
        let reading = match (kind, counter) {
            (0, 0) => Reading::EccCorrectedVolatile,
            (1, 0) => Reading::EccUncorrectedVolatile,
            (0, 1) => Reading::EccCorrectedAggregate,
            (1, 1) => Reading::EccUncorrectedAggregate,
            _ => return Err(NvmlError::INVALID_ARGUMENT),
        };
        self.reading(device, reading)
    }
}
