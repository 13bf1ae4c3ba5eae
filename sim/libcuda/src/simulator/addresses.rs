//! The map of device addresses: windows, variables and allocations of all CPU devices of the process.
//! Constants only; nothing here reserves or maps.

use std::ops::Range;

use super::device::settings::MAX_DEVICES;

/// Addresses of one device's allocations, of its kernels' heaps, and of all devices' variables. Tests of this crate make many simulators
/// in one process, which has room for few whole ones.
pub(super) const SPAN: u64 = if cfg!(test) { 1 << 32 } else { 1 << 40 };
/// `cuMemAddressReserve` returns these addresses, from 0x2000_0000_0000 on as a GPU's driver does. When a worker drives
/// this device, the first 48 TiB hold the windows of all vGPUs of a program. In the other two a worker stages what it moves.
pub(super) const WINDOWS: Range<u64> = 0x2000_0000_0000..0x2000_0000_0000 + 50 * SPAN;
/// What kernels of device i allocate lies from here + i such ranges on.
pub(super) const KERNEL_HEAPS: u64 = WINDOWS.start - MAX_DEVICES as u64 * KERNEL_HEAPS_SPAN;
pub(super) const KERNEL_HEAPS_SPAN: u64 = SPAN / 2;
/// `cuMemAlloc` of device i answers addresses from here + i spans on: 0x1000_0000_0000.
pub(super) const ALLOCATIONS: u64 = WINDOWS.start - 2 * MAX_DEVICES as u64 * SPAN;
/// Variables of modules, whichever their device.
pub(super) const VARIABLES: Range<u64> = ALLOCATIONS + MAX_DEVICES as u64 * SPAN..KERNEL_HEAPS;
/// Addresses that are a device's memory.
pub(super) const ADDRESSES: Range<u64> = ALLOCATIONS..WINDOWS.end;
/// Pinned memory that the program allocates: the host's own, at addresses that kernels reach.
pub(super) const PINNED: Range<u64> = ALLOCATIONS - SPAN..ALLOCATIONS;
/// All addresses that kernels can reach.
pub(super) const REACHED: Range<u64> = PINNED.start..ADDRESSES.end;
