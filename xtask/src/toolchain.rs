//! Fetches NVIDIA's compiler and runtimes: pinned Python wheels come in, unpacked folders in the cache and a stub
//! `libcuda.so` go out. A folder is complete once it has its stamp, so a second call costs a few file reads and needs
//! no network. It never writes into an unpacked wheel and never commits one: they are under NVIDIA's licence, fetched
//! at set-up.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

/// The compiler's wheels. All of CUDA 13.0: a driver of 13.0 takes no PTX of a newer nvcc.
const COMPILER_WHEELS: &[&str] = &[
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-cccl==13.0.85",
];

/// The runtimes of the boot matrix: CUDA version and the wheel that carries its `libcudart`.
const RUNTIME_WHEELS: &[(&str, &str)] = &[
    ("12.1", "nvidia-cuda-runtime-cu12==12.1.105"),
    ("12.4", "nvidia-cuda-runtime-cu12==12.4.127"),
    ("12.6", "nvidia-cuda-runtime-cu12==12.6.77"),
    ("12.8", "nvidia-cuda-runtime-cu12==12.8.90"),
    ("12.9", "nvidia-cuda-runtime-cu12==12.9.79"),
    ("13.0", "nvidia-cuda-runtime==13.0.96"),
    ("13.1", "nvidia-cuda-runtime==13.1.80"),
    ("13.2", "nvidia-cuda-runtime==13.2.86"),
    ("13.4", "nvidia-cuda-runtime==13.4.92"),
    ("13.5", "nvidia-cuda-runtime==13.5.37"),
];

/// The file whose presence and content say that a cache folder is complete and what it was made from.
const STAMP: &str = "floe-stamp";

/// An unpacked CUDA 13.0 toolkit: `bin/nvcc`, `include/`, `lib/`.
#[derive(Debug, Clone)]
pub(crate) struct CudaHome {
    root: PathBuf,
    /// Libraries made here rather than by NVIDIA: the stub `libcuda.so`, and the name `libcudart.so`.
    stubs: PathBuf,
}

impl CudaHome {
    /// The compiler driver.
    pub(crate) fn nvcc(&self) -> PathBuf {
        self.root.join("bin/nvcc")
    }

    /// The assembler.
    pub(crate) fn assembler(&self) -> PathBuf {
        self.root.join("bin/ptxas")
    }

    /// `libcudart_static.a`, `libcudadevrt.a` and `libcudart.so.13` (there is no unversioned name).
    pub(crate) fn libraries(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// The public headers, `cudaTypedefs.h` among them.
    pub(crate) fn headers(&self) -> PathBuf {
        self.root.join("include")
    }

    /// The folder for `-L` at link time, which makes `-lcuda` and `-lcudart` work. It holds a stub `libcuda.so` (soname
    /// `libcuda.so.1`) whose functions return `CUDA_ERROR_STUB_LIBRARY`, and `libcudart.so`, a link to the wheel's
    /// `libcudart.so.13`.
    pub(crate) fn stubs(&self) -> &Path {
        &self.stubs
    }
}

/// Gives the toolkit, fetching it first where the cache lacks it (about 105 MB to download, 271 MB unpacked).
///
/// # Errors
/// Without python3 or pip, without a network at the first call, or when the cache cannot be written.
pub(crate) fn ensure() -> Result<CudaHome> {
    let folder = cache_folder()?.join("nvcc-13.0.88");
    fetch(&folder, COMPILER_WHEELS, "nvcc 13.0.88 (105 MB)")?;
    let root = folder.join("nvidia/cu13");
    let home = CudaHome { stubs: cache_folder()?.join("stubs"), root };
    ensure!(
        home.nvcc().is_file(),
        "the wheels hold no compiler at: {}\nremove the folder and run again: {}",
        home.nvcc().display(),
        folder.display()
    );
    build_stub(&home)?;
    name_cudart(&home)?;
    Ok(home)
}

/// The CUDA versions whose runtimes the boot matrix starts, oldest first.
pub(crate) fn cudart_versions() -> impl Iterator<Item = &'static str> {
    RUNTIME_WHEELS.iter().map(|(version, _)| *version)
}

