//! The ranges of device addresses that a session maps memory in: its own window, and those of its program's other vGPUs.
//! In: the vGPU's ordinal, and ranges from the wire. Out: windows, and whether a range lies in one.
//! It does not know what is mapped there.

use std::collections::BTreeSet;

use floe_abi::CudaError;
use floe_wire::{DevicePtr, WINDOW_BASE, WINDOW_BYTES, WINDOW_COUNT};

use crate::issue::fault::{Fault, violation};

/// A range of device addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
}

impl Window {
    /// The window of a vGPU; `None` when there is none of that ordinal.
    pub(crate) fn of(ordinal: u32) -> Option<Self> {
        let base = WINDOW_BASE + u64::from(ordinal) * WINDOW_BYTES;
        (ordinal < WINDOW_COUNT).then_some(Self { base, bytes: WINDOW_BYTES })
    }

    /// A protocol violation unless the range lies in the window and is not empty.
    pub(crate) fn demand(&self, at: DevicePtr, bytes: u64) -> Result<(), Fault> {
        let inside = at.0.checked_sub(self.base).and_then(|offset| offset.checked_add(bytes));
        match inside {
            Some(end) if bytes > 0 && end <= self.bytes => Ok(()),
            _ => violation(format!("outside the session's window: {bytes} bytes at {:#x}", at.0)),
        }
    }
}

/// The windows of a program's vGPUs, as this session has them.
#[derive(Debug)]
pub(crate) struct Windows {
    /// First addresses of those that are reserved here.
    reserved: BTreeSet<u64>,
}

impl Windows {
    /// The session's own, which is reserved.
    pub(crate) fn new(own: Window) -> Self {
        Self { reserved: BTreeSet::from([own.base]) }
    }

    /// The window that a range lies in; a protocol violation unless it lies in one and is not empty.
    pub(crate) fn demand(&self, at: DevicePtr, bytes: u64) -> Result<Window, Fault> {
        let ordinal = at.0.checked_sub(WINDOW_BASE).map(|offset| offset / WINDOW_BYTES);
        match ordinal.and_then(|ordinal| u32::try_from(ordinal).ok()).and_then(Window::of) {
            Some(window) => window.demand(at, bytes).map(|()| window),
            None => violation(format!("outside the program's windows: {bytes} bytes at {:#x}", at.0)),
        }
    }

    /// As `demand`; the program's error where nothing can be mapped there yet.
    pub(crate) fn demand_reserved(&self, at: DevicePtr, bytes: u64) -> Result<(), Fault> {
        let window = self.demand(at, bytes)?;
        if self.is_reserved(window) { Ok(()) } else { Err(CudaError::INVALID_VALUE.into()) }
    }

    pub(crate) fn is_reserved(&self, window: Window) -> bool {
        self.reserved.contains(&window.base)
    }

    /// A window is reserved from here on.
    pub(crate) fn reserve(&mut self, window: Window) {
        self.reserved.insert(window.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_must_lie_inside() {
        let window = Window::of(1).expect("there is a second window");
        assert_eq!(window.base, 0x2300_0000_0000);
        assert!(window.demand(DevicePtr(window.base), WINDOW_BYTES).is_ok());
        for (at, bytes) in [(0, 1), (1, WINDOW_BYTES), (WINDOW_BYTES, 1), (0, 0), (0, u64::MAX)] {
            let at = if at == 0 && bytes == 1 { window.base - 1 } else { window.base + at };
            assert!(window.demand(DevicePtr(at), bytes).is_err(), "{at:#x} {bytes:#x}");
        }
        assert_eq!(Window::of(WINDOW_COUNT), None);
    }

    #[test]
    fn a_range_lies_in_one_window_of_the_program_and_is_used_once_that_is_reserved() {
        let (own, other) = (Window::of(1).expect("there is one"), Window::of(2).expect("there is one"));
        let mut windows = Windows::new(own);
        assert!(windows.demand_reserved(DevicePtr(own.base), 1).is_ok());
        assert_eq!(windows.demand(DevicePtr(other.base), 1), Ok(other));
        assert_eq!(windows.demand_reserved(DevicePtr(other.base), 1), Err(CudaError::INVALID_VALUE.into()));
        windows.reserve(other);
        assert!(windows.demand_reserved(DevicePtr(other.base), 1).is_ok());
        let end = WINDOW_BASE + u64::from(WINDOW_COUNT) * WINDOW_BYTES;
        for (at, bytes) in [(own.base, WINDOW_BYTES + 1), (WINDOW_BASE - 1, 1), (end, 1), (own.base, 0), (0, u64::MAX)]
        {
            assert!(matches!(windows.demand(DevicePtr(at), bytes), Err(Fault::ProtocolViolation(_))), "{at:#x}");
        }
    }
}
