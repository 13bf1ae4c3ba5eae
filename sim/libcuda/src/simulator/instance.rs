//! A program in a context: an image or its PTX comes in, a linked program with its variables in device memory goes out.
//! What is wrong with the image is told three ways: as CUDA's code, in the load's error log, and on standard error.
//! Kernels are lowered when they are first asked for, so one that cannot run harms no other.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult};
use floe_image::{ComputeCapability, Image, ImageError, Limits};
use floe_machine::{LoadError, Program};
use floe_surface::JitOptions;

use super::Simulator;
use super::context::ContextState;
use super::device::CpuDevice;

/// A program loaded into a context.
pub(crate) struct Instance {
    pub(crate) program: Arc<Program>,
    /// Serial of the context.
    pub(crate) context: u64,
    pub(crate) device: usize,
    /// Where its variables are.
    variables: Vec<u64>,
}

/// Tells the program and the user why a load fails.
fn refuse(options: &mut JitOptions, code: CudaError, message: &str) -> CudaError {
    options.write_error(message);
    super::log::warn(format_args!("{message}"));
    code
}

/// The PTX of an image that this device runs.
///
/// # Errors
/// NO_BINARY_FOR_GPU where the image has none, INVALID_IMAGE where it is damaged, INVALID_PTX where it is no text.
pub(crate) fn texts(image: &Image, device: &CpuDevice, options: &mut JitOptions) -> CudaResult<Vec<String>> {
    let (major, minor) = device.identity.compute;
    let capability = ComputeCapability { major, minor };
    let found = image.ptx(capability, &Limits::default()).map_err(|error| {
        let mut message = format!("{error}");
        if matches!(error, ImageError::NoPtx { .. }) {
            message = format!(
                "the CPU device runs PTX, and this program's image has none: {error}\n\
                 floe: compile with nvcc -arch=sm_{0}, or -gencode arch=compute_{0},code=compute_{0}",
                capability.number()
            );
        }
        refuse(options, error.code(), &message)
    })?;
    let mut texts = Vec::with_capacity(found.len());
    for text in found {
        if text.above {
            let target = text.target.map_or_else(|| "an unknown target".to_string(), |target| target.to_string());
            let message = format!(
                "PTX for {target} is used on a device of compute capability {major}.{minor}: \
                 instructions the CPU device does not know make their kernel fail to load"
            );
            options.write_info(&message);
            super::log::note(format_args!("{message}"));
        }
        let text = String::from_utf8(text.text).map_err(|error| {
            let place = error.utf8_error().valid_up_to();
            refuse(options, CudaError::INVALID_PTX, &format!("PTX is no UTF-8 text from byte {place} on"))
        })?;
        texts.push(text);
    }
    Ok(texts)
}

/// The code a program gets for what the machine says of its PTX.
pub(crate) fn code(error: &LoadError) -> CudaError {
    match error {
        LoadError::Syntax { .. } | LoadError::Duplicate { .. } => CudaError::INVALID_PTX,
        LoadError::Unresolved { .. } => CudaError::SHARED_OBJECT_SYMBOL_NOT_FOUND,
        LoadError::Unsupported { .. } => CudaError::NOT_SUPPORTED,
        LoadError::NoKernel { .. } => CudaError::NOT_FOUND,
        LoadError::Memory { .. } => CudaError::OUT_OF_MEMORY,
    }
}

impl Simulator {
    /// Links `texts` and lays their variables out in the memory of `context`'s device.
    ///
    /// # Errors
    /// INVALID_PTX with line and column in the error log, and the other codes of `code`.
    pub(crate) fn instantiate(
        &self,
        context: &ContextState,
        texts: &[String],
        options: &mut JitOptions,
    ) -> CudaResult<Instance> {
        let device = self.devices.get(context.device).ok_or(CudaError::INVALID_DEVICE)?;
        let mut variables = Vec::new();
        let mut allocate = |bytes: u64, align: u64| {
            let address = device.memory.allocate_global(bytes, align)?;
            variables.push(address);
            Some(address)
        };
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        match Program::load(&borrowed, &self.memory, &mut allocate) {
            Ok(program) => Ok(Instance { program, context: context.serial, device: context.device, variables }),
            Err(error) => {
                for address in variables {
                    device.memory.free_global(address);
                }
                Err(refuse(options, code(&error), &format!("cannot load PTX: {error}")))
            }
        }
    }

    /// Frees an instance's variables. Its kernels may not run any more.
    pub(crate) fn discard(&self, instance: &Instance) {
        let Some(device) = self.devices.get(instance.device) else { return };
        for address in &instance.variables {
            device.memory.free_global(*address);
        }
        device.memory.give_back(false);
    }
}
