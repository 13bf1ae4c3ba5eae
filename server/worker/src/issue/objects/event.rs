//! An event of the program.
//! In: the driver's event, and where it was recorded. Out: the same, by id. It records nothing itself.

use std::sync::Arc;

use floe_abi::CudaError;
use floe_device::Device;
use floe_wire::StreamId;

use crate::complete::events::CompletionEvent;

/// An event of the client's.
pub(crate) struct EventObject<D: Device> {
    pub(crate) completion: Arc<CompletionEvent<D>>,
    pub(crate) flags: u32,
    /// The stream and command of its last record; `None` where a launch recorded it, which may be over later.
    pub(crate) recorded: Option<(StreamId, u64)>,
    /// Why its last record was not made: nobody may take the one before for it.
    pub(crate) failed: Option<CudaError>,
    /// When another worker recorded it, on the session's line of time.
    pub(crate) time: Option<f64>,
}

impl<D: Device> EventObject<D> {
    pub(crate) fn event(&self) -> floe_abi::Event {
        self.completion.event()
    }

    /// It, unless its last record failed.
    pub(crate) fn recorded(&self) -> Result<&Self, CudaError> {
        self.failed.map_or(Ok(self), Err)
    }
}

/// A session's line of time, which goes on when the session moves.
pub(crate) struct Line<D: Device> {
    /// An event of this worker's, which it records for itself.
    pub(crate) mark: Arc<CompletionEvent<D>>,
    /// When that was, in milliseconds on the line.
    pub(crate) at: f64,
}
