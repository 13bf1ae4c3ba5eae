//! Builds the example programs: the table `examples/cuda/programs.toml` and the CUDA sources come in, executables in
//! `OUT/static` and `OUT/shared` go out. Each program is compiled once and linked with the CUDA runtime in both ways. Only what is older
//! than its sources, the shared header, the table or the compiler is built again. It never runs a program: what a run
//! must print stands in the table, and the tests read it from there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::toolchain::{CudaHome, last_lines, repository};

/// Number of compilers that run at once: each takes about 200 MB, CUB and Thrust four times that.
const JOBS: usize = 2;

/// The table `examples/cuda/programs.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// Every program, in the order of the file.
    pub(crate) program: Vec<Program>,
}

/// One example program: how it is built and what its runs must give.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// Its name, also that of the executable.
    pub(crate) name: String,
    /// Its sources in `examples/cuda`; `NAME.cu` when absent.
    #[serde(default)]
    pub(crate) sources: Vec<String>,
    /// Flags for nvcc beside those every program gets; `-arch=…` here replaces the default.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    /// Whether it calls the driver API itself and is linked with `-lcuda`.
    #[serde(default)]
    pub(crate) driver: bool,
    /// How many devices it needs, which only the tests ask.
    #[serde(default)]
    #[allow(dead_code, reason = "the tests read the same table")]
    pub(crate) vgpus: Option<u32>,
    /// Whether its kernels reach other devices' memory, which only the tests ask.
    #[serde(default)]
    #[allow(dead_code, reason = "the tests read the same table")]
    pub(crate) peers: bool,
    /// How many processes it forks that share memory, which only the tests ask.
    #[serde(default)]
    #[allow(dead_code, reason = "the tests read the same table")]
    pub(crate) processes: Option<u32>,
    /// The runs a test makes.
    pub(crate) run: Vec<Run>,
}

/// One run of a program.
///
/// Only the tests act on it; here it makes a misspelt key an error at build time.
#[allow(dead_code, reason = "the tests read the same table")]
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// Arguments.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// The exit code expected.
    #[serde(default)]
    pub(crate) exit: i32,
    /// Lines that stdout must hold, each whole, in any order.
    #[serde(default)]
    pub(crate) lines: Vec<String>,
    /// Lines that stdout must hold in this order, other lines between them allowed.
    #[serde(default)]
    pub(crate) ordered: Vec<String>,
    /// Whether a process of it is ended by a fault on purpose, of which floe may write a line.
    #[serde(default)]
    pub(crate) faults: bool,
    /// Strings of which stderr must hold each.
    #[serde(default)]
    pub(crate) stderr: Vec<String>,
}

/// How a program reaches the CUDA runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linking {
    /// `libcudart_static.a`, nvcc's default.
    Static,
    /// `libcudart.so.13`, found by the executable's run path (`LD_LIBRARY_PATH` goes first).
    Shared,
}

impl Linking {
    /// Both ways.
    pub(crate) const ALL: [Self; 2] = [Self::Static, Self::Shared];

    /// The folder name below `OUT`.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Shared => "shared",
        }
    }
}

/// One executable.
#[derive(Debug, Clone)]
pub(crate) struct Built {
    /// The table's entry.
    pub(crate) program: Program,
    /// Its way of linking the runtime.
    pub(crate) linking: Linking,
    /// Its path.
    pub(crate) path: PathBuf,
}

/// The folder of the sources.
pub(crate) fn sources() -> PathBuf {
    repository().join("examples/cuda")
}

/// Reads the table.
///
/// # Errors
/// When it is missing, is not TOML, has an unknown key, or names no source that exists.
pub(crate) fn table() -> Result<Table> {
    let path = sources().join("programs.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read the table of examples: {}", path.display()))?;
    let mut table: Table =
        toml::from_str(&text).with_context(|| format!("the table of examples is wrong: {}", path.display()))?;
    for program in &mut table.program {
        if program.sources.is_empty() {
            program.sources = vec![format!("{}.cu", program.name)];
        }
        ensure!(!program.run.is_empty(), "{} has no run in the table", program.name);
        for source in &program.sources {
            let source = sources().join(source);
            ensure!(source.is_file(), "{} has no source: {}", program.name, source.display());
        }
    }
    Ok(table)
}

/// Builds every program both ways into `out` (`target/examples` by convention), two compilers at a time.
///
/// # Errors
/// Names each program that does not compile, with the end of the compiler's messages; the others are built.
pub(crate) fn build(home: &CudaHome, out: &Path) -> Result<Vec<Built>> {
    let begin = Instant::now();
    let mut wanted = Vec::new();
    for program in table()?.program {
        for linking in Linking::ALL {
            let path = out.join(linking.folder()).join(&program.name);
            wanted.push(Built { program: program.clone(), linking, path });
        }
    }
    let rules = newest(&[
        sources().join("check.h"),
        sources().join("check_driver.h"),
        sources().join("processes.h"),
        sources().join("ranks.h"),
        sources().join("programs.toml"),
        home.nvcc(),
    ])?;
    let mut stale = Vec::new();
    for built in &wanted {
        if is_stale(built, rules)? {
            stale.push(built);
        }
    }
    if stale.is_empty() {
        return Ok(wanted);
    }
    for linking in Linking::ALL {
        let folder = out.join(linking.folder());
        fs::create_dir_all(&folder).with_context(|| format!("cannot create: {}", folder.display()))?;
    }
    eprintln!("examples: building {} of {} executables", stale.len(), wanted.len());
    let failures = compile_all(home, &stale);
    if !failures.is_empty() {
        bail!("{} examples do not compile:\n{}", failures.len(), failures.join("\n"));
    }
    eprintln!("examples: built after {:.1} s", begin.elapsed().as_secs_f64());
    Ok(wanted)
}

