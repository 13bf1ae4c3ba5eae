//! The program `floe demo` runs: an ordinary CUDA program, written against the driver API, that knows nothing of floe.
//! In: whatever `libcuda.so.1` the loader finds. Out: three computations, each compared with the CPU's result, on stdout.
//! Exits with 1 when a result is wrong.

mod count_hits;
mod device;
mod matrix_multiply;
mod vector_add;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use device::Device;

/// A computation: what is computed, and the function that does it on the device and checks it, giving a sentence.
type Step = (&'static str, fn(&Device) -> Result<String>);

const STEPS: [Step; 3] = [
    ("adding two vectors", vector_add::run),
    ("multiplying two matrices", matrix_multiply::run),
    ("counting points in a circle", count_hits::run),
];

fn main() -> ExitCode {
    match demonstrate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demonstrate() -> Result<()> {
    let start = Instant::now();
    let device = device::open()?;
    println!("  device   {}", device.description()?);
    for (number, (what, run)) in STEPS.iter().enumerate() {
        if std::io::stderr().is_terminal() {
            eprint!("  [{}/{}] {what} …\r", number + 1, STEPS.len());
        }
        let began = Instant::now();
        let result = run(&device)?;
        println!("  [{}/{}] {what}: {result}, {:.0} ms", number + 1, STEPS.len(), began.elapsed().as_secs_f64() * 1e3);
    }
    println!("  all results are right, {:.2} s in all", start.elapsed().as_secs_f64());
    Ok(())
}
