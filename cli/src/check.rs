//! What `floe run` makes sure of before it becomes the program: the devices are there, and have the memory asked for.
//! In: settings. Out: nothing, or the first thing that is wrong. It asks each server once, all at the same time, and takes no
//! vGPU.

use anyhow::{Result, anyhow, bail};
use floe_session::settings::{ProcessSource, Settings, SettingsError, Source, WantedDevice};

use crate::servers::{self, GpuRow};

/// The environment with what flags say in front of it.
#[derive(Debug)]
pub(crate) struct Flags<'a> {
    /// `--on`.
    pub(crate) on: Option<&'a str>,
    /// `--memory`.
    pub(crate) memory: Option<&'a str>,
}

impl Source for Flags<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        let flag = match name {
            "FLOE_DEVICES" => self.on,
            "FLOE_MEMORY" => self.memory,
            _ => None,
        };
        flag.map(str::to_owned).or_else(|| ProcessSource.variable(name))
    }

    fn file(&self, path: &std::path::Path) -> Option<String> {
        ProcessSource.file(path)
    }
}

impl Flags<'_> {
    /// The settings; an error names the flag where the value is a flag's.
    pub(crate) fn settings(&self) -> Result<Settings> {
        for (flag, value) in [("--on", self.on), ("--memory", self.memory)] {
            if value.is_some_and(|value| value.trim().is_empty()) {
                bail!("{flag} has no value\n  leave it away, or say what you want: floe run --help");
            }
        }
        Settings::read(self).map_err(|error| match error {
            SettingsError::Value { name, reason, value, advice } => {
                let name = match name.as_str() {
                    "FLOE_DEVICES" if self.on.is_some() => "--on".to_owned(),
                    "FLOE_MEMORY" if self.memory.is_some() => "--memory".to_owned(),
                    _ => name,
                };
                SettingsError::Value { name, reason, value, advice }.into()
            }
            other => other.into(),
        })
    }
}

/// Asks the servers of the devices the program will see.
pub(crate) fn servers(settings: &Settings) -> Result<()> {
    let shown = settings.visible.by_index(settings.devices.len());
    let wanted: Vec<&WantedDevice> = match &shown {
        Some(indices) => indices.iter().filter_map(|index| settings.devices.get(*index)).collect(),
        None => settings.devices.iter().collect(),
    };
    let mut names: Vec<&str> = wanted.iter().map(|device| device.place.server.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let answers: Vec<(&str, Result<Vec<GpuRow>>)> = std::thread::scope(|scope| {
        let ask = |name| scope.spawn(move || (name, servers::gpus_with(name, &settings.credentials)));
        let asked: Vec<_> = names.into_iter().map(ask).collect();
        asked.into_iter().map(|one| one.join().expect("asking does not panic")).collect()
    });
    let mut offered = Vec::new();
    for (name, answer) in answers {
        offered.push((name, answer?));
    }
    for device in wanted {
        let name = device.place.server.as_str();
        let gpus = offered.iter().find(|(server, _)| *server == name).map_or(&[][..], |(_, gpus)| gpus);
        fits(device, gpus)?;
    }
    Ok(())
}

/// Whether a server that offers these GPUs has a device, with the memory asked for.
pub(crate) fn fits(device: &WantedDevice, gpus: &[GpuRow]) -> Result<()> {
    let (server, index) = (&device.place.server, device.place.gpu);
    let gpu = gpus.iter().find(|gpu| gpu.index == index).ok_or_else(|| {
        let offered: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
        let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
        anyhow!("no such GPU at {server}: {index}\n  it offers: {offered}")
    })?;
    if device.memory > gpu.memory {
        let (wanted, whole) = (servers::size(device.memory), servers::size(gpu.memory));
        bail!("more memory than GPU {index} of {server} has: {wanted}\n  ask for at most {whole}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use floe_session::settings::Place;

    use super::*;

    fn gpu(index: u32, memory: u64) -> GpuRow {
        let text = String::new;
        GpuRow {
            server: text(),
            index,
            name: text(),
            kind: text(),
            uuid: text(),
            compute_capability: text(),
            driver: text(),
            memory,
            free: memory,
            sessions: 0,
        }
    }

    #[test]
    fn a_device_must_be_offered_and_large_enough() {
        let gpus = [gpu(0, 8 << 30), gpu(2, 4 << 30)];
        let fits = |gpu, memory| {
            let device = WantedDevice { place: Place { server: "h".to_owned(), gpu }, memory };
            super::fits(&device, &gpus).map_err(|error| error.to_string())
        };
        assert_eq!([fits(0, 0), fits(0, 8 << 30), fits(2, 1)], [Ok(()), Ok(()), Ok(())]);
        assert_eq!(fits(1, 0).expect_err("it is not offered"), "no such GPU at h: 1\n  it offers: 0, 2");
        assert_eq!(
            fits(2, 5 << 30).expect_err("it is too small"),
            "more memory than GPU 2 of h has: 5.0 GiB\n  ask for at most 4.0 GiB"
        );
    }

    #[test]
    fn a_flag_is_named_where_its_value_is_wrong() {
        let flags = Flags { on: Some("h:0"), memory: Some("8Q") };
        let error = flags.settings().expect_err("8Q is no size").to_string();
        assert_eq!(error, "--memory: not a size: 8Q\n  write it as 8G, 512M or a number of bytes");
        let error = Flags { on: Some("h:999"), memory: None }.settings().expect_err("too large").to_string();
        assert!(error.starts_with("--on: ") && error.contains("h:999"), "{error}");
        assert!(Flags { on: Some(" "), memory: None }.settings().is_err());
    }
}
