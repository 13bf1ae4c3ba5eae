//! Work on streams that are being captured: what a stream was asked for comes in, a node of the capture's graph goes out.
//! Which stream is captured, and what is refused meanwhile, the surface's graphs know.
//! Nothing here runs anything.

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, Stream};
use floe_surface::graph::{CaptureStream, CopyWork, Work};
use floe_surface::{CopyBox, CopyEnd, CopyPlace, StreamCalls};

use super::context::ContextState;
use crate::simulator::Simulator;
use crate::simulator::executor::transfer::{Copy, End, Side};

impl Simulator {
    /// The stream as captures know it, where its work is recorded instead of run.
    ///
    /// # Errors
    /// INVALIDATED and IMPLICIT, see [`floe_surface::graph::Graphs::is_capturing`].
    pub(crate) fn capturing(&self, stream: Stream) -> CudaResult<Option<CaptureStream>> {
        if !self.graphs.is_watching() {
            return Ok(None);
        }
        let stream = self.stream_for_capture(stream)?;
        Ok(self.graphs.is_capturing(&stream)?.then_some(stream))
    }

    /// A call that a stream cannot have recorded; its capture cannot go on then.
    ///
    /// # Errors
    /// STREAM_CAPTURE_UNSUPPORTED where the stream is captured.
    pub(crate) fn refuse_captured(&self, stream: Stream) -> CudaResult<()> {
        if self.graphs.is_watching() { self.graphs.refuse_on(&self.stream_for_capture(stream)?) } else { Ok(()) }
    }

    /// A call that waits for a stream, or asks what it has done.
    ///
    /// # Errors
    /// STREAM_CAPTURE_UNSUPPORTED where the stream is captured, or others are in a mode that forbids it.
    pub(crate) fn refuse_wait(&self, stream: Stream) -> CudaResult<()> {
        self.refuse_captured(stream)?;
        self.graphs.refuse_unsafe()
    }

    /// Records a copy that was checked.
    pub(crate) fn record_copy(&self, stream: &CaptureStream, copy: &Copy, context: &ContextState) -> CudaResult<()> {
        let work = CopyWork::new(boxed(copy)?, Context(context.handle));
        self.graphs.record(stream, Work::Copy(Box::new(work)))
    }

    /// Records a copy of arrays.
    pub(crate) fn record_box(&self, captured: &CaptureStream, copy: &CopyBox, stream: Stream) -> CudaResult<()> {
        let (context, _) = self.stream(stream)?;
        let work = CopyWork::new(self.settled_box(copy)?, Context(context.handle));
        self.graphs.record(captured, Work::Copy(Box::new(work)))
    }

    /// A copy as graphs keep it, checked; arrays stay arrays.
    pub(crate) fn settled_box(&self, copy: &CopyBox) -> CudaResult<CopyBox> {
        let mut settled = boxed(&self.checked_box(copy)?)?;
        let is_array = |end: &CopyEnd| matches!(end.place, CopyPlace::Array(..));
        if is_array(&copy.source) {
            settled.source = copy.source;
        }
        if is_array(&copy.destination) {
            settled.destination = copy.destination;
        }
        Ok(settled)
    }
}

/// A checked copy as graphs keep it.
fn boxed(copy: &Copy) -> CudaResult<CopyBox> {
    let [width, height, depth] = copy.extent;
    Ok(CopyBox {
        source: end(&copy.source, copy.extent)?,
        destination: end(&copy.target, copy.extent)?,
        width: number(width)?,
        height: number(height)?,
        depth: number(depth)?,
    })
}

fn end(side: &Side, [width, height, depth]: [u64; 3]) -> CudaResult<CopyEnd> {
    let place = match &side.end {
        End::Device(address) => {
            let bytes = width + side.row * height.saturating_sub(1) + side.slice * depth.saturating_sub(1);
            CopyPlace::Device(DevicePtr(*address), number(bytes)?)
        }
        End::Host(range) => CopyPlace::Host(*range),
        // Bytes are taken along only where a copy is to run at once.
        End::Bytes(_) => return Err(CudaError::INVALID_VALUE),
    };
    Ok(CopyEnd { place, pitch: number(side.row)?, slice: number(side.slice)? })
}

fn number(number: u64) -> CudaResult<usize> {
    usize::try_from(number).map_err(|_| CudaError::INVALID_VALUE)
}
