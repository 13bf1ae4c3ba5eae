//! Readings of NVIDIA's devices, from NVIDIA's own management library. A GPU's id comes in, all numbers that the
//! library gives go out. It only reads, and sets nothing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use floe_abi::Uuid;
use floe_device::nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor, TemperatureThreshold,
};
use floe_device::nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use floe_device::nvml_wrapper::struct_wrappers::device::ProcessUtilizationSample;
use floe_device::nvml_wrapper::structs::device::FieldId;
use floe_device::nvml_wrapper::{Device, Nvml};
use floe_device::{OpenError, confidential_settings, open_nvml};
use floe_nvml::Reading;

use super::nvlink;
use super::sample::{Labels, Readings, Samples, Target, TelemetrySample};
use super::topology::Link;

/// `NVML_FI_DEV_MEMORY_TEMP`: no function of its own.
const MEMORY_TEMPERATURE: FieldId = FieldId(82);

/// Each clock with the readings of its speed now and at most.
const CLOCKS: [(Clock, Reading, Reading); 4] = [
    (Clock::Graphics, Reading::ClockGraphics, Reading::ClockGraphicsMost),
    (Clock::SM, Reading::ClockSm, Reading::ClockSmMost),
    (Clock::Memory, Reading::ClockMemory, Reading::ClockMemoryMost),
    (Clock::Video, Reading::ClockVideo, Reading::ClockVideoMost),
];

/// The greatest age of a worker's share of the device.
const LATELY: Duration = Duration::from_secs(2);

/// The library, started.
#[derive(Debug)]
pub(super) struct Nvidia {
    nvml: Nvml,
    driver: String,
    /// Each GPU's constant readings, half of all there are.
    lasting: Mutex<BTreeMap<u32, (Readings, Labels)>>,
}

impl Nvidia {
    pub(super) fn open() -> Result<Self, OpenError> {
        let nvml = open_nvml(None)?;
        let driver = nvml.sys_driver_version().unwrap_or_default();
        Ok(Self { nvml, driver, lasting: Mutex::default() })
    }

    pub(super) fn driver(&self) -> &str {
        &self.driver
    }

    fn device(&self, uuid: &[u8]) -> Option<Device<'_>> {
        let whole = Uuid { bytes: uuid.try_into().ok()? }.to_string();
        // An instance of a divided GPU has an id of its own, of the same form.
        let instance = || self.nvml.device_by_uuid(whole.replacen("GPU-", "MIG-", 1));
        self.nvml.device_by_uuid(whole.as_str()).or_else(|_| instance()).ok()
    }

    pub(super) fn read(&self, target: &Target<'_>, slow: bool) -> TelemetrySample {
        let Some(device) = self.device(target.uuid) else { return TelemetrySample::default() };
        let (lasting, labels) = self.lasting(target.index, &device);
        let mut samples = Samples(lasting);
        busy(&device, &mut samples);
        power(&device, &mut samples);
        temperatures(&device, &mut samples);
        clocks(&device, &mut samples);
        link(&device, &mut samples);
        memory(&device, &mut samples);
        samples.add(Reading::PersistenceMode, device.is_in_persistent_mode());
        if slow {
            samples.add(Reading::LinkTransmit, device.pcie_throughput(PcieUtilCounter::Send));
            samples.add(Reading::LinkReceive, device.pcie_throughput(PcieUtilCounter::Receive));
        }
        TelemetrySample { readings: samples.0, workers: workers(&device, &target.workers), labels }
    }

    /// Bytes of each process on a GPU.
    pub(super) fn processes(&self, uuid: &[u8]) -> Option<BTreeMap<u32, u64>> {
        let all = self.device(uuid)?.running_compute_processes().ok()?;
        let mut bytes = BTreeMap::new();
        for process in all {
            if let UsedGpuMemory::Used(used) = process.used_gpu_memory {
                bytes.insert(process.pid, used);
            }
        }
        Some(bytes)
    }

    /// Per cent of the time since then for which a GPU computed for each process, as far as the library says so.
    pub(super) fn computing(&self, uuid: &[u8], since: SystemTime) -> BTreeMap<u32, u32> {
        let all = self.device(uuid).and_then(|device| device.process_utilization_stats(micros(since)).ok());
        of_past(all.unwrap_or_default(), SystemTime::now())
    }

    /// A GPU's NVLinks.
    pub(super) fn links(&self, uuid: &[u8]) -> Vec<Link> {
        self.device(uuid).map(|device| nvlink::links(&device)).unwrap_or_default()
    }

    /// What the library says of two GPUs.
    pub(super) fn pair(&self, uuid: &[u8], peer: &[u8]) -> Readings {
        let both = self.device(uuid).zip(self.device(peer));
        both.map(|(device, peer)| nvlink::pair(&device, peer)).unwrap_or_default()
    }

    /// The constant readings, read once.
    fn lasting(&self, index: u32, device: &Device<'_>) -> (Readings, Labels) {
        let mut known = floe_lock::lock(&self.lasting);
        let ask = || {
            let mut samples = Samples(Vec::new());
            limits(device, &mut samples);
            identity(device, &mut samples);
            nvlink::together(device, &mut samples);
            (samples.0, labels(device))
        };
        known.entry(index).or_insert_with(ask).clone()
    }
}

