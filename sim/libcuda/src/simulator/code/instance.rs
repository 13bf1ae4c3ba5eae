//! A program in a context: an image or its PTX comes in, a linked program with its variables in device memory goes out.
//! A fault of the image is reported in three ways: as CUDA's code, in the load's error log, and on standard error.
//! Kernels are lowered when they are first asked for, so one that cannot run harms no other.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult};
use floe_image::{ComputeCapability, Image, ImageError, ImageKind, Limits};
use floe_machine::{Level, LoadError, Program};
use floe_surface::JitOptions;

use super::dry_run;
use crate::simulator::Simulator;
use crate::simulator::calls::context::ContextState;
use crate::simulator::device::CpuDevice;

/// A program loaded into a context.
pub(crate) struct Instance {
    pub(crate) program: Arc<Program>,
    /// Serial of the context.
    pub(crate) context: u64,
    pub(crate) device: usize,
    /// Addresses of its variables.
    variables: Vec<u64>,
}

/// PTX ready to be linked.
pub(crate) struct Code {
    texts: Vec<Arc<String>>,
    /// Names of the kernels, in the order of the texts.
    pub(crate) names: Vec<String>,
    /// The program gave the text itself and expects what is wrong with any kernel to show when it loads it, as from a
    /// compiler. Fat binaries are read kernel by kernel instead: most of what they hold is never launched.
    eager: bool,
}

impl Code {
    /// The code of several images, to be linked with each other; every kernel is looked at when it is loaded.
    pub(crate) fn together(codes: Vec<Self>) -> Self {
        let mut whole = Self { texts: Vec::new(), names: Vec::new(), eager: true };
        for code in codes {
            whole.texts.extend(code.texts);
            whole.names.extend(code.names);
        }
        whole
    }

    /// The texts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| text.as_str())
    }
}

/// The newest PTX whose instructions the machine was built for is 9.0; a later minor version only adds some.
const NEWEST_PTX: u32 = 9;

/// Tells the program and the user why a load fails.
pub(crate) fn refuse(options: &mut JitOptions, code: CudaError, message: &str) -> CudaError {
    options.write_error(message);
    crate::simulator::log::warn(format_args!("{message}"));
    code
}

/// The PTX of an image that this device runs.
///
/// # Errors
/// NO_BINARY_FOR_GPU where the image has none, INVALID_IMAGE where it is damaged, INVALID_PTX where it is not PTX,
/// UNSUPPORTED_PTX_VERSION where it is of a later kind.
pub(crate) fn read(image: &Image, device: &CpuDevice, options: &mut JitOptions) -> CudaResult<Code> {
    let texts = texts(image, device, options)?;
    let mut names = Vec::new();
    for text in &texts {
        let module = floe_ptx::outline(text, &floe_ptx::Limits::default())
            .map_err(|error| refuse(options, CudaError::INVALID_PTX, &format!("cannot load PTX: {error}")))?;
        if module.version.major > NEWEST_PTX {
            let version = format!("{}.{}", module.version.major, module.version.minor);
            let message = format!("PTX version is newer than the CPU device, which runs up to 9.0: {version}");
            return Err(refuse(options, CudaError::UNSUPPORTED_PTX_VERSION, &message));
        }
        names.extend(module.kernels().map(|kernel| kernel.name.to_string()));
    }
    Ok(Code { texts, names, eager: image.kind == ImageKind::Ptx })
}

fn texts(image: &Image, device: &CpuDevice, options: &mut JitOptions) -> CudaResult<Vec<Arc<String>>> {
    let (major, minor) = device.identity.compute;
    let capability = ComputeCapability { major, minor };
    if device.dry_run {
        let text =
            dry_run::stand_in(image, capability).map_err(|error| refuse(options, error.code(), &format!("{error}")))?;
        if let Some(text) = text {
            dry_run::announce();
            return Ok(vec![Arc::new(text)]);
        }
    }
    let found = image.ptx(capability, &Limits::default()).map_err(|error| {
        let mut message = format!("{error}");
        if matches!(error, ImageError::NoPtx { .. }) {
            message = format!(
                "the CPU device runs PTX: {error}\n\
                 floe: for this device that is nvcc -arch=sm_{0}, or -gencode arch=compute_{0},code=compute_{0}",
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
            crate::simulator::log::note(format_args!("{message}"));
        }
        let text = String::from_utf8(text.text).map_err(|error| {
            let place = error.utf8_error().valid_up_to();
            refuse(options, CudaError::INVALID_PTX, &format!("PTX is no UTF-8 text from byte {place} on"))
        })?;
        texts.push(Arc::new(text));
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

/// Looks at every kernel of a text the program gave itself. Unknown instructions refuse the text only if no kernel is
/// left to run. Otherwise the information log names them, and a later launch of the kernel fails.
fn check_all(instance: &Instance, names: &[String], options: &mut JitOptions) -> CudaResult<()> {
    instance.program.check().map_err(|error| refuse(options, code(&error), &format!("cannot load PTX: {error}")))?;
    let mut problems = Vec::new();
    for name in names {
        match instance.program.kernel(name) {
            Ok(_) => {}
            Err(error @ LoadError::Unsupported { .. }) => problems.push(format!("kernel {name} cannot run: {error}")),
            Err(error) => return Err(refuse(options, code(&error), &format!("cannot load PTX: {error}"))),
        }
    }
    let message = problems.join("\n");
    if !problems.is_empty() && problems.len() == names.len() {
        return Err(refuse(options, CudaError::INVALID_PTX, &message));
    }
    if !problems.is_empty() {
        options.write_info(&message);
    }
    Ok(())
}

impl Simulator {
    /// Links the code and lays its variables out in the memory of `context`'s device.
    ///
    /// # Errors
    /// INVALID_PTX with line and column in the error log, and the other codes of `code`.
    pub(crate) fn instantiate(
        &self,
        context: &ContextState,
        given: &Code,
        options: &mut JitOptions,
    ) -> CudaResult<Instance> {
        let device = self.devices.get(context.device).ok_or(CudaError::INVALID_DEVICE)?;
        let mut variables = Vec::new();
        let mut allocate = |bytes: u64, align: u64| {
            let address = device.memory.allocate_global(bytes, align)?;
            variables.push(address);
            Some(address)
        };
        match Program::load_shared(Level::best(), &given.texts, &self.memory, &mut allocate) {
            Ok(program) => {
                for (at, _) in program.managed().iter().filter_map(|name| program.global(name)) {
                    device.memory.is_managed_global(at);
                }
                let instance = Instance { program, context: context.serial, device: context.device, variables };
                if given.eager
                    && let Err(error) = check_all(&instance, &given.names, options)
                {
                    self.discard(&instance);
                    return Err(error);
                }
                Ok(instance)
            }
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
        // Another module's may lie there next.
        if let Some(context) = self.contexts.by_serial(instance.context) {
            instance.program.texture_references().for_each(|(_, at)| context.kernels.bind_reference(at, None));
        }
        for address in &instance.variables {
            device.memory.free_global(*address);
        }
        device.memory.give_back(false);
    }
}
