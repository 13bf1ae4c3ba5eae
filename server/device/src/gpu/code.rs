//! Loading and linking code: images and options go to the driver, code or its compiler's words come back.
//! It keeps nothing.

use super::log::{LEAST_LOG, cut};
use crate::requests::{Code, Image, ImageKind, LoadFailure, Loading};
use crate::{Driver, LinkInput, LoadImage, LoadOption};

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
