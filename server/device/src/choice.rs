//! Which library is the device.
//! In: `nvidia`, `cpu`, `auto` or a path. Out: the loaded library and what it is, or what was tried.
//! The CPU device is looked for beside this executable only: it belongs to this build.

use std::path::{Path, PathBuf};

use floe_abi::CudaError;
use thiserror::Error;

use crate::{Driver, OpenError};

/// The kind of a device library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// NVIDIA's driver.
    Nvidia,
    /// floe's CPU device.
    Cpu,
}

impl Kind {
    /// As it is shown to clients.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Cpu => "cpu",
        }
    }
}

/// Why there is no device.
#[derive(Debug, Error)]
pub enum OpenLibraryError {
    /// Nothing that was tried is a driver.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The CPU device is not where it belongs.
    #[error("floe's CPU device is not there: {}\n  build it with: cargo xtask dist", list(.0))]
    NoCpuDevice(Vec<PathBuf>),
    /// What was found is not NVIDIA's.
    #[error("no NVIDIA driver was found; the library that was is floe's CPU device: {0}")]
    NotNvidia(PathBuf),
    /// The driver refuses.
    #[error("{what} of {library}: {error}")]
    Driver {
        /// What was being done.
        what: &'static str,
        /// The library.
        library: String,
        /// Its answer.
        error: CudaError,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Loads what `library` means.
///
/// # Errors
/// [`OpenLibraryError`] naming what was tried.
pub(crate) fn open(library: &str) -> Result<(Driver, Kind), OpenLibraryError> {
    let driver = match library {
        "auto" => Driver::open(None).or_else(|error| match cpu_device() {
            Ok(path) => Driver::open(Some(&path)),
            Err(_) => Err(error),
        })?,
        "nvidia" => {
            let driver = Driver::open(None)?;
            if driver.is_cpu_device() {
                return Err(OpenLibraryError::NotNvidia(driver.path().to_path_buf()));
            }
            driver
        }
        "cpu" => Driver::open(Some(&cpu_device()?))?,
        path => Driver::open(Some(Path::new(path)))?,
    };
    let kind = if driver.is_cpu_device() { Kind::Cpu } else { Kind::Nvidia };
    Ok((driver, kind))
}

/// The path of the CPU device: in an installation, or among the files of a build.
fn cpu_device() -> Result<PathBuf, OpenLibraryError> {
    let executable = std::env::current_exe().unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let places = vec![
        folder.parent().unwrap_or(Path::new("/")).join("lib/device/libcuda.so.1"),
        folder.join("libfloe_sim_cuda.so"),
    ];
    match places.iter().find(|path| path.exists()) {
        Some(path) => Ok(path.clone()),
        None => Err(OpenLibraryError::NoCpuDevice(places)),
    }
}
