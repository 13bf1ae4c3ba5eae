//! The calls about arrays: descriptors come in and are checked, handles go out. Only an array's object knows what the
//! array is at the server.

use std::sync::Arc;

use floe_abi::{Array, Array3dDescriptor, ArrayShape, CudaError, CudaResult};
use floe_surface::ArrayCalls;
use floe_wire::ArrayId;

use crate::client::Client;
use crate::log::log;
use crate::objects::array::ArrayState;
use crate::vgpu::handles::{Handle, Kind};

impl Client {
    /// The array of a handle.
    pub(crate) fn array(&self, array: Array) -> CudaResult<Arc<ArrayState>> {
        let handle = Handle::of(Kind::Array, array.0).ok_or(CudaError::INVALID_HANDLE)?;
        self.device_of(handle).and_then(|device| device.objects.arrays.get(handle.id)).ok_or(CudaError::INVALID_HANDLE)
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
        let vgpu = Arc::clone(&context.vgpu);
        let number = vgpu.next_id();
        let id = ArrayId(number);
        vgpu.create_array(id, &shape)?;
        let (name, context) = (Arc::new(id), context.handle());
        let state = ArrayState { vgpu: Arc::clone(&vgpu), name, shape, context };
        self.objects(&vgpu)?.arrays.insert(number, Arc::new(state));
        Ok(Array(Handle::new(Kind::Array, vgpu.ordinal, number).value()))
    }

    fn array_get_descriptor(&self, array: Array) -> CudaResult<Array3dDescriptor> {
        Ok(self.array(array)?.shape.descriptor())
    }

    fn array_destroy(&self, array: Array) -> CudaResult<()> {
        self.graphs.refuse_unsafe()?;
        let handle = Handle::of(Kind::Array, array.0).ok_or(CudaError::INVALID_HANDLE)?;
        let device = self.device_of(handle).ok_or(CudaError::INVALID_HANDLE)?;
        let vgpu = &device.vgpu;
        vgpu.errors.report()?;
        let epoch = vgpu.epoch();
        let state = device.objects.arrays.remove(handle.id).ok_or(CudaError::INVALID_HANDLE)?;
        vgpu.let_array_go(state, epoch)
    }
}
