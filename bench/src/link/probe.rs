//! The measuring process: an ordinary user of a `libcuda.so.1`, which may be the system's driver or floe's client.
//! In: the library, sizes, a time budget. Out: findings, as JSON lines on stdout. Every copy's bytes are compared once
//! before it is timed: a time of wrong bytes is not reported.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_abi::{DevicePtr, Function, Stream};
use floe_device::{Driver, HostMemory, LaunchRequest, LoadImage};

use super::curves::{Copy, Finding, Inputs};
use super::ratios;
use super::raw::{self, Wire};
use super::timing::time;

/// Flags of the measuring process, which `floe bench link` starts.
#[derive(Debug, clap::Args)]
pub struct ProbeArguments {
    /// The driver library: a path, or a name the loader finds.
    #[arg(long)]
    pub(super) library: PathBuf,
    /// The largest copy in bytes.
    #[arg(long)]
    pub(super) largest: u64,
    /// Milliseconds per point.
    #[arg(long)]
    pub(super) budget: u64,
    /// Sockets that are measured alone, in turns with the copies.
    #[arg(long)]
    pub(super) raw: Option<Wire>,
    /// Steps only.
    #[arg(long)]
    pub(super) steps: bool,
}

/// A kernel that does nothing, for any GPU.
const NOTHING: &[u8] = b".version 6.0\n.target sm_52\n.address_size 64\n.visible .entry nothing() { ret; }\n";
/// Bytes of a step's input.
const INPUT: usize = 4096;
/// Bytes of copies that are timed in a row, two copies at least.
const ROW_BYTES: u64 = 512 << 20;
/// Measures and reports.
///
/// # Errors
/// When the library does not load or a call fails, with the driver's name for it; when bytes were not copied.
pub fn probe(arguments: &ProbeArguments) -> Result<()> {
    let driver = Driver::open_as_program(&arguments.library)?;
    driver.init(0).context("cuInit")?;
    let device = driver.device_get(0).context("cuDeviceGet")?;
    let context = driver.device_primary_ctx_retain(device).context("cuDevicePrimaryCtxRetain")?;
    driver.ctx_set_current(context).context("cuCtxSetCurrent")?;
    say(&Finding::Device { name: driver.device_get_name(device).context("cuDeviceGetName")? })?;
    let budget = Duration::from_millis(arguments.budget);
    let image = LoadImage::single(NOTHING.into());
    let module = driver.module_load_data(&image, &[]).result.context("cuModuleLoadDataEx")?;
    let function = driver.module_get_function(module, c"nothing").context("cuModuleGetFunction")?;
    if !arguments.steps {
        say(&Finding::Launch { seconds: launch_and_wait(&driver, function, budget)? })?;
    }
    for inputs in [Inputs::Pinned, Inputs::Pageable] {
        say(&Finding::Step { inputs, seconds: step(&driver, function, inputs, budget)? })?;
    }
    driver.module_unload(module).context("cuModuleUnload")?;
    if arguments.steps {
        return driver.device_primary_ctx_release(device).context("cuDevicePrimaryCtxRelease");
    }
    let mut counts = Vec::new();
    for bytes in sizes(arguments.largest) {
        let length = usize::try_from(bytes).context("a size beyond this machine's addresses")?;
        copies(&driver, length, budget, arguments.raw.is_some())?;
        if let Some(wire) = arguments.raw {
            if bytes == raw::LEAST {
                // Only now: a session's connections come in the background, during the smaller copies.
                counts = counts_of(wire)?;
            }
            sockets_alone(wire, &counts, length, budget)?;
        }
    }
    driver.device_primary_ctx_release(device).context("cuDevicePrimaryCtxRelease")
}

/// Powers of four from 4 bytes on.
pub(super) fn sizes(largest: u64) -> impl Iterator<Item = u64> {
    (1..16).map(|power| 1 << (2 * power)).take_while(move |bytes| *bytes <= largest.max(4))
}

fn say(finding: &Finding) -> Result<()> {
    let mut line = serde_json::to_string(finding)?;
    line.push('\n');
    std::io::stdout().write_all(line.as_bytes()).context("the findings cannot be written")
}

/// A step as trainings make them: two inputs, two kernels, one number back. Behind each input from pageable memory the program
/// synchronizes, as PyTorch does.
fn step(driver: &Driver, function: Function, inputs: Inputs, budget: Duration) -> Result<f64> {
    let memory = driver.mem_alloc(2 * INPUT).context("cuMemAlloc")?;
    let mut pinned = HostMemory::new(driver, INPUT).context("cuMemHostAlloc")?;
    let mut pageable = vec![0; INPUT];
    let mut turn = 0_u8;
    let seconds = time(budget, || {
        turn = turn.wrapping_add(1);
        let host: &mut [u8] = if inputs == Inputs::Pinned { &mut pinned } else { &mut pageable };
        for place in [0, INPUT as u64] {
            fill(host, turn);
            driver.memcpy_htod(DevicePtr(memory.0 + place), host).context("cuMemcpyHtoD")?;
            if inputs == Inputs::Pageable {
                driver.ctx_synchronize().context("cuCtxSynchronize")?;
            }
            driver.launch_kernel(&nothing(function)).context("cuLaunchKernelEx")?;
        }
        let mut number = [0; 4];
        driver.memcpy_dtoh(&mut number, DevicePtr(memory.0 + INPUT as u64)).context("cuMemcpyDtoH")?;
        ensure!(is_filled(&number, turn), "a step's number came back as another: {number:?}");
        Ok(())
    })?;
    drop(pinned);
    driver.mem_free(memory).context("cuMemFree")?;
    Ok(seconds)
}