/// What floe, its tests and its tools load on NVIDIA's GPUs as text, which NVIDIA's compiler must take.
const OWN_KERNELS: [&str; 5] = [
    "server/device/src/gpu/hash/hash.ptx",
    "server/worker/tests/kernels.ptx",
    "tests/differential/src/kernels.ptx",
    "tests/differential/src/variables.ptx",
    "examples/demo/demo.ptx",
];

/// Has NVIDIA's assembler read each for a GPU of today and for a later one. The CPU device takes what it can read, and no
/// test without a GPU would notice that another compiler does not.
///
/// # Errors
/// The assembler's words.
pub(crate) fn assemble_own_kernels(home: &CudaHome) -> Result<()> {
    for kernel in OWN_KERNELS {
        for target in ["sm_90", "sm_120"] {
            let mut assembler = Command::new(home.assembler());
            assembler.arg(format!("-arch={target}")).arg(repository().join(kernel)).args(["-o", "/dev/null"]);
            let output = assembler.output().with_context(|| format!("cannot run: {}", home.assembler().display()))?;
            ensure!(
                output.status.success(),
                "{kernel} is not taken for {target}:\n{}",
                last_lines(&String::from_utf8_lossy(&output.stderr), 10)
            );
        }
    }
    Ok(())
}

/// Builds each of `stale`, whose executables of one program stand together, and gives what failed, one message each.
fn compile_all(home: &CudaHome, stale: &[&Built]) -> Vec<String> {
    let programs: Vec<&[&Built]> = stale.chunk_by(|one, other| one.program.name == other.program.name).collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..JOBS.min(programs.len()) {
            scope.spawn(|| {
                while let Some(built) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begin = Instant::now();
                    let outcome = compile(home, built);
                    eprintln!("examples: {}: {:.1} s", built[0].program.name, begin.elapsed().as_secs_f64());
                    if let Err(error) = outcome {
                        failures.lock().unwrap_or_else(|e| e.into_inner()).push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_else(|e| e.into_inner())
}

/// Compiles a program's sources and links each of its executables.
fn compile(home: &CudaHome, all: &[&Built]) -> Result<()> {
    let Some(Built { program, path, .. }) = all.first() else { return Ok(()) };
    let folder = path.with_extension("objects");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create: {}", folder.display()))?;
    let mut objects = Vec::new();
    for (number, source) in program.sources.iter().enumerate() {
        let object = folder.join(format!("{number}.o"));
        run_nvcc(program, nvcc(home, program).arg("-c").arg(source).arg("-o").arg(&object))?;
        objects.push(object);
    }
    all.iter().try_for_each(|built| link(home, built, &objects))?;
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove: {}", folder.display()))
}

/// nvcc with a program's flags.
fn nvcc(home: &CudaHome, program: &Program) -> Command {
    let mut nvcc = Command::new(home.nvcc());
    nvcc.current_dir(sources()).args(["-O2", "-std=c++17"]);
    if !program.flags.iter().any(|flag| flag.starts_with("-arch") || flag.starts_with("-gencode")) {
        // A cubin for the GPUs at hand and PTX for everything else, our CPU device included.
        nvcc.arg("-arch=sm_90");
    }
    nvcc.args(&program.flags);
    nvcc
}

/// Links one executable, which appears under its name only when complete.
fn link(home: &CudaHome, built: &Built, objects: &[PathBuf]) -> Result<()> {
    let program = &built.program;
    let partial = built.path.with_extension("partial");
    let mut nvcc = nvcc(home, program);
    nvcc.args(objects).arg("-o").arg(&partial).arg("-L").arg(home.libraries());
    if built.linking == Linking::Shared {
        // The new kind of run path lets LD_LIBRARY_PATH choose another runtime.
        nvcc.arg("-cudart=shared").arg("-L").arg(home.stubs()).args(["-Xlinker", "--enable-new-dtags"]);
        nvcc.arg("-Xlinker").arg(format!("-rpath,{}", home.libraries().display()));
    }
    if program.driver {
        nvcc.arg("-L").arg(home.stubs()).arg("-lcuda");
    }
    run_nvcc(program, &mut nvcc)?;
    fs::rename(&partial, &built.path).with_context(|| format!("cannot move into place: {}", built.path.display()))
}

fn run_nvcc(program: &Program, nvcc: &mut Command) -> Result<()> {
    let output = nvcc.output().with_context(|| format!("cannot start {}", nvcc.get_program().display()))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{}: {}", program.name, last_lines(&String::from_utf8_lossy(&said), 12));
    }
    Ok(())
}

/// Whether an executable is missing or older than what it is made from.
fn is_stale(built: &Built, rules: SystemTime) -> Result<bool> {
    let Ok(made) = fs::metadata(&built.path).and_then(|found| found.modified()) else {
        return Ok(true);
    };
    let paths: Vec<_> = built.program.sources.iter().map(|source| sources().join(source)).collect();
    Ok(made < newest(&paths)?.max(rules))
}

/// The latest modification time among some files.
fn newest(paths: &[PathBuf]) -> Result<SystemTime> {
    let mut latest = SystemTime::UNIX_EPOCH;
    for path in paths {
        let modified = fs::metadata(path)
            .and_then(|found| found.modified())
            .with_context(|| format!("cannot read the age of: {}", path.display()))?;
        latest = latest.max(modified);
    }
    Ok(latest)
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn the_table_names_each_program_once_and_each_has_a_run() {
        let table = table().expect("the table reads");
        let mut names: Vec<_> = table.program.iter().map(|program| &program.name).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "a program is named twice");
        for program in &table.program {
            assert!(!program.run.is_empty(), "{} has no run", program.name);
        }
    }
}
