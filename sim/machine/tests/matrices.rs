//! Matrix instructions against plain loops: every shape and type of `mma` and `wmma`, and the moves of matrices.
//! Factors are small, so that every sum is exact whatever its order; one test each holds the order and the rounding.
//! Where elements lie in registers is written here once more, as the ISA's tables have it.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "values are bits here, and the modules serve several test programs"
)]

mod rig;

use std::fmt::Write as _;

use floe_machine::{FaultKind, Level, LoadError, Outcome};
use half::{bf16, f16};
use rig::Rig;

const HEADER: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

fn base() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static BASES: AtomicU64 = AtomicU64::new(0x3000_0000_0000);
    BASES.fetch_add(1 << 34, Ordering::Relaxed)
}

/// The text of a kernel whose parameters are four addresses, in `%a %b %c %d`; `%lane` is the thread.
fn kernel(body: &str) -> String {
    let mut text =
        format!("{HEADER}.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{{\n");
    text.push_str(".reg .b64 %a, %b, %c, %d, %o;\n.reg .b32 %lane;\nmov.u32 %lane, %tid.x;\n");
    for name in ["a", "b", "c", "d"] {
        let _ = writeln!(text, "ld.param.u64 %{name}, [p{name}];");
    }
    text + body + "\nret;\n}\n"
}

/// Runs the body with three inputs; the outcome and the bytes at `%d`.
fn run_at(level: Level, body: &str, inputs: [&[u8]; 3], bytes: usize) -> (Outcome, Vec<u8>) {
    let mut rig = Rig::new(base(), 1, level);
    let program = rig.load(&kernel(body)).expect("a program");
    let kernel = program.kernel("k").unwrap_or_else(|error| panic!("{error}"));
    let d = rig.allocate(bytes as u64);
    let mut parameters: Vec<u8> = inputs.iter().flat_map(|input| rig.upload(input).to_le_bytes()).collect();
    parameters.extend(d.to_le_bytes());
    let outcome = rig.run(rig.launch(&kernel, 1, 32, parameters)).expect("ends");
    (outcome, rig.download(d, bytes))
}

fn run(body: &str, inputs: [&[u8]; 3], bytes: usize) -> Vec<u8> {
    let (outcome, first) = run_at(Level::best(), body, inputs, bytes);
    assert_eq!(outcome, Outcome::Done, "{body}");
    for level in Level::available() {
        assert_eq!(run_at(level, body, inputs, bytes), (Outcome::Done, first.clone()), "{level:?}: {body}");
    }
    first
}

/// Why the kernel is refused.
fn refusal(body: &str) -> String {
    let mut rig = Rig::new(base(), 1, Level::best());
    let program = rig.load(&kernel(body)).expect("a program");
    match program.kernel("k") {
        Err(LoadError::Unsupported { what, .. }) => what,
        Err(error) => panic!("refused as something else: {error}"),
        Ok(_) => panic!("not refused: {body}"),
    }
}

/// Bytes of an element.
fn bytes_of(kind: &str) -> usize {
    match kind {
        "s8" | "u8" => 1,
        "f16" | "bf16" => 2,
        "f64" => 8,
        _ => 4,
    }
}

fn encode(kind: &str, number: f64) -> Vec<u8> {
    match kind {
        "s8" => vec![number as i8 as u8],
        "u8" => vec![number as u8],
        "f16" => f16::from_f64(number).to_le_bytes().to_vec(),
        "bf16" => bf16::from_f64(number).to_le_bytes().to_vec(),
        "s32" => (number as i32).to_le_bytes().to_vec(),
        "f64" => number.to_le_bytes().to_vec(),
        _ => (number as f32).to_le_bytes().to_vec(),
    }
}

fn decode(kind: &str, bytes: &[u8]) -> f64 {
    let word = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).expect("four bytes");
    match kind {
        "f16" => f16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        "s32" => f64::from(i32::from_le_bytes(word(bytes))),
        "f64" => f64::from_le_bytes(bytes.try_into().expect("eight bytes")),
        _ => f64::from(f32::from_le_bytes(word(bytes))),
    }
}

/// Numbers that differ from place to place, exact in every type; bytes without sign are not negative.
fn matrix(kind: &str, rows: usize, columns: usize, seed: usize) -> Vec<f64> {
    let number = |at: usize| {
        let step = (at * 37 + seed * 11 + at / 7) % 17;
        match kind {
            "u8" => step as f64 + 200.0,
            "s8" => step as f64 * 9.0 - 70.0,
            "s32" => step as f64 * 1e6 - 8e6,
            _ => step as f64 / 4.0 - 2.0,
        }
    };
    (0..rows * columns).map(number).collect()
}

