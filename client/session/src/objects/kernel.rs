//! A kernel of a library, on any vGPU: it finds its function on a device, whose library is loaded there with the same question.
//! It remembers each function until that device is reset.

use std::sync::{Arc, RwLock, Weak};

use floe_abi::{CudaError, CudaResult, Kernel};

use crate::objects::device::DeviceState;
use crate::objects::function::FunctionState;
use crate::objects::library::LibraryState;
use crate::vgpu::handles::{Handle, Kind};

/// A kernel of a library, on any vGPU.
#[derive(Debug)]
pub(crate) struct KernelState {
    id: u64,
    pub(crate) name: String,
    pub(crate) library: Weak<LibraryState>,
    /// By the vGPU's ordinal.
    functions: RwLock<Vec<Option<Arc<FunctionState>>>>,
}

impl KernelState {
    /// A kernel of a library, on no vGPU yet.
    pub(crate) fn new(id: u64, library: &Arc<LibraryState>, name: &str) -> Self {
        Self { id, name: name.to_owned(), library: Arc::downgrade(library), functions: RwLock::default() }
    }

    /// Its id in the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The program's handle of it.
    pub(crate) fn handle(&self) -> Kernel {
        Kernel(Handle::new(Kind::Kernel, 0, self.id).value())
    }

    /// The kernel on a device; its library is loaded there if it is not yet.
    pub(crate) fn on(&self, device: &DeviceState) -> CudaResult<Arc<FunctionState>> {
        let index = usize::from(device.vgpu.ordinal);
        let known = {
            let functions = floe_lock::read(&self.functions);
            functions.get(index).cloned().flatten()
        };
        if let Some(function) = known.filter(|function| function.is_usable()) {
            return Ok(function);
        }
        let library = self.library.upgrade().ok_or(CudaError::INVALID_HANDLE)?;
        let function = library.function(device, &self.name)?;
        let mut functions = floe_lock::write(&self.functions);
        if functions.len() <= index {
            functions.resize(index + 1, None);
        }
        functions[index] = Some(Arc::clone(&function));
        function.belongs_to(self.id);
        Ok(function)
    }
}
