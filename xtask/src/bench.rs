//! `cargo xtask bench`: what the CPU device and the path to it cost, in one run on this machine.
//! In: the workspace, nvcc. Out: lines on stdout; comparisons are ratios within the run. It judges nothing: a timing is no test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::dist::{cargo, dist, run, target_folder};
use crate::toolchain::{self, CudaHome};
use crate::{examples, test};

/// Starts of a program per figure: enough for a median on a machine that is doing other things.
const STARTS: usize = 21;

/// Runs every measurement.
pub(crate) fn bench() -> Result<()> {
    let installation = dist()?;
    test::example_programs()?;
    println!("## matrixMul on the CPU device against the plain loop in C");
    run(&mut cargo(&["run", "--release", "--quiet", "--package", "floe-machine", "--example", "matmul"]))?;
    println!("## kernels of different kinds on one worker, the best of seven");
    run(&mut cargo(&["run", "--release", "--quiet", "--package", "floe-machine", "--example", "kernels"]))?;
    println!("## from PTX text to a kernel that can be launched");
    let texts = ptx_of_examples(&toolchain::ensure()?)?;
    let mut first_launch = cargo(&["run", "--release", "--quiet", "--package", "floe-machine", "--example"]);
    run(first_launch.args(["first_launch", "--"]).args(texts))?;
    println!("## start of an empty program, median of {STARTS}");
    starts(&installation)
}

/// Compiles every single-source example to PTX; gives the files.
fn ptx_of_examples(home: &CudaHome) -> Result<Vec<PathBuf>> {
    let folder = target_folder().join("examples/ptx");
    std::fs::create_dir_all(&folder)?;
    let mut texts = Vec::new();
    for program in examples::table()?.program {
        let source = examples::sources().join(format!("{}.cu", program.name));
        let text = folder.join(format!("{}.ptx", program.name));
        if program.sources.len() > 1 || program.name == "empty" || program.driver || !source.is_file() {
            continue;
        }
        if !text.is_file() {
            let mut nvcc = Command::new(home.nvcc());
            nvcc.args(["-ptx", "-O2", "-std=c++17", "-arch=sm_90", "-I"]).arg(home.headers());
            run(nvcc.arg(&source).arg("-o").arg(&text))?;
        }
        texts.push(text);
    }
    Ok(texts)
}

fn starts(installation: &Path) -> Result<()> {
    let program = target_folder().join("examples/static/empty");
    let alone = median(|| Command::new(&program))?;
    let under_floe = median(|| {
        let mut command = Command::new(installation.join("bin/floe"));
        command.args(["run", "--"]).arg(&program);
        command
    })?;
    let vector_add = target_folder().join("examples/static/vectorAdd");
    let with_device = median(|| {
        let mut command = Command::new(installation.join("bin/floe"));
        command.args(["run", "--"]).arg(&vector_add);
        command
    })?;
    println!("empty, alone: {:.1} ms", alone.as_secs_f64() * 1e3);
    println!("empty, under floe run: {:.1} ms", under_floe.as_secs_f64() * 1e3);
    println!("vectorAdd, under floe run, start to end: {:.1} ms", with_device.as_secs_f64() * 1e3);
    Ok(())
}

fn median(command: impl Fn() -> Command) -> Result<Duration> {
    let mut times = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let start = Instant::now();
        let status = command().stdout(Stdio::null()).status()?;
        ensure!(status.success(), "a program that is timed failed: {status}");
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[STARTS / 2])
}
