//! Questions and wishes about managed memory. C's pointers and places come in; CUDA's rules for devices without
//! concurrent access are kept here: such a device is no place to prefer or to prefetch to. Other advice is remembered
//! and answered; only a prefetch to the host goes to the implementation.

use std::ops::Range;

use crate::advice::Mark;
use crate::marshal::marshallers;
use crate::prelude::*;

/// The host, as `cuMemRangeGetAttribute` numbers it.
const HOST: i32 = -1;
/// The same: none, or not the same everywhere.
const NOWHERE: i32 = -2;
/// Memory is CUDA's in whole pages.
const PAGE: u64 = crate::PAGE as u64;

/// A location that a program names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Device(Device),
    Host,
}

fn of_location(location: &MemLocation) -> CudaResult<Where> {
    match location.kind {
        location_type::DEVICE => Ok(Where::Device(Device(location.id))),
        location_type::HOST | location_type::HOST_NUMA | location_type::HOST_NUMA_CURRENT => Ok(Where::Host),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

fn of_device(device: Device) -> Where {
    if device.0 == HOST { Where::Host } else { Where::Device(device) }
}

/// The host is a place; a device is one where it and the host may touch memory at once.
fn demand_place<D: crate::Driver>(driver: &D, place: Where) -> CudaResult<()> {
    let Where::Device(device) = place else { return Ok(()) };
    let concurrent = driver.device_get_attribute(device_attribute::CONCURRENT_MANAGED_ACCESS, device);
    match concurrent {
        Ok(1..) => Err(CudaError::NOT_SUPPORTED),
        _ => Err(CudaError::INVALID_DEVICE),
    }
}

/// The pages of a range that must be managed memory, of one allocation.
fn managed_pages<D: crate::Driver>(driver: &D, address: DevicePtr, bytes: usize) -> CudaResult<Range<u64>> {
    if driver.ctx_get_current()?.is_null() {
        return Err(CudaError::INVALID_CONTEXT);
    }
    let ask = |attribute| driver.pointer_get_attribute(attribute, address).map_err(|_| CudaError::INVALID_VALUE);
    let end = address.0.checked_add(bytes as u64).filter(|_| bytes > 0).ok_or(CudaError::INVALID_VALUE)?;
    match (
        ask(pointer_attribute::IS_MANAGED)?,
        ask(pointer_attribute::RANGE_START_ADDR)?,
        ask(pointer_attribute::RANGE_SIZE)?,
    ) {
        (PointerAttribute::IsManaged(true), PointerAttribute::RangeStart(start), PointerAttribute::RangeSize(size))
            if end <= (start.0 + size as u64).next_multiple_of(PAGE) =>
        {
            Ok(address.0 - address.0 % PAGE..end.next_multiple_of(PAGE))
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

fn prefetch<D: crate::Driver>(
    driver: &D,
    (address, bytes): (DevicePtr, usize),
    place: Where,
    stream: Stream,
) -> CudaResult<()> {
    let pages = managed_pages(driver, address, bytes)?;
    demand_place(driver, place)?;
    driver.mem_prefetch_to_host(address, bytes, stream)?;
    driver.managed_advice().set(Mark::PrefetchedToHost, &pages);
    Ok(())
}

fn advise<D: crate::Driver>(
    driver: &D,
    (address, bytes): (DevicePtr, usize),
    advice: u32,
    place: CudaResult<Where>,
) -> CudaResult<()> {
    let pages = managed_pages(driver, address, bytes)?;
    let known = driver.managed_advice();
    match advice {
        // These two are of no place.
        mem_advice::SET_READ_MOSTLY => known.set(Mark::ReadMostly, &pages),
        mem_advice::UNSET_READ_MOSTLY => known.unset(Mark::ReadMostly, &pages),
        mem_advice::UNSET_PREFERRED_LOCATION => known.unset(Mark::PrefersHost, &pages),
        mem_advice::SET_PREFERRED_LOCATION => {
            demand_place(driver, place?)?;
            known.set(Mark::PrefersHost, &pages);
        }
        mem_advice::SET_ACCESSED_BY => {
            demand_place(driver, place?)?;
            known.set(Mark::AccessedByHost, &pages);
        }
        mem_advice::UNSET_ACCESSED_BY => {
            demand_place(driver, place?)?;
            known.unset(Mark::AccessedByHost, &pages);
        }
        _ => return Err(CudaError::INVALID_VALUE),
    }
    Ok(())
}

/// The numbers that answer an attribute, for room for so many.
fn answer<D: crate::Driver>(driver: &D, attribute: u32, pages: &Range<u64>, room: usize) -> CudaResult<Vec<i32>> {
    use mem_range_attribute as ask;
    let known = driver.managed_advice();
    let place = |mark| if known.has(mark, pages) { HOST } else { NOWHERE };
    let kind = |mark| {
        let kind = if known.has(mark, pages) { location_type::HOST } else { location_type::INVALID };
        i32::try_from(kind).unwrap_or_default()
    };
    let one = match attribute {
        ask::READ_MOSTLY => i32::from(known.has(Mark::ReadMostly, pages)),
        ask::PREFERRED_LOCATION => place(Mark::PrefersHost),
        ask::LAST_PREFETCH_LOCATION => place(Mark::PrefetchedToHost),
        ask::PREFERRED_LOCATION_TYPE => kind(Mark::PrefersHost),
        ask::LAST_PREFETCH_LOCATION_TYPE => kind(Mark::PrefetchedToHost),
        // Of places that are devices or nodes only.
        ask::PREFERRED_LOCATION_ID | ask::LAST_PREFETCH_LOCATION_ID => 0,
        ask::ACCESSED_BY => {
            let mut all = vec![NOWHERE; room];
            all[0] = place(Mark::AccessedByHost);
            return Ok(all);
        }
        _ => return Err(CudaError::INVALID_VALUE),
    };
    if room == 1 { Ok(vec![one]) } else { Err(CudaError::INVALID_VALUE) }
}

/// Writes an attribute's numbers.
///
/// # Safety
/// `data` has `data_bytes` bytes of the program's.
unsafe fn put_attribute<D: crate::Driver>(
    driver: &D,
    data: *mut c_void,
    data_bytes: usize,
    attribute: u32,
    pages: &Range<u64>,
) -> CudaResult<()> {
    c::present(data)?;
    if data_bytes == 0 || !data_bytes.is_multiple_of(size_of::<i32>()) {
        return Err(CudaError::INVALID_VALUE);
    }
    let numbers = answer(driver, attribute, pages, data_bytes / size_of::<i32>())?;
    for (index, number) in numbers.into_iter().enumerate() {
        // SAFETY: the program's memory, of as many numbers.
        unsafe { c::put(data.cast::<i32>().add(index), number) };
    }
    Ok(())
}

marshallers! {
    /// `cuMemPrefetchAsync` since CUDA 12.2.
    fn cuMemPrefetchAsync_v2(
        driver, default_stream: Stream, address: DevicePtr, bytes: usize, location: MemLocation, flags: u32,
        stream: Stream,
    ) {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        prefetch(driver, (address, bytes), of_location(&location)?, stream.or(default_stream))
    }

    /// `cuMemPrefetchAsync` before.
    fn cuMemPrefetchAsync(
        driver, default_stream: Stream, address: DevicePtr, bytes: usize, device: Device, stream: Stream,
    ) {
        prefetch(driver, (address, bytes), of_device(device), stream.or(default_stream))
    }

    /// `cuMemAdvise` since CUDA 12.2.
    fn cuMemAdvise_v2(driver, address: DevicePtr, bytes: usize, advice: u32, location: MemLocation) {
        advise(driver, (address, bytes), advice, of_location(&location))
    }

    /// `cuMemAdvise` before.
    fn cuMemAdvise(driver, address: DevicePtr, bytes: usize, advice: u32, device: Device) {
        advise(driver, (address, bytes), advice, Ok(of_device(device)))
    }

    /// `cuMemRangeGetAttribute`.
    fn cuMemRangeGetAttribute(
        driver, data: *mut c_void, data_bytes: usize, attribute: u32, address: DevicePtr, bytes: usize,
    ) {
        let pages = managed_pages(driver, address, bytes)?;
        // SAFETY: the program's contract.
        unsafe { put_attribute(driver, data, data_bytes, attribute, &pages) }
    }

    /// `cuMemRangeGetAttributes`.
    fn cuMemRangeGetAttributes(
        driver, data: *mut *mut c_void, data_bytes: *mut usize, attributes: *mut u32, count: usize, address: DevicePtr,
        bytes: usize,
    ) {
        let pages = managed_pages(driver, address, bytes)?;
        if count == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        for index in 0..count {
            // SAFETY: the program's arrays have `count` entries each, and what the first points to has the second's bytes.
            unsafe {
                let data = *c::reference(data.add(index))?;
                let data_bytes = *c::reference(data_bytes.add(index))?;
                put_attribute(driver, data, data_bytes, *c::reference(attributes.add(index))?, &pages)?;
            }
        }
        Ok(())
    }
}
