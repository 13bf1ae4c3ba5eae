//! Memory that processes share, seen by one process: handles, properties, lifetimes, and what is refused.

use std::os::fd::AsFd;

use floe_abi::{CudaResult, MemHandle, handle_type};
use floe_surface::{ShareableHandle, ShareableKind};

use super::*;

const WHERE: MemLocation = MemLocation { kind: location_type::DEVICE, id: 0 };

fn exportable(id: i32) -> MemAllocationProperties {
    MemAllocationProperties {
        kind: allocation_type::PINNED,
        requested_handle_types: handle_type::POSIX_FILE_DESCRIPTOR,
        location: MemLocation { id, ..WHERE },
        ..MemAllocationProperties::default()
    }
}

fn exported(simulator: &Simulator, handle: MemHandle) -> CudaResult<std::os::fd::OwnedFd> {
    match simulator.mem_export_to_shareable_handle(handle, ShareableKind::Descriptor)? {
        ShareableHandle::Descriptor(file) => Ok(file),
        other => panic!("{other:?}"),
    }
}

fn import(simulator: &Simulator, file: &impl AsFd) -> CudaResult<MemHandle> {
    simulator.mem_import_from_shareable_handle(ShareableHandle::Descriptor(file.as_fd()))
}

fn granule() -> usize {
    usize::try_from(GRANULARITY).expect("64 bit")
}

fn map(simulator: &Simulator, at: u64, handle: MemHandle) -> DevicePtr {
    let at = DevicePtr(WINDOWS.start + at);
    assert_eq!(simulator.mem_address_reserve(granule(), 0, at, 0), Ok(at));
    simulator.mem_map(at, granule(), 0, handle, 0).expect("reserved");
    simulator
        .mem_set_access(at, granule(), &[MemAccess { location: WHERE, flags: access_flags::READWRITE }])
        .expect("mapped");
    at
}

#[test]
fn imported_memory_is_the_exporters_and_outlives_its_handle() {
    let (exporter, importer) = (simulator(), simulator());
    let whole = usize::try_from(MEMORY).expect("64 bit");
    let made = exporter.mem_create(granule(), &exportable(0), 0).expect("room");
    assert_eq!(exporter.mem_get_info(), Ok((whole - granule(), whole)));
    let descriptor = exported(&exporter, made).expect("made for it");
    let at = map(&exporter, 0, made);
    exporter.memset_d8(Stream::LEGACY, at, 7, 16).expect("fills");
    let imported = import(&importer, &descriptor).expect("exported");
    assert_eq!(importer.mem_get_info(), Ok((whole, whole)), "it counts where it was made");
    let plain = MemAllocationProperties { requested_handle_types: 0, ..exportable(0) };
    assert_eq!(importer.mem_get_allocation_properties_from_handle(imported), Ok(plain));
    assert_eq!(exported(&importer, imported).err(), Some(CudaError::INVALID_VALUE), "as NVIDIA's");
    let there = map(&importer, GRANULARITY, imported);
    importer.mem_release(imported).expect("a handle");
    exporter.mem_unmap(at, granule()).expect("mapped");
    exporter.mem_release(made).expect("a handle");
    drop(descriptor);
    assert_eq!(exporter.mem_get_info(), Ok((whole, whole)));
    assert_eq!(read(&importer, there, 16), [7; 16]);
    let kinds = importer.pointer_get_attribute(pointer_attribute::ALLOWED_HANDLE_TYPES, there);
    assert_eq!(kinds, Ok(PointerAttribute::AllowedHandleTypes(0)));
}

#[test]
fn memory_imported_where_it_was_made_counts_until_its_last_handle() {
    let simulator = simulator();
    let whole = usize::try_from(MEMORY).expect("64 bit");
    let made = simulator.mem_create(granule(), &exportable(0), 0).expect("room");
    let descriptor = exported(&simulator, made).expect("made for it");
    let again = import(&simulator, &descriptor).expect("exported");
    assert_ne!(made, again);
    simulator.mem_release(made).expect("a handle");
    assert_eq!(simulator.mem_get_info(), Ok((whole - granule(), whole)));
    simulator.mem_release(again).expect("a handle");
    assert_eq!(simulator.mem_get_info(), Ok((whole, whole)));
}

#[test]
fn only_memory_made_for_it_is_exported_and_only_such_memory_is_imported() {
    let simulator = simulator();
    let plain = MemAllocationProperties { requested_handle_types: handle_type::NONE, ..exportable(0) };
    let plain = simulator.mem_create(granule(), &plain, 0).expect("room");
    assert_eq!(exported(&simulator, plain).err(), Some(CudaError::INVALID_VALUE));
    assert_eq!(exported(&simulator, MemHandle(77)).err(), Some(CudaError::INVALID_VALUE));
    let fabric = MemAllocationProperties { requested_handle_types: handle_type::FABRIC, ..exportable(0) };
    assert_eq!(simulator.mem_create(granule(), &fabric, 0), Err(CudaError::NOT_SUPPORTED));
    let other = std::fs::File::open("/dev/null").expect("opens");
    assert_eq!(import(&simulator, &other), Err(CudaError::INVALID_VALUE));
}

#[test]
fn memory_of_a_device_that_is_not_here_is_not_imported() {
    let (exporter, importer) = (simulator_of(2), simulator_of(1));
    let made = exporter.mem_create(granule(), &exportable(1), 0).expect("room");
    let descriptor = exported(&exporter, made).expect("made for it");
    assert_eq!(import(&importer, &descriptor), Err(CudaError::INVALID_DEVICE));
    let both = simulator_of(2);
    let imported = import(&both, &descriptor).expect("exported");
    assert_eq!(
        both.mem_get_allocation_properties_from_handle(imported),
        Ok(MemAllocationProperties { requested_handle_types: 0, ..exportable(1) })
    );
}
