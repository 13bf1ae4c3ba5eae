//! Every arithmetic instruction form against an NVIDIA H200: 524 forms, each over 128 operand tuples.
//! `hardware/operations.txt` lists the forms, `operands.bin` and `results.bin` the GPU's operands and results. Here
//! each form becomes a kernel of its own that runs through the whole machine, from text to stored result.
//! Nothing is recorded here; `hardware/README.md` says how it was.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "values are bits here, and the modules serve several test programs"
)]

mod rig;

use std::sync::Arc;

use floe_machine::{Level, Outcome, Program};
use rig::{Rig, parameters};

/// Tuples per form.
const TUPLES: usize = 128;
/// Operand positions recorded per class.
const POSITIONS: usize = 4;

/// A class of operands: how a register of it is declared, loaded and stored.
struct Class {
    name: &'static str,
    register: &'static str,
    bytes: usize,
}

/// In the order of `operands.bin`.
const CLASSES: [Class; 8] = [
    Class { name: "f32", register: "f32", bytes: 4 },
    Class { name: "f64", register: "f64", bytes: 8 },
    Class { name: "h", register: "b16", bytes: 2 },
    Class { name: "i32", register: "b32", bytes: 4 },
    Class { name: "i64", register: "b64", bytes: 8 },
    Class { name: "sh", register: "b32", bytes: 4 },
    Class { name: "base", register: "b32", bytes: 4 },
    Class { name: "off", register: "b32", bytes: 4 },
];

/// How close a result must come to the recorded one. Two NaN are always as good as each other where noted.
#[derive(Clone, Copy, Debug)]
enum Tolerance {
    /// The same bits.
    Exact,
    /// The same bits, or both NaN.
    ExactOrNan,
    /// This many steps between neighbouring values.
    Ulp(u64),
    /// Relative error.
    Relative(f64),
    /// Absolute error of 2^-21, or 2 steps: `lg2`.
    Logarithm,
    /// The hardware's documented error of sines grows with the angle; angles beyond 48,039 are not compared.
    Angle,
}

/// One instruction form.
struct Operation {
    text: String,
    result: usize,
    operands: Vec<usize>,
    tolerance: Tolerance,
}

fn class(name: &str) -> usize {
    CLASSES.iter().position(|class| class.name == name).expect("a known class")
}

fn operations() -> Vec<Operation> {
    let lines = include_str!("hardware/operations.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let [text, result, operands, tolerance] = line.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("four columns: {line}")
            };
            let tolerance = match tolerance.split_once(' ') {
                None if tolerance == "exact" => Tolerance::Exact,
                None if tolerance == "nan" => Tolerance::ExactOrNan,
                None if tolerance == "logarithm" => Tolerance::Logarithm,
                None if tolerance == "angle" => Tolerance::Angle,
                Some(("ulp", steps)) => Tolerance::Ulp(steps.parse().expect("a number")),
                Some(("relative", error)) => Tolerance::Relative(error.parse().expect("a number")),
                _ => panic!("tolerance: {tolerance}"),
            };
            Operation {
                text: text.to_owned(),
                result: class(result),
                operands: operands.split(' ').map(class).collect(),
                tolerance,
            }
        })
        .collect()
}

/// The kernel of one form: thread i loads tuple i, executes, stores 8 bytes apart.
fn kernel(index: usize, operation: &Operation) -> String {
    let mut body = String::new();
    let mut text = operation.text.clone();
    for (position, &class) in operation.operands.iter().enumerate() {
        let Class { register, bytes, .. } = CLASSES[class];
        let offset = (class * POSITIONS + position) * TUPLES * 8;
        body += &format!("    .reg .{register} %s{position};\n");
        body += &format!("    ld.global.b{} %s{position}, [%in+{offset}];\n", bytes * 8);
        text = text.replace(&format!("%{}", position + 1), &format!("%s{position}"));
    }
    text = text.replace("%0", "%d");
    let Class { register, bytes, .. } = CLASSES[operation.result];
    format!(
        ".visible .entry k{index}(.param .u64 in, .param .u64 out)\n{{\n    .reg .{register} %d;\n    .reg .b32 %lane;\n    \
         .reg .b64 %in, %out, %shift;\n    ld.param.u64 %in, [in];\n    ld.param.u64 %out, [out];\n    \
         mov.u32 %lane, %tid.x;\n    mul.wide.u32 %shift, %lane, 8;\n    add.u64 %in, %in, %shift;\n    \
         add.u64 %out, %out, %shift;\n{body}    {text}\n    st.global.b{} [%out], %d;\n    ret;\n}}\n",
        bytes * 8
    )
}

/// The recorded values: `operands[class][position][tuple]`, flattened.
fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes"))).collect()
}

