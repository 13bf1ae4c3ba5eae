//! The checks of NVIDIA's libraries: built on the machine that runs them, against its libraries.
//! In: CUDA sources that name their libraries on a line `// link: libcublas.so.13 …`. Out: executables, or the reason
//! why there is none.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A toolkit and the folders of the wheels Python has.
#[derive(Debug)]
pub(crate) struct Toolkit {
    nvcc: PathBuf,
    headers: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
}

impl Toolkit {
    /// The machine's compiler: nvcc of `$CUDA_HOME`, of the search path or of /usr/local/cuda.
    ///
    /// # Errors
    /// Without nvcc.
    pub(crate) fn find(python: &str) -> Result<Self> {
        let homes = [std::env::var_os("CUDA_HOME").map(PathBuf::from), Some(PathBuf::from("/usr/local/cuda"))];
        let of_homes = homes.into_iter().flatten().map(|home| home.join("bin/nvcc"));
        let of_path = std::env::var_os("PATH")
            .map(|path| std::env::split_paths(&path).map(|folder| folder.join("nvcc")).collect::<Vec<_>>());
        let nvcc = of_homes.chain(of_path.into_iter().flatten()).find(|nvcc| nvcc.is_file());
        let nvcc = nvcc.context("there is no nvcc\n  set CUDA_HOME, or leave the libraries out with --only")?;
        let home = nvcc.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default();
        let mut toolkit = Self { nvcc, headers: Vec::new(), libraries: Vec::new() };
        toolkit.add(&home.join("include"), &[home.join("lib64"), home.join("lib")]);
        for wheels in wheels(python) {
            toolkit.add(&wheels.join("cu13/include"), &[wheels.join("cu13/lib")]);
            toolkit.add(&wheels.join("cudnn/include"), &[wheels.join("cudnn/lib")]);
        }
        Ok(toolkit)
    }

    fn add(&mut self, headers: &Path, libraries: &[PathBuf]) {
        self.headers.extend(headers.is_dir().then(|| headers.to_path_buf()));
        self.libraries.extend(libraries.iter().filter(|folder| folder.is_dir()).cloned());
    }

    /// Builds one source into a folder.
    ///
    /// # Errors
    /// With the compiler's words.
    pub(crate) fn build(&self, source: &Path, folder: &Path) -> Result<PathBuf> {
        let text = std::fs::read_to_string(source).with_context(|| format!("cannot read: {}", source.display()))?;
        let executable = folder.join(source.file_stem().context("a source has a name")?);
        let libraries: Vec<String> = linked(&text).map(|name| format!("-l:{name}")).collect();
        self.compile(&[source.to_path_buf()], &libraries, &executable)?;
        Ok(executable)
    }

    /// Has the compiler make one file of sources.
    ///
    /// # Errors
    /// With the compiler's words.
    pub(crate) fn compile(&self, sources: &[PathBuf], flags: &[String], to: &Path) -> Result<()> {
        let mut nvcc = Command::new(&self.nvcc);
        nvcc.args(["-O2", "-std=c++17", "-arch=sm_90"]).args(sources).arg("-o").arg(to);
        for headers in &self.headers {
            nvcc.arg("-I").arg(headers);
        }
        for libraries in &self.libraries {
            nvcc.arg("-L").arg(libraries).arg("-Xlinker").arg(format!("-rpath,{}", libraries.display()));
        }
        nvcc.args(flags);
        let output = nvcc.output().with_context(|| format!("does not start: {}", self.nvcc.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("not built: {}", said.lines().take(3).collect::<Vec<_>>().join(" | "));
        }
        Ok(())
    }
}

/// The libraries a source names.
fn linked(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| line.strip_prefix("// link: ")).flat_map(str::split_whitespace)
}

/// Folders where Python keeps NVIDIA's wheels; none when it has no such wheels.
fn wheels(python: &str) -> Vec<PathBuf> {
    let script = "import nvidia; print(*nvidia.__path__, sep='\\n')";
    let output = Command::new(python).args(["-c", script]).output();
    let said = output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).lines().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::linked;

    #[test]
    fn a_source_names_what_it_links() {
        let source = "// Checks.\n// link: libcublas.so.13 libcublasLt.so.13\n#include <x>\n";
        assert_eq!(linked(source).collect::<Vec<_>>(), ["libcublas.so.13", "libcublasLt.so.13"]);
    }
}