fn product([m, n, k]: [usize; 3], a: &[f64], b: &[f64], c: &[f64]) -> Vec<f64> {
    let sum = |at: usize| (0..k).fold(c[at], |sum, i| sum + a[at / n * k + i] * b[i * n + at % n]);
    (0..m * n).map(sum).collect()
}

/// Row and column of element `i` of a lane, from the tables of the ISA.
fn place_a(shape: &str, kind: &str, lane: usize, i: usize) -> (usize, usize) {
    let (group, member) = (lane >> 2, lane % 4);
    match (shape, kind) {
        ("m16n8k16", "f16" | "bf16") => {
            let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
            (row, 2 * member + (i & 1) + if i >= 4 { 8 } else { 0 })
        }
        ("m16n8k8", "f16" | "bf16") => (if i < 2 { group } else { group + 8 }, 2 * member + (i & 1)),
        ("m16n8k16", "s8" | "u8") => (if i < 4 { group } else { group + 8 }, 4 * member + (i & 3)),
        ("m16n8k32", _) => {
            let row = if i < 4 || (8..12).contains(&i) { group } else { group + 8 };
            (row, 4 * member + (i & 3) + if i >= 8 { 16 } else { 0 })
        }
        ("m8n8k16", _) => (group, 4 * member + i),
        ("m8n8k4", _) => (group, member),
        // tf32 and f64: one element after the other down, then to the right.
        _ => (if i.is_multiple_of(2) { group } else { group + 8 }, member + 4 * (i / 2)),
    }
}

fn place_b(shape: &str, kind: &str, lane: usize, i: usize) -> (usize, usize) {
    let (group, member) = (lane >> 2, lane % 4);
    let row = match (shape, kind) {
        (_, "f16" | "bf16") => 2 * member + (i & 1) + if i >= 2 { 8 } else { 0 },
        (_, "s8" | "u8") => 4 * member + (i & 3) + if i >= 4 { 16 } else { 0 },
        _ => member + 4 * i,
    };
    (row, group)
}

fn place_sum(lane: usize, i: usize) -> (usize, usize) {
    ((lane >> 2) + if i >= 2 { 8 } else { 0 }, 2 * (lane % 4) + (i & 1))
}

fn numbers_of(shape: &str) -> [usize; 3] {
    let mut numbers = shape.split(['m', 'n', 'k']).skip(1).map(|number| number.parse().expect("a number"));
    std::array::from_fn(|_| numbers.next().expect("three numbers"))
}

/// The elements of all lanes, lane after lane.
fn spread(kind: &str, matrix: &[f64], columns: usize, place: impl Fn(usize, usize) -> (usize, usize)) -> Vec<u8> {
    let elements = matrix.len() / 32;
    let at = |index: usize| {
        let (row, column) = place(index / elements, index % elements);
        encode(kind, matrix[row * columns + column])
    };
    (0..matrix.len()).flat_map(at).collect()
}

/// Loads (stores) the registers `%NAME0…` of a lane from (to) the address in `%NAME`; declares them.
fn registers(name: &str, bytes: usize, wide: bool, loads: bool) -> (String, String) {
    let (count, size) = if wide { (bytes / 8, 8) } else { (bytes / 4, 4) };
    let bits = 8 * size;
    let mut text = String::new();
    if loads || name == "d" {
        let _ = writeln!(text, ".reg .b{bits} %{name}r<{count}>;");
    }
    let mut accesses = format!("mad.wide.u32 %o, %lane, {bytes}, %{name};\n");
    for index in 0..count {
        let at = size * index;
        let _ = if loads {
            writeln!(accesses, "ld.global.b{bits} %{name}r{index}, [%o+{at}];")
        } else {
            writeln!(accesses, "st.global.b{bits} [%o+{at}], %{name}r{index};")
        };
    }
    let list: Vec<String> = (0..count).map(|index| format!("%{name}r{index}")).collect();
    (text + &accesses, format!("{{{}}}", list.join(", ")))
}

