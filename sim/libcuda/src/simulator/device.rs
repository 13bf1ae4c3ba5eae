//! Devices: how many there are, what they are called, how large they are and what they can do.
//! Questions about a device come in, answers from the settings, the limits and the attribute table go out.
//! Nothing here needs a context.

mod attributes;
pub(crate) mod limits;
mod occupancy;
pub(crate) mod occupancy_rule;
pub(crate) mod settings;

use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, Device, MemPool, Uuid, p2p_attribute as peer_ask};
use floe_machine::{Memory, Store};
use floe_surface::DeviceCalls;

use super::Simulator;
use super::calls::context::Primary;
use super::code::dry_run;
use super::handles::Handles;
use super::memory::device_memory::DeviceMemory;
use super::memory::heap::Space;
use attributes::Identity;
use settings::{Settings, spread};

/// The name of a CPU device.
const NAME: &str = "floe CPU device (PTX)";

/// One CPU device.
pub(crate) struct CpuDevice {
    /// Ordinal in this process.
    pub(crate) place: usize,
    pub(crate) identity: Identity,
    /// Machine code is accepted and does nothing.
    pub(crate) dry_run: bool,
    pub(crate) uuid: Uuid,
    pub(crate) memory: Arc<DeviceMemory>,
    pub(crate) primary: Mutex<Primary>,
    /// The handle its primary context has whenever it is active.
    pub(crate) primary_handle: u64,
}

/// Makes the devices that are visible to the process.
///
/// # Errors
/// OUT_OF_MEMORY when the system refuses to keep their memory.
pub(crate) fn make_all(settings: &Settings, memory: &Arc<Memory>, handles: &Handles) -> CudaResult<Vec<CpuDevice>> {
    let uuids: Vec<Uuid> = (0..settings.devices).map(|ordinal| uuid(settings, ordinal)).collect();
    let visible = settings.visible.as_deref().map(|list| visible(list, &uuids));
    let ordinals = visible.unwrap_or_else(|| (0..settings.devices).collect());
    let variables = DeviceMemory::space_of_variables();
    let make = |(place, &ordinal)| make(settings, memory, handles, (place, ordinal), &variables);
    ordinals.iter().enumerate().map(make).collect()
}

fn make(
    settings: &Settings,
    memory: &Arc<Memory>,
    handles: &Handles,
    (place, ordinal): (usize, usize),
    variables: &Space,
) -> CudaResult<CpuDevice> {
    let store = Store::new(settings.memory).map_err(|error| {
        super::log::warn(format_args!("cannot set up {} bytes of device memory: {error}", settings.memory));
        CudaError::OUT_OF_MEMORY
    })?;
    let small = |number: usize| u32::try_from(number).map_err(|_| CudaError::INVALID_VALUE);
    Ok(CpuDevice {
        place,
        identity: Identity { ordinal: small(ordinal)?, compute: settings.compute, cores: small(settings.cores)? },
        dry_run: settings.dry_run,
        uuid: uuid(settings, ordinal),
        memory: Arc::new(DeviceMemory::new(place, Arc::clone(memory), store, Arc::clone(variables))),
        primary: Mutex::new(Primary::default()),
        primary_handle: handles.next(),
    })
}

/// Distinct per host and device, the same in every process and after every restart.
fn uuid(settings: &Settings, ordinal: usize) -> Uuid {
    let mut name = b"floe CPU device ".to_vec();
    name.extend_from_slice(&settings.host);
    name.extend_from_slice(&ordinal.to_le_bytes());
    Uuid { bytes: spread(&name) }
}

/// The ordinals `CUDA_VISIBLE_DEVICES` names, in its order. As in CUDA, the first entry that is no device ends the list,
/// and a device named twice makes it empty.
fn visible(list: &str, uuids: &[Uuid]) -> Vec<usize> {
    let mut ordinals = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let named = entry.parse().ok().filter(|ordinal| *ordinal < uuids.len()).or_else(|| by_uuid(entry, uuids));
        match named {
            Some(ordinal) if ordinals.contains(&ordinal) => return Vec::new(),
            Some(ordinal) => ordinals.push(ordinal),
            None => break,
        }
    }
    ordinals
}

