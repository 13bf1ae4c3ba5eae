//! The loaded library: its functions, where it came from, and whether it is floe's own CPU device. Calls go through the
//! generated methods; what follows from no table is in the files beside. A function the library lacks is
//! NOT_SUPPORTED, named once in the log.

mod graph;
mod host_memory;
mod image;
mod launch;
mod link;
mod module;
mod open;
mod pitched;
mod shareable;
mod tensor_map;
mod texture_reference;

use crate::Calls;
use floe_abi::{CuResult, CudaError, CudaResult, Device, DevicePtr, Function, Kernel, Uuid, pointer_attribute};
use libloading::Library;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub use graph::GraphKernel;
pub use host_memory::HostMemory;
pub use image::LoadImage;
pub use launch::{HostCall, LaunchRequest};
pub use link::LinkInput;
use module::Images;
pub use module::{LoadLog, LoadOption};
pub(crate) use open::{CLIENT_MARKER, has, plain_reason};
pub use open::{OpenError, Tried};

/// A driver library, loaded for the rest of the process.
///
/// Handles passed to its methods must be ones it gave, in this process: drivers follow them as pointers. The worker
/// keeps this by translating ids through its own tables.
#[derive(Debug)]
pub struct Driver {
    pub(crate) calls: Calls,
    // Never given up with this value: libraries outlive it in the driver, which looks at their images.
    pub(crate) images: ManuallyDrop<Images>,
    path: PathBuf,
    kind: Kind,
    // Never unloaded: drivers leave threads and exit handlers behind that would then run code that is gone.
    _library: ManuallyDrop<Library>,
}

/// Whose library it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// floe's client, which calls a server.
    Client,
    /// floe's CPU device.
    CpuDevice,
    /// NVIDIA's, or whoever else's.
    Other,
}

impl Driver {
    /// Takes a library that is already loaded.
    pub(crate) fn new(library: Library, path: PathBuf, kind: Kind) -> Self {
        Self {
            calls: Calls::load(&library),
            images: ManuallyDrop::default(),
            path,
            kind,
            _library: ManuallyDrop::new(library),
        }
    }

    /// The library as it was named to the loader.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is floe's CPU device.
    pub fn is_cpu_device(&self) -> bool {
        self.kind == Kind::CpuDevice
    }

    /// Whether this is floe's client, whose GPUs are elsewhere.
    pub fn is_client(&self) -> bool {
        self.kind == Kind::Client
    }

    /// Its functions, for calls that have no method.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The name of a kernel in its image. `cuKernelGetName`.
    ///
    /// # Errors
    /// The driver's error; NOT_SUPPORTED where the library lacks the function.
    pub fn kernel_get_name(&self, kernel: Kernel) -> CudaResult<String> {
        let call = self.calls.cuKernelGetName.ok_or_else(|| missing("cuKernelGetName"))?;
        let mut name = std::ptr::null();
        // SAFETY: the output is our own, the handle this driver's.
        unsafe { call(&raw mut name, kernel) }.into_result()?;
        // SAFETY: the driver keeps the text as long as the kernel, which lives through this call.
        unsafe { kept_text(name) }
    }

    /// The name of a function in its image. `cuFuncGetName`.
    ///
    /// # Errors
    /// The driver's error; NOT_SUPPORTED where the library lacks the function.
    pub fn func_get_name(&self, function: Function) -> CudaResult<String> {
        let call = self.calls.cuFuncGetName.ok_or_else(|| missing("cuFuncGetName"))?;
        let mut name = std::ptr::null();
        // SAFETY: the output is our own, the handle this driver's.
        unsafe { call(&raw mut name, function) }.into_result()?;
        // SAFETY: the driver keeps the text as long as the function, which lives through this call.
        unsafe { kept_text(name) }
    }

