//! Arrays: a shape comes in, an object of the server's goes out; making one waits, since the quota may have no room. A
//! destroyed array is released at the server only while nothing is outstanding: the server's driver waits for all work
//! then, and its issuer with it. It knows no handle.

use std::sync::Arc;

use floe_abi::{Array3dDescriptor, ArrayShape, Context, CudaError, CudaResult};
use floe_wire::{ArrayId, CreateArray};

use crate::vgpu::Vgpu;
use floe_lock::lock;

/// One array.
#[derive(Debug)]
pub(crate) struct ArrayState {
    pub(crate) vgpu: Arc<Vgpu>,
    pub(crate) id: ArrayId,
    pub(crate) shape: ArrayShape,
    pub(crate) context: Context,
}

impl Vgpu {
    pub(crate) fn create_array(&self, array: ArrayId, shape: &ArrayShape) -> CudaResult<()> {
        let Array3dDescriptor { width, height, depth, format, channels, flags } = shape.descriptor();
        let (width, height, depth) = (width as u64, height as u64, depth as u64);
        let message = CreateArray { array, width, height, depth, format, channels, flags };
        self.collect()?;
        match self.call(&message) {
            Err(CudaError::OUT_OF_MEMORY) => {}
            made => return made.map(|_| ()),
        }
        // Freed memory may still be in quarantine, and blocks may lie idle.
        self.synchronize()?;
        self.trim(0)?;
        self.call(&message).map(|_| ())
    }

    /// An array of this epoch: with a reset the server's are gone.
    pub(crate) fn let_array_go(&self, array: ArrayId, epoch: u64) -> CudaResult<()> {
        {
            let mut waiting = lock(&self.leaving_arrays);
            if epoch == self.epoch() {
                waiting.push(array);
            }
        }
        self.give_up_arrays()
    }
}