/// The body that multiplies registers; types are d, a, b, c.
fn mma_body(opcode: &str, [m, n, k]: [usize; 3], types: [&str; 4]) -> String {
    let wide = types[0] == "f64";
    let (load_a, a) = registers("a", m * k * bytes_of(types[1]) / 32, wide, true);
    let (load_b, b) = registers("b", k * n * bytes_of(types[2]) / 32, wide, true);
    let (load_c, c) = registers("c", m * n * bytes_of(types[3]) / 32, wide, true);
    let (store_d, d) = registers("d", m * n * bytes_of(types[0]) / 32, wide, false);
    let (declare, store) = store_d.split_once('\n').expect("two lines");
    format!("{declare}\n{load_a}{load_b}{load_c}{opcode} {d}, {a}, {b}, {c};\n{store}")
}

fn check_mma(shape: &str, types: [&str; 4]) {
    let numbers @ [m, n, k] = numbers_of(shape);
    let (a, b, c) = (matrix(types[1], m, k, 1), matrix(types[2], k, n, 2), matrix(types[3], m, n, 3));
    let inputs = [
        spread(types[1], &a, k, |lane, i| place_a(shape, types[1], lane, i)),
        spread(types[2], &b, n, |lane, i| place_b(shape, types[2], lane, i)),
        spread(types[3], &c, n, place_sum),
    ];
    let opcode = format!("mma.sync.aligned.{shape}.row.col.{}", types.join("."));
    let body = mma_body(&opcode, numbers, types);
    let size = bytes_of(types[0]);
    let got = run(&body, [&inputs[0], &inputs[1], &inputs[2]], m * n * size);
    let want = product(numbers, &a, &b, &c);
    let elements = m * n / 32;
    for (index, bytes) in got.chunks(size).enumerate() {
        let (row, column) = place_sum(index / elements, index % elements);
        let number = decode(types[0], bytes);
        assert!(number == want[row * n + column], "{opcode}: {row}, {column}: {number}, {}", want[row * n + column]);
    }
}

#[test]
fn products_of_registers_equal_plain_loops() {
    for shape in ["m16n8k8", "m16n8k16"] {
        check_mma(shape, ["f16", "f16", "f16", "f16"]);
        check_mma(shape, ["f32", "f16", "f16", "f32"]);
        check_mma(shape, ["f32", "bf16", "bf16", "f32"]);
    }
    for shape in ["m16n8k4", "m16n8k8"] {
        check_mma(shape, ["f32", "tf32", "tf32", "f32"]);
    }
    for shape in ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"] {
        check_mma(shape, ["f64"; 4]);
    }
    for shape in ["m8n8k16", "m16n8k16", "m16n8k32"] {
        for (a, b) in [("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8")] {
            check_mma(shape, ["s32", a, b, "s32"]);
        }
    }
}

/// One product whose factors are zero but in the first row and column.
fn first_sum(opcode: &str, types: [&str; 4], row: &[f64], column: &[f64], c: f64) -> Vec<u8> {
    let shape = opcode.split('.').find(|word| word.starts_with('m') && word.contains('n')).expect("a shape");
    let numbers @ [m, n, k] = numbers_of(shape);
    let (mut a, mut b, mut sum) = (vec![0.0; m * k], vec![0.0; k * n], vec![0.0; m * n]);
    for (index, (x, y)) in row.iter().zip(column).enumerate() {
        (a[index], b[index * n]) = (*x, *y);
    }
    sum[0] = c;
    let inputs = [
        spread(types[1], &a, k, |lane, i| place_a(shape, types[1], lane, i)),
        spread(types[2], &b, n, |lane, i| place_b(shape, types[2], lane, i)),
        spread(types[3], &sum, n, place_sum),
    ];
    let size = bytes_of(types[0]);
    let mut got = run(&mma_body(opcode, numbers, types), [&inputs[0], &inputs[1], &inputs[2]], m * n * size);
    got.truncate(size);
    got
}

