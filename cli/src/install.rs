//! The paths of floe's own files, relative to the running `floe`.
//! In: the path of this executable. Out: paths of the client library, the CPU device, the daemon, the demo.
//! It never searches the system: one installation is one folder. An error names the missing file and what to do.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The folders of an installation: `bin/` (floe, floed, floe-worker, floe-demo), `lib/client/libcuda.so.1`,
/// `lib/device/libcuda.so.1`.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    root: PathBuf,
}

impl Installation {
    /// The installation this executable belongs to.
    pub(crate) fn of_this_executable() -> Result<Self> {
        let executable = std::env::current_exe().context("cannot find this executable")?;
        let root = executable.parent().and_then(Path::parent);
        let root = root.with_context(|| format!("this executable is not in a bin folder: {}", executable.display()))?;
        Ok(Self { root: root.to_path_buf() })
    }

    /// The folder that goes in front of `LD_LIBRARY_PATH`: it holds the client's `libcuda.so.1`.
    pub(crate) fn client_library_folder(&self) -> Result<PathBuf> {
        let folder = self.root.join("lib/client");
        self.present(&folder.join("libcuda.so.1"))?;
        Ok(folder)
    }

    /// The CPU device's `libcuda.so.1`.
    pub(crate) fn cpu_device(&self) -> Result<PathBuf> {
        self.present(&self.root.join("lib/device/libcuda.so.1"))
    }

    /// floe's `libnccl.so.2`, for programs whose NCCL runs beside the GPUs.
    pub(crate) fn nccl(&self) -> Result<PathBuf> {
        self.present(&self.root.join("lib/client/nccl/libnccl.so.2"))
    }

    /// floe's `libcupti.so.13`, for programs' profilers.
    pub(crate) fn cupti(&self) -> Result<PathBuf> {
        self.present(&self.root.join("lib/client/cupti/libcupti.so.13"))
    }

    /// An executable of floe's own: `floed`, `floe-worker`, `floe-demo`.
    pub(crate) fn executable(&self, name: &str) -> Result<PathBuf> {
        self.present(&self.root.join("bin").join(name))
    }

    fn present(&self, path: &Path) -> Result<PathBuf> {
        if !path.is_file() {
            bail!(
                "a file of this installation is missing: {}\n  build one with `cargo xtask dist`, then run target/dist/bin/floe",
                path.display()
            );
        }
        Ok(path.to_path_buf())
    }
}

/// The version, the protocol, and the commit if xtask passed it to the build.
pub(crate) fn version() -> String {
    floe_wire::version(option_env!("FLOE_COMMIT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let installation = Installation { root: folder.path().to_path_buf() };
        let message = installation.executable("floed").expect_err("nothing is installed there").to_string();
        assert!(message.contains("bin/floed") && message.contains("cargo xtask dist"), "{message}");
    }

    #[test]
    fn a_present_library_gives_its_folder() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let client = folder.path().join("lib/client");
        std::fs::create_dir_all(&client).expect("the folder is made");
        std::fs::write(client.join("libcuda.so.1"), b"").expect("the file is made");
        let installation = Installation { root: folder.path().to_path_buf() };
        assert_eq!(installation.client_library_folder().expect("it is there"), client);
    }
}
