//! In: the process's environment and the host's properties. Out: the number of CPU devices, their sizes and their
//! claimed properties.
//! Read once, at the first call; a setting that cannot be understood is named on standard error and its default used.

use std::fs;

use super::limits::GRANULARITY;

/// Most devices of one process: each has its own range of addresses.
pub(crate) const MAX_DEVICES: usize = 8;

/// The user's settings of the CPU device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `FLOE_CPU_DEVICES`: how many devices, 0 to 8. Default 1.
    pub(crate) devices: usize,
    /// `FLOE_CPU_COMPUTE`: compute capability, as major and minor. Default 9.0.
    pub(crate) compute: (u32, u32),
    /// `FLOE_CPU_MEMORY`: bytes of each device. Default: half of what the host has, split over the devices.
    pub(crate) memory: u64,
    /// `FLOE_CPU_CORES`: worker threads. Default: all the process may use.
    pub(crate) cores: usize,
    /// `FLOE_CPU_QUEUES`: queues that the streams of a context share. Default 0: each stream has its own.
    pub(crate) queues: u64,
    /// `FLOE_CPU_DRY_RUN`: kernels that come as machine code are accepted and do nothing. Default off.
    pub(crate) dry_run: bool,
    /// `CUDA_LAUNCH_BLOCKING`: every launch waits for its kernel.
    pub(crate) launch_blocking: bool,
    /// `CUDA_MODULE_LOADING` is `EAGER`.
    pub(crate) eager_loading: bool,
    /// `CUDA_VISIBLE_DEVICES`, as it stands.
    pub(crate) visible: Option<String>,
    /// Names the host, for the devices' uuids.
    pub(crate) host: [u8; 16],
}

impl Settings {
    /// Reads the environment and the host.
    pub(crate) fn read() -> Self {
        Self::from(&|name| std::env::var(name).ok(), host_memory(), host_cores(), host_id())
    }

    fn from(variable: &dyn Fn(&str) -> Option<String>, memory: u64, cores: usize, host: [u8; 16]) -> Self {
        let devices = setting(variable, "FLOE_CPU_DEVICES", "a number from 0 to 8", parse_devices).unwrap_or(1);
        let share = memory / 2 / u64::try_from(devices.max(1)).unwrap_or(1);
        Self {
            devices,
            compute: setting(variable, "FLOE_CPU_COMPUTE", "such as 9.0 or 90", parse_compute).unwrap_or((9, 0)),
            memory: setting(variable, "FLOE_CPU_MEMORY", "bytes, such as 4294967296 or 4G", parse_memory)
                .unwrap_or(share)
                .max(GRANULARITY)
                / GRANULARITY
                * GRANULARITY,
            cores: setting(variable, "FLOE_CPU_CORES", "a number from 1 on", parse_cores).unwrap_or(cores),
            queues: setting(variable, "FLOE_CPU_QUEUES", "a number from 0 to 1024", parse_queues).unwrap_or(0),
            dry_run: setting(variable, "FLOE_CPU_DRY_RUN", "1 or yes, 0 or no", parse_switch).unwrap_or(false),
            launch_blocking: variable("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value.trim() == "1"),
            eager_loading: variable("CUDA_MODULE_LOADING").is_some_and(|value| value.trim() == "EAGER"),
            visible: variable("CUDA_VISIBLE_DEVICES"),
            host,
        }
    }
}

fn setting<T>(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &str,
    form: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let text = variable(name).filter(|text| !text.trim().is_empty())?;
    let value = parse(text.trim());
    if value.is_none() {
        eprintln!("floe: setting is not understood and ignored, {name}: {text}");
        eprintln!("floe: expected {form}");
    }
    value
}

/// The words of every switch of floe's.
fn parse_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "y" | "yes" | "t" | "true" | "on" => Some(true),
        "0" | "n" | "no" | "f" | "false" | "off" => Some(false),
        _ => None,
    }
}

fn parse_devices(text: &str) -> Option<usize> {
    text.parse().ok().filter(|devices| *devices <= MAX_DEVICES)
}

fn parse_cores(text: &str) -> Option<usize> {
    text.parse().ok().filter(|cores| (1..=1024).contains(cores))
}