#[test]
fn sums_of_floats_take_products_in_order_and_round_each() {
    let types = ["f32", "f16", "f16", "f32"];
    let opcode = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32";
    // 1 + 2^24 is 2^24 in single precision, and 2^24 - 2^24 + 1 is 1.
    let (large, negative) = ([4096.0, 4096.0], [4096.0, -4096.0]);
    assert_eq!(first_sum(opcode, types, &large, &negative, 1.0), 0_f32.to_le_bytes());
    assert_eq!(first_sum(opcode, types, &[4096.0, 4096.0, 1.0], &[4096.0, -4096.0, 1.0], 0.0), 1_f32.to_le_bytes());
    // Halves round once, at the end: 2048 + 1 + 1 in halves would be 2048.
    let opcode = "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16";
    let sum = first_sum(opcode, ["f16"; 4], &[1.0, 1.0], &[1.0, 1.0], 2048.0);
    assert_eq!(sum, f16::from_f32(2050.0).to_le_bytes());
    // The NaN of the device; and tf32 has no more than its 10 bits of fraction.
    let opcode = "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32";
    let types = ["f32", "tf32", "tf32", "f32"];
    let sum = first_sum(opcode, types, &[f64::INFINITY], &[0.0], 1.0);
    assert_eq!(sum, 0x7fff_ffff_u32.to_le_bytes());
    let sum = first_sum(opcode, types, &[f64::from(f32::from_bits(0x3f80_1fff))], &[3.0], 1.0);
    assert_eq!(sum, 4_f32.to_le_bytes());
}

#[test]
fn sums_of_integers_wrap_or_stop_at_the_ends() {
    let types = ["s32", "s8", "s8", "s32"];
    let largest = f64::from(i32::MAX);
    let wraps = "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32";
    let stops = "mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32";
    assert_eq!(first_sum(wraps, types, &[1.0], &[1.0], largest), i32::MIN.to_le_bytes());
    assert_eq!(first_sum(stops, types, &[1.0], &[1.0], largest), i32::MAX.to_le_bytes());
    assert_eq!(first_sum(stops, types, &[-128.0], &[127.0], f64::from(i32::MIN)), i32::MIN.to_le_bytes());
    // Only the sum is cut: over the end and back is inside.
    assert_eq!(first_sum(stops, types, &[1.0, -1.0], &[1.0, 1.0], largest), i32::MAX.to_le_bytes());
}

/// The matrix in memory: rows (or columns) of `stride` elements, and what lies between them untouched.
fn in_memory(kind: &str, matrix: &[f64], columns: usize, by_columns: bool, stride: usize) -> Vec<u8> {
    let rows = matrix.len() / columns;
    let lines = if by_columns { columns } else { rows };
    let mut memory = vec![0; lines * stride * bytes_of(kind)];
    for (index, number) in matrix.iter().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let at = if by_columns { column * stride + row } else { row * stride + column };
        let at = at * bytes_of(kind);
        memory[at..at + bytes_of(kind)].copy_from_slice(&encode(kind, *number));
    }
    memory
}

fn check_wmma(shape: &str, types: [&str; 4], [a_layout, b_layout, sum_layout]: [&str; 3]) {
    let numbers @ [m, n, k] = numbers_of(shape);
    let (a, b, c) = (matrix(types[1], m, k, 4), matrix(types[2], k, n, 5), matrix(types[3], m, n, 6));
    let stride = |layout: &str, rows: usize, columns: usize| 8 + if layout == "col" { rows } else { columns };
    let strides = [stride(a_layout, m, k), stride(b_layout, k, n), stride(sum_layout, m, n)];
    let inputs = [
        in_memory(types[1], &a, k, a_layout == "col", strides[0]),
        in_memory(types[2], &b, n, b_layout == "col", strides[1]),
        in_memory(types[3], &c, n, sum_layout == "col", strides[2]),
    ];
    let wide = types[0] == "f64";
    let factors = |rows: usize, columns: usize, kind: &str| match kind {
        "f16" => 8,
        "f64" => 1,
        kind => rows * columns * bytes_of(kind) / 128,
    };
    let list = |name: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|index| format!("%{name}r{index}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let counts = [
        factors(m, k, types[1]),
        factors(k, n, types[2]),
        m * n * bytes_of(types[3]) / if wide { 256 } else { 128 },
        m * n * bytes_of(types[0]) / if wide { 256 } else { 128 },
    ];
    let [ra, rb, rc, rd] = [("a", 0), ("b", 1), ("c", 2), ("d", 3)].map(|(name, at)| list(name, counts[at]));
    let named = if types[1] == "f16" { format!("{}.{}", types[0], types[3]) } else { types.join(".") };
    let named = if wide { format!("{named}.rn") } else { named };
    let bits = if wide { 64 } else { 32 };
    let body = format!(
        ".reg .b{bits} %ar<8>, %br<8>, %cr<8>, %dr<8>;\n.reg .b32 %stride;\nmov.u32 %stride, {};\n\
         wmma.load.a.sync.aligned.{a_layout}.{shape}.global.{} {ra}, [%a], %stride;\n\
         wmma.load.b.sync.aligned.{b_layout}.{shape}.{} {rb}, [%b], {};\n\
         wmma.load.c.sync.aligned.{sum_layout}.{shape}.global.{} {rc}, [%c], {};\n\
         wmma.mma.sync.aligned.{a_layout}.{b_layout}.{shape}.{named} {rd}, {ra}, {rb}, {rc};\n\
         wmma.store.d.sync.aligned.{sum_layout}.{shape}.global.{} [%d], {rd}, {};",
        strides[0], types[1], types[2], strides[1], types[3], strides[2], types[0], strides[2],
    );
    let want = in_memory(types[0], &product(numbers, &a, &b, &c), n, sum_layout == "col", strides[2]);
    let got = run(&body, [&inputs[0], &inputs[1], &inputs[2]], want.len());
    assert!(got == want, "{body}");
}

