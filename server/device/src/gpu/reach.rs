//! Which addresses a client may name, where the device reaches the process's ordinary memory too (HMM, ATS).
//! In: ranges from the wire. Out: whether they lie in the session's window or in what the driver itself has allocated.
//! Elsewhere it asks nothing: a device that reaches no ordinary memory judges addresses itself. Kernels pass by here in any
//! case, so a server has HMM switched off; `floe doctor` says where it is not.

use std::sync::Mutex;

use floe_abi::{
    CudaError, CudaResult, DevicePtr, StreamMemoryOperation, WordOperation, pointer_attribute, resource_type,
};

use super::numbers::wide;
use crate::Driver;
use crate::device::Mapped;
use crate::requests::{End, NodeCopy, NodeWork, Pattern, Rows, RowsEnd, RowsPlace, TextureRequest};

/// `CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS`.
const PAGEABLE_MEMORY_ACCESS: u32 = 88;
/// Bytes of the narrowest word that an operation writes or waits for; words are aligned, and so are the ends of memory.
const WORD: u64 = 4;

/// The addresses that a session may name on one GPU.
#[derive(Debug)]
pub(super) struct Reach {
    /// Whether the device reaches ordinary memory.
    pageable: bool,
    /// First address and bytes of each of the session's windows: its own, and those it maps memory of other vGPUs in.
    windows: Mutex<Vec<(u64, u64)>>,
}

impl Reach {
    pub(super) fn of(driver: &Driver, device: floe_abi::Device) -> Self {
        let pageable = driver.device_get_attribute(PAGEABLE_MEMORY_ACCESS, device).is_ok_and(|value| value != 0);
        Self { pageable, windows: Mutex::default() }
    }

    /// The session has these addresses from now on.
    pub(super) fn reserved(&self, at: DevicePtr, bytes: u64) {
        floe_lock::lock(&self.windows).push((at.0, bytes));
    }

    /// The session has them no longer.
    pub(super) fn freed(&self, at: DevicePtr, bytes: u64) {
        floe_lock::lock(&self.windows).retain(|window| *window != (at.0, bytes));
    }

    /// INVALID_VALUE for addresses that are neither the session's nor the driver's.
    pub(super) fn demand(&self, driver: &Driver, at: DevicePtr, bytes: u64) -> CudaResult<()> {
        self.judge(at, bytes, |at| {
            let ask = |attribute| driver.pointer_get_word(attribute, at).ok();
            Some((ask(pointer_attribute::RANGE_START_ADDR)?, ask(pointer_attribute::RANGE_SIZE)?))
        })
    }