/// A uuid may be cut short as long as it names one device.
fn by_uuid(entry: &str, uuids: &[Uuid]) -> Option<usize> {
    if !entry.starts_with("GPU-") {
        return None;
    }
    let mut matching = (0..uuids.len()).filter(|ordinal| uuids[*ordinal].to_string().starts_with(entry));
    let only = matching.next()?;
    matching.next().is_none().then_some(only)
}

impl DeviceCalls for Simulator {
    fn init(&self, flags: u32) -> CudaResult<()> {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if let Some(error) = self.failure {
            return Err(error);
        }
        if self.devices.is_empty() { Err(CudaError::NO_DEVICE) } else { Ok(()) }
    }

    fn driver_get_version(&self) -> CudaResult<i32> {
        Ok(limits::DRIVER_VERSION)
    }

    fn device_get(&self, ordinal: i32) -> CudaResult<Device> {
        self.device(Device(ordinal)).map(|_| Device(ordinal))
    }

    fn device_get_count(&self) -> CudaResult<i32> {
        i32::try_from(self.devices.len()).map_err(|_| CudaError::UNKNOWN)
    }

    fn device_get_name(&self, device: Device) -> CudaResult<String> {
        self.device(device).map(|device| if device.dry_run { dry_run::NAME } else { NAME }.to_string())
    }

    fn device_get_uuid(&self, device: Device) -> CudaResult<Uuid> {
        self.device(device).map(|device| device.uuid)
    }

    fn device_total_mem(&self, device: Device) -> CudaResult<usize> {
        usize::try_from(self.device(device)?.memory.total()).map_err(|_| CudaError::UNKNOWN)
    }

    fn device_get_attribute(&self, attribute: u32, device: Device) -> CudaResult<i32> {
        attributes::value(&self.device(device)?.identity, attribute).ok_or(CudaError::INVALID_VALUE)
    }

    fn device_can_access_peer(&self, device: Device, peer: Device) -> CudaResult<bool> {
        self.device(device)?;
        self.device(peer)?;
        Ok(device != peer)
    }

    fn device_get_p2p_attribute(&self, attribute: u32, source: Device, destination: Device) -> CudaResult<i32> {
        self.device(source)?;
        self.device(destination)?;
        if source == destination {
            return Err(CudaError::INVALID_DEVICE);
        }
        match attribute {
            peer_ask::ACCESS_SUPPORTED | peer_ask::NATIVE_ATOMIC_SUPPORTED => Ok(1),
            peer_ask::PERFORMANCE_RANK
            | peer_ask::CUDA_ARRAY_ACCESS_SUPPORTED
            | peer_ask::ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED => Ok(0),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn device_get_default_mem_pool(&self, device: Device) -> CudaResult<MemPool> {
        self.device(device)?;
        self.pools.default_of(device)
    }

    fn device_get_mem_pool(&self, device: Device) -> CudaResult<MemPool> {
        self.device(device)?;
        self.pools.current_of(device)
    }

    fn device_set_mem_pool(&self, device: Device, pool: MemPool) -> CudaResult<()> {
        self.device(device)?;
        self.pools.set_current(device, pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuids() -> Vec<Uuid> {
        (1..=3).map(|byte| Uuid { bytes: [byte; 16] }).collect()
    }

    #[test]
    fn visible_devices_keep_the_lists_order() {
        assert_eq!(visible("2,0", &uuids()), [2, 0]);
    }

    #[test]
    fn first_entry_that_is_no_device_ends_the_list() {
        assert_eq!(visible("1,7,0", &uuids()), [1]);
        assert!(visible("", &uuids()).is_empty());
        assert!(visible("-1,0", &uuids()).is_empty());
    }

    #[test]
    fn device_named_twice_makes_the_list_empty() {
        assert!(visible("0,0", &uuids()).is_empty());
    }

    #[test]
    fn uuid_may_be_cut_short() {
        assert_eq!(visible("GPU-0202", &uuids()), [1]);
        assert!(visible("GPU-0", &uuids()).is_empty());
    }
}