#[test]
fn products_of_fragments_equal_plain_loops() {
    let shapes = ["m16n16k16", "m32n8k16", "m8n32k16"];
    for a in ["row", "col"] {
        for b in ["row", "col"] {
            for sum in ["row", "col"] {
                for shape in shapes {
                    check_wmma(shape, ["f32", "f16", "f16", "f32"], [a, b, sum]);
                    check_wmma(shape, ["f32", "bf16", "bf16", "f32"], [a, b, sum]);
                    check_wmma(shape, ["s32", "s8", "s8", "s32"], [a, b, sum]);
                    check_wmma(shape, ["s32", "u8", "u8", "s32"], [a, b, sum]);
                }
                check_wmma("m16n16k8", ["f32", "tf32", "tf32", "f32"], [a, b, sum]);
                check_wmma("m8n8k4", ["f64"; 4], [a, b, sum]);
            }
        }
    }
    for shape in shapes {
        check_wmma(shape, ["f16", "f16", "f16", "f16"], ["row", "col", "row"]);
        check_wmma(shape, ["f16", "f16", "f16", "f32"], ["row", "col", "row"]);
        check_wmma(shape, ["f32", "f16", "f16", "f16"], ["col", "row", "col"]);
    }
}

/// Copies 512 bytes at `%a` to shared memory `s`; `%row` is the address of a lane's row there.
const TO_SHARED: &str = ".shared .align 16 .b8 s[1024];\n.reg .b32 %row, %w<4>, %v<4>;\n.reg .b64 %g;\n\
    mad.wide.u32 %o, %lane, 16, %a;\nld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%o];\nmov.u32 %row, s;\n\
    mad.lo.u32 %row, %lane, 16, %row;\nst.shared.v4.u32 [%row], {%w0, %w1, %w2, %w3};\nbar.warp.sync -1;\n";

/// Four matrices of 8 x 8: elements count up.
fn four_matrices() -> Vec<u8> {
    (0..256_u16).flat_map(u16::to_le_bytes).collect()
}

/// The register that holds a matrix after `ldmatrix`.
fn held(matrix: usize, lane: usize, transposed: bool) -> u32 {
    let at =
        |row: usize, column: usize| (64 * matrix + if transposed { 8 * column + row } else { 8 * row + column }) as u32;
    at(lane / 4, 2 * (lane % 4)) | at(lane / 4, 2 * (lane % 4) + 1) << 16
}

#[test]
fn matrices_of_halves_are_loaded_as_the_products_want_them() {
    for (count, suffix, space) in [(4, "", ".shared"), (4, ".trans", ""), (2, ".trans", ".shared::cta"), (1, "", "")] {
        let list: Vec<String> = (0..count).map(|index| format!("%v{index}")).collect();
        let list = list.join(", ");
        let address = if space.is_empty() { "%g" } else { "%row" };
        let vector = if count == 1 { "" } else { &format!(".v{count}") };
        let body = format!(
            "{TO_SHARED}cvt.u64.u32 %g, %row;\ncvta.shared.u64 %g, %g;\nsub.s64 %g, %g, 16;\nsub.u32 %row, %row, 16;\n\
             ldmatrix.sync.aligned.m8n8.x{count}{suffix}{space}.b16 {{{list}}}, [{address}+16];\n\
             mad.wide.u32 %o, %lane, {}, %d;\nst.global{vector}.b32 [%o], {{{list}}};",
            4 * count
        );
        let body = if count == 1 { body.replace("[%o], {%v0}", "[%o], %v0") } else { body };
        let got = run(&body, [&four_matrices(), &[0], &[0]], 128 * count);
        let want = (0..32).flat_map(|lane| (0..count).map(move |matrix| held(matrix, lane, suffix == ".trans")));
        assert_eq!(got, want.flat_map(u32::to_le_bytes).collect::<Vec<u8>>(), "{body}");
    }
}

