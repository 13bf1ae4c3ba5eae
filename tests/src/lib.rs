//! The ground of the whole-system tests: an installation, a daemon per test, programs that are run and judged. In:
//! `target/dist` and `target/examples` (or `FLOE_DIST`, `FLOE_EXAMPLES`), made by `cargo xtask test`. Out: outcomes. On
//! a machine with a GPU the same tests run on it with `FLOE_TEST_DEVICE=nvidia` and `--test-threads 1`. They run one
//! after the other because some check the GPU's free memory, which others change. Never skips what is missing: a test
//! without its installation fails and says what to run.
#![forbid(unsafe_code)]

mod cutter;
mod floed;
mod moving;
mod opened;
mod port;
mod processes;
mod program;
mod table;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

pub use cutter::{Cutter, Plan, Way};
pub use floed::Floed;
pub use moving::{Moves, move_to, moving, said_of, told};
pub use opened::Open;
pub use port::Port;
pub use processes::{children, descendants, is_launcher, living_parent, open_files, settled, threads};
pub use program::{Outcome, Program, Statistics};
pub use table::{Expectation, Linkage, example, examples, examples_between, examples_of_processes};

/// A folder named by an environment variable, else one under `target/`.
///
/// # Panics
/// When the folder is missing: the message names the command that makes it.
#[must_use]
pub fn made_folder(variable: &str, name: &str) -> PathBuf {
    let folder = std::env::var_os(variable).map_or_else(
        || {
            let target =
                std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
            target.join(name)
        },
        PathBuf::from,
    );
    assert!(folder.is_dir(), "{} is missing: `cargo xtask test` makes it", folder.display());
    folder
}

/// The repository's root: `FLOE_REPOSITORY`, else where these tests were built.
///
/// # Panics
/// Never: the tests lie in the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository").to_path_buf();
    std::env::var_os("FLOE_REPOSITORY").map_or_else(built, PathBuf::from)
}

/// Builds a program of `tests/programs`.
///
/// # Panics
/// When there is no C compiler, or the program has an error.
pub fn compile_c(name: &str, to: &Path) {
    let mut built = std::process::Command::new("cc");
    built.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(to);
    built.arg(repository().join("tests/programs").join(format!("{name}.c"))).args(["-ldl", "-lpthread"]);
    assert!(built.status().expect("cc runs").success());
}

/// The same, in a folder of its own, which goes with what is returned.
///
/// # Panics
/// As [`compile_c`], or when there is no folder.
#[must_use]
pub fn built_c(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join(name);
    compile_c(name, &program);
    (folder, program)
}

/// Copies a program that is run then. The copy is made by a process of its own: a descriptor that this one writes by could be
/// a child's of another test, too, for a moment, and the system runs nothing that is written.
///
/// # Panics
/// When it cannot be copied.
pub fn copy_executable(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("--preserve=mode").args([from, to]).status();
    assert!(copied.expect("cp runs").success());
}

/// The installation under test.
#[must_use]
pub fn installation() -> PathBuf {
    made_folder("FLOE_DIST", "dist")
}

/// The folder of the built example programs.
#[must_use]
pub fn built_examples() -> PathBuf {
    made_folder("FLOE_EXAMPLES", "examples")
}
