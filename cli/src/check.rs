//! The checks of `floe run` before it becomes the program: the devices exist, and have the memory asked for.
//! In: settings. Out: whether the servers have NCCL, or the first fault. It asks all servers at the same time, each once, and
//! attaches no vGPU.

use anyhow::{Result, anyhow, bail};
use floe_session::settings::{Settings, WantedDevice};

use crate::servers::{self, GpuRow, Offer};

/// Asks the servers of the program's devices. Gives whether all have NCCL.
pub(crate) fn servers(settings: &Settings) -> Result<bool> {
    let shown = settings.visible.by_index(settings.devices.len());
    let wanted: Vec<&WantedDevice> = match &shown {
        Some(indices) => indices.iter().filter_map(|index| settings.devices.get(*index)).collect(),
        None => settings.devices.iter().collect(),
    };
    let mut names: Vec<&str> = wanted.iter().map(|device| device.place.server.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let answers: Vec<(&str, Result<Offer>)> = std::thread::scope(|scope| {
        let ask = |name| scope.spawn(move || (name, servers::offer_of(name, &settings.credentials)));
        let asked: Vec<_> = names.into_iter().map(ask).collect();
        asked.into_iter().map(|one| one.join().expect("asking does not panic")).collect()
    });
    let mut offered = Vec::new();
    for (name, answer) in answers {
        offered.push((name, answer?));
    }
    for device in wanted {
        let name = device.place.server.as_str();
        let offer = offered.iter().find(|(server, _)| *server == name).map(|(_, offer)| offer);
        fits(device, offer.map_or(&[][..], |offer| &offer.gpus))?;
    }
    Ok(!offered.is_empty() && offered.iter().all(|(_, offer)| offer.nccl))
}

/// Whether a server with these GPUs has the device, and the device the memory asked for.
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
    use floe_session::settings::GpuAddress;

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
            guarantee: memory,
            share: 1000,
            sessions: 0,
        }
    }

    #[test]
    fn a_device_must_be_offered_and_large_enough() {
        let gpus = [gpu(0, 8 << 30), gpu(2, 4 << 30)];
        let fits = |gpu, memory| {
            let device = WantedDevice { place: GpuAddress { server: "h".to_owned(), gpu }, memory, share: 0, twin: 0 };
            super::fits(&device, &gpus).map_err(|error| error.to_string())
        };
        assert_eq!([fits(0, 0), fits(0, 8 << 30), fits(2, 1)], [Ok(()), Ok(()), Ok(())]);
        assert_eq!(fits(1, 0).expect_err("it is not offered"), "no such GPU at h: 1\n  it offers: 0, 2");
        assert_eq!(
            fits(2, 5 << 30).expect_err("it is too small"),
            "more memory than GPU 2 of h has: 5.0 GiB\n  ask for at most 4.0 GiB"
        );
    }
}
