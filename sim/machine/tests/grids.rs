//! Whole grids and programs: cooperative launches, several modules, several grids at once, cancelling.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "values are bits here, and the modules serve several test programs"
)]

mod device;

use std::sync::mpsc::channel;
use std::time::Duration;

use device::Argument::{Int, Pointer};
use device::Device;
use floe_machine::{Grid, LaunchError, Level, LoadError, Memory, Outcome, Program, Store};

const FIRST: &str = include_str!("kernels/first.ptx");
const GRID: &str = include_str!("kernels/grid.ptx");

#[test]
fn cooperative_blocks_wait_for_the_whole_grid() {
    let device = Device::new(&[GRID]);
    let n = 40 * 128;
    let start: Vec<i32> = (0..n).map(|i| i * 7 % 31).collect();
    let data = device.upload(&start);
    let mut launch = device.launch("phases", [40, 1, 1], [128, 1, 1], &[Pointer(data), Int(n)]);
    launch.cooperative = true;
    assert_eq!(Grid::new(launch).expect("grid").run(&device.pool), Outcome::Done);
    let mut expected = start;
    for _ in 0..3 {
        let old = expected.clone();
        for i in 0..n as usize {
            expected[i] = old[i].wrapping_add(old[(i + 257) % n as usize]);
        }
    }
    assert_eq!(device.download::<i32>(data, n as usize), expected);
}

#[test]
fn tiles_and_coalesced_groups_know_their_members() {
    let device = Device::new(&[GRID]);
    let out = device.allocate(4 * 64);
    assert_eq!(device.run("tiles", [1, 1, 1], [64, 1, 1], &[Pointer(out)]), Outcome::Done);
    let expected: Vec<i32> = (0..64)
        .map(|i| {
            let sum: i32 = (i / 8 * 8..i / 8 * 8 + 8).sum();
            let members: Vec<i32> = (i / 32 * 32..i / 32 * 32 + 32).filter(|lane| lane % 3 == 0).collect();
            let rank =
                members.iter().position(|lane| *lane == i).map_or(-1, |rank| rank as i32 + 100 * members.len() as i32);
            sum * 10000 + rank
        })
        .collect();
    assert_eq!(device.download::<i32>(out, 64), expected);
}

#[test]
fn an_endless_kernel_lets_others_run_and_can_be_cancelled() {
    let device = Device::new(&[FIRST, GRID]);
    let flag = device.upload(&[0_i32]);
    let endless = Grid::new(device.launch("endless", [4, 1, 1], [64, 1, 1], &[Pointer(flag)])).expect("grid");
    let (sender, receiver) = channel();
    device.pool.submit(&endless, Box::new(move |outcome| sender.send(outcome).expect("a listener")));
    let counter = device.upload(&[0_i32]);
    assert_eq!(device.run("spinlock", [2, 1, 1], [64, 1, 1], &[Pointer(counter)]), Outcome::Done);
    assert_eq!(device.download::<i32>(counter, 1), [128]);
    assert!(receiver.recv_timeout(Duration::from_millis(20)).is_err(), "still running");
    endless.cancel();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(300)), Ok(Outcome::Cancelled));
}

#[test]
fn a_flag_written_by_the_host_ends_a_kernel_that_waits_for_it() {
    let device = Device::new(&[GRID]);
    let flag = device.upload(&[0_i32]);
    let grid = Grid::new(device.launch("endless", [1, 1, 1], [32, 1, 1], &[Pointer(flag)])).expect("grid");
    let (sender, receiver) = channel();
    device.pool.submit(&grid, Box::new(move |outcome| sender.send(outcome).expect("a listener")));
    device.memory.write(flag, &1_i32.to_le_bytes()).expect("write");
    assert_eq!(receiver.recv_timeout(Duration::from_secs(300)), Ok(Outcome::Done));
}