/// A launch of the kernel that does nothing.
fn nothing(function: Function) -> LaunchRequest<'static> {
    LaunchRequest {
        function,
        grid: [1; 3],
        block: [32, 1, 1],
        shared_bytes: 0,
        stream: Stream::default(),
        attributes: &[],
        parameters: &[],
    }
}

fn launch_and_wait(driver: &Driver, function: Function, budget: Duration) -> Result<f64> {
    let request = nothing(function);
    time(budget, || {
        driver.launch_kernel(&request).context("cuLaunchKernelEx")?;
        driver.ctx_synchronize().context("cuCtxSynchronize")
    })
}

/// All four copies of one size; large ones also in a row, where they are compared with sockets.
fn copies(driver: &Driver, bytes: usize, budget: Duration, beside_sockets: bool) -> Result<()> {
    let memory = driver.mem_alloc(bytes).context("cuMemAlloc")?;
    let mut pinned = HostMemory::new(driver, bytes).context("cuMemHostAlloc")?;
    let mut pageable = vec![0; bytes];
    of_kind(driver, memory, &mut pinned, [Copy::PinnedToDevice, Copy::PinnedToHost], budget)?;
    if beside_sockets && bytes as u64 >= ratios::LEAST {
        in_a_row(memory, &mut pinned, budget)?;
    }
    of_kind(driver, memory, &mut pageable, [Copy::PageableToDevice, Copy::PageableToHost], budget)?;
    drop(pinned);
    driver.mem_free(memory).context("cuMemFree")
}

/// Over how many connections sockets are measured alone; the session's number is said.
fn counts_of(wire: Wire) -> Result<Vec<u32>> {
    let of_session = wire.of_session();
    if let Some(connections) = of_session {
        say(&Finding::Connections { connections })?;
    }
    Ok(wire.counts(of_session))
}

/// Sockets alone, over each number of connections.
fn sockets_alone(wire: Wire, counts: &[u32], bytes: usize, budget: Duration) -> Result<()> {
    for &connections in counts {
        let seconds = wire.seconds(connections, bytes, budget)?;
        say(&Finding::Raw { wire, connections, bytes: bytes as u64, seconds })?;
    }
    Ok(())
}

/// Both directions with one kind of host memory.
fn of_kind(
    driver: &Driver,
    memory: DevicePtr,
    host: &mut [u8],
    [there, back]: [Copy; 2],
    budget: Duration,
) -> Result<()> {
    let to = |host: &[u8]| driver.memcpy_htod(memory, host).context("cuMemcpyHtoD");
    let from = |host: &mut [u8]| driver.memcpy_dtoh(host, memory).context("cuMemcpyDtoH");
    let seed = if there == Copy::PinnedToDevice { 17 } else { 91 };
    fill(host, seed);
    to(host)?;
    host.fill(0);
    from(host)?;
    ensure!(is_filled(host, seed), "{} bytes came back from the device as others: {there:?}, {back:?}", host.len());
    let bytes = host.len() as u64;
    // A copy to the device may continue after its call.
    let arrived = || to(host).and_then(|()| driver.ctx_synchronize().context("cuCtxSynchronize"));
    say(&Finding::Copied { copy: there, bytes, seconds: time(budget, arrived)? })?;
    say(&Finding::Copied { copy: back, bytes, seconds: time(budget, || from(host))? })
}

/// Copies of pinned memory in both directions, of which one follows the other without a pause.
fn in_a_row(memory: DevicePtr, pinned: &mut HostMemory<'_>, budget: Duration) -> Result<()> {
    let bytes = pinned.len() as u64;
    let times = (ROW_BYTES / bytes).max(2);
    #[allow(clippy::cast_precision_loss, reason = "a few dozen")]
    let found = |copy, seconds: f64| say(&Finding::InARow { copy, bytes, seconds: seconds / times as f64 });
    let times = usize::try_from(times).context("more copies than this machine counts")?;
    let to = || pinned.copy_to_device_in_a_row(memory, times).context("cuMemcpyHtoDAsync");
    found(Copy::PinnedToDevice, time(budget, to)?)?;
    let from = || pinned.copy_from_device_in_a_row(memory, times).context("cuMemcpyDtoHAsync");
    found(Copy::PinnedToHost, time(budget, from)?)?;
    Ok(())
}

/// The byte at an index: no two neighbouring pages are alike.
fn pattern(index: usize, seed: u8) -> u8 {
    let mixed = (index ^ (index >> 12)).wrapping_mul(31);
    seed.wrapping_add(mixed.to_le_bytes()[0])
}

fn fill(bytes: &mut [u8], seed: u8) {
    bytes.iter_mut().enumerate().for_each(|(index, byte)| *byte = pattern(index, seed));
}

fn is_filled(bytes: &[u8], seed: u8) -> bool {
    bytes.iter().enumerate().all(|(index, byte)| *byte == pattern(index, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_from_four_bytes_to_the_largest() {
        assert_eq!(sizes(1 << 30).last(), Some(1 << 30));
        assert_eq!(sizes(100).collect::<Vec<_>>(), [4, 16, 64]);
        assert_eq!(sizes(0).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_byte_that_is_wrong_is_seen() {
        let mut bytes = vec![0; 10_000];
        fill(&mut bytes, 3);
        assert!(is_filled(&bytes, 3) && !is_filled(&bytes, 4));
        bytes.swap(0, 4096);
        assert!(!is_filled(&bytes, 3), "pages differ");
    }
}
