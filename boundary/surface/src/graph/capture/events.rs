//! Events in captures: how a capture spreads to other streams and joins again. Records and waits come in; whether they are
//! the capture's own business goes out, or what CUDA refuses. Events outside captures are not known here.

use super::recording::extend;
use super::{CaptureStream, Strand};
use crate::graph::store::{Edge, Graphs, State};
use floe_abi::{CudaError, CudaResult, Event};

impl Graphs {
    /// An event is recorded on a stream. True: in a capture, so that nothing is to be done on the device.
    ///
    /// # Errors
    /// As [`Graphs::is_capturing`].
    pub fn record_event(&self, stream: &CaptureStream, event: Event) -> CudaResult<bool> {
        if !self.is_watching() {
            return Ok(false);
        }
        let mut state = self.lock();
        let Some(id) = state.capturing(stream)? else {
            state.captures.events.remove(&event.0);
            self.watch(&state);
            return Ok(false);
        };
        let after = state.strand(id, stream)?.after.clone();
        state.captures.events.insert(event.0, (id, after));
        self.watch(&state);
        Ok(true)
    }

    /// A stream waits for an event. True: within a capture, which the stream has joined if it was not part of it.
    ///
    /// # Errors
    /// As [`Graphs::is_capturing`]; MERGE and ISOLATION where the wait would tie a capture to anything outside it,
    /// INVALID_VALUE where the event's capture has ended, which invalidates the stream's, or is invalid.
    pub fn wait_event(&self, stream: &CaptureStream, event: Event) -> CudaResult<bool> {
        if !self.is_watching() {
            return Ok(false);
        }
        let mut state = self.lock();
        let own = state.capturing(stream)?;
        let captured = state.captures.of_event(event).map(|(id, after)| (id, after.to_vec()));
        match (own, captured) {
            (None, None) if state.captures.events.contains_key(&event.0) => Err(CudaError::INVALID_VALUE),
            (None, None) => Ok(false),
            (Some(own), None) => {
                state.captures.invalidate(own);
                let is_over = state.captures.events.contains_key(&event.0);
                Err(if is_over { CudaError::INVALID_VALUE } else { CudaError::STREAM_CAPTURE_ISOLATION })
            }
            (Some(own), Some((other, _))) if own != other => {
                state.captures.invalidate(own);
                state.captures.invalidate(other);
                Err(CudaError::STREAM_CAPTURE_MERGE)
            }
            (own, Some((id, after))) => {
                if stream.legacy {
                    state.captures.invalidate(id);
                    return Err(CudaError::STREAM_CAPTURE_IMPLICIT);
                }
                state.join(id, stream, own.is_some(), &after)?;
                Ok(true)
            }
        }
    }

    /// Whether an event was last recorded in a capture, so that its completion cannot be asked for. Asking invalidates
    /// the capture.
    ///
    /// # Errors
    /// CAPTURED_EVENT where it was, INVALID_VALUE where that capture is over.
    pub fn refuse_captured(&self, event: Event) -> CudaResult<()> {
        self.refuse_of_capture(event, true)
    }

    /// The same of its time, which invalidates nothing.
    ///
    /// # Errors
    /// As [`Graphs::refuse_captured`].
    pub fn refuse_captured_time(&self, event: Event) -> CudaResult<()> {
        self.refuse_of_capture(event, false)
    }

    fn refuse_of_capture(&self, event: Event, invalidates: bool) -> CudaResult<()> {
        if !self.is_watching() {
            return Ok(());
        }
        let mut state = self.lock();
        let Some(id) = state.captures.events.get(&event.0).map(|(id, _)| *id) else {
            return Ok(());
        };
        let is_open = state.captures.is_open(id);
        if invalidates {
            state.captures.invalidate(id);
        }
        Err(if is_open { CudaError::CAPTURED_EVENT } else { CudaError::INVALID_VALUE })
    }

    /// An event is gone.
    pub fn forget_event(&self, event: Event) {
        if self.is_watching() {
            let mut state = self.lock();
            state.captures.events.remove(&event.0);
            self.watch(&state);
        }
    }
}

impl State {
    /// A stream waits within a capture, or becomes part of it.
    fn join(&mut self, id: u64, stream: &CaptureStream, is_part: bool, after: &[Edge]) -> CudaResult<()> {
        let capture = self.captures.captures.get_mut(&id).ok_or(CudaError::ILLEGAL_STATE)?;
        if !capture.valid {
            return Err(CudaError::INVALID_VALUE);
        }
        if is_part {
            extend(&mut self.strand(id, stream)?.after, after);
        } else {
            capture.streams.insert(stream.key, Strand::new(stream, after.to_vec()));
        }
        Ok(())
    }
}
