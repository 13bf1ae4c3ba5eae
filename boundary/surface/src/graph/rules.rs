//! The calls that CUDA refuses while streams are captured. They may wait or order the device on their own, use the
//! legacy default stream, or synchronize a context. Threads and contexts come in, errors go out; a capture that was in
//! the way is invalidated, as CUDA says. The thread's own mode is kept here.

use super::capture::CaptureStream;
use super::store::{Graphs, State};
use floe_abi::{CudaError, CudaResult, capture_mode};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    // Neither has a destructor, so both can be used while a thread ends.
    static MODE: Cell<u32> = const { Cell::new(capture_mode::GLOBAL) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

static THREADS: AtomicU64 = AtomicU64::new(1);

/// A number of the calling thread's alone.
pub(super) fn thread() -> u64 {
    THREAD.with(|own| {
        if own.get() == 0 {
            own.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        own.get()
    })
}

/// Replaces the calling thread's capture mode; returns the one before.
///
/// # Errors
/// INVALID_VALUE for an unknown mode.
pub fn exchange_mode(mode: u32) -> CudaResult<u32> {
    if mode > capture_mode::RELAXED {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(MODE.with(|own| own.replace(mode)))
}

/// The legacy default stream would wait for streams that are being captured, so nothing may be put on it.
pub(super) fn refuse_legacy(state: &mut State, stream: &CaptureStream) -> CudaResult<()> {
    if !stream.legacy {
        return Ok(());
    }
    let mut refused = false;
    for capture in state.captures.all().filter(|capture| capture.meets_legacy(stream)) {
        capture.valid = false;
        refused = true;
    }
    if refused { Err(CudaError::STREAM_CAPTURE_IMPLICIT) } else { Ok(()) }
}

impl Graphs {
    /// Refuses a call that may wait for the device or order it on its own, such as an allocation or a query of an
    /// event. The modes of this thread and of the open captures decide.
    ///
    /// # Errors
    /// STREAM_CAPTURE_UNSUPPORTED where it is forbidden.
    pub fn refuse_unsafe(&self) -> CudaResult<()> {
        let mode = MODE.with(Cell::get);
        if !self.is_watching() || mode == capture_mode::RELAXED {
            return Ok(());
        }
        let (own, mut refused) = (thread(), false);
        for capture in self.lock().captures.all() {
            let here = capture.thread == own && capture.mode != capture_mode::RELAXED;
            let elsewhere = mode == capture_mode::GLOBAL && capture.mode == capture_mode::GLOBAL;
            if here || elsewhere {
                capture.valid = false;
                refused = true;
            }
        }
        if refused { Err(CudaError::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// A call that needs the stream's work to run: not on a stream whose work is recorded.
    ///
    /// # Errors
    /// STREAM_CAPTURE_UNSUPPORTED for a captured stream, else as [`Graphs::is_capturing`].
    pub fn refuse_on(&self, stream: &CaptureStream) -> CudaResult<()> {
        if !self.is_capturing(stream)? {
            return Ok(());
        }
        self.invalidate_on(stream);
        Err(CudaError::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// A wait for all of a context: not while a stream of it is captured.
    ///
    /// # Errors
    /// STREAM_CAPTURE_UNSUPPORTED where one is.
    pub fn refuse_synchronize(&self, context: u64) -> CudaResult<()> {
        if !self.is_watching() {
            return Ok(());
        }
        let mut refused = false;
        for capture in self.lock().captures.all().filter(|capture| capture.is_in(context)) {
            capture.valid = false;
            refused = true;
        }
        if refused { Err(CudaError::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }
}
