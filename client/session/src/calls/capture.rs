//! Streams whose work is recorded: what the program asks of one becomes a node of the surface's graph, and nothing is sent.
//! Launches, copies and fills come in as they were asked; each noun's own file checks them first. Which stream is in which
//! capture only the surface knows.

use floe_abi::{CudaResult, Stream};
use floe_surface::graph::Work;

use crate::client::Client;
use crate::objects::stream::StreamState;
use crate::vgpu::recent::Found;

impl Client {
    /// The stream, if its work is recorded.
    #[inline]
    pub(crate) fn capturing(&self, stream: Stream) -> CudaResult<Option<Found<StreamState>>> {
        if !self.graphs.is_watching() {
            return Ok(None);
        }
        self.captured(stream)
    }

    fn captured(&self, stream: Stream) -> CudaResult<Option<Found<StreamState>>> {
        let stream = self.stream(stream)?;
        Ok(self.graphs.is_capturing(&stream.for_capture())?.then_some(stream))
    }

    /// Records work of a stream that is captured.
    pub(crate) fn record_work(&self, stream: &StreamState, work: Work) -> CudaResult<()> {
        self.graphs.record(&stream.for_capture(), work)
    }

    /// Refuses what a stream that is captured cannot do; the capture cannot continue then.
    #[inline]
    pub(crate) fn refuse_captured(&self, stream: &StreamState) -> CudaResult<()> {
        if self.graphs.is_watching() { self.graphs.refuse_on(&stream.for_capture()) } else { Ok(()) }
    }
}