    fn judge(&self, at: DevicePtr, bytes: u64, allocation: impl Fn(DevicePtr) -> Option<(u64, u64)>) -> CudaResult<()> {
        if !self.pageable {
            return Ok(());
        }
        let within = |(start, length): (u64, u64)| {
            let end = at.0.checked_sub(start).and_then(|offset| offset.checked_add(bytes));
            end.is_some_and(|end| end <= length)
        };
        let reserved = floe_lock::lock(&self.windows).iter().copied().any(within);
        if reserved || allocation(at).is_some_and(within) { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// The same for rows, but in arrays.
    pub(super) fn demand_rows(&self, driver: &Driver, rows: Rows) -> CudaResult<()> {
        match rows.place {
            RowsPlace::Memory(at, pitch) => self.demand(driver, at, span(rows.width, rows.height, pitch)?),
            RowsPlace::Array(_) => Ok(()),
        }
    }

    /// The same for an end of a copy of rows; shared memory was looked up.
    pub(super) fn demand_end<M: Mapped>(
        &self,
        driver: &Driver,
        end: &RowsEnd<'_, M>,
        [width, height]: [u64; 2],
    ) -> CudaResult<()> {
        match end {
            RowsEnd::Memory(End::Device(at), pitch) => self.demand(driver, *at, span(width, height, *pitch)?),
            RowsEnd::Memory(End::Host(..), _) | RowsEnd::Array(_) => Ok(()),
        }
    }

    pub(super) fn demand_pattern(&self, driver: &Driver, at: DevicePtr, pattern: &Pattern) -> CudaResult<()> {
        let width = pattern.width.checked_mul(pattern.element.into()).ok_or(CudaError::INVALID_VALUE)?;
        self.demand(driver, at, span(width, pattern.height, pattern.pitch)?)
    }

    pub(super) fn demand_words(&self, driver: &Driver, operations: &[StreamMemoryOperation]) -> CudaResult<()> {
        operations.iter().try_for_each(|operation| match operation.word() {
            Ok(WordOperation::Write { at, .. } | WordOperation::Wait { at, .. }) => self.demand(driver, at, WORD),
            _ => Ok(()),
        })
    }

    pub(super) fn demand_texture(&self, driver: &Driver, request: &TextureRequest<'_>) -> CudaResult<()> {
        let resource = request.resource;
        let bytes = match resource.kind {
            resource_type::LINEAR => wide(resource.extent),
            resource_type::PITCH2D => wide(resource.pitch).saturating_mul(wide(resource.height)),
            _ => return Ok(()),
        };
        self.demand(driver, DevicePtr(resource.place), bytes)
    }

    pub(super) fn demand_node(&self, driver: &Driver, work: &NodeWork<'_>) -> CudaResult<()> {
        match work {
            NodeWork::Empty | NodeWork::Kernel(..) => Ok(()),
            NodeWork::Copy(copy) => {
                let NodeCopy { width, height, depth, .. } = *copy;
                let bytes = |pitch, slice| {
                    let rows = span(width, height, pitch)?;
                    span(rows, depth, slice)
                };
                self.demand(driver, copy.to, bytes(copy.to_pitch, copy.to_slice)?)?;
                self.demand(driver, copy.from, bytes(copy.from_pitch, copy.from_slice)?)
            }
            NodeWork::Fill(at, pattern) => self.demand_pattern(driver, *at, pattern),
            NodeWork::Words(operations) => self.demand_words(driver, operations),
        }
    }
}

/// From the first byte of the first row to the last of the last; rows of a copy of one row have no pitch.
fn span(width: u64, rows: u64, pitch: u64) -> CudaResult<u64> {
    let before = rows.saturating_sub(1).checked_mul(pitch);
    before.and_then(|before| before.checked_add(width)).ok_or(CudaError::INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 0x2000_0000_0000;
    /// The window of another vGPU.
    const OTHER: u64 = WINDOW + (3 << 40);

    fn judged(pageable: bool, at: u64, bytes: u64) -> bool {
        let reach = Reach { pageable, windows: Mutex::default() };
        reach.reserved(DevicePtr(WINDOW), 1 << 20);
        reach.reserved(DevicePtr(OTHER), 1 << 20);
        // A variable of a module, as the driver knows it.
        let known = |at: DevicePtr| (0x7000..0x7100).contains(&at.0).then_some((0x7000, 0x100));
        reach.judge(DevicePtr(at), bytes, known).is_ok()
    }

    #[test]
    fn a_device_that_reaches_no_ordinary_memory_judges_for_itself() {
        assert!(judged(false, 0x5555_5555_4000, 1 << 40));
    }

    #[test]
    fn ordinary_memory_of_the_worker_is_refused_and_the_sessions_is_not() {
        assert!(judged(true, WINDOW, 1 << 20) && judged(true, WINDOW + 5, 7) && judged(true, 0x7080, 0x80));
        for (at, bytes) in [
            (0x5555_5555_4000, 1),
            (0, 1),
            (WINDOW - 1, 2),
            (WINDOW, (1 << 20) + 1),
            (WINDOW + 5, u64::MAX),
            (0x7080, 0x81),
            (u64::MAX, 1),
        ] {
            assert!(!judged(true, at, bytes), "{at:#x} {bytes:#x}");
        }
    }

    #[test]
    fn every_reserved_window_is_the_sessions_and_nothing_between_them() {
        assert!(judged(true, OTHER, 1 << 20));
        for (at, bytes) in
            [(OTHER - 1, 2), (OTHER, (1 << 20) + 1), (WINDOW, OTHER - WINDOW + 1), (WINDOW + (1 << 20), 1)]
        {
            assert!(!judged(true, at, bytes), "{at:#x} {bytes:#x}");
        }
    }

    #[test]
    fn rows_span_from_their_first_byte_to_their_last() {
        assert_eq!(span(10, 3, 100), Ok(210));
        assert_eq!(span(10, 1, u64::MAX), Ok(10));
        assert_eq!(span(10, 0, 5), Ok(10));
        assert_eq!(span(10, 3, u64::MAX), Err(CudaError::INVALID_VALUE));
    }
}
