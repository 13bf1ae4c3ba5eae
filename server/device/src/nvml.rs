//! Finding and loading NVIDIA's management library. A path or nothing comes in, the library, started, or the list of what was tried
//! and why it would not do goes out. It never takes floe's own client library, which would ask this server again, and
//! never loads CUDA.

use std::path::Path;

use libloading::Library;
use libloading::os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW};
use nvml_wrapper::Nvml;

use crate::driver::{CLIENT_MARKER, OpenError, Tried, has, plain_reason};

/// What the system calls it, then the container tools' place for it.
const PLACES: [&str; 3] =
    ["libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"];

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