#[test]
fn modules_are_linked_by_their_symbols() {
    let parts = [include_str!("kernels/part_a.ptx"), include_str!("kernels/part_b.ptx")];
    let device = Device::new(&parts);
    let out = device.allocate(4 * 32);
    assert_eq!(device.run("across", [1, 1, 1], [32, 1, 1], &[Pointer(out)]), Outcome::Done);
    let expected: Vec<i32> = (0..32).map(|i| 3 * i + 1000 * (i % 4 + 1) + 7).collect();
    assert_eq!(device.download::<i32>(out, 32), expected);
    let (address, size) = device.program.global("shared_counter").expect("a variable");
    assert_eq!((size, device.download::<i32>(address, 1)), (4, vec![72]));
    let memory = Memory::reserve(0x1d00_0000_0000, 1 << 32).expect("reserve");
    let backing = Store::new(1 << 21).and_then(|store| store.create(1 << 21)).expect("memory");
    memory.map(memory.base(), 1 << 21, &backing, 0).expect("map");
    let alone = Program::load(&parts[..1], &memory, &mut |_, _| Some(memory.base()));
    let names = ["shared_counter", "offsets"];
    assert!(matches!(alone.err(), Some(LoadError::Unresolved { name }) if names.contains(&name.as_str())));
}

#[test]
fn every_dialect_of_ptx_gives_the_same_results() {
    let dialects = [FIRST, include_str!("kernels/first_75.ptx"), include_str!("kernels/first_100.ptx")];
    for (dialect, target) in dialects.into_iter().zip([90, 75, 100]) {
        for level in [Level::Baseline, Level::best()] {
            let device = Device::at(level, &[dialect]);
            assert_eq!(device.program.kernel("vecadd").expect("kernel").target, target);
            let n = 64_usize;
            let values: Vec<f32> = (0..n * n).map(|i| (i % 13) as f32).collect();
            let [a, b, c] = [device.upload(&values), device.upload(&values), device.upload(&vec![0_f32; n * n])];
            let arguments = [Pointer(a), Pointer(b), Pointer(c), Int(n as i32)];
            assert_eq!(device.run("matmul16", [4, 4, 1], [16, 16, 1], &arguments), Outcome::Done);
            let product: Vec<f32> = device.download(c, n * n);
            let sum: f32 = (0..n).map(|k| values[3 * n + k] * values[k * n + 5]).sum();
            assert_eq!(product[3 * n + 5], sum, "sm_{target}");
            let out = device.allocate(4 * 64);
            assert_eq!(device.run("calls", [1, 1, 1], [64, 1, 1], &[Pointer(out)]), Outcome::Done);
            assert_eq!(device.download::<i32>(out, 12)[11], 89 + 121);
            assert_eq!(device.run("say", [1, 1, 1], [1, 1, 1], &[Int(10)]), Outcome::Done);
            assert_eq!(device.printed(), "thread 0 of warp:  0.00|a\n");
            let counts = device.upload(&vec![0_u32; 256]);
            let arguments = [Pointer(a), Pointer(counts), Int(1024)];
            assert_eq!(device.run("histogram", [2, 1, 1], [64, 1, 1], &arguments), Outcome::Done);
            assert_eq!(device.download::<u32>(counts, 256).iter().sum::<u32>(), 1024);
        }
    }
}

#[test]
fn impossible_launches_are_refused() {
    let device = Device::new(&[FIRST]);
    let refused = |change: fn(&mut floe_machine::Launch)| {
        let mut launch = device.launch("say", [1, 1, 1], [1, 1, 1], &[Int(1)]);
        change(&mut launch);
        Grid::new(launch).err()
    };
    assert!(matches!(refused(|launch| launch.block = [1025, 1, 1]), Some(LaunchError::Dimension { value: 1025, .. })));
    assert!(matches!(refused(|launch| launch.block = [32, 64, 1]), Some(LaunchError::Dimension { value: 2048, .. })));
    assert!(matches!(refused(|launch| launch.grid = [0, 1, 1]), Some(LaunchError::Dimension { value: 0, .. })));
    assert!(matches!(refused(|launch| launch.dynamic_shared = 1 << 20), Some(LaunchError::Dimension { .. })));
    assert!(matches!(
        refused(|launch| launch.parameters.clear()),
        Some(LaunchError::Parameters { given: 0, expected: 4 })
    ));
}
