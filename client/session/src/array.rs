//! Arrays: shapes come in and are checked, handles go out; making one waits, since the quota may have no room. An array that is
//! destroyed is given up at the server while nothing is outstanding, for the server's driver waits for all work then, and its
//! issuer with it.

use std::sync::{Arc, Mutex};

use floe_abi::{Array, Array3dDescriptor, ArrayShape, Context, CudaError, CudaResult};
use floe_surface::ArrayCalls;
use floe_wire::{ArrayId, CreateArray, DestroyArray};

use crate::client::Client;
use crate::handles::{Handle, Kind};
use crate::log::log;
use crate::session::Session;
use crate::table::lock;

/// One array.
#[derive(Debug)]
pub(crate) struct ArrayState {
    pub(crate) session: Arc<Session>,
    pub(crate) id: ArrayId,
    pub(crate) shape: ArrayShape,
    context: Context,
}

/// Arrays the program has destroyed.
#[derive(Debug, Default)]
pub(crate) struct LeavingArrays {
    waiting: Mutex<Vec<ArrayId>>,
}

impl LeavingArrays {
    /// The server has none of them any more.
    pub(crate) fn clear(&self) {
        lock(&self.waiting).clear();
    }
}

impl Session {
    fn create_array(&self, array: ArrayId, shape: &ArrayShape) -> CudaResult<()> {
        let Array3dDescriptor { width, height, depth, format, channels, flags } = shape.descriptor();
        let (width, height, depth) = (width as u64, height as u64, depth as u64);
        let message = CreateArray { array, width, height, depth, format, channels, flags };
        self.collect()?;
        match self.call(&message) {
            Err(CudaError::OUT_OF_MEMORY) => {}
            made => return made.map(|_| ()),
        }
        // What the program freed may still be in quarantine, and blocks may lie idle.
        self.synchronize()?;
        self.trim(0)?;
        self.call(&message).map(|_| ())
    }

    /// An array of this epoch: with a reset the server's are gone.
    fn let_array_go(&self, array: ArrayId, epoch: u64) -> CudaResult<()> {
        {
            let mut waiting = lock(&self.leaving_arrays.waiting);
            if epoch == self.epoch() {
                waiting.push(array);
            }
        }
        self.give_up_arrays()
    }

    /// Gives up at the server what was destroyed, where nothing is outstanding.
    pub(crate) fn give_up_arrays(&self) -> CudaResult<()> {
        let mut waiting = lock(&self.leaving_arrays.waiting);
        if waiting.is_empty() || !self.order.is_idle() {
            return Ok(());
        }
        // Posted under the lock: a reset comes before it or behind it.
        waiting.drain(..).try_for_each(|array| self.connection.post(&DestroyArray { array }).map(|_| ()))
    }

    /// Everything of one context's is given up, while others live on.
    pub(crate) fn clear_arrays(&self, context: Context) -> CudaResult<()> {
        self.clear_textures(context)?;
        let epoch = self.epoch();
        let gone = self.arrays.remove_if(|array| array.context == context);
        gone.iter().try_for_each(|array| self.let_array_go(array.id, epoch))
    }
}

impl Client {
    /// The array of a handle.
    pub(crate) fn array(&self, array: Array) -> CudaResult<Arc<ArrayState>> {
        let handle = Handle::of(Kind::Array, array.0).ok_or(CudaError::INVALID_HANDLE)?;
        self.session(handle).and_then(|session| session.arrays.get(handle.id)).ok_or(CudaError::INVALID_HANDLE)
    }
}

impl ArrayCalls for Client {
    fn array_create(&self, descriptor: &Array3dDescriptor) -> CudaResult<Array> {
        self.graphs.refuse_unsafe()?;
        let context = self.working()?;
        let shape = ArrayShape::new(descriptor).inspect_err(|error| {
            if *error == CudaError::NOT_SUPPORTED {
                let (format, flags) = (descriptor.format, descriptor.flags);
                log!(Warn, "cuArrayCreate: arrays of format {format:#x} with flags {flags:#x} are not supported");
            }
        })?;
        let session = Arc::clone(&context.session);
        let number = session.next_id();
        let id = ArrayId(number);
        session.create_array(id, &shape)?;
        let state = ArrayState { session: Arc::clone(&session), id, shape, context: context.handle() };
        session.arrays.insert(number, Arc::new(state));
        Ok(Array(Handle::new(Kind::Array, session.ordinal, number).value()))
    }

    fn array_get_descriptor(&self, array: Array) -> CudaResult<Array3dDescriptor> {
        Ok(self.array(array)?.shape.descriptor())
    }

    fn array_destroy(&self, array: Array) -> CudaResult<()> {
        self.graphs.refuse_unsafe()?;
        let handle = Handle::of(Kind::Array, array.0).ok_or(CudaError::INVALID_HANDLE)?;
        let session = self.session(handle).ok_or(CudaError::INVALID_HANDLE)?;
        session.errors.report()?;
        let epoch = session.epoch();
        let state = session.arrays.remove(handle.id).ok_or(CudaError::INVALID_HANDLE)?;
        session.let_array_go(state.id, epoch)
    }
}
