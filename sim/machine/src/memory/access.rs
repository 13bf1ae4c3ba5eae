//! The host's own accesses to device memory: read, write, fill, copy.
//! In go device addresses, out come bytes or a [`Fault`] that names the first address that is not mapped. They never
//! touch an unmapped page; kernels may run at the same time, as on a GPU (races give old or new bytes).

use std::sync::RwLockReadGuard;

use crate::fault::{Fault, FaultKind};

use super::space::Memory;

/// Bytes from which on a fill with zeros looks which pages need it. Below that, asking costs as much as it may save.
const SPARSE: usize = 4 << 20;

impl Memory {
    /// A range that is accessed, as one of those that stay mapped meanwhile.
    fn checked(&self, _access: &RwLockReadGuard<'_, ()>, address: u64, length: usize) -> Result<*mut u8, Fault> {
        match self.first_hole(address, length as u64) {
            Some(hole) => Err(Fault::host(FaultKind::IllegalAddress, hole)),
            None => Ok(self.host_of(address).cast()),
        }
    }

    /// Copies from the device.
    ///
    /// # Errors
    /// [`FaultKind::IllegalAddress`] with the first address that is not mapped; then nothing was copied.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let access = self.begin_access();
        let source = self.checked(&access, address, bytes.len())?;
        // SAFETY: the source range was just found mapped, and stays so while we have the access. The target is a Rust
        // slice, which cannot lie in the reservation.
        unsafe { std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies to the device.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let access = self.begin_access();
        let target = self.checked(&access, address, bytes.len())?;
        // SAFETY: as in `read`, the other way round.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        Ok(())
    }

    /// Copies within the device; the ranges may overlap.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn copy(&self, target: u64, source: u64, length: usize) -> Result<(), Fault> {
        if length == 0 {
            return Ok(());
        }
        let access = self.begin_access();
        let from = self.checked(&access, source, length)?;
        let to = self.checked(&access, target, length)?;
        // SAFETY: both ranges were just found mapped, and stay so while we have the access; `copy` allows overlap.
        unsafe { std::ptr::copy(from, to, length) };
        Ok(())
    }

    /// Fills `count` elements of `width` (1, 2 or 4) bytes with the low bytes of `value`: `cuMemsetD8/D16/D32`.
    ///
    /// # Errors
    /// As [`Memory::read`]; [`FaultKind::Misaligned`] when the address is no multiple of the width or the width is none
    /// of these.
    pub fn fill(&self, address: u64, value: u32, width: u32, count: usize) -> Result<(), Fault> {
        if !matches!(width, 1 | 2 | 4) || !address.is_multiple_of(u64::from(width)) {
            return Err(Fault::host(FaultKind::Misaligned, address));
        }
        let length = count.checked_mul(width as usize).ok_or(Fault::host(FaultKind::IllegalAddress, address))?;
        if length == 0 {
            return Ok(());
        }
        let [low, second, third, fourth] = value.to_le_bytes();
        let is_zero = [low, second, third, fourth][..width as usize].iter().all(|byte| *byte == 0);
        if is_zero && length >= SPARSE {
            return self.clear(address, length);
        }
        let access = self.begin_access();
        let target = self.checked(&access, address, length)?;
        // SAFETY: the range was just found mapped, stays so while we have the access, and is aligned to the width (checked
        // above; granules are aligned).
        unsafe {
            match width {
                1 => target.write_bytes(low, count),
                2 => {
                    std::slice::from_raw_parts_mut(target.cast::<u16>(), count).fill(u16::from_le_bytes([low, second]))
                }
                _ => std::slice::from_raw_parts_mut(target.cast::<u32>(), count).fill(value),
            }
        }
        Ok(())
    }

    /// Fills with zeros what was written; pages that nobody has written are zero already. Writing those would have the system
    /// make each of them: that takes longer than all else, and memory that the program may never use.
    fn clear(&self, address: u64, length: usize) -> Result<(), Fault> {
        // Before the access begins: whoever unmaps has the lock and waits for the end of accesses.
        let parts = self.parts(address, length as u64);
        let access = self.begin_access();
        let target = self.checked(&access, address, length)?;
        let write_zeros = |from: u64, bytes: u64| {
            // SAFETY: the parts lie in the range, which was just found mapped and stays so while we have the access.
            unsafe { target.add((from - address) as usize).write_bytes(0, bytes as usize) };
        };
        if parts.iter().map(|part| part.length).sum::<u64>() != length as u64 {
            write_zeros(address, length as u64);
            return Ok(());
        }
        for part in parts {
            let Some((backing, offset)) = &part.backing else {
                write_zeros(part.address, part.length);
                continue;
            };
            for written in backing.written(*offset..offset + part.length) {
                write_zeros(part.address + (written.start - offset), written.end - written.start);
            }
        }
        Ok(())
    }
}
