//! The map of device addresses: windows, variables and allocations of all CPU devices of the process.
//! Constants only; nothing here reserves or maps.

use std::ops::Range;

use super::device::settings::MAX_DEVICES;

/// Addresses of one device's allocations, and of its variables. Tests of this crate make many simulators
/// in one process, which has room for few whole ones.
pub(super) const SPAN: u64 = if cfg!(test) { 1 << 32 } else { 1 << 40 };
/// `cuMemAddressReserve` returns these addresses, from 0x2000_0000_0000 on as a GPU's driver does. When a worker drives
/// this device, the first 48 TiB hold the windows of all vGPUs of a program. In the other two a worker stages what it moves.
pub(super) const WINDOWS: Range<u64> = 0x2000_0000_0000..0x2000_0000_0000 + 50 * SPAN;
/// Variables of modules on device i lie from here + i spans on.
pub(super) const GLOBALS: u64 = WINDOWS.start - MAX_DEVICES as u64 * SPAN;
/// `cuMemAlloc` of device i answers addresses from here + i spans on: 0x1000_0000_0000.
pub(super) const ALLOCATIONS: u64 = GLOBALS - MAX_DEVICES as u64 * SPAN;
/// All device addresses of the process.
pub(super) const ADDRESSES: Range<u64> = ALLOCATIONS..WINDOWS.end;
