//! NVLinks and pairs of NVIDIA's devices, from NVIDIA's own management library. Devices come in, readings of each link and
//! pair go out. It only reads; what the library does not say is left out.

use floe_device::nvml_wrapper::Device;
use floe_device::nvml_wrapper::enum_wrappers::device::P2pCapabilitiesIndex;
use floe_device::nvml_wrapper::enum_wrappers::nv_link::Capability;
use floe_device::{field_value, link_remote_kind};
use floe_nvml::Reading;

use super::sample::{Readings, Samples};
use super::topology::Link;

/// `NVML_NVLINK_MAX_LINKS`.
const LINKS: u32 = 18;
/// More than any device is known to have.
const MOST_LINKS: u32 = 64;

/// `NVML_FI_DEV_NVLINK_LINK_COUNT`.
const LINK_COUNT: u32 = 91;
/// `NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID`, `…_GET_SPEED` and `…_GET_STATE`, of the link that is the scope.
const REMOTE_LINK: u32 = 146;
const SPEED: u32 = 164;
const STATE: u32 = 165;
/// `NVML_FI_DEV_NVLINK_SPEED_MBPS_L0` to `…_L11`, for devices without `SPEED`.
const SPEEDS: [u32; 12] = [84, 85, 86, 87, 88, 89, 132, 133, 134, 135, 136, 137];

/// Fields of a device about all its links.
const FIELDS: [(u32, Reading); 4] = [
    (LINK_COUNT, Reading::Nvlinks),
    (90, Reading::NvlinkCommonSpeed),
    (147, Reading::NvlinksToSwitches),
    (170, Reading::C2cLinks),
];

const CAPABILITIES: [(Capability, Reading); 6] = [
    (Capability::P2p, Reading::NvlinkMemory),
    (Capability::SysMemAccess, Reading::NvlinkHostMemory),
    (Capability::P2pAtomics, Reading::NvlinkAtomics),
    (Capability::SysMemAtomics, Reading::NvlinkHostAtomics),
    (Capability::SliBridge, Reading::NvlinkBridge),
    (Capability::ValidLink, Reading::NvlinkValid),
];

const PAIRS: [(P2pCapabilitiesIndex, Reading); 5] = [
    (P2pCapabilitiesIndex::Read, Reading::PeerRead),
    (P2pCapabilitiesIndex::Write, Reading::PeerWrite),
    (P2pCapabilitiesIndex::NvLink, Reading::PeerNvlink),
    (P2pCapabilitiesIndex::Atomics, Reading::PeerAtomics),
    // NVML's newer headers call it PCI.
    (P2pCapabilitiesIndex::Prop, Reading::PeerPci),
];

/// The readings of all links together.
pub(super) fn together(device: &Device<'_>, samples: &mut Samples) {
    for (field, reading) in FIELDS {
        samples.extend(reading, field_value(device, field, 0));
    }
}

/// Each link that the device has.
pub(super) fn links(device: &Device<'_>) -> Vec<Link> {
    let count = field_value(device, LINK_COUNT, 0).and_then(|count| u32::try_from(count).ok()).unwrap_or(LINKS);
    (0..count.clamp(LINKS, MOST_LINKS)).filter_map(|number| link(device, number)).collect()
}

fn link(device: &Device<'_>, number: u32) -> Option<Link> {
    let wrapper = device.link_wrapper_for(number);
    let mut samples = Samples::default();
    // In this order: asking what a link can do also trains it.
    for (capability, reading) in CAPABILITIES {
        samples.add(reading, wrapper.has_capability(capability));
    }
    match field_value(device, STATE, number) {
        Some(state) => samples.extend(Reading::NvlinkActive, Some(state)),
        None => samples.add(Reading::NvlinkActive, wrapper.is_active()),
    }
    samples.add(Reading::NvlinkVersion, wrapper.version());
    let older = usize::try_from(number).ok().and_then(|number| SPEEDS.get(number));
    let speed = field_value(device, SPEED, number).or_else(|| field_value(device, *older?, 0));
    samples.extend(Reading::NvlinkSpeed, speed);
    samples.extend(Reading::NvlinkRemoteKind, link_remote_kind(device, number).map(u64::from));
    samples.extend(Reading::NvlinkRemoteLink, field_value(device, REMOTE_LINK, number));
    let remote = wrapper.remote_pci_info();
    let bus = remote.as_ref().map(|pci| pci.bus_id.clone()).unwrap_or_default();
    samples.add(Reading::NvlinkRemoteDevice, remote.map(|pci| pci.pci_device_id));
    let readings = samples.into_readings();
    (!readings.is_empty()).then_some(Link { number, remote: bus, readings })
}

/// What the library says of two devices.
pub(super) fn pair(device: &Device<'_>, peer: Device<'_>) -> Readings {
    let mut samples = Samples::default();
    for (capability, reading) in PAIRS {
        samples.add(reading, device.p2p_status(&peer, capability).map(|status| status.as_c()));
    }
    samples.add(Reading::PeerLevel, device.topology_common_ancestor(peer).map(|level| level.as_c()));
    samples.into_readings()
}
