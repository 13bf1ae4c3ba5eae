//! The range of device addresses that is the session's own.
//! In: the vGPU's ordinal, and ranges from the wire. Out: the window, and whether a range lies in it.
//! It does not know what is mapped there.

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
}
