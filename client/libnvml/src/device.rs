//! The vGPUs and their names. Indices, ids and handles come in, handles and names go out. All are from the servers'
//! first answers, and remain valid when a server ends.

use floe_nvml::{
    Device, DeviceCalls, FirstPciInfo, NvmlError, NvmlResult, PciInfo, PciInfoExt, ShortPciInfo, UuidValue, Versioned,
};

use crate::bus::BusId;
use crate::vgpu::Facts;
use crate::vgpus::Vgpus;

/// A UUID as text.
const UUID_TEXT: u32 = 1;
/// A UUID as 16 bytes.
const UUID_BYTES: u32 = 2;
/// PCI's class of a display controller without a display.
const CLASS: (u32, u32) = (3, 2);

impl DeviceCalls for Vgpus {
    fn device_get_count_v2(&self) -> NvmlResult<u32> {
        u32::try_from(self.ready()?.vgpus.len()).map_err(|_| NvmlError::UNKNOWN)
    }

    fn device_get_handle_by_index_v2(&self, index: u32) -> NvmlResult<Device> {
        self.ready()?.handle(usize::try_from(index).map_err(|_| NvmlError::INVALID_ARGUMENT)?)
    }

    fn device_get_handle_by_uuid(&self, uuid: &str) -> NvmlResult<Device> {
        self.ready()?.find(|facts| facts.uuid.eq_ignore_ascii_case(uuid.trim()))
    }

    fn device_get_handle_by_uuidv(&self, uuid: &UuidValue) -> NvmlResult<Device> {
        if uuid.version != UuidValue::VERSION {
            return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
        }
        match uuid.kind {
            UUID_TEXT => {
                let text = uuid.value.split(|byte| *byte == 0).next().unwrap_or_default();
                self.device_get_handle_by_uuid(&String::from_utf8_lossy(text))
            }
            UUID_BYTES => self.ready()?.find(|facts| uuid.value.starts_with(&facts.uuid_bytes)),
            _ => Err(NvmlError::INVALID_ARGUMENT),
        }
    }

    fn device_get_handle_by_serial(&self, serial: &str) -> NvmlResult<Device> {
        self.ready()?.find(|facts| !facts.serial.is_empty() && facts.serial == serial)
    }

    fn device_get_handle_by_pci_bus_id_v2(&self, bus_id: &str) -> NvmlResult<Device> {
        let wanted = BusId::parse(bus_id).ok_or(NvmlError::INVALID_ARGUMENT)?;
        self.ready()?.find(|facts| facts.bus == Some(wanted))
    }

    fn device_get_index(&self, device: Device) -> NvmlResult<u32> {
        u32::try_from(self.ready()?.index(device)?).map_err(|_| NvmlError::UNKNOWN)
    }

    fn device_get_name(&self, device: Device) -> NvmlResult<String> {
        Ok(self.facts(device)?.name)
    }

    fn device_get_uuid(&self, device: Device) -> NvmlResult<String> {
        Ok(self.facts(device)?.uuid)
    }

    fn device_get_serial(&self, device: Device) -> NvmlResult<String> {
        known(self.facts(device)?.serial)
    }

    fn device_get_board_part_number(&self, device: Device) -> NvmlResult<String> {
        known(self.facts(device)?.part)
    }

    fn device_get_vbios_version(&self, device: Device) -> NvmlResult<String> {
        known(self.facts(device)?.firmware)
    }

    fn device_get_pci_info_v3(&self, device: Device) -> NvmlResult<PciInfo> {
        let (facts, place) = self.place(device)?;
        Ok(PciInfo {
            short_bus_id: place.short(),
            domain: place.domain,
            bus: place.bus,
            device: place.device,
            device_id: facts.pci_device,
            subsystem_id: facts.pci_subsystem,
            bus_id: place.long(),
        })
    }

    fn device_get_pci_info_v2(&self, device: Device) -> NvmlResult<ShortPciInfo> {
        let (facts, place) = self.place(device)?;
        Ok(ShortPciInfo {
            short_bus_id: place.short(),
            domain: place.domain,
            bus: place.bus,
            device: place.device,
            device_id: facts.pci_device,
            subsystem_id: facts.pci_subsystem,
        })
    }

    fn device_get_pci_info(&self, device: Device) -> NvmlResult<FirstPciInfo> {
        let ShortPciInfo { short_bus_id, domain, bus, device, device_id, .. } = self.device_get_pci_info_v2(device)?;
        Ok(FirstPciInfo { short_bus_id, domain, bus, device, device_id })
    }

    fn device_get_pci_info_ext(&self, device: Device, pci: PciInfoExt) -> NvmlResult<PciInfoExt> {
        let (facts, place) = self.place(device)?;
        Ok(PciInfoExt {
            version: pci.version,
            domain: place.domain,
            bus: place.bus,
            device: place.device,
            device_id: facts.pci_device,
            subsystem_id: facts.pci_subsystem,
            base_class: CLASS.0,
            sub_class: CLASS.1,
            bus_id: place.long(),
        })
    }

    fn device_get_architecture(&self, device: Device) -> NvmlResult<u32> {
        Ok(architecture(self.facts(device)?.compute_capability))
    }

    fn device_get_cuda_compute_capability(&self, device: Device) -> NvmlResult<(i32, i32)> {
        Ok(self.facts(device)?.compute_capability)
    }
}

impl Vgpus {
    fn place(&self, device: Device) -> NvmlResult<(Facts, BusId)> {
        let facts = self.facts(device)?;
        let place = facts.bus.ok_or(NvmlError::NOT_SUPPORTED)?;
        Ok((facts, place))
    }
}

fn known(text: String) -> NvmlResult<String> {
    if text.is_empty() { Err(NvmlError::NOT_SUPPORTED) } else { Ok(text) }
}

/// `NVML_DEVICE_ARCH_…` of a compute capability.
fn architecture(capability: (i32, i32)) -> u32 {
    match capability {
        (3, _) => 2,
        (5, _) => 3,
        (6, _) => 4,
        (7, 5) => 6,
        (7, _) => 5,
        (8, 9) => 8,
        (8, _) => 7,
        (9, _) => 9,
        (10..=12, _) => 10,
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hopper_and_ada_differ() {
        assert_eq!([(9, 0), (8, 9), (8, 0), (99, 0)].map(architecture), [9, 8, 7, u32::MAX]);
    }
}