/// Results are recorded in their own width, form after form.
fn recorded(operations: &[Operation]) -> Vec<Vec<u64>> {
    let mut rest = &include_bytes!("hardware/results.bin")[..];
    operations
        .iter()
        .map(|operation| {
            let bytes = CLASSES[operation.result].bytes;
            let (mine, others) = rest.split_at(bytes * TUPLES);
            rest = others;
            let wide = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            mine.chunks_exact(bytes).map(wide).collect()
        })
        .collect()
}

/// The value of a result of a class; integers as they are; the form's name distinguishes f16 from bf16.
fn value(operation: &Operation, bits: u64) -> f64 {
    match CLASSES[operation.result].name {
        "f32" => f64::from(f32::from_bits(bits as u32)),
        "f64" => f64::from_bits(bits),
        "h" if operation.text.contains("bf16") => f64::from(f32::from_bits((bits as u32) << 16)),
        "h" => f64::from(half::f16::from_bits(bits as u16).to_f32()),
        _ => bits as f64,
    }
}

fn agrees(operation: &Operation, first_operand: u64, got: u64, want: u64) -> bool {
    let (x, y) = (value(operation, got), value(operation, want));
    if got == want || (x.is_nan() && y.is_nan() && !matches!(operation.tolerance, Tolerance::Exact)) {
        return true;
    }
    let steps = got.abs_diff(want);
    match operation.tolerance {
        Tolerance::Exact | Tolerance::ExactOrNan => false,
        Tolerance::Ulp(limit) => steps <= limit,
        Tolerance::Relative(limit) => (x - y).abs() <= limit * y.abs(),
        Tolerance::Logarithm => steps <= 2 || (x - y).abs() <= 2f64.powi(-21),
        Tolerance::Angle => {
            let angle = f64::from(f32::from_bits(first_operand as u32)).abs();
            angle > 48_039.0 || (x - y).abs() <= 2f64.powi(-20) + angle * 2f64.powi(-23)
        }
    }
}

#[test]
fn every_form_gives_what_an_h200_gives_at_every_level() {
    let operations = operations();
    let operands = words(include_bytes!("hardware/operands.bin"));
    assert_eq!(operands.len(), CLASSES.len() * POSITIONS * TUPLES);
    let recorded = recorded(&operations);
    let header = ".version 8.6\n.target sm_90\n.address_size 64\n";
    let text = operations.iter().enumerate().fold(header.to_owned(), |text, (i, op)| text + &kernel(i, op));
    let mut failures = Vec::new();
    for level in Level::available() {
        let mut rig = Rig::new(0x3000_0000_0000, 1, level);
        let program = rig.load(&text).unwrap_or_else(|error| panic!("{error}"));
        let input = rig.upload(include_bytes!("hardware/operands.bin"));
        let output = rig.allocate((TUPLES * 8) as u64);
        for (index, operation) in operations.iter().enumerate() {
            let results = match execute(&rig, &program, index, [input, output]) {
                Ok(results) => results,
                Err(error) => {
                    failures.push(format!("{level:?}: {}: {error}", operation.text));
                    continue;
                }
            };
            let difference = compare(operation, &operands, &results, &recorded[index]);
            failures.extend(difference.map(|difference| format!("{level:?}: {difference}")));
        }
    }
    assert!(failures.is_empty(), "{} of {} forms differ:\n{}", failures.len(), operations.len(), failures.join("\n"));
}

/// Runs one form's kernel: what it stored, 8 bytes per tuple.
fn execute(rig: &Rig, program: &Arc<Program>, index: usize, buffers: [u64; 2]) -> Result<Vec<u64>, String> {
    let kernel = program.kernel(&format!("k{index}")).map_err(|error| error.to_string())?;
    let [_, output] = buffers;
    rig.memory.write(output, &[0; TUPLES * 8]).expect("mapped");
    let values = buffers.map(|address| address.to_le_bytes().to_vec());
    let launch = rig.launch(&kernel, 1, TUPLES as u32, parameters(&kernel, &values)?);
    match rig.run(launch)? {
        Outcome::Done => Ok(words(&rig.download(output, TUPLES * 8))),
        outcome => Err(format!("{outcome:?}")),
    }
}

/// The first disagreement of a form, and how many there are.
fn compare(operation: &Operation, operands: &[u64], results: &[u64], recorded: &[u64]) -> Option<String> {
    let operand = |position: usize, tuple: usize| {
        operands[(operation.operands[position] * POSITIONS + position) * TUPLES + tuple]
    };
    let wrong: Vec<usize> =
        (0..TUPLES).filter(|&i| !agrees(operation, operand(0, i), results[i], recorded[i])).collect();
    let first = *wrong.first()?;
    let given: Vec<String> = (0..operation.operands.len()).map(|k| format!("{:#x}", operand(k, first))).collect();
    Some(format!(
        "{}: {} of {TUPLES} differ, first ({}): {:#x}, hardware: {:#x}",
        operation.text,
        wrong.len(),
        given.join(", "),
        results[first],
        recorded[first]
    ))
}