/// Gives the path of `libcudart.so.12` or `libcudart.so.13` of one CUDA version, for example `"12.4"`. If the cache
/// lacks its wheel, it is fetched first (2 to 4 MB each).
///
/// # Errors
/// For a version that [`cudart_versions`] does not name, and as [`ensure()`].
pub(crate) fn cudart(version: &str) -> Result<PathBuf> {
    let Some((_, wheel)) = RUNTIME_WHEELS.iter().find(|(known, _)| *known == version) else {
        let known: Vec<_> = cudart_versions().collect();
        bail!("no runtime of this CUDA version is pinned: {version}\nknown: {}", known.join(", "));
    };
    let folder = cache_folder()?.join(format!("cudart-{version}"));
    fetch(&folder, &[wheel], &format!("cudart {version}"))?;
    let candidates = ["nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cu13/lib/libcudart.so.13"];
    candidates
        .iter()
        .map(|path| folder.join(path))
        .find(|path| path.is_file())
        .with_context(|| format!("wheel {wheel} holds no libcudart in: {}", folder.display()))
}

/// The repository's root folder.
pub(crate) fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The folder of fetched wheels: `$FLOE_CACHE`, else `.cache/cuda` in the repository (ignored by git).
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let folder = match std::env::var_os("FLOE_CACHE") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => repository().join(".cache/cuda"),
    };
    fs::create_dir_all(&folder).with_context(|| format!("cannot create the cache folder: {}", folder.display()))?;
    folder.canonicalize().with_context(|| format!("cannot resolve: {}", folder.display()))
}

/// Unpacks `wheels` into `folder` unless its stamp says that exactly these are there already.
///
/// The wheels go into a folder beside it first, which then takes the name: a broken download leaves nothing
/// that looks complete.
fn fetch(folder: &Path, wheels: &[&str], what: &str) -> Result<()> {
    let stamp = wheels.join("\n");
    if fs::read_to_string(folder.join(STAMP)).is_ok_and(|found| found == stamp) {
        return Ok(());
    }
    let begin = Instant::now();
    eprintln!("toolchain: fetching {what} into {}", folder.display());
    let partial = folder.with_extension(format!("partial-{}", std::process::id()));
    remove_folder(&partial)?;
    let fetched = pip_install(&partial, wheels).and_then(|()| {
        fs::write(partial.join(STAMP), &stamp).with_context(|| format!("cannot write in: {}", partial.display()))?;
        remove_folder(folder)?;
        fs::rename(&partial, folder).with_context(|| format!("cannot move into place: {}", folder.display()))
    });
    if fetched.is_err() {
        // The first error is the one to report; what is left over is removed at the next call.
        let _ = fs::remove_dir_all(&partial);
        // Another process may have put the same folder there meanwhile; then nothing is missing.
        if fs::read_to_string(folder.join(STAMP)).is_ok_and(|found| found == stamp) {
            return Ok(());
        }
    }
    fetched?;
    eprintln!("toolchain: {what} ready after {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Unpacks wheels with pip into a folder of their own; nothing of the system's Python is changed.
fn pip_install(target: &Path, wheels: &[&str]) -> Result<()> {
    let output = python(&["-m", "pip", "--version"])?;
    ensure!(output.status.success(), "python3 has no pip\ninstall it (Debian: apt install python3-pip)");
    let mut install = Command::new("python3");
    install
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir", "--no-compile"])
        .args(["--only-binary=:all:", "--disable-pip-version-check", "--target"])
        .arg(target)
        .args(wheels)
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .stdin(Stdio::null());
    let output = install.output().context("cannot start python3")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!(
        "pip could not fetch: {}\n{}\ncheck the network (or pip's index and proxy settings) and run again",
        wheels.join(" "),
        last_lines(&said, 6)
    )
}

/// Runs python3 and gives its output; says what to install when there is none.
fn python(arguments: &[&str]) -> Result<std::process::Output> {
    match Command::new("python3").args(arguments).stdin(Stdio::null()).output() {
        Ok(output) => Ok(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("python3 is not installed\ninstall it (Debian: apt install python3 python3-pip)")
        }
        Err(error) => Err(error).context("cannot start python3"),
    }
}

/// Compiles a `libcuda.so` that has the driver API's names and nothing behind them, as CUDA's own stub.
///
/// The names are those that `cuda.h` declares together with the versioned ones it maps them to.
fn build_stub(home: &CudaHome) -> Result<()> {
    let header = home.headers().join("cuda.h");
    let declared = fs::read_to_string(&header).with_context(|| format!("cannot read: {}", header.display()))?;
    let names = driver_names(&declared);
    // CUDA_ERROR_STUB_LIBRARY is 34; the soname makes the loader look for the real library at run time.
    let mut source = String::from("/* made by xtask from cuda.h */\n");
    for name in &names {
        source.push_str(&format!("int {name}(void) {{ return 34; }}\n"));
    }
    let library = home.stubs().join("libcuda.so");
    let source_path = home.stubs().join("libcuda.c");
    if library.is_file() && fs::read_to_string(&source_path).is_ok_and(|found| found == source) {
        return Ok(());
    }
    fs::create_dir_all(home.stubs()).with_context(|| format!("cannot create: {}", home.stubs().display()))?;
    let partial = home.stubs().join(format!("libcuda.so.partial-{}", std::process::id()));
    fs::write(&source_path, &source).with_context(|| format!("cannot write: {}", source_path.display()))?;
    let output = Command::new("gcc")
        .args(["-shared", "-fPIC", "-O0", "-w", "-Wl,-soname,libcuda.so.1", "-o"])
        .arg(&partial)
        .arg(&source_path)
        .output()
        .context("cannot start gcc\ninstall it (Debian: apt install gcc g++)")?;
    ensure!(
        output.status.success(),
        "gcc could not build the stub libcuda: {}",
        last_lines(&String::from_utf8_lossy(&output.stderr), 6)
    );
    fs::rename(&partial, &library).with_context(|| format!("cannot move into place: {}", library.display()))
}

/// Gives the wheel's `libcudart.so.13` the name that `-lcudart` looks for, in our folder rather than the wheel's.
fn name_cudart(home: &CudaHome) -> Result<()> {
    let target = home.libraries().join("libcudart.so.13");
    let link = home.stubs().join("libcudart.so");
    if fs::read_link(&link).is_ok_and(|found| found == target) {
        return Ok(());
    }
    match fs::remove_file(&link) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace: {}", link.display()));
        }
        _ => {}
    }
    std::os::unix::fs::symlink(&target, &link).with_context(|| format!("cannot create: {}", link.display()))
}

