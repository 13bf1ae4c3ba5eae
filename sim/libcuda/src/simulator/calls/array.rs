//! Arrays: shapes come in, handles go out. An array is an allocation of its device in plain order of rows. Copies of
//! arrays are therefore copies of memory, and textures read it in place. The levels of a mipmapped array are arrays that
//! follow each other in one allocation. Cubes are refused by name: kernels cannot read
//! them.

use std::collections::HashMap;
use std::sync::Mutex;

use floe_abi::{Array, Array3dDescriptor, ArrayShape, CudaError, CudaResult, MipmappedArray, array_flags};
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
    /// Whether it is a level of a mipmapped array, with which it ends.
    is_level: bool,
}

/// A mipmapped array that exists: its levels' handles, the largest first.
#[derive(Clone, Debug)]
struct MipmappedState {
    levels: Vec<Array>,
    context: u64,
}

/// All arrays of the process.
#[derive(Default)]
pub(crate) struct Arrays {
    by_handle: Mutex<HashMap<u64, ArrayState>>,
    mipmapped: Mutex<HashMap<u64, MipmappedState>>,
}

impl Arrays {
    /// The context is gone, and its memory with it.
    pub(crate) fn forget_context(&self, context: u64) {
        lock(&self.by_handle).retain(|_, array| array.context != context);
        lock(&self.mipmapped).retain(|_, array| array.context != context);
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

/// The shape of a descriptor, if the device has such arrays.
fn shape(descriptor: &Array3dDescriptor) -> CudaResult<ArrayShape> {
    let shape = ArrayShape::new(descriptor).inspect_err(|error| {
        if *error == CudaError::NOT_SUPPORTED {
            let (format, flags) = (descriptor.format, descriptor.flags);
            crate::simulator::log::warn_once(format_args!(
                "arrays of format {format:#x} with flags {flags:#x} are not supported"
            ));
        }
    })?;
    check(&shape)?;
    Ok(shape)
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

    /// The levels of a mipmapped array, the largest first.
    pub(crate) fn levels(&self, array: MipmappedArray) -> CudaResult<Vec<ArrayState>> {
        let levels = lock(&self.arrays.mipmapped).get(&array.0).map(|state| state.levels.clone());
        levels.ok_or(CudaError::INVALID_HANDLE)?.into_iter().map(|level| self.array(level)).collect()
    }

    /// Allocates arrays of these shapes behind each other. A mipmapped array has several.
    fn allocate_arrays(&self, shapes: &[ArrayShape], is_level: bool) -> CudaResult<(Vec<Array>, u64)> {
        let (context, device) = self.working_device()?;
        self.graphs.refuse_unsafe()?;
        let (mut states, mut bytes) = (Vec::with_capacity(shapes.len()), 0_u64);
        for shape in shapes {
            let pitch = shape.row_bytes().next_multiple_of(ROW_ALIGNMENT) as u64;
            let slice = pitch * shape.rows() as u64;
            let own = slice.checked_mul(shape.slices() as u64).ok_or(CudaError::OUT_OF_MEMORY)?;
            let (device, context) = (context.device, context.handle);
            states.push(ArrayState { shape: *shape, address: bytes, pitch, slice, device, context, is_level });
            bytes = bytes.checked_add(own).ok_or(CudaError::OUT_OF_MEMORY)?;
        }
        let owner = Owner { context: context.handle, pool: None, leaving: false, is_managed: false };
        let address = device.memory.allocate(bytes, owner)?.address;
        let mut by_handle = lock(&self.arrays.by_handle);
        let handles = states.into_iter().map(|state| {
            let handle = self.handles.next();
            by_handle.insert(handle, ArrayState { address: address + state.address, ..state });
            Array(handle)
        });
        Ok((handles.collect(), context.handle))
    }

    /// Frees the allocation of an array that was taken out, when nothing uses it any more.
    fn free_array(&self, state: &ArrayState) -> CudaResult<()> {
        // Streams that wait for a word do nothing meanwhile, and the program may write that word after this call.
        self.wait_everything_unheld();
        let device = self.devices.get(state.device).ok_or(CudaError::INVALID_DEVICE)?;
        device.memory.free(state.address).ok_or(CudaError::INVALID_HANDLE)?;
        device.memory.give_back(false);
        Ok(())
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
        self.working()?;
        let (arrays, _) = self.allocate_arrays(&[shape(descriptor)?], false)?;
        arrays.first().copied().ok_or(CudaError::INVALID_VALUE)
    }

    fn array_get_descriptor(&self, array: Array) -> CudaResult<Array3dDescriptor> {
        self.current()?;
        Ok(self.array(array)?.shape.descriptor())
    }

    fn array_destroy(&self, array: Array) -> CudaResult<()> {
        self.current()?;
        self.graphs.refuse_unsafe()?;
        let state = {
            let mut arrays = lock(&self.arrays.by_handle);
            arrays.get(&array.0).filter(|state| !state.is_level).ok_or(CudaError::INVALID_HANDLE)?;
            arrays.remove(&array.0).ok_or(CudaError::INVALID_HANDLE)?
        };
        self.free_array(&state)
    }

    fn mipmapped_array_create(&self, descriptor: &Array3dDescriptor, levels: u32) -> CudaResult<MipmappedArray> {
        self.working()?;
        let shape = shape(descriptor)?;
        let shapes: Vec<ArrayShape> = (0..levels.max(1)).map_while(|level| shape.level(level)).collect();
        let (levels, context) = self.allocate_arrays(&shapes, true)?;
        let handle = self.handles.next();
        lock(&self.arrays.mipmapped).insert(handle, MipmappedState { levels, context });
        Ok(MipmappedArray(handle))
    }

    fn mipmapped_array_get_level(&self, array: MipmappedArray, number: u32) -> CudaResult<Array> {
        self.current()?;
        let arrays = lock(&self.arrays.mipmapped);
        let state = arrays.get(&array.0).ok_or(CudaError::INVALID_HANDLE)?;
        state.levels.get(number as usize).copied().ok_or(CudaError::INVALID_VALUE)
    }

    fn mipmapped_array_destroy(&self, array: MipmappedArray) -> CudaResult<()> {
        self.current()?;
        self.graphs.refuse_unsafe()?;
        let state = lock(&self.arrays.mipmapped).remove(&array.0).ok_or(CudaError::INVALID_HANDLE)?;
        let levels: Vec<ArrayState> = {
            let mut arrays = lock(&self.arrays.by_handle);
            state.levels.iter().filter_map(|level| arrays.remove(&level.0)).collect()
        };
        // The first one begins where the allocation does.
        levels.first().map_or(Ok(()), |first| self.free_array(first))
    }
}
