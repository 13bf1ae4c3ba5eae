//! Kernels of any text, lowered and run: in go a PTX text, or bytes (the first a 0) that a text is made from.
//! Overflow checks and the assertion that every operand lies in its frame are on; a sanitizer sees the rest.
//! It never runs a kernel for more than a number of steps.
#![no_main]

use arbitrary::Unstructured;
use floe_fuzz::device::{Device, Shape};
use floe_fuzz::generate;
use floe_machine::Level;
use libfuzzer_sys::fuzz_target;

/// Kernels of a text that are run.
const KERNELS: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let made;
    let text = match bytes.split_first() {
        Some((0, rest)) => {
            made = generate::text(&mut Unstructured::new(rest), true);
            &made
        }
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => return,
        },
    };
    if std::env::var_os("FLOE_FUZZ_SHOW").is_some() {
        eprintln!("{text}");
    }
    let device = Device::get();
    let level = if text.len() % 4 == 0 { Level::Baseline } else { Level::best() };
    let Some(program) = device.load(level, text) else { return };
    for name in program.kernel_names().into_iter().take(KERNELS) {
        let Ok(kernel) = program.kernel(name) else { continue };
        device.prepare(&[]);
        let in_pieces = text.len() % 3 == 0;
        let _ = device.run(&kernel, Shape { level, grid: 2, block: 48, in_pieces });
    }
});
