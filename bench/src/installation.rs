//! Paths of floe's installation and of the measured programs, found from this executable's own path.
//! In: the path of this executable. Out: paths that exist. It starts nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What is not part of the installation, and is measured with.
#[derive(Debug, clap::Args)]
pub(crate) struct Equipment {
    /// The Python that has PyTorch and other frameworks, and NVIDIA's libraries as wheels
    #[arg(long, default_value = "python3")]
    pub(crate) python: String,
    /// Device library of the server: auto, nvidia, cpu, or the path of a libcuda.so.1
    #[arg(long, value_name = "LIBRARY", default_value = "auto")]
    pub(crate) device_library: String,
}

impl Equipment {
    /// Whether its Python can train; says so where it cannot.
    pub(crate) fn can_train(&self) -> bool {
        let mut torch = Command::new(&self.python);
        torch.args(["-c", "import torch, torchvision"]).stdout(Stdio::null()).stderr(Stdio::null());
        let can = torch.status().is_ok_and(|status| status.success());
        if !can {
            println!("training: {} has no PyTorch and torchvision", self.python);
        }
        can
    }

    /// The flags of a server whose workers load the NCCL of its Python, where that has one; else the server looks for itself.
    pub(crate) fn nccl(&self) -> Vec<String> {
        let script = "import nvidia.nccl; print(*nvidia.nccl.__path__, sep='\\n')";
        let output = Command::new(&self.python).args(["-c", script]).stderr(Stdio::null()).output();
        let said = output.map(|output| output.stdout).unwrap_or_default();
        let places = String::from_utf8_lossy(&said).into_owned();
        let library = places.lines().map(|place| Path::new(place).join("lib/libnccl.so.2")).find(|file| file.is_file());
        library.map_or_else(Vec::new, |file| vec!["--nccl".to_owned(), file.display().to_string()])
    }
}

/// `PREFIX/{bin,lib,share}`.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    prefix: PathBuf,
}

impl Installation {
    /// The installation this executable is part of.
    ///
    /// # Errors
    /// When it does not lie in the `bin` of one.
    pub(crate) fn of_this_executable() -> Result<Self> {
        let executable = std::env::current_exe().context("this executable cannot be found")?;
        let prefix = executable.parent().and_then(Path::parent).context("this executable lies in no installation")?;
        let installation = Self { prefix: prefix.to_path_buf() };
        ensure!(
            installation.floe().is_file(),
            "there is no floe beside this executable: {}\n  `cargo xtask bench --pack` lays out a folder that holds both",
            installation.floe().display()
        );
        Ok(installation)
    }

    /// The command `floe`.
    pub(crate) fn floe(&self) -> PathBuf {
        self.prefix.join("bin/floe")
    }

    /// The command `floe-bench`, which this is.
    pub(crate) fn bench(&self) -> PathBuf {
        self.prefix.join("bin/floe-bench")
    }

    /// The daemon.
    pub(crate) fn floed(&self) -> PathBuf {
        self.prefix.join("bin/floed")
    }

    /// The folder of the CPU device's `libcuda.so.1`.
    pub(crate) fn cpu_device(&self) -> PathBuf {
        self.prefix.join("lib/device")
    }

    /// A measured program.
    ///
    /// # Errors
    /// When it is missing.
    pub(crate) fn bench_program(&self, name: &str) -> Result<PathBuf> {
        existing(self.prefix.join("share/bench").join(name))
    }

    /// The folder of the frameworks' checks.
    ///
    /// # Errors
    /// When it is missing.
    pub(crate) fn frameworks(&self) -> Result<PathBuf> {
        existing(self.prefix.join("share/frameworks"))
    }
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    ensure!(
        path.exists(),
        "the installation lacks: {}\n  `cargo xtask bench --pack` lays out a whole one",
        path.display()
    );
    Ok(path)
}