#[test]
fn matrices_of_halves_are_stored_and_transposed() {
    // Loaded as they are and stored transposed; the first is transposed once more between registers, so it is as before.
    let body = format!(
        "{TO_SHARED}ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%v0, %v1, %v2, %v3}}, [%row];\n\
         movmatrix.sync.aligned.m8n8.trans.b16 %v0, %v0;\n\
         stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%row+512], {{%v0, %v1, %v2, %v3}};\nbar.warp.sync -1;\n\
         ld.shared.v4.u32 {{%w0, %w1, %w2, %w3}}, [%row+512];\nmad.wide.u32 %o, %lane, 16, %d;\n\
         st.global.v4.u32 [%o], {{%w0, %w1, %w2, %w3}};"
    );
    let got = run(&body, [&four_matrices(), &[0], &[0]], 512);
    let at = |index: usize| {
        let (matrix, row, column) = (index / 64, index / 8 % 8, index % 8);
        64 * matrix + if matrix == 0 { 8 * row + column } else { 8 * column + row }
    };
    assert_eq!(got, (0..256).flat_map(|index| (at(index) as u16).to_le_bytes()).collect::<Vec<u8>>());
}

fn fault_of(body: &str) -> FaultKind {
    match run_at(Level::best(), body, [&four_matrices(), &[0], &[0]], 512).0 {
        Outcome::Fault(fault) => fault.kind,
        other => panic!("no fault: {other:?}"),
    }
}

#[test]
fn an_access_beyond_memory_is_a_fault() {
    let rows = |address: &str, before: &str| {
        format!("{TO_SHARED}{before}ldmatrix.sync.aligned.m8n8.x4.b16 {{%v0, %v1, %v2, %v3}}, [{address}];")
    };
    assert_eq!(fault_of(&rows("%a", "")), FaultKind::InvalidAddressSpace);
    let shared = "cvt.u64.u32 %g, %row;\ncvta.shared.u64 %g, %g;\n";
    assert_eq!(fault_of(&rows("%g+8", shared)), FaultKind::Misaligned);
    assert_eq!(fault_of(&rows("%g+1024", shared)), FaultKind::IllegalAddress);
    let stride = ".reg .b32 %v<8>;\nwmma.load.c.sync.aligned.row.m16n16k16.global.f32 \
                  {%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}, [%a], -1;";
    assert_eq!(fault_of(stride), FaultKind::IllegalAddress);
    let store =
        ".reg .b32 %v<4>;\nwmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%lane+4], {%v0, %v1, %v2, %v3}, 16;";
    assert_eq!(fault_of(store), FaultKind::IllegalAddress);
}

#[test]
fn what_is_not_known_is_refused() {
    for text in [
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r0}, {%r0}, {%r0}, {%r0};",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32 {%r0}, {%r0}, {%r0}, {%r0};",
        "mma.sync.aligned.m16n8k8.row.col.satfinite.f32.f16.f16.f32 {%r0}, {%r0}, {%r0}, {%r0};",
        "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%r0}, {%r0}, {%r0}, {%r0};",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%r0}, {%r0}, {%r0}, {%r0};",
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0}, {%r0}, {%r0}, {%r0}, %r0, 0;",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%r0}, {%r0}, {%r0}, {%r0};",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0}, {%r0}, {%r0}, {%r0};",
        "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32 {%r0, %r1}, {%r0}, {%r0}, {%r0, %r1};",
        "wmma.load.a.sync.aligned.row.m16n16k16.f32 {%r0, %r1}, [%a];",
        "wmma.load.d.sync.aligned.row.m16n16k16.f16 {%r0, %r1}, [%a];",
        "ldmatrix.sync.aligned.m8n8.x3.b16 {%r0, %r1, %r2}, [%a];",
        "ldmatrix.sync.aligned.m16n16.x1.trans.b8 {%r0}, [%a];",
        "stmatrix.sync.aligned.m8n8.x2.b16 [%a], {%r0};",
        "movmatrix.sync.aligned.m8n8.b16 %r0, %r1;",
    ] {
        let opcode = text.split(' ').next().expect("a word");
        let what = refusal(&format!(".reg .b32 %r<4>;\n{text}"));
        assert!(what.starts_with(opcode), "{text}: {what}");
    }
}
