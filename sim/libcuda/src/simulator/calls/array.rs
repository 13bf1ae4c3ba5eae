//! Arrays: shapes come in, handles go out. An array is an allocation of its device in plain order of rows. Copies of
//! arrays are therefore copies of memory, and textures read it in place. Cubes are refused by name: kernels cannot read
//! them.

use std::collections::HashMap;
use std::sync::Mutex;

use floe_abi::{Array, Array3dDescriptor, ArrayShape, CudaError, CudaResult, array_flags};
use floe_surface::ArrayCalls;

use crate::simulator::Simulator;
use crate::simulator::device::limits;
use crate::simulator::executor::transfer::{End, Side};
use crate::simulator::memory::device_memory::Owner;
use floe_lock::lock;

/// Rows begin at multiples of this: the largest element.
const ROW_ALIGNMENT: usize = 16;

/// An array that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayState {
    pub(crate) shape: ArrayShape,
    /// The address of its bytes.
    pub(crate) address: u64,
    /// Bytes from one row to the next.
    pub(crate) pitch: u64,
    /// Bytes from one slice to the next.
    pub(crate) slice: u64,
    device: usize,
    /// The context's handle.
    context: u64,
}

/// All arrays of the process.
#[derive(Default)]
pub(crate) struct Arrays {
    by_handle: Mutex<HashMap<u64, ArrayState>>,
}

impl Arrays {
    /// The context is gone, and its memory with it.
    pub(crate) fn forget_context(&self, context: u64) {
        lock(&self.by_handle).retain(|_, array| array.context != context);
    }
}

/// The most elements an array may have along each axis, as the attributes say.
fn most(shape: &ArrayShape) -> [u32; 3] {
    let descriptor = shape.descriptor();
    match (shape.is_layered(), descriptor.height, descriptor.depth) {
        (true, 0, _) => [limits::TEXTURE_1D_LAYERED[0], 1, limits::TEXTURE_1D_LAYERED[1]],
        (true, ..) => limits::TEXTURE_2D_LAYERED,
        (false, 0, _) => [limits::TEXTURE_1D, 1, 1],
        (false, _, 0) => [limits::TEXTURE_2D[0], limits::TEXTURE_2D[1], 1],
        (false, ..) => limits::TEXTURE_3D,
    }
}

fn check(shape: &ArrayShape) -> CudaResult<()> {
    if shape.descriptor().flags & array_flags::CUBEMAP != 0 {
        crate::simulator::log::warn_once(format_args!("arrays of cubes are not supported by the CPU device"));
        return Err(CudaError::NOT_SUPPORTED);
    }
    let fits = |extent: usize, most: u32| u32::try_from(extent).is_ok_and(|extent| extent <= most);
    let [width, height, depth] = most(shape);
    let possible = fits(shape.width(), width) && fits(shape.rows(), height) && fits(shape.slices(), depth);
    if possible { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

impl Simulator {
    pub(crate) fn array(&self, array: Array) -> CudaResult<ArrayState> {
        lock(&self.arrays.by_handle).get(&array.0).copied().ok_or(CudaError::INVALID_HANDLE)
    }

    /// The end of a copy in an array, from where it begins.
    pub(crate) fn array_side(&self, array: Array, at: [usize; 3], extent: [usize; 3]) -> CudaResult<Side> {
        let array = self.array(array)?;
        if !array.shape.holds(at, extent) {
            return Err(CudaError::INVALID_VALUE);
        }
        let [x, y, z] = at.map(|offset| offset as u64);
        let start = array.address + z * array.slice + y * array.pitch + x;
        Ok(Side { end: End::Device(start), row: array.pitch, slice: array.slice })
    }
}

impl ArrayCalls for Simulator {
    fn array_create(&self, descriptor: &Array3dDescriptor) -> CudaResult<Array> {
        let (context, device) = self.working_device()?;
        let shape = ArrayShape::new(descriptor).inspect_err(|error| {
            if *error == CudaError::NOT_SUPPORTED {
                let (format, flags) = (descriptor.format, descriptor.flags);
                crate::simulator::log::warn_once(format_args!(
                    "arrays of format {format:#x} with flags {flags:#x} are not supported"
                ));
            }
        })?;
        check(&shape)?;
        self.graphs.refuse_unsafe()?;
        let pitch = shape.row_bytes().next_multiple_of(ROW_ALIGNMENT) as u64;
        let slice = pitch * shape.rows() as u64;
        let bytes = slice.checked_mul(shape.slices() as u64).ok_or(CudaError::OUT_OF_MEMORY)?;
        let owner = Owner { context: context.handle, pool: None, leaving: false, is_managed: false };
        let address = device.memory.allocate(bytes, owner)?.address;
        let state = ArrayState { shape, address, pitch, slice, device: context.device, context: context.handle };
        let handle = self.handles.next();
        lock(&self.arrays.by_handle).insert(handle, state);
        Ok(Array(handle))
    }

    fn array_get_descriptor(&self, array: Array) -> CudaResult<Array3dDescriptor> {
        self.current()?;
        Ok(self.array(array)?.shape.descriptor())
    }

    fn array_destroy(&self, array: Array) -> CudaResult<()> {
        self.current()?;
        self.graphs.refuse_unsafe()?;
        let state = lock(&self.arrays.by_handle).remove(&array.0).ok_or(CudaError::INVALID_HANDLE)?;
        // Streams that wait for a word do nothing meanwhile, and the program may write that word after this call.
        self.wait_everything_unheld();
        let device = self.devices.get(state.device).ok_or(CudaError::INVALID_DEVICE)?;
        device.memory.free(state.address).ok_or(CudaError::INVALID_HANDLE)?;
        device.memory.give_back(false);
        Ok(())
    }
}
