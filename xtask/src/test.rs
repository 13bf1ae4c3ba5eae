//! `cargo xtask test`: everything that is tested without a GPU, from a fresh clone.
//! In: the workspace, the package registries. Out: the test runners' own summaries; fails at the first step that fails.
//! Never hides a step: each is announced with its number and, when it is done, its seconds.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::dist::{cargo, run, target_folder};
use crate::toolchain::repository;
use crate::{check, examples, fuzz, generate, header, pack, package, toolchain};

/// A step: its name and its function.
type Step = (&'static str, fn() -> Result<()>);

/// The steps, in order.
const STEPS: &[Step] = &[
    ("generated code is fresh", || generate::run(true)),
    ("formatting", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("shape of the repository", check::shape_in_ci),
    ("dependencies", check::dependencies_in_ci),
    ("lints", || {
        run(&mut cargo(&["clippy", "--release", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    }),
    ("installation and benchmarks", || package::for_tests(&pack::pack()?)),
    ("exported functions against cuda.h", header::check),
    ("example programs", example_programs),
    ("CUDA runtimes of the boot matrix", boot_matrix),
    ("fuzzing, bounded", fuzz::in_ci),
    ("unit and whole-system tests", tests),
    ("alerts and dashboard", check::monitoring_in_ci),
    ("packages in a Debian 12 of their own", check::package_in_ci),
];

/// Time limit of all tests, in seconds: many times what they take on two idle cores.
const TESTS_LIMIT_S: u32 = 7200;

/// Runs every step.
pub(crate) fn test() -> Result<()> {
    let start = Instant::now();
    for (number, (name, step)) in STEPS.iter().enumerate() {
        let began = Instant::now();
        eprintln!("floe test [{}/{}] {name}", number + 1, STEPS.len());
        step().with_context(|| format!("step failed: {name}"))?;
        eprintln!("floe test [{}/{}] {name}: {:.1} s", number + 1, STEPS.len(), began.elapsed().as_secs_f64());
    }
    eprintln!("floe test: all steps passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Fetches nvcc where needed and builds the example programs, and the C programs of the management library.
pub(crate) fn example_programs() -> Result<()> {
    let home = toolchain::ensure()?;
    let examples = target_folder().join("examples");
    examples::build(&home, &examples)?;
    examples::assemble_own_kernels(&home)?;
    for name in ["management", "monitors"] {
        compile_c(&repository().join(format!("tests/programs/{name}.c")), &examples.join(name))?;
    }
    compile_values(&home, &examples.join("values"))
}

/// Builds the program that passes each value of each flag, by NVIDIA's own header.
fn compile_values(home: &toolchain::CudaHome, executable: &Path) -> Result<()> {
    let sources = repository().join("tests/programs/values");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-I"]).arg(home.headers()).arg("-o").arg(executable);
    for name in ["main", "contexts", "memory", "copies", "textures", "code", "graphs"] {
        cc.arg(sources.join(format!("{name}.c")));
    }
    run(cc.arg("-L").arg(home.stubs()).args(["-lcuda", "-ldl"]))
}

/// Fetches the runtimes and notes where each lies; builds the program that boots them.
fn boot_matrix() -> Result<()> {
    let examples = target_folder().join("examples");
    let notes = examples.join("cudart");
    fs::create_dir_all(&notes)?;
    for version in toolchain::cudart_versions() {
        let library = toolchain::cudart(version)?;
        fs::write(notes.join(version), library.display().to_string())?;
    }
    compile_c(&repository().join("tests/programs/boot.c"), &examples.join("boot"))
}

fn compile_c(source: &Path, executable: &Path) -> Result<()> {
    run(Command::new("cc").args(["-O1", "-Wall", "-Wextra", "-o"]).arg(executable).arg(source).arg("-ldl"))
}

/// Builds the tests, however long that takes, and runs them.
fn tests() -> Result<()> {
    let test = |flags: &[&str]| cargo(&[&["test", "--release", "--locked", "--workspace"], flags].concat());
    run(&mut test(&["--no-run"]))?;
    let mut limited = limited(&test(&[]), TESTS_LIMIT_S);
    limited.current_dir(repository());
    limited.env("FLOE_DIST", target_folder().join("dist"));
    limited.env("FLOE_BENCH", target_folder().join("bench"));
    limited.env("FLOE_EXAMPLES", target_folder().join("examples"));
    // Tests of whole systems wait for other processes half of the time.
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    limited.env("RUST_TEST_THREADS", (processors + processors.div_ceil(2)).to_string());
    run(&mut limited).context(format!(
        "the tests failed (exit codes 124 and 137: one of those listed above as running for over 60 seconds never ended, and all were killed after {TESTS_LIMIT_S} s)"
    ))
}

/// A command that is ended when it runs for more than so many seconds; its status is 124 or 137 then.
fn limited(command: &Command, seconds: u32) -> Command {
    let mut limited = Command::new("timeout");
    limited.arg("--kill-after=10").arg(seconds.to_string()).arg(command.get_program()).args(command.get_args());
    limited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_that_runs_too_long_is_ended() {
        let code = |program: &str, argument: &str, seconds| {
            limited(Command::new(program).arg(argument), seconds).status().expect("timeout runs").code()
        };
        // A busy machine may take more than a second to run what does nothing.
        let codes = [code("sleep", "600", 1), code("true", "", 300), code("false", "", 300)];
        assert_eq!(codes, [Some(124), Some(0), Some(1)]);
    }
}
