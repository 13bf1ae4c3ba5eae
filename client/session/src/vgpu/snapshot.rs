//! The client's own answers about a device: name, UUID, attributes, limits. The server sent them when the session was
//! attached; the client corrects those that do not hold across a network. The wire's message comes in, answers go out.
//! It never changes afterwards.

use std::collections::HashMap;

use floe_abi::{CudaError, CudaResult, Uuid, device_attribute, handle_type};
use floe_image::{ComputeCapability, Takes};

use crate::settings::WantedDevice;

/// A device as this client presents it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Snapshot {
    /// The device's name.
    pub(crate) name: String,
    /// Its UUID.
    pub(crate) uuid: Uuid,
    /// Its PCI bus id as tools print it.
    pub(crate) pci_bus: String,
    /// Bytes of memory this vGPU may use.
    pub(crate) memory: u64,
    /// Driver version of the server.
    pub(crate) driver: i32,
    /// Least and greatest stream priority; the greatest is the smaller number.
    pub(crate) priorities: (i32, i32),
    /// Granularity of mappings in bytes.
    pub(crate) granularity: u64,
    /// The parts of a fat binary that it takes.
    pub(crate) takes: Takes,
    /// Whether memory may be made for fabric handles.
    pub(crate) fabric: bool,
    attributes: HashMap<u32, i32>,
    limits: HashMap<u32, u64>,
}

