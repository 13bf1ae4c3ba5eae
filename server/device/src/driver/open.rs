//! Finding and loading a driver library. A path or nothing comes in, a loaded driver or the list of what was tried and
//! why it would not do goes out. It never takes floe's own client library, which would call the server again.

use crate::Driver;
use crate::driver::{Kind, symbol};
use floe_abi::CuResult;
use libloading::Library;
use libloading::os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW};
use std::fmt;
use std::path::{Path, PathBuf};

/// Exported by floe's client libraries and by no other.
pub(crate) const CLIENT_MARKER: &std::ffi::CStr = c"floe_client_marker";
/// What is looked for here.
const DRIVER: &str = "CUDA driver library";
/// Exported by floe's CPU device and by no other.
const CPU_DEVICE_MARKER: &std::ffi::CStr = c"floe_cpu_device_marker";

/// No library could be loaded.
#[derive(Debug, thiserror::Error)]
pub struct OpenError {
    /// What was looked for.
    pub what: &'static str,
    /// Each library in the order it was tried.
    pub tried: Vec<Tried>,
}

/// One library that would not do.
#[derive(Debug)]
pub struct Tried {
    /// As it was named to the loader.
    pub path: PathBuf,
    /// Why not, as the loader or the driver said it.
    pub reason: String,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} could be loaded", self.what)?;
        for Tried { path, reason } in &self.tried {
            write!(f, "\n  {}: {reason}", path.display())?;
        }
        Ok(())
    }
}

impl Driver {
    /// Loads a driver library: the named one, or the first that works. The candidates are the system's `libcuda.so.1`,
    /// the container tools' place for it, and floe's CPU device. A named library is loaded without further checks. A
    /// found one must also start (`cuInit`), since NVIDIA's library is often there without a GPU.
    ///
    /// # Errors
    /// What was tried, and the loader's own words about each.
    pub fn open(path: Option<&Path>) -> Result<Self, OpenError> {
        if let Some(path) = path {
            return load(path)
                .map_err(|reason| OpenError { what: DRIVER, tried: vec![Tried { path: path.to_owned(), reason }] });
        }
        let mut tried = Vec::new();
        for path in places() {
            match load(&path).and_then(starts) {
                Ok(driver) => return Ok(driver),
                Err(reason) => tried.push(Tried { path, reason }),
            }
        }
        Err(OpenError { what: DRIVER, tried })
    }

    /// Loads the library of that path, also floe's own client: for programs that use a GPU as any program does.
    ///
    /// # Errors
    /// The loader's own words.
    pub fn open_as_program(path: &Path) -> Result<Self, OpenError> {
        load_any(path)
            .map_err(|reason| OpenError { what: DRIVER, tried: vec![Tried { path: path.to_owned(), reason }] })
    }
}

/// Where a driver library may be, best first.
fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("libcuda.so.1"), PathBuf::from("/usr/local/nvidia/lib64/libcuda.so.1")];
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.parent()?.to_owned()));
    places.extend(beside.map(|root| root.join("lib/device/libcuda.so.1")));
    places
}

/// Loads a library for a server to drive, which the client's is not.
fn load(path: &Path) -> Result<Driver, String> {
    let driver = load_any(path)?;
    if driver.is_client() {
        return Err(
            "is floe's client library, not a driver\n    name the driver with --device, or leave the client out of \
                    LD_LIBRARY_PATH"
                .to_owned(),
        );
    }
    Ok(driver)
}

fn load_any(path: &Path) -> Result<Driver, String> {
    // SAFETY: loading runs the library's initialisers: those of the driver the operator named, or of the system's own.
    let library = unsafe { UnixLibrary::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library: Library = library.map_err(|error| plain_reason(&error))?.into();
    // SAFETY: `cuInit` takes a number and gives a code; it is only looked up here.
    if unsafe { symbol::<unsafe extern "C" fn(u32) -> CuResult>(&library, c"cuInit") }.is_none() {
        return Err("is not a CUDA driver: it does not export cuInit".to_owned());
    }
    let kind = match (has(&library, CLIENT_MARKER), has(&library, CPU_DEVICE_MARKER)) {
        (true, _) => Kind::Client,
        (_, true) => Kind::CpuDevice,
        _ => Kind::Other,
    };
    Ok(Driver::new(library, path.to_owned(), kind))
}

pub(crate) fn has(library: &Library, marker: &std::ffi::CStr) -> bool {
    // SAFETY: only the symbol's presence is asked; the address is not followed.
    unsafe { symbol::<*const u8>(library, marker) }.is_some()
}

fn starts(driver: Driver) -> Result<Driver, String> {
    driver.init(0).map_err(|error| format!("cuInit answers {error}"))?;
    match driver.device_get_count() {
        Ok(0) => Err("has no device".to_owned()),
        Ok(_) => Ok(driver),
        Err(error) => Err(format!("cuDeviceGetCount answers {error}")),
    }
}

/// The loader's sentence without the wrapper's.
pub(crate) fn plain_reason(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_path_that_is_not_there_is_reported_with_the_loaders_words() {
        let error = Driver::open(Some(Path::new("/no/such/libcuda.so.1"))).expect_err("nothing there");
        assert_eq!(error.tried.len(), 1);
        let text = error.to_string();
        assert!(text.starts_with("no CUDA driver library could be loaded\n  /no/such/libcuda.so.1: "), "{text}");
        assert!(text.contains("No such file"), "{text}");
    }

    #[test]
    fn library_that_is_no_driver_is_refused() {
        let error = Driver::open(Some(Path::new("libm.so.6"))).expect_err("no driver");
        assert!(error.to_string().contains("does not export cuInit"), "{error}");
    }

    #[test]
    fn places_are_the_systems_then_the_containers_then_floes_own() {
        let places = places();
        assert_eq!(places[0], Path::new("libcuda.so.1"));
        assert!(places[2].ends_with("lib/device/libcuda.so.1"));
    }
}
