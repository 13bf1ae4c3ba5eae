//! NVLinks of the servers' GPUs. Numbers of links come in, what the server's first answer says of them goes out. A server
//! may say anything: what NVML could not say is NVML_ERROR_UNKNOWN, and no link is made up.

use floe_nvml::{Device, FirstPciInfo, NvlinkCalls, NvmlError, NvmlResult, PciInfo, Reading};

use crate::bus::BusId;
use crate::server::{Link, MOST_LINKS, Remote};
use crate::vgpus::Vgpus;

/// `NVML_NVLINK_MAX_LINKS`: from here on a number is no link's, unless the server has one.
const LINKS: u32 = 18;
/// `NVML_NVLINK_CAP_…` in their order.
const CAPABILITIES: [Reading; 6] = [
    Reading::NvlinkMemory,
    Reading::NvlinkHostMemory,
    Reading::NvlinkAtomics,
    Reading::NvlinkHostAtomics,
    Reading::NvlinkBridge,
    Reading::NvlinkValid,
];
/// `NVML_NVLINK_DEVICE_TYPE_…`: GPU, CPU, switch.
const KINDS: std::ops::RangeInclusive<u32> = 0..=2;
/// `NVML_NVLINK_DEVICE_TYPE_UNKNOWN`.
const UNKNOWN_KIND: u32 = 255;

/// `NVML_FI_DEV_…` of the link that is the scope.
const SCOPED: [(u32, Reading); 4] = [
    (146, Reading::NvlinkRemoteLink),
    (164, Reading::NvlinkSpeed),
    (165, Reading::NvlinkActive),
    (166, Reading::NvlinkVersion),
];
/// `NVML_FI_DEV_NVLINK_SPEED_MBPS_L0` to `…_L11`.
const SPEEDS: [u32; 12] = [84, 85, 86, 87, 88, 89, 132, 133, 134, 135, 136, 137];
/// `NVML_FI_DEV_…` of all links together.
const TOGETHER: [(u32, Reading); 4] = [
    (90, Reading::NvlinkCommonSpeed),
    (91, Reading::Nvlinks),
    (147, Reading::NvlinksToSwitches),
    (170, Reading::C2cLinks),
];

impl Vgpus {
    fn link<T>(&self, device: Device, number: u32, say: impl FnOnce(&Link) -> NvmlResult<T>) -> NvmlResult<T> {
        self.of(device, |vgpu| match vgpu.first()?.links.get(&number) {
            Some(link) => say(link),
            None if number >= LINKS => Err(NvmlError::INVALID_ARGUMENT),
            None => Err(NvmlError::NOT_SUPPORTED),
        })
    }

    fn remote(&self, device: Device, number: u32) -> NvmlResult<(Option<BusId>, u32)> {
        self.link(device, number, |link| {
            let id = link.number(Reading::NvlinkRemoteDevice)?;
            match link.remote {
                Remote::At(place) => Ok((Some(place), id)),
                Remote::Hidden => Ok((None, id)),
                Remote::Garbled => Err(NvmlError::UNKNOWN),
            }
        })
    }

    /// A field about NVLinks; `None` if the field is about something else.
    pub(crate) fn link_field(&self, device: Device, field: u32, scope: u32) -> Option<NvmlResult<u32>> {
        let scoped = SCOPED.iter().find(|(its, _)| *its == field).map(|(_, reading)| (scope, *reading));
        let speed = || SPEEDS.iter().zip(0..).find(|(its, _)| **its == field).map(|(_, n)| (n, Reading::NvlinkSpeed));
        if let Some((number, reading)) = scoped.or_else(speed) {
            let told = self.link(device, number, |link| match reading {
                Reading::NvlinkActive => link.flag(reading),
                _ => link.number(reading),
            });
            // A field of a link that no GPU has is none that this one has.
            return Some(if number < LINKS { told } else { told.map_err(|_| NvmlError::NOT_SUPPORTED) });
        }
        let (_, reading) = TOGETHER.iter().find(|(its, _)| *its == field)?;
        let told = self.of(device, |vgpu| vgpu.lasting(*reading)).and_then(narrow);
        let counts = *reading != Reading::NvlinkCommonSpeed;
        Some(told.and_then(|told| if counts && told > MOST_LINKS { Err(NvmlError::UNKNOWN) } else { Ok(told) }))
    }
}

impl Link {
    fn number(&self, reading: Reading) -> NvmlResult<u32> {
        self.readings.get(&reading).copied().ok_or(NvmlError::NOT_SUPPORTED).and_then(narrow)
    }

    /// Yes or no, as C has it.
    fn flag(&self, reading: Reading) -> NvmlResult<u32> {
        let told = self.number(reading)?;
        if told > 1 { Err(NvmlError::UNKNOWN) } else { Ok(told) }
    }
}

impl NvlinkCalls for Vgpus {
    fn device_get_nv_link_state(&self, device: Device, link: u32) -> NvmlResult<u32> {
        self.link(device, link, |link| link.flag(Reading::NvlinkActive))
    }

    fn device_get_nv_link_version(&self, device: Device, link: u32) -> NvmlResult<u32> {
        self.link(device, link, |link| link.number(Reading::NvlinkVersion))
    }

    fn device_get_nv_link_capability(&self, device: Device, link: u32, capability: u32) -> NvmlResult<u32> {
        let reading = usize::try_from(capability).ok().and_then(|capability| CAPABILITIES.get(capability));
        let reading = *reading.ok_or(NvmlError::INVALID_ARGUMENT)?;
        self.link(device, link, |link| link.flag(reading))
    }

    fn device_get_nv_link_remote_device_type(&self, device: Device, link: u32) -> NvmlResult<u32> {
        let kind = self.link(device, link, |link| link.number(Reading::NvlinkRemoteKind))?;
        Ok(if KINDS.contains(&kind) { kind } else { UNKNOWN_KIND })
    }

    fn device_get_nv_link_remote_pci_info_v2(&self, device: Device, link: u32) -> NvmlResult<PciInfo> {
        let (place, device_id) = self.remote(device, link)?;
        let (short_bus_id, bus_id) = place.map_or(([0; 16], [0; 32]), |place| (place.short(), place.long()));
        let BusId { domain, bus, device, .. } = place.unwrap_or_default();
        // NVML leaves the subsystem open here.
        Ok(PciInfo { short_bus_id, domain, bus, device, device_id, subsystem_id: 0, bus_id })
    }

    fn device_get_nv_link_remote_pci_info(&self, device: Device, link: u32) -> NvmlResult<FirstPciInfo> {
        let PciInfo { short_bus_id, domain, bus, device, device_id, .. } =
            self.device_get_nv_link_remote_pci_info_v2(device, link)?;
        Ok(FirstPciInfo { short_bus_id, domain, bus, device, device_id })
    }
}

fn narrow(value: u64) -> NvmlResult<u32> {
    u32::try_from(value).map_err(|_| NvmlError::UNKNOWN)
}

#[cfg(test)]
mod tests;
