//! The same kernel, run in every way: whole warps with each level of vector instructions, one lane at a time, and in
//! parts through a snapshot's bytes. In go bytes a tame text is made from, out comes the same memory always. Its
//! kernels never reach another thread's memory, so they cannot tell the ways apart.
#![no_main]

use arbitrary::Unstructured;
use floe_fuzz::device::{Device, OUTPUT, Shape};
use floe_fuzz::generate;
use floe_machine::{Level, Outcome};
use libfuzzer_sys::fuzz_target;

/// Threads of a launch: a whole warp, and one that is not.
const THREADS: u32 = 52;

fuzz_target!(|bytes: &[u8]| {
    let (input, rest) = bytes.split_at(bytes.len().min(64));
    let text = generate::text(&mut Unstructured::new(rest), false);
    if std::env::var_os("FLOE_FUZZ_SHOW").is_some() {
        eprintln!("{text}");
    }
    let whole = |level| Shape { level, grid: 1, block: THREADS, in_pieces: false };
    let best = Level::best();
    let mut shapes: Vec<Shape> = Level::available().into_iter().map(whole).collect();
    shapes.push(Shape { grid: THREADS, block: 1, ..whole(best) });
    if text.len() % 4 == 0 {
        shapes.push(Shape { in_pieces: true, ..whole(best) }); // by far the slowest
    }
    let mut seen: Option<(Shape, Vec<u8>)> = None;
    for shape in shapes {
        let Some(output) = output(&text, input, shape) else { continue };
        let Some((first, expected)) = &seen else {
            seen = Some((shape, output));
            continue;
        };
        let differs = (0..OUTPUT).find(|at| expected[*at] != output[*at]);
        if let Some(at) = differs {
            let (thread, byte) = (at / 256, at % 256);
            panic!("thread {thread}, byte {byte}: {first:?} and {shape:?} differ\n{text}");
        }
    }
});

/// The memory that the text's kernel leaves; `None` where it takes too many steps or is refused.
fn output(text: &str, input: &[u8], shape: Shape) -> Option<Vec<u8>> {
    let device = Device::get();
    let program = device.load(shape.level, text).unwrap_or_else(|| panic!("not loaded:\n{text}"));
    let kernel = match program.kernel("k") {
        Ok(kernel) => kernel,
        // A narrow number in a place for a wide register and the like.
        Err(_) => return None,
    };
    let input: Vec<u8> = input.iter().copied().cycle().take(if input.is_empty() { 0 } else { 4096 }).collect();
    device.prepare(&input);
    match device.run(&kernel, shape)? {
        Outcome::Done => Some(device.output()),
        other => panic!("{other:?} by {shape:?}\n{text}"),
    }
}