/// Attributes that differ from what the server's device says, because memory and handles of the server's process are not
/// the client's.
const CORRECTIONS: &[(u32, i32)] = {
    use device_attribute as a;
    &[
        (a::MANAGED_MEMORY, 1),
        // The host may touch managed memory only while the device does nothing with it.
        (a::CONCURRENT_MANAGED_ACCESS, 0),
        (a::PAGEABLE_MEMORY_ACCESS, 0),
        (a::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0),
        (a::DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0),
        (a::HOST_NATIVE_ATOMIC_SUPPORTED, 0),
        (a::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0),
        (a::UNIFIED_ADDRESSING, 1),
        (a::HOST_REGISTER_SUPPORTED, 1),
        (a::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
        (a::MEMORY_POOLS_SUPPORTED, 1),
        // Descriptors and fabric handles of the client's own, that name memory of the server.
        (a::MEMPOOL_SUPPORTED_HANDLE_TYPES, 9),
        (a::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1),
        (a::HANDLE_TYPE_FABRIC_SUPPORTED, 1),
        (a::IPC_EVENT_SUPPORTED, 1),
        (a::GPU_DIRECT_RDMA_SUPPORTED, 0),
        (a::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0),
        (a::DMA_BUF_SUPPORTED, 0),
        // What no memory or array is made for here.
        (a::GENERIC_COMPRESSION_SUPPORTED, 0),
        (a::SPARSE_CUDA_ARRAY_SUPPORTED, 0),
        (a::DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 0),
        (a::MEM_DECOMPRESS_ALGORITHM_MASK, 0),
        (a::MEM_DECOMPRESS_MAXIMUM_LENGTH, 0),
        (a::MULTICAST_SUPPORTED, 0),
        (a::COOPERATIVE_MULTI_DEVICE_LAUNCH, 0),
        (a::TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 0),
        (a::CAN_USE_STREAM_MEM_OPS_V1, 0),
        (a::HOST_MEMORY_POOLS_SUPPORTED, 0),
        (a::HOST_NUMA_MEMORY_POOLS_SUPPORTED, 0),
        (a::HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
        (a::HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
        (a::HOST_ALLOC_DMA_BUF_SUPPORTED, 0),
    ]
};

impl Snapshot {
    /// The snapshot of a message; `quota` is the vGPU's memory where it is less than the device's, else 0.
    pub(crate) fn new(message: &floe_wire::DeviceSnapshot<'_>, quota: u64) -> Self {
        let mut uuid = Uuid::default();
        let known = message.uuid.len().min(uuid.bytes.len());
        uuid.bytes[..known].copy_from_slice(&message.uuid[..known]);
        let mut attributes: HashMap<u32, i32> = message
            .attributes
            .iter()
            .filter_map(|attribute| Some((u32::try_from(attribute.number).ok()?, attribute.value)))
            .collect();
        attributes.extend(CORRECTIONS.iter().copied());
        Self {
            name: message.name.to_owned(),
            uuid,
            pci_bus: message.pci_bus.to_owned(),
            memory: if quota == 0 { message.memory } else { quota.min(message.memory) },
            driver: message.driver,
            priorities: (message.priority_least, message.priority_greatest),
            granularity: message.granularity.max(4096),
            takes: takes(message.code, &attributes),
            fabric: message.fabric,
            attributes,
            limits: message
                .limits
                .iter()
                .filter_map(|limit| Some((u32::try_from(limit.number).ok()?, limit.value)))
                .collect(),
        }
    }

    /// The same in a slot of the PCI bus that no other vGPU of its GPU has.
    pub(crate) fn in_slot_of(mut self, wanted: &WantedDevice) -> Self {
        if let Some(slot) = self.attributes.get_mut(&device_attribute::PCI_DEVICE_ID) {
            // What is no slot stays as the server said it.
            let own = u32::try_from(*slot).ok().filter(|own| *own < 32);
            *slot = own.and_then(|own| i32::try_from(wanted.pci_slot(own)).ok()).unwrap_or(*slot);
        }
        self
    }

    /// A CUdevice_attribute; `None` where the server's device does not know the number.
    pub(crate) fn attribute(&self, number: u32) -> Option<i32> {
        self.attributes.get(&number).copied()
    }

    /// Whether memory may be made for these kinds of handles.
    ///
    /// # Errors
    /// NOT_PERMITTED, as a driver has it for a process that may make no fabric handles, whatever the attribute says.
    pub(crate) fn check_handle_types(&self, kinds: u32) -> CudaResult<()> {
        let is_refused = kinds & handle_type::FABRIC != 0 && !self.fabric;
        if is_refused { Err(CudaError::NOT_PERMITTED) } else { Ok(()) }
    }

    /// A CUlimit as it was when the session began.
    pub(crate) fn limit(&self, number: u32) -> Option<u64> {
        self.limits.get(&number).copied()
    }

    /// The priority CUDA uses for the one a program asked for: clamped to the range.
    pub(crate) fn clamp_priority(&self, priority: i32) -> i32 {
        let (least, greatest) = self.priorities;
        priority.clamp(greatest.min(least), least.max(greatest))
    }
}

/// `DeviceSnapshot.code` with the device's compute capability.
fn takes(code: u32, attributes: &HashMap<u32, i32>) -> Takes {
    use device_attribute as a;
    let number = |attribute: u32| attributes.get(&attribute).and_then(|value| u32::try_from(*value).ok());
    let (major, minor) = (number(a::COMPUTE_CAPABILITY_MAJOR), number(a::COMPUTE_CAPABILITY_MINOR));
    match (code, major.zip(minor)) {
        (1, Some((major, minor))) => Takes::MachineCode(ComputeCapability { major, minor }),
        (2, Some((major, minor))) => Takes::Ptx(ComputeCapability { major, minor }),
        _ => Takes::Anything,
    }
}

#[cfg(test)]
mod tests {
    use floe_wire::{Attribute, DeviceSnapshot, Limit};

    use super::*;

    fn message() -> DeviceSnapshot<'static> {
        DeviceSnapshot {
            name: "CPU",
            uuid: &[7; 16],
            pci_bus: "0000:01:00.0",
            memory: 8 << 30,
            driver: 13000,
            attributes: vec![Attribute { number: 83, value: 1 }, Attribute { number: -3, value: 1 }],
            limits: vec![Limit { number: 0, value: 1024 }],
            priority_least: 0,
            priority_greatest: -5,
            granularity: 2 << 20,
            code: 0,
            fabric: true,
        }
    }

    #[test]
    fn fabric_handles_are_refused_where_the_server_has_none_and_descriptors_are_not() {
        let without = Snapshot::new(&DeviceSnapshot { fabric: false, ..message() }, 0);
        let with = Snapshot::new(&message(), 0);
        let kinds = [handle_type::NONE, handle_type::POSIX_FILE_DESCRIPTOR, handle_type::FABRIC, 9];
        let refused = Err(CudaError::NOT_PERMITTED);
        assert_eq!(kinds.map(|kinds| without.check_handle_types(kinds)), [Ok(()), Ok(()), refused, refused]);
        assert_eq!(kinds.map(|kinds| with.check_handle_types(kinds)), [Ok(()); 4]);
        assert_eq!(without.attribute(device_attribute::HANDLE_TYPE_FABRIC_SUPPORTED), Some(1), "as a driver says");
    }

    #[test]
    fn only_a_known_device_gets_less_than_everything() {
        let mut message = message();
        message.code = 1;
        assert_eq!(Snapshot::new(&message, 0).takes, Takes::Anything);
        message.attributes.extend([(75, 9), (76, 0)].map(|(number, value)| Attribute { number, value }));
        let capability = ComputeCapability { major: 9, minor: 0 };
        assert_eq!(Snapshot::new(&message, 0).takes, Takes::MachineCode(capability));
        message.code = 2;
        assert_eq!(Snapshot::new(&message, 0).takes, Takes::Ptx(capability));
        message.code = 3;
        assert_eq!(Snapshot::new(&message, 0).takes, Takes::Anything);
    }

    #[test]
    fn managed_memory_is_there_and_never_for_both_at_once_whatever_the_device_says() {
        let mut message = message();
        let concurrent = i32::try_from(device_attribute::CONCURRENT_MANAGED_ACCESS).unwrap();
        message.attributes.push(Attribute { number: concurrent, value: 1 });
        let snapshot = Snapshot::new(&message, 0);
        assert_eq!(snapshot.attribute(device_attribute::MANAGED_MEMORY), Some(1));
        assert_eq!(snapshot.attribute(device_attribute::CONCURRENT_MANAGED_ACCESS), Some(0));
    }

    #[test]
    fn a_quota_limits_the_memory_shown() {
        assert_eq!(Snapshot::new(&message(), 0).memory, 8 << 30);
        assert_eq!(Snapshot::new(&message(), 1 << 30).memory, 1 << 30);
        assert_eq!(Snapshot::new(&message(), 1 << 40).memory, 8 << 30);
    }

    #[test]
    fn priorities_are_clamped_to_the_range() {
        let snapshot = Snapshot::new(&message(), 0);
        assert_eq!([-9, -3, 4].map(|p| snapshot.clamp_priority(p)), [-5, -3, 0]);
    }

    #[test]
    fn a_short_uuid_is_filled_with_zeros() {
        let mut short = message();
        short.uuid = &[1, 2];
        assert_eq!(Snapshot::new(&short, 0).uuid.bytes[..3], [1, 2, 0]);
    }
}
