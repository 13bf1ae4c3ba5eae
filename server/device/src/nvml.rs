//! Finding and loading NVIDIA's management library, and the questions that `nvml-wrapper` does not ask. A path or nothing
//! comes in, the library, started, or the list of what was tried and why it would not do goes out; devices come in,
//! numbers go out. It never takes floe's own client library, which would ask this server again, and never loads CUDA.

use std::path::Path;

use libloading::Library;
use libloading::os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlSystemConfComputeSettings_t, nvmlValue_t};

use crate::driver::{CLIENT_MARKER, OpenError, Tried, has, plain_reason};

/// What the system calls it, then the container tools' place for it.
const PLACES: [&str; 3] =
    ["libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"];

/// `NVML_VALUE_TYPE_UNSIGNED_INT`, `…_UNSIGNED_LONG` and `…_UNSIGNED_LONG_LONG`.
const UNSIGNED: u32 = 1;
const UNSIGNED_LONG: u32 = 2;
const UNSIGNED_LONG_LONG: u32 = 3;

/// Loads NVIDIA's management library, the one named or the system's, and starts it.
///
/// # Errors
/// What was tried, and the loader's or the library's own words about each.
pub fn open_nvml(path: Option<&Path>) -> Result<Nvml, OpenError> {
    let places = path.map_or_else(|| PLACES.map(Path::new).to_vec(), |path| vec![path]);
    let mut tried = Vec::new();
    for place in places {
        match start(place) {
            Ok(nvml) => return Ok(nvml),
            Err(reason) => tried.push(Tried { path: place.to_owned(), reason }),
        }
    }
    Err(OpenError { what: "NVIDIA management library", tried })
}

fn start(place: &Path) -> Result<Nvml, String> {
    // SAFETY: loading runs the library's initialisers: those of the system's own driver, or of floe's client library,
    // which has none.
    let library = unsafe { UnixLibrary::open(Some(place), RTLD_NOW | RTLD_LOCAL) };
    let library: Library = library.map_err(|error| plain_reason(&error))?.into();
    if has(&library, CLIENT_MARKER) {
        return Err("is floe's client library, not the driver's".to_owned());
    }
    // It is loaded still, so this gets the same one.
    let nvml = Nvml::builder().lib_path(place.as_os_str()).init().map_err(|error| error.to_string());
    drop(library);
    nvml
}

/// What a field of a device says; `scope` is the link's number if the field is a link's. `None`: the device has no such
/// field, or not as a whole number.
#[must_use]
pub fn field_value(device: &Device<'_>, field: u32, scope: u32) -> Option<u64> {
    let ask = device.nvml().lib().nvmlDeviceGetFieldValues.as_ref().ok()?;
    let mut value = nvmlFieldValue_t {
        fieldId: field,
        scopeId: scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: u32::MAX,
        nvmlReturn: u32::MAX,
        value: nvmlValue_t { ullVal: 0 },
    };
    // SAFETY: the function has this signature, the handle is the library's own, and there is one value as it is told.
    let done = unsafe { ask(device.handle(), 1, &raw mut value) };
    if done != 0 || value.nvmlReturn != 0 {
        return None;
    }
    match value.valueType {
        // SAFETY: the type says which member was written, and all bits of it are a number.
        UNSIGNED => Some(u64::from(unsafe { value.value.uiVal })),
        // SAFETY: the same; on this platform both have 64 bits.
        UNSIGNED_LONG | UNSIGNED_LONG_LONG => Some(unsafe { value.value.ullVal }),
        _ => None,
    }
}

/// `NVML_NVLINK_DEVICE_TYPE_…` of the other end of a link. `None`: the device has no such link.
#[must_use]
pub fn link_remote_kind(device: &Device<'_>, link: u32) -> Option<u32> {
    let ask = device.nvml().lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref().ok()?;
    let mut kind = 0;
    // SAFETY: the function has this signature, the handle is the library's own, and `kind` is our variable.
    let done = unsafe { ask(device.handle(), link, &raw mut kind) };
    (done == 0).then_some(kind)
}

/// How confidentially the system computes: `environment`, `ccFeature`, `devToolsMode` and `multiGpuMode` of NVML's
/// settings. `None`: the library cannot say.
#[must_use]
pub fn confidential_settings(nvml: &Nvml) -> Option<[u32; 4]> {
    let ask = nvml.lib().nvmlSystemGetConfComputeSettings.as_ref().ok()?;
    let version = u32::try_from(size_of::<nvmlSystemConfComputeSettings_t>()).ok()? | 1 << 24;
    let mut settings =
        nvmlSystemConfComputeSettings_t { version, environment: 0, ccFeature: 0, devToolsMode: 0, multiGpuMode: 0 };
    // SAFETY: the function has this signature, and `settings` is our variable of the layout its version says.
    let done = unsafe { ask(&raw mut settings) };
    let told = [settings.environment, settings.ccFeature, settings.devToolsMode, settings.multiGpuMode];
    (done == 0).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_that_will_not_do_is_named() {
        // A machine with a GPU has one; then there is nothing to complain of.
        let Err(error) = open_nvml(None) else { return };
        assert_eq!(error.tried.len(), PLACES.len());
        assert!(error.to_string().starts_with("no NVIDIA management library could be loaded\n"), "{error}");
    }
}
