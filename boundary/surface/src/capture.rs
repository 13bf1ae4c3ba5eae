//! What a stream's capture is doing, as the three historical forms of the question need it. The implementation fills
//! it, the surface spreads it over C's pointers.

use floe_abi::{Graph, capture_status};

/// A stream's capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CaptureInfo {
    /// One of `capture_status`.
    pub status: u32,
    /// The capture's number; 0 where there is none.
    pub id: u64,
    /// The graph being made; NULL where there is none.
    pub graph: Graph,
}

impl CaptureInfo {
    /// Nothing is being captured.
    pub const NONE: Self = Self { status: capture_status::NONE, id: 0, graph: Graph::NULL };
}
