//! The names generated code uses, in one list: the driver API's types and the surface's own. It holds nothing else.

pub(crate) use crate::c_pointers as c;
pub(crate) use crate::copy::{CopyBox, CopyPlace};
pub(crate) use crate::host::{HostFunction, HostRange, StreamCallback, UnifiedRange};
pub(crate) use crate::jit::JitOptions;
pub(crate) use crate::launch::Launch;
pub(crate) use crate::pointer::PointerAttribute;
pub(crate) use floe_abi::*;
pub(crate) use floe_image::Image;
pub(crate) use std::ffi::{CStr, c_char, c_void};
