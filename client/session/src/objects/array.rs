//! Arrays: a shape comes in, an object of the server's goes out; making one waits, since the quota may have no room. A
//! destroyed array is released at the server only while nothing is outstanding: the server's driver waits for all work
//! then, and its issuer with it. It is released behind every command that names it, so no other thread's call is in the
//! middle of one. The level of a mipmapped array has a name of its own that keeps the whole's. It knows no handle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use floe_abi::{Array3dDescriptor, ArrayShape, Context, CudaError, CudaResult};
use floe_wire::{ArrayId, CreateArray, DestroyArray};

use crate::vgpu::Vgpu;
use floe_lock::lock;

/// The server's name of an array, which is that array's for as long as anyone has it.
pub(crate) type ArrayName = Arc<Named>;

/// What the server calls an array.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) id: ArrayId,
    /// The mipmapped array it is a level of, and with which it ends.
    pub(crate) of: Option<ArrayName>,
}

/// One array.
#[derive(Debug)]
pub(crate) struct ArrayState {
    pub(crate) vgpu: Arc<Vgpu>,
    pub(crate) name: ArrayName,
    /// Of a mipmapped array its first level's.
    pub(crate) shape: ArrayShape,
    pub(crate) context: Context,
    /// Of a mipmapped array.
    pub(crate) levels: Option<Levels>,
}

/// The levels of a mipmapped array.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) count: u32,
    /// The ids of those that the program has asked for, by their numbers.
    pub(crate) taken: Mutex<BTreeMap<u32, u64>>,
}

impl Vgpu {
    /// `levels`: 0 for a plain array.
    pub(crate) fn create_array(&self, array: ArrayId, shape: &ArrayShape, levels: u32) -> CudaResult<()> {
        let Array3dDescriptor { width, height, depth, format, channels, flags } = shape.descriptor();
        let (width, height, depth) = (width as u64, height as u64, depth as u64);
        let message = CreateArray { array, width, height, depth, format, channels, flags, levels };
        self.collect()?;
        match self.call(&message) {
            Err(CudaError::OUT_OF_MEMORY) => {}
            made => return made.map(|_| ()),
        }
        self.give_back_all_freed()?;
        // Other threads may keep the vGPU busy for ever. Waiting for it is what an array costs now.
        self.release(lock(&self.leaving_arrays))?;
        self.behind_returns(|| self.call(&message)).map(|_| ())
    }

    /// A destroyed array of this epoch: with a reset the server's are gone. A level goes with its mipmapped array.
    pub(crate) fn let_array_go(&self, array: Arc<ArrayState>, epoch: u64) -> CudaResult<()> {
        if array.name.of.is_some() {
            return Ok(());
        }
        {
            let mut waiting = lock(&self.leaving_arrays);
            if epoch == self.epoch() {
                waiting.push(Arc::clone(&array.name));
            }
        }
        drop(array);
        self.give_up_arrays()
    }

    /// Releases destroyed arrays at the server, if nothing is outstanding.
    pub(crate) fn give_up_arrays(&self) -> CudaResult<()> {
        let waiting = lock(&self.leaving_arrays);
        if waiting.is_empty() || !self.order.is_idle() {
            return Ok(());
        }
        self.release(waiting)
    }

    /// Releases destroyed arrays at the server, but for those that a call still names.
    fn release(&self, mut waiting: MutexGuard<'_, Vec<ArrayName>>) -> CudaResult<()> {
        // A name that only this list has is given to nobody any more. Posted under the lock: a reset comes before it or
        // behind it.
        let mut unnamed = waiting.extract_if(.., |name| Arc::get_mut(name).is_some());
        unnamed.try_for_each(|array| self.connection.post(&DestroyArray { array: array.id }).map(|_| ()))
    }
}
