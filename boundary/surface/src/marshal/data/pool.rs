//! Pool attributes: an `int` or a 64-bit number behind one pointer, by the attribute's kind; pools by place. C's pointers
//! come in, a number or a device goes to the implementation. Only devices have pools here.

use crate::marshal::marshallers;
use crate::prelude::*;
use crate::process::refusals::refused;

marshallers! {
    /// `cuMemPoolGetAttribute`.
    fn cuMemPoolGetAttribute(driver, pool: MemPool, attribute: u32, value: *mut c_void) {
        c::present(value)?;
        let int = is_int(attribute)?;
        let number = driver.mem_pool_get_attribute(pool, attribute)?;
        // SAFETY: the program's variable, of the attribute's width.
        unsafe {
            if int { c::put(value.cast::<i32>(), i32::from(number != 0)) } else { c::put(value.cast::<u64>(), number) }
        }
        Ok(())
    }

    /// `cuMemPoolSetAttribute`.
    fn cuMemPoolSetAttribute(driver, pool: MemPool, attribute: u32, value: *const c_void) {
        let int = is_int(attribute)?;
        // SAFETY: the program's variable, of the attribute's width.
        let number = unsafe {
            if int { u64::from(*c::reference(value.cast::<i32>())? != 0) } else { *c::reference(value.cast::<u64>())? }
        };
        driver.mem_pool_set_attribute(pool, attribute, number)
    }

    /// `cuMemGetDefaultMemPool`.
    fn cuMemGetDefaultMemPool(driver, pool: *mut MemPool, location: *const MemLocation, kind: u32) {
        c::present(pool)?;
        // SAFETY: the program's struct.
        let device = device_of(driver, unsafe { c::reference(location) }?, kind)?;
        let found = driver.device_get_default_mem_pool(device)?;
        // SAFETY: the program's variable.
        unsafe { c::put(pool, found) };
        Ok(())
    }

    /// `cuMemGetMemPool`.
    fn cuMemGetMemPool(driver, pool: *mut MemPool, location: *const MemLocation, kind: u32) {
        c::present(pool)?;
        // SAFETY: the program's struct.
        let device = device_of(driver, unsafe { c::reference(location) }?, kind)?;
        let found = driver.device_get_mem_pool(device)?;
        // SAFETY: the program's variable.
        unsafe { c::put(pool, found) };
        Ok(())
    }

    /// `cuMemSetMemPool`.
    fn cuMemSetMemPool(driver, location: *const MemLocation, kind: u32, pool: MemPool) {
        // SAFETY: the program's struct.
        let device = device_of(driver, unsafe { c::reference(location) }?, kind)?;
        driver.device_set_mem_pool(device, pool)
    }

    /// `cuMemPoolExportToShareableHandle`.
    fn cuMemPoolExportToShareableHandle(driver, shareable: *mut c_void, pool: MemPool, kind: u32, flags: u64) {
        c::present(shareable)?;
        let kind = ShareableKind::of(kind)?;
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let exported = driver.mem_pool_export_to_shareable_handle(pool, kind)?;
        // SAFETY: the program's variable of this kind.
        unsafe { shareable::give(shareable, exported) }
    }

    /// `cuMemPoolImportFromShareableHandle`: a descriptor stays the program's.
    fn cuMemPoolImportFromShareableHandle(driver, pool: *mut MemPool, shareable: *mut c_void, kind: u32, flags: u64) {
        c::present(pool)?;
        // SAFETY: what C says of this kind.
        let shared = unsafe { shareable::take(shareable, kind) }?;
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let imported = driver.mem_pool_import_from_shareable_handle(shared)?;
        // SAFETY: the program's variable.
        unsafe { c::put(pool, imported) };
        Ok(())
    }
}

/// The device whose pools are asked for.
///
/// # Errors
/// As [`place_of`]; INVALID_VALUE for a device that is none.
fn device_of<D: crate::Driver>(driver: &D, location: &MemLocation, kind: u32) -> CudaResult<Device> {
    let device = place_of(location, kind)?;
    driver.device_get_default_mem_pool(device).map_err(|_| CudaError::INVALID_VALUE)?;
    Ok(device)
}

/// The device of a place, in the order in which an H200's driver judges.
///
/// # Errors
/// NOT_SUPPORTED for pools of host and managed memory and for places that have none, INVALID_VALUE for other kinds of memory.
fn place_of(location: &MemLocation, kind: u32) -> CudaResult<Device> {
    use {allocation_type as is, location_type as at};
    match (kind, location.kind) {
        (_, at::HOST_NUMA_CURRENT..) => Err(CudaError::NOT_SUPPORTED),
        (is::PINNED, at::DEVICE) => Ok(Device(location.id)),
        (is::PINNED, at::INVALID) => Err(CudaError::INVALID_VALUE),
        (is::PINNED | is::MANAGED, _) => {
            refused(format_args!("memory pools of the host and of managed memory are not supported"));
            Err(CudaError::NOT_SUPPORTED)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

fn is_int(attribute: u32) -> CudaResult<bool> {
    use pool_attribute as ask;
    match attribute {
        ask::REUSE_FOLLOW_EVENT_DEPENDENCIES
        | ask::REUSE_ALLOW_OPPORTUNISTIC
        | ask::REUSE_ALLOW_INTERNAL_DEPENDENCIES => Ok(true),
        ask::RELEASE_THRESHOLD
        | ask::RESERVED_MEM_CURRENT
        | ask::RESERVED_MEM_HIGH
        | ask::USED_MEM_CURRENT
        | ask::USED_MEM_HIGH => Ok(false),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_memory_of_a_device_has_pools_and_no_other_place() {
        use {allocation_type as is, location_type as at};
        let place = |location, kind| place_of(&MemLocation { kind: location, id: 3 }, kind);
        assert_eq!(place(at::DEVICE, is::PINNED), Ok(Device(3)));
        for (location, kind) in [(at::HOST, is::PINNED), (at::HOST_NUMA, is::MANAGED), (at::NONE, is::MANAGED), (9, 9)]
        {
            assert_eq!(place(location, kind), Err(CudaError::NOT_SUPPORTED), "{location} {kind}");
        }
        for (location, kind) in [(at::INVALID, is::PINNED), (at::DEVICE, is::INVALID), (at::HOST, 3)] {
            assert_eq!(place(location, kind), Err(CudaError::INVALID_VALUE), "{location} {kind}");
        }
    }
}