fn busy(device: &Device<'_>, samples: &mut Samples) {
    if let Ok(rates) = device.utilization_rates() {
        samples.add(Reading::GpuUtilization, Ok(rates.gpu));
        samples.add(Reading::MemoryUtilization, Ok(rates.memory));
    }
    if let Ok(encoders) = device.encoder_utilization() {
        samples.add(Reading::EncoderUtilization, Ok(encoders.utilization));
        samples.add(Reading::EncoderPeriod, Ok(encoders.sampling_period));
    }
    if let Ok(decoders) = device.decoder_utilization() {
        samples.add(Reading::DecoderUtilization, Ok(decoders.utilization));
        samples.add(Reading::DecoderPeriod, Ok(decoders.sampling_period));
    }
}

fn power(device: &Device<'_>, samples: &mut Samples) {
    samples.add(Reading::Power, device.power_usage());
    samples.add(Reading::PowerLimit, device.power_management_limit());
    samples.add(Reading::PowerLimitEnforced, device.enforced_power_limit());
    samples.add(Reading::Energy, device.total_energy_consumption());
}

fn temperatures(device: &Device<'_>, samples: &mut Samples) {
    samples.add(Reading::Temperature, device.temperature(TemperatureSensor::Gpu));
    let fields = device.field_values_for(&[MEMORY_TEMPERATURE]).unwrap_or_default();
    if let Some(Ok(sample)) = fields.into_iter().next()
        && let Ok(SampleValue::U32(degrees)) = sample.value
    {
        samples.add(Reading::TemperatureMemory, Ok(degrees));
    }
}

fn clocks(device: &Device<'_>, samples: &mut Samples) {
    for (clock, now, _) in CLOCKS {
        samples.add(now, device.clock_info(clock));
    }
    samples.add(Reading::PerformanceState, device.performance_state().map(|state| state.as_c()));
    samples.add(Reading::ClockEventReasons, device.current_throttle_reasons().map(|reasons| reasons.bits()));
}

fn link(device: &Device<'_>, samples: &mut Samples) {
    samples.add(Reading::LinkGeneration, device.current_pcie_link_gen());
    samples.add(Reading::LinkWidth, device.current_pcie_link_width());
    samples.add(Reading::LinkSpeed, device.pcie_link_speed());
    samples.add(Reading::LinkReplays, device.pcie_replay_counter());
}

fn memory(device: &Device<'_>, samples: &mut Samples) {
    if let Ok(memory) = device.memory_info() {
        samples.add(Reading::MemoryReserved, Ok(memory.reserved));
        samples.add(Reading::MemoryFree, Ok(memory.free));
        samples.add(Reading::MemoryUsed, Ok(memory.used));
    }
    if let Ok(window) = device.bar1_memory_info() {
        samples.add(Reading::Bar1Total, Ok(window.total));
        samples.add(Reading::Bar1Free, Ok(window.free));
        samples.add(Reading::Bar1Used, Ok(window.used));
    }
    if let Ok(mode) = device.is_ecc_enabled() {
        samples.add(Reading::EccMode, Ok(mode.currently_enabled));
        samples.add(Reading::EccModePending, Ok(mode.pending_enabled));
    }
    for (reading, kind, counter) in [
        (Reading::EccCorrectedVolatile, MemoryError::Corrected, EccCounter::Volatile),
        (Reading::EccUncorrectedVolatile, MemoryError::Uncorrected, EccCounter::Volatile),
        (Reading::EccCorrectedAggregate, MemoryError::Corrected, EccCounter::Aggregate),
        (Reading::EccUncorrectedAggregate, MemoryError::Uncorrected, EccCounter::Aggregate),
    ] {
        samples.add(reading, device.total_ecc_errors(kind, counter));
    }
}

