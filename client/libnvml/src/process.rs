//! Processes on a vGPU: the programs of this machine with a session on the same GPU. This process is one of them, with
//! its use of this vGPU. A handle comes in, rows go out. Programs of other machines are not shown: their process ids
//! mean nothing here.

use std::time::{SystemTime, UNIX_EPOCH};

use floe_nvml::{Device, NvmlError, NvmlResult, ProcessCalls, ProcessInfo, ProcessInfoV1, ProcessSample, Reading};

use crate::server::Tenant;
use crate::vgpus::Vgpus;

/// Not a MIG instance.
const NO_INSTANCE: u32 = u32::MAX;

impl Vgpus {
    fn tenants(&self, device: Device) -> NvmlResult<Vec<Tenant>> {
        let seen = self.see(device, false)?;
        Ok(seen.vgpu().tenants(seen.gpu(), std::process::id()))
    }
}

impl ProcessCalls for Vgpus {
    fn device_get_compute_running_processes_v3(&self, device: Device) -> NvmlResult<Vec<ProcessInfo>> {
        let rows = self.tenants(device)?.into_iter().map(|Tenant { pid, used, .. }| ProcessInfo {
            pid,
            used,
            gpu_instance: NO_INSTANCE,
            compute_instance: NO_INSTANCE,
        });
        Ok(rows.collect())
    }

    fn device_get_compute_running_processes(&self, device: Device) -> NvmlResult<Vec<ProcessInfoV1>> {
        let rows = self.tenants(device)?.into_iter().map(|Tenant { pid, used, .. }| ProcessInfoV1 { pid, used });
        Ok(rows.collect())
    }

    fn device_get_process_utilization(&self, device: Device, since: u64) -> NvmlResult<Vec<ProcessSample>> {
        let time = now();
        let rows = self.tenants(device)?.into_iter().filter_map(|tenant| sample(&tenant, time));
        let rows: Vec<_> = rows.filter(|sample| sample.time > since).collect();
        if rows.is_empty() { Err(NvmlError::NOT_FOUND) } else { Ok(rows) }
    }
}

/// How busy a program keeps the GPU; `None` if its server does not know.
fn sample(tenant: &Tenant, time: u64) -> Option<ProcessSample> {
    let percent = |reading| tenant.readings.get(&reading).and_then(|value| u32::try_from(*value).ok());
    Some(ProcessSample {
        pid: tenant.pid,
        time,
        sm: percent(Reading::GpuUtilization)?,
        memory: percent(Reading::MemoryUtilization).unwrap_or_default(),
        encoder: percent(Reading::EncoderUtilization).unwrap_or_default(),
        decoder: percent(Reading::DecoderUtilization).unwrap_or_default(),
    })
}

/// Microseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
