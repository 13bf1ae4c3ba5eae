//! Kernels compiled by nvcc, run and compared with what the host computes.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "values are bits here, and the modules serve several test programs"
)]

mod device;

use device::Argument::{Bytes, Int, Pointer};
use device::Device;
use floe_machine::{Level, Outcome};

const FIRST: &str = include_str!("kernels/first.ptx");

fn pseudo_random(count: usize) -> Vec<f32> {
    let mut state = 12345_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn vecadd_adds_on_every_level() {
    for level in Level::available() {
        let device = Device::at(level, &[FIRST]);
        let n = 100_003;
        let (a, b) = (pseudo_random(n), pseudo_random(n));
        let (pa, pb, pc) = (device.upload(&a), device.upload(&b), device.allocate(4 * n as u64));
        let blocks = n.div_ceil(256) as u32;
        let outcome =
            device.run("vecadd", [blocks, 1, 1], [256, 1, 1], &[Pointer(pa), Pointer(pb), Pointer(pc), Int(n as i32)]);
        assert_eq!(outcome, Outcome::Done);
        let c: Vec<f32> = device.download(pc, n);
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(c, expected, "{level:?}");
    }
}

#[test]
fn tiled_matmul_is_exact_with_fused_sums() {
    for (name, tile) in [("matmul16", 16), ("matmul32", 32)] {
        for level in Level::available() {
            let device = Device::at(level, &[FIRST]);
            let n = 96_usize;
            let (a, b) = (pseudo_random(n * n), pseudo_random(n * n));
            let (pa, pb, pc) = (device.upload(&a), device.upload(&b), device.allocate(4 * (n * n) as u64));
            let blocks = n as u32 / tile;
            let arguments = [Pointer(pa), Pointer(pb), Pointer(pc), Int(n as i32)];
            assert_eq!(device.run(name, [blocks, blocks, 1], [tile, tile, 1], &arguments), Outcome::Done);
            let c: Vec<f32> = device.download(pc, n * n);
            for row in 0..n {
                for column in 0..n {
                    let sum = (0..n).fold(0_f32, |sum, k| a[row * n + k].mul_add(b[k * n + column], sum));
                    assert_eq!(c[row * n + column], sum, "{name} {level:?} {row} {column}");
                }
            }
        }
    }
}

#[test]
fn reduction_by_shuffles_and_atomics() {
    let device = Device::new(&[FIRST]);
    let values: Vec<f32> = (0..50_000).map(|i| (i % 7) as f32).collect();
    let (input, output) = (device.upload(&values), device.upload(&[0_f32]));
    let arguments = [Pointer(input), Pointer(output), Int(values.len() as i32)];
    assert_eq!(device.run("reduce", [13, 1, 1], [256, 1, 1], &arguments), Outcome::Done);
    assert_eq!(device.download::<f32>(output, 1)[0], values.iter().sum::<f32>());
}

#[test]
fn histogram_counts_every_byte() {
    let device = Device::new(&[FIRST]);
    let values: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (input, output) = (device.upload(&values), device.upload(&[0_u32; 256]));
    let arguments = [Pointer(input), Pointer(output), Int(values.len() as i32)];
    assert_eq!(device.run("histogram", [8, 1, 1], [192, 1, 1], &arguments), Outcome::Done);
    let mut expected = vec![0_u32; 256];
    values.iter().for_each(|value| expected[*value as usize] += 1);
    assert_eq!(device.download::<u32>(output, 256), expected);
}

#[test]
fn mandelbrot_diverges_and_meets_again() {
    let device = Device::new(&[FIRST]);
    let (size, limit) = (96, 100);
    let output = device.allocate(4 * size * size);
    let arguments = [Pointer(output), Int(size as i32), Int(limit)];
    let blocks = size as u32 / 16;
    assert_eq!(device.run("mandelbrot", [blocks, blocks, 1], [16, 16, 1], &arguments), Outcome::Done);
    let counts: Vec<i32> = device.download(output, (size * size) as usize);
    let inside = counts.iter().filter(|count| **count == limit).count();
    assert!((1200..2000).contains(&inside), "{inside}");
    assert_eq!(counts[0], 1);
}

#[test]
fn calls_direct_recursive_and_through_pointers() {
    let device = Device::new(&[FIRST]);
    let output = device.allocate(4 * 64);
    assert_eq!(device.run("calls", [1, 1, 1], [64, 1, 1], &[Pointer(output)]), Outcome::Done);
    fn fib(n: i32) -> i32 {
        if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
    }
    let expected: Vec<i32> = (0..64).map(|i| fib(i % 12) + if i & 1 == 1 { i * i } else { 2 * i }).collect();
    assert_eq!(device.download::<i32>(output, 64), expected);
}

#[test]
fn printf_prints_lane_by_lane() {
    let device = Device::new(&[FIRST]);
    assert_eq!(device.run("say", [1, 1, 1], [3, 1, 1], &[Int(255)]), Outcome::Done);
    assert_eq!(
        device.printed(),
        "thread 0 of warp:  0.00|ff\nthread 1 of warp:  0.50|ff\nthread 2 of warp:  1.00|ff\n"
    );
}

#[test]
fn a_spinlock_within_a_warp_makes_progress() {
    let device = Device::new(&[FIRST]);
    let counter = device.upload(&[0_i32]);
    assert_eq!(device.run("spinlock", [10, 1, 1], [64, 1, 1], &[Pointer(counter)]), Outcome::Done);
    assert_eq!(device.download::<i32>(counter, 1), [640]);
}

#[test]
fn local_arrays_and_parameters_by_index() {
    let device = Device::new(&[FIRST]);
    let start: Vec<i32> = (0..32).map(|i| i * 5).collect();
    let output = device.upload(&start);
    let big: Vec<u8> = (0..20_i32).flat_map(|i| (i * 1000).to_le_bytes()).collect();
    assert_eq!(device.run("locals", [1, 1, 1], [32, 1, 1], &[Pointer(output), Bytes(big)]), Outcome::Done);
    let expected: Vec<i32> = (0..32).map(|i| ((i * 5) & 15) * i + (i % 20) * 1000).collect();
    assert_eq!(device.download::<i32>(output, 32), expected);
}

/// Runs a kernel stopped again and again, each time continued from bytes on the other of two devices.
fn run_in_pieces(devices: &[Device; 2], launch: impl Fn(&Device) -> floe_machine::Launch) -> (usize, usize) {
    use floe_machine::{Grid, Snapshot};
    let (mut stops, mut largest, mut here) = (0, 0, 0);
    let mut grid = Grid::new(launch(&devices[here])).expect("grid");
    loop {
        let (sender, receiver) = std::sync::mpsc::channel();
        devices[here].pool.submit(&grid, Box::new(move |outcome| sender.send(outcome).expect("a listener")));
        // Long enough for a worker to begin, short against the whole.
        std::thread::sleep(std::time::Duration::from_micros(200));
        grid.stop();
        match receiver.recv().expect("an outcome") {
            Outcome::Done => return (stops, largest),
            Outcome::Stopped => {}
            other => panic!("{other:?}"),
        }
        stops += 1;
        let bytes = grid.snapshot().expect("stopped").to_bytes().to_vec();
        largest = largest.max(bytes.len());
        // The device's memory travels too.
        let there = 1 - here;
        let memory: Vec<u8> = devices[here].everything();
        devices[there].overwrite(&memory);
        here = there;
        grid = Grid::resume(launch(&devices[here]), &Snapshot::from_bytes(&bytes).expect("bytes")).expect("resumes");
    }
}

#[test]
fn a_matmul_stopped_within_blocks_goes_on_over_another_mapping() {
    // The same device addresses twice in one process: the second device lives elsewhere in the host.
    let base = 0x1f00_0000_0000;
    let devices = [Device::placed(base, Level::best(), &[FIRST]), Device::placed(base, Level::Baseline, &[FIRST])];
    assert!(devices[0].memory.is_identity() && !devices[1].memory.is_identity());
    // So large that it is stopped often enough also where a busy machine lets much of it run between two stops.
    let n = 1024_usize;
    let (a, b) = (pseudo_random(n * n), pseudo_random(n * n));
    let mut addresses = [0; 3];
    for device in &devices {
        addresses = [device.upload(&a), device.upload(&b), device.upload(&vec![0_f32; n * n])];
    }
    let [pa, pb, pc] = addresses;
    let blocks = n as u32 / 32;
    let (stops, largest) = run_in_pieces(&devices, |device| {
        let arguments = [Pointer(pa), Pointer(pb), Pointer(pc), Int(n as i32)];
        device.launch("matmul32", [blocks, blocks, 1], [32, 32, 1], &arguments)
    });
    assert!(stops >= 10, "stops: {stops}");
    println!("stops: {stops}, largest snapshot: {largest}");
    assert!(largest > 10_000, "some block was in the middle of running: {largest}");
    let whole = Device::new(&[FIRST]);
    let arguments = [
        Pointer(whole.upload(&a)),
        Pointer(whole.upload(&b)),
        Pointer(whole.allocate(4 * (n * n) as u64)),
        Int(n as i32),
    ];
    let Pointer(expected) = arguments[2] else { unreachable!() };
    assert_eq!(whole.run("matmul32", [blocks, blocks, 1], [32, 32, 1], &arguments), Outcome::Done);
    let expected: Vec<f32> = whole.download(expected, n * n);
    let results = devices.iter().map(|device| device.download::<f32>(pc, n * n));
    assert!(results.into_iter().any(|result| result == expected), "bit for bit");
}

#[test]
fn recursion_stopped_at_any_depth_goes_on() {
    let base = 0x1e00_0000_0000;
    let devices = [Device::placed(base, Level::best(), &[FIRST]), Device::placed(base, Level::best(), &[FIRST])];
    let mut output = 0;
    for device in &devices {
        output = device.upload(&[0_i32; 64]);
    }
    run_in_pieces(&devices, |device| device.launch("calls", [1, 1, 1], [64, 1, 1], &[Pointer(output)]));
    let whole = Device::new(&[FIRST]);
    let expected = whole.upload(&[0_i32; 64]);
    assert_eq!(whole.run("calls", [1, 1, 1], [64, 1, 1], &[Pointer(expected)]), Outcome::Done);
    let expected: Vec<i32> = whole.download(expected, 64);
    assert!(devices.iter().any(|device| device.download::<i32>(output, 64) == expected));
}

const ODD: &str = include_str!("kernels/odd.ptx");

#[test]
fn alloca_gives_each_lane_its_own_bytes() {
    let device = Device::new(&[ODD]);
    let out = device.allocate(4 * 64);
    assert_eq!(device.run("stack", [1, 1, 1], [64, 1, 1], &[Pointer(out)]), Outcome::Done);
    let expected: Vec<i32> = (0..64)
        .map(|thread| {
            let n = thread % 5 + 1;
            (0..n).map(|i| (i * 7) % n * thread).sum()
        })
        .collect();
    assert_eq!(device.download::<i32>(out, 64), expected);
}

#[test]
fn virtual_functions_of_objects_made_by_new() {
    let device = Device::new(&[ODD]);
    let out = device.allocate(4 * 96);
    assert_eq!(device.run("virtuals", [1, 1, 1], [96, 1, 1], &[Pointer(out)]), Outcome::Done);
    let expected: Vec<i32> = (0..96).map(|i| if i % 3 == 0 { i * i } else { i }).collect();
    assert_eq!(device.download::<i32>(out, 96), expected);
}

#[test]
fn bytes_wide_integers_and_switches() {
    let device = Device::new(&[ODD]);
    let a: Vec<u32> = (0..32_u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let b: Vec<u32> = (0..32_u32).map(|i| i.wrapping_mul(40_503_999) ^ 0x00ff_80ff).collect();
    let out = device.allocate(8 * 32);
    let arguments = [Pointer(device.upload(&a)), Pointer(device.upload(&b)), Pointer(out)];
    assert_eq!(device.run("bytes", [1, 1, 1], [32, 1, 1], &arguments), Outcome::Done);
    let expected: Vec<u32> = a
        .iter()
        .zip(&b)
        .flat_map(|(a, b)| {
            let differences: Vec<u8> =
                a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(a, b)| a.abs_diff(b)).collect();
            let sum = differences.iter().map(|byte| u32::from(*byte)).sum();
            [u32::from_le_bytes(differences.try_into().expect("four")), sum]
        })
        .collect();
    assert_eq!(device.download::<u32>(out, 64), expected);

    let a: Vec<i64> = (0..32_i64).map(|i| (i - 16).wrapping_mul(0x1234_5678_9abc_def1)).collect();
    let b: Vec<i64> = (0..32_i64).map(|i| (i * i + 1).wrapping_mul(0x0fed_cba9_8765_4321)).collect();
    let out = device.allocate(16 * 32);
    let arguments = [Pointer(device.upload(&a)), Pointer(device.upload(&b)), Pointer(out)];
    assert_eq!(device.run("wide", [1, 1, 1], [32, 1, 1], &arguments), Outcome::Done);
    let expected: Vec<i64> = a
        .iter()
        .zip(&b)
        .flat_map(|(a, b)| {
            let quotient = i128::from(*a) * i128::from(*b) / 1_000_003;
            [quotient as i64, (quotient >> 64) as i64]
        })
        .collect();
    assert_eq!(device.download::<i64>(out, 64), expected);

    let cases: Vec<i32> = (0..32).map(|i| i * 5 % 9).collect();
    let out = device.upload(&cases);
    assert_eq!(device.run("switches", [1, 1, 1], [32, 1, 1], &[Pointer(out)]), Outcome::Done);
    let expected: Vec<i32> = (0..32)
        .zip(cases)
        .map(|(v, case)| match case {
            0 => v + 5,
            1 => v * 3,
            2 => v - 7,
            3 => v ^ 9,
            4 => -v,
            5 => v << 2,
            6 => v / 2,
            7 => v % 3,
            _ => 1000,
        })
        .collect();
    assert_eq!(device.download::<i32>(out, 32), expected);
}

#[test]
fn tiles_of_several_warps_reduce_through_reserved_memory() {
    let device = Device::new(&[ODD]);
    let out = device.allocate(4 * 256);
    assert_eq!(device.run("large_tiles", [1, 1, 1], [256, 1, 1], &[Pointer(out)]), Outcome::Done);
    let expected: Vec<i32> = (0..256).map(|i| (i / 64 * 64..i / 64 * 64 + 64).sum()).collect();
    assert_eq!(device.download::<i32>(out, 256), expected);
}