/// Readings that are limits.
fn limits(device: &Device<'_>, samples: &mut Samples) {
    for (clock, _, most) in CLOCKS {
        samples.add(most, device.max_clock_info(clock));
    }
    for (reading, threshold) in [
        (Reading::TemperatureShutdown, TemperatureThreshold::Shutdown),
        (Reading::TemperatureSlowdown, TemperatureThreshold::Slowdown),
        (Reading::TemperatureMemoryMost, TemperatureThreshold::MemoryMax),
        (Reading::TemperatureGpuMost, TemperatureThreshold::GpuMax),
    ] {
        samples.add(reading, device.temperature_threshold(threshold));
    }
    samples.add(Reading::PowerLimitDefault, device.power_management_limit_default());
    if let Ok(range) = device.power_management_limit_constraints() {
        samples.add(Reading::PowerLimitLeast, Ok(range.min_limit));
        samples.add(Reading::PowerLimitMost, Ok(range.max_limit));
    }
    samples.add(Reading::ClockEventReasonsSupported, device.supported_throttle_reasons().map(|reasons| reasons.bits()));
    samples.add(Reading::LinkGenerationMost, device.max_pcie_link_gen());
    samples.add(Reading::LinkWidthMost, device.max_pcie_link_width());
    samples.add(Reading::LinkSpeedMost, device.max_pcie_link_speed().map(|speed| speed.as_c()));
    samples.add(Reading::MemoryBusWidth, device.memory_bus_width());
}

fn identity(device: &Device<'_>, samples: &mut Samples) {
    samples.add(Reading::Brand, device.brand().map(|brand| brand.as_c()));
    samples.add(Reading::MinorNumber, device.minor_number());
    samples.add(Reading::Board, device.board_id());
    samples.add(Reading::Cores, device.num_cores());
    if let Ok(pci) = device.pci_info() {
        samples.add(Reading::PciDevice, Ok(pci.pci_device_id));
        samples.extend(Reading::PciSubsystem, pci.pci_sub_system_id.map(u64::from));
    }
    if let Some([environment, enabled, tools, several]) = confidential_settings(device.nvml()) {
        samples.add(Reading::ConfidentialEnvironment, Ok(environment));
        samples.add(Reading::Confidential, Ok(enabled));
        samples.add(Reading::ConfidentialTools, Ok(tools));
        samples.add(Reading::ConfidentialSeveral, Ok(several));
    }
}

/// How busy each worker keeps the device. In a container the library may number processes differently than this daemon.
/// Those are omitted.
fn workers(device: &Device<'_>, workers: &[u32]) -> BTreeMap<u32, Readings> {
    let since = SystemTime::now().checked_sub(LATELY).unwrap_or(UNIX_EPOCH);
    let mut latest = BTreeMap::new();
    for sample in device.process_utilization_stats(micros(since)).unwrap_or_default() {
        let known = latest.entry(sample.pid).or_insert_with(|| sample.clone());
        if sample.timestamp > known.timestamp {
            *known = sample;
        }
    }
    let rows = latest.into_values().filter(|sample| workers.contains(&sample.pid));
    rows.map(|sample| {
        let readings = vec![
            (Reading::GpuUtilization, u64::from(sample.sm_util)),
            (Reading::MemoryUtilization, u64::from(sample.mem_util)),
            (Reading::EncoderUtilization, u64::from(sample.enc_util)),
            (Reading::DecoderUtilization, u64::from(sample.dec_util)),
        ];
        (sample.pid, readings)
    })
    .collect()
}

/// Per cent of each process, without samples of a time that has not come. The library has those where the system's clock was set
/// back: they are of before that, and newer than any time that is asked for.
fn of_past(all: Vec<ProcessUtilizationSample>, now: SystemTime) -> BTreeMap<u32, u32> {
    let latest = micros(now.checked_add(LATELY).unwrap_or(now));
    all.into_iter().filter(|sample| sample.timestamp <= latest).map(|sample| (sample.pid, sample.sm_util)).collect()
}

/// As the library wants times.
fn micros(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()).unwrap_or_default()
}

fn labels(device: &Device<'_>) -> Labels {
    Labels {
        serial: device.serial().unwrap_or_default(),
        part: device.board_part_number().unwrap_or_default(),
        firmware: device.vbios_version().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_did_before_the_clock_was_set_back_is_not_taken_for_what_it_does_now() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let sample = |pid, at| ProcessUtilizationSample {
            pid,
            timestamp: micros(at),
            sm_util: 99,
            mem_util: 0,
            enc_util: 0,
            dec_util: 0,
        };
        let hour = Duration::from_secs(3600);
        let all = vec![sample(1, now - LATELY), sample(2, now), sample(3, now + hour)];
        assert_eq!(of_past(all, now), BTreeMap::from([(1, 99), (2, 99)]));
    }
}
