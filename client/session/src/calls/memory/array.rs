//! The calls about arrays: descriptors come in and are checked, handles go out. Only an array's object knows what the
//! array is at the server.

use std::sync::{Arc, Mutex};

use floe_abi::{Array, Array3dDescriptor, ArrayShape, CudaError, CudaResult, MipmappedArray, resource_type};
use floe_surface::ArrayCalls;
use floe_wire::{ArrayId, TakeLevel};

use crate::client::Client;
use crate::log::log;
use crate::objects::array::{ArrayState, Levels, Named};
use crate::vgpu::handles::{Handle, Kind};
use floe_lock::lock;

impl Client {
    /// The array of a handle.
    pub(crate) fn array(&self, array: Array) -> CudaResult<Arc<ArrayState>> {
        self.array_by(Kind::Array, array.0)
    }

    /// The mipmapped array of a handle.
    pub(crate) fn mipmapped_array(&self, array: MipmappedArray) -> CudaResult<Arc<ArrayState>> {
        self.array_by(Kind::MipmappedArray, array.0)
    }

    /// Both are in one table: their ids are the server's, which tells them apart by what they were made as.
    fn array_by(&self, kind: Kind, handle: u64) -> CudaResult<Arc<ArrayState>> {
        let handle = Handle::of(kind, handle).ok_or(CudaError::INVALID_HANDLE)?;
        let found = self.device_of(handle).and_then(|device| device.objects.arrays.get(handle.id));
        found.filter(|array| kind_of(array) == kind).ok_or(CudaError::INVALID_HANDLE)
    }

    /// Makes an array, or a mipmapped one of at most so many levels.
    fn make_array(&self, descriptor: &Array3dDescriptor, levels: Option<u32>) -> CudaResult<u64> {
        self.graphs.refuse_unsafe()?;
        let context = self.working()?;
        let shape = ArrayShape::new(descriptor).inspect_err(|error| {
            if *error == CudaError::NOT_SUPPORTED {
                let (format, flags) = (descriptor.format, descriptor.flags);
                log!(Warn, "cuArrayCreate: arrays of format {format:#x} with flags {flags:#x} are not supported");
            }
        })?;
        let levels = levels.map(|levels| levels.clamp(1, shape.most_levels()));
        let vgpu = Arc::clone(&context.vgpu);
        let number = vgpu.next_id();
        let id = ArrayId(number);
        vgpu.create_array(id, &shape, levels.unwrap_or(0))?;
        let levels = levels.map(|count| Levels { count, taken: Mutex::default() });
        let (name, context) = (Arc::new(Named { id, of: None }), context.handle());
        let state = ArrayState { vgpu: Arc::clone(&vgpu), name, shape, context, levels };
        let kind = kind_of(&state);
        self.objects(&vgpu)?.arrays.insert(number, Arc::new(state));
        Ok(Handle::new(kind, vgpu.ordinal, number).value())
    }

    fn end_array(&self, kind: Kind, handle: u64) -> CudaResult<()> {
        self.graphs.refuse_unsafe()?;
        let handle = Handle::of(kind, handle).ok_or(CudaError::INVALID_HANDLE)?;
        let device = self.device_of(handle).ok_or(CudaError::INVALID_HANDLE)?;
        let vgpu = &device.vgpu;
        vgpu.errors.report()?;
        let epoch = vgpu.epoch();
        let arrays = &device.objects.arrays;
        // A level ends with its mipmapped array only.
        let ends = |array: &ArrayState| kind_of(array) == kind && array.name.of.is_none();
        let array = arrays.get(handle.id).filter(|array| ends(array)).ok_or(CudaError::INVALID_HANDLE)?;
        self.let_go_of_array(&array, handle.value());
        // Its last holder gives it back.
        drop(array);
        let state = arrays.remove(handle.id).ok_or(CudaError::INVALID_HANDLE)?;
        if let Some(levels) = &state.levels {
            for level in lock(&levels.taken).values() {
                drop(arrays.remove(*level));
            }
        }
        vgpu.let_array_go(state, epoch)
    }

    /// Texture references read an array and its levels no more.
    fn let_go_of_array(&self, array: &ArrayState, handle: u64) {
        let mut gone = vec![handle];
        if let Some(levels) = &array.levels {
            let ordinal = array.vgpu.ordinal;
            gone.extend(lock(&levels.taken).values().map(|level| Handle::new(Kind::Array, ordinal, *level).value()));
        }
        let is_of_arrays = |kind| [resource_type::ARRAY, resource_type::MIPMAPPED_ARRAY].contains(&kind);
        self.let_texture_references_go(|read| is_of_arrays(read.kind) && gone.contains(&read.place));
    }
}

/// The kind of handle that a program has for it.
fn kind_of(array: &ArrayState) -> Kind {
    if array.levels.is_some() { Kind::MipmappedArray } else { Kind::Array }
}

impl ArrayCalls for Client {
    fn array_create(&self, descriptor: &Array3dDescriptor) -> CudaResult<Array> {
        self.make_array(descriptor, None).map(Array)
    }

    fn array_get_descriptor(&self, array: Array) -> CudaResult<Array3dDescriptor> {
        Ok(self.array(array)?.shape.descriptor())
    }

    fn array_destroy(&self, array: Array) -> CudaResult<()> {
        self.end_array(Kind::Array, array.0)
    }

    fn mipmapped_array_create(&self, descriptor: &Array3dDescriptor, levels: u32) -> CudaResult<MipmappedArray> {
        self.make_array(descriptor, Some(levels)).map(MipmappedArray)
    }

    fn mipmapped_array_get_level(&self, array: MipmappedArray, number: u32) -> CudaResult<Array> {
        let whole = self.mipmapped_array(array)?;
        let levels = whole.levels.as_ref().filter(|levels| number < levels.count).ok_or(CudaError::INVALID_VALUE)?;
        let shape = whole.shape.level(number).ok_or(CudaError::INVALID_VALUE)?;
        let (vgpu, context) = (Arc::clone(&whole.vgpu), whole.context);
        // One thread asks the server, and all get the same array.
        let mut taken = lock(&levels.taken);
        // Who ends the whole takes it out first and then looks which levels there are.
        self.mipmapped_array(array)?;
        let id = if let Some(id) = taken.get(&number) {
            *id
        } else {
            let id = vgpu.next_id();
            let level = ArrayId(id);
            vgpu.connection.post(&TakeLevel { of: whole.name.id, level: number, array: level })?;
            let name = Arc::new(Named { id: level, of: Some(Arc::clone(&whole.name)) });
            let state = ArrayState { vgpu: Arc::clone(&vgpu), name, shape, context, levels: None };
            self.objects(&vgpu)?.arrays.insert(id, Arc::new(state));
            taken.insert(number, id);
            id
        };
        Ok(Array(Handle::new(Kind::Array, vgpu.ordinal, id).value()))
    }

    fn mipmapped_array_destroy(&self, array: MipmappedArray) -> CudaResult<()> {
        self.end_array(Kind::MipmappedArray, array.0)
    }
}