    /// One of `pointer_attribute` whose answer is a 64-bit word (addresses, sizes, ids, handles), as the driver gives it.
    ///
    /// # Errors
    /// INVALID_VALUE for other attributes and unknown addresses; NOT_SUPPORTED where the library lacks the function.
    pub fn pointer_get_word(&self, attribute: u32, address: DevicePtr) -> CudaResult<u64> {
        use pointer_attribute as ask;
        if !matches!(
            attribute,
            ask::CONTEXT
                | ask::DEVICE_POINTER
                | ask::HOST_POINTER
                | ask::BUFFER_ID
                | ask::RANGE_START_ADDR
                | ask::RANGE_SIZE
                | ask::ALLOWED_HANDLE_TYPES
                | ask::MAPPING_SIZE
                | ask::MAPPING_BASE_ADDR
                | ask::MEMORY_BLOCK_ID
        ) {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut word = 0_u64;
        self.pointer_attribute((&raw mut word).cast(), attribute, address)?;
        Ok(word)
    }

    /// The id of a device; of an instance of a divided GPU its own and not the GPU's, where the driver tells them apart.
    ///
    /// # Errors
    /// The driver's error.
    pub fn device_get_own_uuid(&self, device: Device) -> CudaResult<Uuid> {
        type Call = unsafe extern "C" fn(*mut Uuid, Device) -> CuResult;
        // SAFETY: the symbol has the signature of `cuDeviceGetUuid`.
        let Some(call) = (unsafe { symbol::<Call>(&self._library, c"cuDeviceGetUuid_v2") }) else {
            return self.device_get_uuid(device);
        };
        let mut uuid = Uuid::default();
        // SAFETY: the symbol has this signature, and `uuid` is this function's own.
        unsafe { call(&raw mut uuid, device) }.into_result()?;
        Ok(uuid)
    }

    /// One of `pointer_attribute` whose answer is an `int` (kinds, ordinals, flags, truth values).
    ///
    /// # Errors
    /// As [`Driver::pointer_get_word`].
    pub fn pointer_get_int(&self, attribute: u32, address: DevicePtr) -> CudaResult<u32> {
        use pointer_attribute as ask;
        if !matches!(
            attribute,
            ask::MEMORY_TYPE
                | ask::SYNC_MEMOPS
                | ask::IS_MANAGED
                | ask::DEVICE_ORDINAL
                | ask::IS_LEGACY_CUDA_IPC_CAPABLE
                | ask::MAPPED
                | ask::IS_GPU_DIRECT_RDMA_CAPABLE
                | ask::ACCESS_FLAGS
        ) {
            return Err(CudaError::INVALID_VALUE);
        }
        // A driver that writes fewer bytes than an int leaves zeros above them; the room is a word in any case.
        let mut word = [0_u32; 2];
        self.pointer_attribute(word.as_mut_ptr().cast(), attribute, address)?;
        Ok(word[0])
    }

    fn pointer_attribute(&self, value: *mut std::ffi::c_void, attribute: u32, address: DevicePtr) -> CudaResult<()> {
        let call = self.calls.cuPointerGetAttribute.ok_or_else(|| missing("cuPointerGetAttribute"))?;
        // SAFETY: both callers pass eight bytes, and no attribute they let through is longer.
        unsafe { call(value, attribute, address) }.into_result()
    }
}

/// A function by its exported name.
///
/// # Safety
/// `F` is the C signature of the symbol.
pub(crate) unsafe fn symbol<F: Copy>(library: &Library, name: &CStr) -> Option<F> {
    // SAFETY: our caller vouches for the type; the library is never unloaded, so the copy stays valid.
    unsafe { library.get::<F>(name.to_bytes_with_nul()) }.ok().map(|found| *found)
}

/// The error for a function the library lacks, named once in the log.
#[cold]
pub(crate) fn missing(name: &'static str) -> CudaError {
    static SAID: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    if floe_lock::lock(&SAID).insert(name) {
        eprintln!("floe: the device's driver library does not have {name}\n  a newer driver may have it");
    }
    CudaError::NOT_SUPPORTED
}

/// Text from a buffer the driver filled, up to its NUL.
pub(crate) fn text_of(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

/// # Safety
/// `text` is NULL or NUL-terminated text that stays for the length of this call.
unsafe fn kept_text(text: *const c_char) -> CudaResult<String> {
    if text.is_null() {
        return Err(CudaError::NOT_FOUND);
    }
    // SAFETY: our caller vouches for it.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_at_its_nul_or_with_the_buffer() {
        assert_eq!(text_of(b"NVIDIA H200\0rest"), "NVIDIA H200");
        assert_eq!(text_of(b"full"), "full");
    }
}
