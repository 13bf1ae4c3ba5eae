//! An address on the device, as the C boundary, the wire, client, server and CPU device pass it on.
//! In and out: a 64-bit number. Its own crate, so that neither the wire nor the C vocabulary depends on the other.
//! Nothing here follows an address, and none is known to be valid until its receiver has looked it up.
#![forbid(unsafe_code)]

use std::fmt;

/// `CUdeviceptr`: an address in the unified address space. Under unified addressing it may also be a host address.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DevicePtr(pub u64);

// The driver API passes it as a 64-bit number, which is one register.
const _: () = assert!(size_of::<DevicePtr>() == 8 && align_of::<DevicePtr>() == 8);

impl DevicePtr {
    /// The address C calls NULL.
    pub const NULL: Self = Self(0);

    /// Whether this is C's NULL.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address `offset` bytes further on; `None` past the end of the address space.
    #[must_use]
    pub const fn offset(self, offset: u64) -> Option<Self> {
        match self.0.checked_add(offset) {
            Some(address) => Some(Self(address)),
            None => None,
        }
    }
}

impl fmt::Debug for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePtr({:#x})", self.0)
    }
}

impl From<u64> for DevicePtr {
    fn from(value: u64) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_past_the_address_space_is_none() {
        assert_eq!(DevicePtr(u64::MAX).offset(1), None);
        assert_eq!(DevicePtr(16).offset(4), Some(DevicePtr(20)));
    }
}
