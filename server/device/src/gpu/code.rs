//! Loading and linking code: images and options go to the driver, code or its compiler's words come back.
//! It keeps nothing.

use floe_abi::Device;

use super::log::{LEAST_LOG, cut};
use crate::requests::{Code, Image, ImageKind, LoadFailure, Loading};
use crate::{Driver, LinkInput, LoadImage, LoadOption};

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`.
const COMPUTE_CAPABILITY: [u32; 2] = [75, 76];

/// Loads code, at once or when it is needed.
pub(super) fn load(driver: &Driver, image: Image, loading: &Loading) -> Result<(Code, String), LoadFailure> {
    let option = |&(option, value): &(i32, u64)| LoadOption { option: option.unsigned_abs(), value };
    let options: Vec<LoadOption> = loading.options.iter().map(option).collect();
    let (kind, mut contents) = (image.kind, image.contents);
    let image = match (kind, contents.pop()) {
        (ImageKind::Cubin | ImageKind::Ptx, Some(content)) => LoadImage::single(content),
        (_, last) => LoadImage::fat_binary(contents.into_iter().chain(last).collect()),
    };
    let (result, info, error) = if loading.at_once {
        let log = driver.module_load_data(&image, &options);
        (log.result.map(Code::Module), log.info, log.error)
    } else {
        let log = driver.library_load_data(image, &options);
        (log.result.map(Code::Library), log.info, log.error)
    };
    match result {
        Ok(code) => Ok((code, cut(info, loading.log_bytes))),
        Err(failure) => Err(LoadFailure { error: failure, log: cut(error, loading.log_bytes.max(LEAST_LOG)) }),
    }
}

/// Variables of the driver that have it take text for machine code, or no text at all.
const CHOICES: [&str; 3] = ["CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_JIT", "CUDA_FORCE_PTX_JIT"];

/// The compute capability, 9 and 0 of 9.0, for which a driver's compiler makes machine code, and the driver's version. `None`: of the CPU device,
/// which makes none, and where the session's user chooses which code is loaded.
pub(super) fn compiles_for(driver: &Driver, device: Device) -> Option<[u32; 3]> {
    if driver.is_cpu_device() || CHOICES.iter().any(|name| std::env::var_os(name).is_some()) {
        return None;
    }
    let of =
        |attribute| driver.device_get_attribute(attribute, device).ok().and_then(|value| u32::try_from(value).ok());
    let [major, minor] = COMPUTE_CAPABILITY.map(of);
    // The daemon knows the kernel module's version; the libraries may be of another one.
    let version = driver.driver_get_version().ok().and_then(|version| u32::try_from(version).ok());
    Some([major?, minor?, version?])
}

/// Links inputs to one image.
pub(super) fn link(
    driver: &Driver,
    inputs: &[LinkInput],
    options: &[LoadOption],
    log_bytes: usize,
) -> Result<(Vec<u8>, String), LoadFailure> {
    let log = driver.link(inputs, options);
    match log.result {
        Ok(image) => Ok((image, cut(log.info, log_bytes))),
        Err(error) => Err(LoadFailure { error, log: cut(log.error, log_bytes.max(LEAST_LOG)) }),
    }
}
