//! A context of the session's own, apart from the program's.
//! In: the device, when a link or a stream needs the context. Out: the context, current where copies are issued; it ends with its last
//! user.
//! Nothing ever waits in it. In the program's context a copy may stand behind a stream that waits for this very copy: GPUs put many
//! streams of a context into few queues, and a kernel that is loaded late holds up all of them (docs/facts/h200.md). Only memory of
//! `cuMemMap` and of the host is copied here: for other memory the driver goes through the context that it is of.

use std::sync::{Arc, Mutex, Weak};

use floe_abi::{Context, CudaResult, Stream, stream_flags};
use floe_device::Device;

use crate::complete::events::{CompletionEvent, Pool};
use crate::issue::fault::Fault;
use crate::memory::budget::{Budget, Kept, cost};

/// The context.
pub(crate) struct Apart<D: Device> {
    device: Arc<D>,
    context: Context,
    _kept: Kept,
}

/// The one that a session's users share, as long as there is one.
pub(crate) struct SharedApart<D: Device>(Mutex<Weak<Apart<D>>>);

impl<D: Device> Default for SharedApart<D> {
    fn default() -> Self {
        Self(Mutex::new(Weak::new()))
    }
}

impl<D: Device> SharedApart<D> {
    /// The context, which is made where there is none.
    pub(crate) fn get(&self, device: &Arc<D>, budget: &Budget) -> Result<Arc<Apart<D>>, Fault> {
        let mut shared = floe_lock::lock(&self.0);
        if let Some(apart) = shared.upgrade() {
            return Ok(apart);
        }
        let _kept = budget.keep(cost::CONTEXT)?;
        let context = device.make_context()?;
        let apart = Arc::new(Apart { device: Arc::clone(device), context, _kept });
        *shared = Arc::downgrade(&apart);
        Ok(apart)
    }
}

impl<D: Device> Apart<D> {
    /// Makes it current on the calling thread.
    pub(crate) fn enter(&self) -> CudaResult<()> {
        self.device.enter_context(self.context)
    }

    /// The same until what is returned is dropped: then the program's context is current.
    fn inside(&self) -> CudaResult<Inside<'_, D>> {
        self.enter()?;
        Ok(Inside(&self.device))
    }
}

impl<D: Device> Drop for Apart<D> {
    fn drop(&mut self) {
        // One that is beyond use goes with the process.
        let _ = self.device.end_context(self.context);
    }
}

/// The calling thread is in the context apart.
#[must_use = "the thread is in the program's context again when this is dropped"]
pub(crate) struct Inside<'a, D: Device>(&'a D);

impl<D: Device> Drop for Inside<'_, D> {
    fn drop(&mut self) {
        // On a context beyond use every later call says so.
        let _ = self.0.enter();
    }
}

/// The session's stream in that context, for copies and fills.
pub(crate) struct ApartStream<D: Device> {
    stream: Stream,
    pool: Arc<Pool<D>>,
    apart: Arc<Apart<D>>,
}

impl<D: Device> ApartStream<D> {
    pub(crate) fn new(device: &Arc<D>, apart: Arc<Apart<D>>) -> CudaResult<Self> {
        let inside = apart.inside()?;
        let stream = device.stream_create_with_priority(stream_flags::NON_BLOCKING, 0)?;
        drop(inside);
        Ok(Self { stream, pool: Pool::new(Arc::clone(device)), apart })
    }

    /// The driver's handle.
    pub(crate) fn handle(&self) -> Stream {
        self.stream
    }

    /// The calling thread issues to it, until what is returned is dropped.
    pub(crate) fn inside(&self) -> CudaResult<Inside<'_, D>> {
        self.apart.inside()
    }

    /// Records what it holds so far.
    pub(crate) fn record(&self) -> CudaResult<Arc<CompletionEvent<D>>> {
        let _inside = self.inside()?;
        self.pool.record(self.stream)
    }
}

impl<D: Device> Drop for ApartStream<D> {
    fn drop(&mut self) {
        // On a context beyond use the driver refuses; they are gone with it.
        let _inside = self.apart.inside();
        let _ = self.apart.device.stream_destroy(self.stream);
        self.pool.empty();
    }
}
