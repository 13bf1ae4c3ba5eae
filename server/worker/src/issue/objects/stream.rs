//! A stream of the program.
//! In: the driver's stream, and the last completion event behind it. Out: the same, by id. No logic.

use std::sync::Arc;

use floe_abi::Stream;
use floe_device::Device;

use crate::complete::events::CompletionEvent;

/// A stream of the client's.
pub(crate) struct StreamObject<D: Device> {
    pub(crate) stream: Stream,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) used: bool,
    /// It is in the context apart, and takes copies and fills only.
    pub(crate) is_apart: bool,
    /// A completion event behind everything the stream holds, where there is one.
    pub(crate) last: Option<Arc<CompletionEvent<D>>>,
}
