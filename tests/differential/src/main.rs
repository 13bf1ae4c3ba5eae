//! A differential fuzzer of driver-API programs: an ordinary CUDA program that knows nothing of floe.
//! In: seeds, and whatever `libcuda.so` the loader finds. Out: for each seed a line with the digest of every byte read;
//! where a call fails or a byte differs from the model, the seed, the error and the smallest program that still fails.
//! It never runs a program whose result depends on chance: the model admits none that races.

mod channel;
mod device;
mod execute;
mod generate;
mod model;
mod operation;
mod order;
mod pair;
mod random;
mod shrink;

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;

use model::Capabilities;
use operation::Operation;
use pair::Pair;

/// Runs programs made from seeds and compares every byte they read with a model.
#[derive(Debug, Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Operations of a program.
    #[arg(long, default_value_t = 300)]
    operations: usize,
    /// Only what every device can do, so that digests of different devices can be compared.
    #[arg(long)]
    plain: bool,
    /// Two processes, of a vGPU each, that share memory and events.
    #[arg(long)]
    processes: bool,
    /// This is the second process, whose stdin is a socket of the first's.
    #[arg(long, hide = true)]
    second: bool,
    /// Only these operations of the program, by their indices: as a failure names them.
    #[arg(long, value_delimiter = ',')]
    keep: Option<Vec<usize>>,
    /// Show each operation before it is carried out.
    #[arg(long)]
    show: bool,
    /// Do not look for a smaller program that fails as well.
    #[arg(long)]
    whole: bool,
    /// Seconds after which an operation counts as one that never ends.
    #[arg(long, default_value_t = 60)]
    patience: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        // A thread of the program may never end.
        Ok(false) => std::process::exit(1),
        Err(error) => {
            eprintln!("differential: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether all programs passed.
fn run(arguments: &Arguments) -> Result<bool> {
    let mut can = execute::capabilities().context("no CUDA device")?;
    if arguments.plain {
        (can.mapped, can.peers, can.across, can.reads_in_order) = (false, false, false, false);
    }
    if arguments.processes {
        can = Capabilities { vgpus: 2, peers: false, across: false, processes: true, ..can };
    }
    for seed in arguments.seed..arguments.seed + arguments.count {
        let program = generate::program(seed, arguments.operations, can);
        let all = || (0..program.len()).collect();
        let keep: Vec<usize> = arguments.keep.clone().unwrap_or_else(all);
        let keep = shrink::admitted(&program, &keep, can);
        if arguments.second {
            pair::serve(&program, &keep, can)?;
            continue;
        }
        let shows = arguments.show;
        let second = arguments.processes.then(|| again(arguments, seed, &keep)).transpose()?;
        let second = second.map(|mut command| {
            command.arg("--second");
            command
        });
        if let Err((index, error)) = watch(arguments.patience, &program, &keep, move |program, keep, at| {
            carry_out(program, keep, Start { can, second }, seed, shows, at)
        }) {
            println!("seed {seed}: operation {index}: {error:#}\n  {:?}", program.get(index));
            if !arguments.whole && arguments.keep.is_none() {
                report(arguments, seed, &program, can);
            }
            // What a failed program leaves behind says nothing about the next.
            return Ok(false);
        }
    }
    Ok(true)
}

/// The first operation that fails, and why.
type Failure = (usize, anyhow::Error);

/// Carries a program out on a thread of its own; a failure where no operation ends for so many seconds.
fn watch(
    patience: u64,
    program: &[Operation],
    keep: &[usize],
    run: impl FnOnce(&[Operation], &[usize], &AtomicUsize) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let at = Arc::new(AtomicUsize::new(0));
    let (seen, program, keep) = (Arc::clone(&at), program.to_vec(), keep.to_vec());
    let runner = std::thread::spawn(move || run(&program, &keep, &seen));
    let (mut last, mut since) = (usize::MAX, Instant::now());
    while !runner.is_finished() {
        let now = at.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > Duration::from_secs(patience) {
            return Err((now, anyhow::anyhow!("does not end in {patience} s")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    runner.join().unwrap_or_else(|_| Err((at.load(Ordering::Relaxed), anyhow::anyhow!("panicked"))))
}

/// What a program starts with.
struct Start {
    can: Capabilities,
    second: Option<Command>,
}

fn carry_out(
    program: &[Operation],
    keep: &[usize],
    Start { can, second }: Start,
    seed: u64,
    shows: bool,
    at: &AtomicUsize,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut pair = Pair::start(can, second).map_err(|error| (0, error))?;
    for index in keep {
        let operation = &program[*index];
        at.store(*index, Ordering::Relaxed);
        if shows {
            println!("  {index}: {operation:?}");
        }
        pair.step(*index, operation).map_err(|error| (*index, error))?;
    }
    let (digest, reads) = pair.end().map_err(|error| (program.len(), error.context("at its end")))?;
    println!("seed {seed}: {digest} {reads} reads, {} operations, {:.1} s", keep.len(), begin.elapsed().as_secs_f64());
    Ok(())
}

/// Looks for a smaller program that fails, each in a process of its own, and shows it.
fn report(arguments: &Arguments, seed: u64, program: &[Operation], can: Capabilities) {
    let left = shrink::shrink(program, can, |keep| fails(arguments, seed, keep));
    let indices: Vec<String> = left.iter().map(ToString::to_string).collect();
    println!("smallest program that fails: --seed {seed} --keep {}", indices.join(","));
    for index in left {
        println!("  {index}: {:?}", program[index]);
    }
}

/// This program with these operations of one seed.
fn again(arguments: &Arguments, seed: u64, keep: &[usize]) -> Result<Command> {
    let indices: Vec<String> = keep.iter().map(ToString::to_string).collect();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--seed", &seed.to_string(), "--operations", &arguments.operations.to_string()]);
    command.args(["--keep", &indices.join(","), "--patience", &arguments.patience.to_string()]);
    command.args(arguments.plain.then_some("--plain")).args(arguments.processes.then_some("--processes"));
    Ok(command)
}

/// Whether these operations fail in a process of their own, or do not end.
fn fails(arguments: &Arguments, seed: u64, keep: &[usize]) -> bool {
    if keep.is_empty() {
        return false;
    }
    let Ok(mut command) = again(arguments, seed, keep) else { return false };
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let begin = Instant::now();
    // A program whose wait never ends says so itself; one that is stuck at its end does not.
    while begin.elapsed() < Duration::from_secs(2 * arguments.patience + 10) {
        if let Ok(Some(status)) = child.try_wait() {
            return !status.success();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    true
}