/// The functions a program compiled against `cuda.h` may refer to, each once, in alphabetical order.
///
/// A function is a word that starts with `cu` and a capital. It stands before a parenthesis (`CUresult CUDAAPI
/// cuInit(`) or is the target of a define (`#define cuMemAlloc cuMemAlloc_v2`). The per-thread-stream names (`_ptds`,
/// `_ptsz`) are built by a macro there, so both are added for each.
fn driver_names(header: &str) -> Vec<String> {
    let mut names = std::collections::BTreeSet::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for line in header.lines() {
        let defines = line.trim_start().starts_with("#define");
        for word in line.split(|c: char| !is_word(c)).filter(|word| is_driver_name(word)) {
            let called = line.contains(&format!("{word}("));
            // If the declaration is broken behind CUDAAPI, the name begins the line.
            let declares = line.contains("CUDAAPI") || line.starts_with(word);
            if defines || (called && declares) {
                names.insert(word.to_owned());
            }
        }
    }
    let per_thread: Vec<String> = names
        .iter()
        .filter(|name| !name.ends_with("_ptds") && !name.ends_with("_ptsz"))
        .flat_map(|name| [format!("{name}_ptds"), format!("{name}_ptsz")])
        .collect();
    names.extend(per_thread);
    names.into_iter().collect()
}

/// Whether a word has the shape of a driver function's name, as `cuInit`.
fn is_driver_name(word: &str) -> bool {
    word.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Removes a folder if it is there.
fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove: {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The last lines of a tool's messages, which is where its error is.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::{cudart, driver_names, last_lines};

    #[test]
    fn names_come_from_declarations_and_defines() {
        let header = "#define cuMemAlloc cuMemAlloc_v2\n\
                      CUresult CUDAAPI cuInit(unsigned int Flags);\n\
                      typedef CUstream_st *CUstream;\n * as ::cuCtxCreate() does\n";
        let names = driver_names(header);
        assert!(names.contains(&"cuInit".to_owned()));
        assert!(names.contains(&"cuMemAlloc_v2".to_owned()));
        assert!(names.contains(&"cuMemAlloc_v2_ptds".to_owned()));
        assert!(!names.iter().any(|name| name.starts_with("cuCtxCreate")));
    }

    #[test]
    fn an_unpinned_runtime_version_is_refused_by_name() {
        let error = cudart("11.8").expect_err("11.8 is not pinned").to_string();
        assert!(error.contains("11.8") && error.contains("13.5"), "{error}");
    }

    #[test]
    fn the_end_of_a_message_is_kept() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a", 5), "a");
    }
}
