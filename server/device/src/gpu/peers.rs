//! What a GPU has to do with other processes and other GPUs: memory that can be exported, and its peers.
//! In: sizes, the other GPU's index. Out: the driver's memory and answers. It maps nothing and gives nobody access.

use floe_abi::{
    CudaError, CudaResult, Device, MemAllocationProperties, MemHandle, device_attribute, handle_type, p2p_attribute,
};

use crate::Driver;
use crate::snapshot::{ITSELF, Place, alone};

/// Whether memory can be exported by descriptors. Not every GPU and not every container can.
pub(super) fn shares_memory(driver: &Driver, device: Device) -> bool {
    let asked = driver.device_get_attribute(device_attribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
    asked.is_ok_and(|value| value != 0)
}

/// Physical memory, exportable where the GPU shares memory and the driver has such memory left. On an H200 that costs
/// nothing up to 1 GiB, and 49 ms once for 16 GiB (docs/facts/h200.md).
pub(super) fn create_memory(
    driver: &Driver,
    bytes: usize,
    plain: MemAllocationProperties,
    shares: bool,
) -> CudaResult<MemHandle> {
    if shares {
        let requested_handle_types = handle_type::POSIX_FILE_DESCRIPTOR;
        let made = driver.mem_create(bytes, &MemAllocationProperties { requested_handle_types, ..plain }, 0);
        // Only what keeps it from being shared has another answer without that wish.
        if !matches!(made, Err(CudaError::NOT_SUPPORTED | CudaError::NOT_PERMITTED)) {
            return made;
        }
    }
    driver.mem_create(bytes, &plain, 0)
}

/// Performance rank, access, native atomics and arrays between a GPU and the one with this index.
pub(super) fn attributes(driver: &Driver, device: Device, place: Place, peer: i32) -> CudaResult<[i32; 4]> {
    if let Place::Alone(own) = place {
        return Ok(alone(own, peer));
    }
    let peer = driver.device_get(peer)?;
    if peer == device {
        return Ok(ITSELF);
    }
    let ask = |attribute| driver.device_get_p2p_attribute(attribute, device, peer);
    // A GPU may be a peer in one direction only, and be told so here only.
    let access = driver.device_can_access_peer(device, peer)? && ask(p2p_attribute::ACCESS_SUPPORTED)? != 0;
    Ok([
        ask(p2p_attribute::PERFORMANCE_RANK)?,
        i32::from(access),
        ask(p2p_attribute::NATIVE_ATOMIC_SUPPORTED)?,
        ask(p2p_attribute::CUDA_ARRAY_ACCESS_SUPPORTED)?,
    ])
}
