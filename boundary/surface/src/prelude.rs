//! The names generated code uses, in one list: the driver API's types and the surface's own. It holds nothing else.

pub(crate) use crate::arguments::c_pointers as c;
pub(crate) use crate::arguments::copy::{CopyBox, CopyPlace, PeerBox};
pub(crate) use crate::arguments::host::{HostFunction, HostRange, StreamCallback, UnifiedRange};
pub(crate) use crate::arguments::jit::JitOptions;
pub(crate) use crate::arguments::launch::Launch;
pub(crate) use crate::arguments::pointer::PointerAttribute;
pub(crate) use crate::arguments::shareable::{self, ShareableHandle, ShareableKind};
pub(crate) use floe_abi::*;
pub(crate) use floe_image::Image;
pub(crate) use std::ffi::{CStr, c_char, c_void};
pub(crate) use std::os::fd::{BorrowedFd, OwnedFd};