fn parse_queues(text: &str) -> Option<u64> {
    text.parse().ok().filter(|queues| *queues <= 1024)
}

fn parse_compute(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = match text.split_once('.') {
        Some((major, minor)) => (major.parse().ok()?, minor.parse().ok()?),
        None => {
            let number: u32 = text.parse().ok()?;
            (number / 10, number % 10)
        }
    };
    ((3..=20).contains(&major) && minor <= 9).then_some((major, minor))
}

fn parse_memory(text: &str) -> Option<u64> {
    floe_size::bytes(text).filter(|bytes| *bytes > 0)
}

fn host_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Memory the process may have: the host's, or its control group's limit where that is lower.
fn host_memory() -> u64 {
    let total = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_meminfo(&text)).unwrap_or(4 << 30);
    let limit = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    limit.map_or(total, |limit| limit.min(total))
}

fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The host's machine id, or its name spread over 16 bytes where it has none.
fn host_id() -> [u8; 16] {
    let text = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    parse_machine_id(text.trim()).unwrap_or_else(|| {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        spread(name.trim().as_bytes())
    })
}

fn parse_machine_id(text: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(text, 16).ok().filter(|id| text.len() == 32 && *id != 0).map(u128::to_be_bytes)
}

/// FNV-1a over 128 bits: no secret, only different names to different numbers.
pub(crate) fn spread(bytes: &[u8]) -> [u8; 16] {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    hash.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        let find = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_string())
        };
        Settings::from(&find, 8 << 30, 4, [1; 16])
    }

    #[test]
    fn defaults_are_one_device_of_half_the_memory() {
        let settings = settings(&[]);
        assert_eq!(settings.devices, 1);
        assert_eq!(settings.compute, (9, 0));
        assert_eq!(settings.memory, 4 << 30);
        assert_eq!(settings.cores, 4);
    }

    #[test]
    fn cudas_own_settings_are_read() {
        let settings = settings(&[("CUDA_LAUNCH_BLOCKING", "1"), ("CUDA_VISIBLE_DEVICES", "0")]);
        assert!(settings.launch_blocking && !settings.eager_loading);
        assert_eq!(settings.visible.as_deref(), Some("0"));
    }

    #[test]
    fn a_dry_run_is_asked_for_as_any_switch_is() {
        let dry_run = |text| settings(&[("FLOE_CPU_DRY_RUN", text)]).dry_run;
        assert!(["1", "yes", "True", " on "].into_iter().all(dry_run));
        assert!(!["", "0", "no", "off", "maybe"].into_iter().any(dry_run));
    }

    #[test]
    fn two_devices_share_the_half() {
        assert_eq!(settings(&[("FLOE_CPU_DEVICES", "2")]).memory, 2 << 30);
    }

    #[test]
    fn memory_takes_units_and_is_rounded_to_granules() {
        assert_eq!(settings(&[("FLOE_CPU_MEMORY", "1G")]).memory, 1 << 30);
        assert_eq!(settings(&[("FLOE_CPU_MEMORY", "3MiB")]).memory, 2 << 20);
        assert_eq!(settings(&[("FLOE_CPU_MEMORY", "5")]).memory, 2 << 20);
    }

    #[test]
    fn a_value_that_cannot_be_read_leaves_the_default() {
        let settings = settings(&[("FLOE_CPU_DEVICES", "9"), ("FLOE_CPU_COMPUTE", "x"), ("FLOE_CPU_MEMORY", "1Q")]);
        assert_eq!((settings.devices, settings.compute, settings.memory), (1, (9, 0), 4 << 30));
    }

    #[test]
    fn compute_capability_is_read_with_and_without_a_point() {
        assert_eq!(parse_compute("8.6"), Some((8, 6)));
        assert_eq!(parse_compute("120"), Some((12, 0)));
    }

    #[test]
    fn machine_id_is_sixteen_bytes_of_hexadecimal() {
        assert_eq!(parse_machine_id("000102030405060708090a0b0c0d0e0f").map(|id| id[15]), Some(15));
        assert_eq!(parse_machine_id("uninitialized"), None);
    }

    #[test]
    fn memory_total_is_in_kibibytes() {
        assert_eq!(parse_meminfo("MemTotal:       1024 kB\nMemFree: 1 kB\n"), Some(1 << 20));
    }
}
