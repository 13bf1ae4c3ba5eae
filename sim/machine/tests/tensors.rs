//! Bulk copies and copies of boxes of tensors: programs run on the machine, and models of plain loops say what must come out.
//! Faults are those that an H200 was seen to raise (docs/facts/h200.md).
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "values are bits here, and the modules serve several test programs"
)]

mod rig;

use std::sync::Arc;

use floe_machine::{Grid, Kernel, Level, Outcome, Pool, Program, TENSOR_AXES, TensorElement, TensorMap};
use proptest::array::uniform5;
use proptest::prelude::*;
use rig::{Rig, parameters};

/// Shared memory that kernels here declare.
const SHARED: usize = 8192;

const HEAD: &str = "
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 p_in, .param .u64 p_out, .param .align 4 .b8 c[20])
{
    .shared .align 1024 .b8 box[8192];
    .shared .align 8 .b64 bar;
    .reg .pred %p<4>;
    .reg .b32 %r<20>;
    .reg .b64 %d<10>;
    .reg .b16 %h<4>;
    .reg .b64 %map, %in, %out;
    mov.b64 %map, map;
    cvta.param.u64 %map, %map;
    ld.param.u64 %in, [p_in];
    ld.param.u64 %out, [p_out];
    ld.param.b32 %r0, [c];
    ld.param.b32 %r1, [c+4];
    ld.param.b32 %r2, [c+8];
    ld.param.b32 %r3, [c+12];
    ld.param.b32 %r4, [c+16];
    mov.u32 %r10, box;
    mov.u32 %r11, bar;
    mbarrier.init.shared.b64 [%r11], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    mov.u32 %r12, 0;
";

/// Copies all of `in` to shared memory, then the given text, then all of shared memory to `out`, each by plain copies.
fn around(text: &str) -> String {
    let copied = "
    add.u32 %r13, %r10, %r12;
    cvt.u64.u32 %d1, %r12;
    add.u64 %d2, %in, %d1;
    add.u64 %d3, %out, %d1;";
    format!(
        "{HEAD}
FILL:{copied}
    ld.global.b32 %r14, [%d2];
    st.shared.b32 [%r13], %r14;
    add.u32 %r12, %r12, 4;
    setp.lt.u32 %p1, %r12, 8192;
    @%p1 bra FILL;
{text}
    mov.u32 %r12, 0;
EMPTY:{copied}
    ld.shared.b32 %r14, [%r13];
    st.global.b32 [%d3], %r14;
    add.u32 %r12, %r12, 4;
    setp.lt.u32 %p1, %r12, 8192;
    @%p1 bra EMPTY;
    ret;
}}"
    )
}

fn coordinates(axes: usize) -> String {
    ["%r0", "%r1", "%r2", "%r3", "%r4"][..axes].join(", ")
}

fn load_text(axes: usize, bytes: u64) -> String {
    let coordinates = coordinates(axes);
    around(&format!(
        "
    mbarrier.arrive.expect_tx.shared.b64 _, [%r11], {bytes};
    cp.async.bulk.prefetch.tensor.{axes}d.L2.global.tile [%map, {{{coordinates}}}];
    cp.async.bulk.tensor.{axes}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint
        [%r10], [%map, {{{coordinates}}}], [%r11], %d9;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 0;
    @!%p2 bra WAIT;"
    ))
}

struct Bench {
    rig: Rig,
    /// Global memory of the tensor.
    tensor: u64,
    input: u64,
    output: u64,
}

impl Bench {
    fn new() -> Self {
        let mut rig = Rig::new(0x4000_0000_0000, 1, Level::best());
        let tensor = rig.allocate(1 << 20);
        let (input, output) = (rig.allocate(SHARED as u64), rig.allocate(SHARED as u64));
        let bytes: Vec<u8> = (0..SHARED).map(|index| (index * 7 + index / 256) as u8).collect();
        rig.memory.write(input, &bytes).expect("mapped");
        let bytes: Vec<u8> = (0..1 << 20).map(|index: usize| (index * 13 + index / 251) as u8).collect();
        rig.memory.write(tensor, &bytes).expect("mapped");
        Self { rig, tensor, input, output }
    }

    fn kernel(&mut self, text: &str) -> (Arc<Program>, Arc<Kernel>) {
        let program = self.rig.load(text).expect("loads");
        let kernel = program.kernel("k").expect("lowers");
        (program, kernel)
    }

    fn run(&mut self, text: &str, map: &[u8], coordinates: [i32; TENSOR_AXES]) -> Outcome {
        let (_program, kernel) = self.kernel(text);
        let coordinates = coordinates.iter().flat_map(|coordinate| coordinate.to_le_bytes()).collect();
        let values = [map.to_vec(), self.input.to_le_bytes().to_vec(), self.output.to_le_bytes().to_vec(), coordinates];
        let launch = self.rig.launch(&kernel, 1, 1, parameters(&kernel, &values).expect("fit"));
        self.rig.run(launch).expect("ends")
    }

    fn fault(&mut self, text: &str, map: &[u8], coordinates: [i32; TENSOR_AXES]) -> u32 {
        match self.run(text, map, coordinates) {
            Outcome::Fault(fault) => fault.kind.code(),
            outcome => panic!("no fault: {outcome:?}"),
        }
    }

    fn output(&self) -> Vec<u8> {
        self.rig.download(self.output, SHARED)
    }
}

fn map(bench: &Bench, element: TensorElement, axes: usize) -> TensorMap {
    TensorMap {
        address: bench.tensor,
        element,
        axes,
        sizes: [21, 9, 5, 4, 3],
        strides: [192, 1920, 9600, 38_400],
        spans: [16, 4, 3, 2, 2],
        steps: [1; TENSOR_AXES],
        swizzle: 0,
        fills_nan: false,
    }
    .of_axes(axes)
}

trait OfAxes {
    fn of_axes(self, axes: usize) -> Self;
}

impl OfAxes for TensorMap {
    /// Without what lies behind the dimensions.
    fn of_axes(mut self, axes: usize) -> Self {
        self.axes = axes;
        (axes..TENSOR_AXES).for_each(|axis| (self.sizes[axis], self.spans[axis], self.steps[axis]) = (0, 0, 0));
        (axes..TENSOR_AXES).for_each(|axis| self.strides[axis - 1] = 0);
        self.check().expect("possible")
    }
}

/// Calls with each element of a box: its place in shared memory from 0 on, and its address where the tensor has it.
fn each(map: &TensorMap, at: [i32; TENSOR_AXES], mut see: impl FnMut(usize, Option<u64>)) {
    let counts: Vec<i64> = (0..TENSOR_AXES)
        .map(|axis| match axis {
            0 => i64::from(map.spans[0]),
            axis if axis < map.axes => i64::from(map.spans[axis].div_ceil(map.steps[axis])),
            _ => 1,
        })
        .collect();
    let width = map.element.bytes();
    let pitch = (map.spans[0] * width).max(map.swizzle) as usize;
    for outer in 0..counts[1..].iter().product::<i64>() {
        let (mut rest, mut inside, mut address) = (outer, true, map.address);
        for axis in 1..map.axes {
            let coordinate = i64::from(at[axis]) + rest % counts[axis] * i64::from(map.steps[axis]);
            rest /= counts[axis];
            inside &= coordinate >= 0 && (coordinate as u64) < map.sizes[axis];
            address = address.wrapping_add((coordinate as u64).wrapping_mul(map.strides[axis - 1]));
        }
        for index in 0..counts[0] {
            let coordinate = i64::from(at[0]) + index;
            let inside = inside && coordinate >= 0 && (coordinate as u64) < map.sizes[0];
            let address = address.wrapping_add((coordinate as u64).wrapping_mul(width.into()));
            let place = outer as usize * pitch + index as usize * width as usize;
            let bits = (map.swizzle as usize / 16).saturating_sub(1);
            see(place ^ (place >> 7 & bits) << 4, inside.then_some(address));
        }
    }
}

#[test]
fn boxes_of_one_to_five_dimensions_are_loaded_with_what_lies_outside_filled() {
    let mut bench = Bench::new();
    for axes in 1..=TENSOR_AXES {
        for (element, fills_nan) in
            [(TensorElement::F32, true), (TensorElement::U16, false), (TensorElement::U8, false)]
        {
            for at in [[0; 5], [16, 6, 3, 3, 2], [-16, -2, -1, -1, -1], [32, 1, 1, 1, 1], [0, 100, 0, 0, 0]] {
                let map = TensorMap { fills_nan, ..map(&bench, element, axes) };
                let width = element.bytes() as usize;
                let mut wanted = bench.rig.download(bench.input, SHARED);
                each(&map, at, |place, address| {
                    let target = &mut wanted[place..place + width];
                    match address {
                        Some(address) => target.copy_from_slice(&bench.rig.download(address, width)),
                        None if fills_nan => target.copy_from_slice(&[0xf7, 0x7f, 0xf7, 0x7f][..width]),
                        None => target.fill(0),
                    }
                });
                let bytes = (0..axes).map(|axis| u64::from(map.spans[axis])).product::<u64>() * width as u64;
                let outcome = bench.run(&load_text(axes, bytes), &map.to_bytes(), at);
                assert_eq!(outcome, Outcome::Done);
                assert_eq!(bench.output(), wanted, "{axes} axes of {element:?} at {at:?}");
            }
        }
    }
}

#[test]
fn units_of_a_box_are_swizzled_and_elements_stepped_over() {
    let mut bench = Bench::new();
    for (swizzle, width) in [(32, 8), (64, 16), (128, 32), (128, 8), (64, 4), (0, 32)] {
        for steps in [[1; 5], [2, 2, 3, 1, 1]] {
            let mut map = map(&bench, TensorElement::F32, 3);
            map.sizes = [40, 32, 5, 0, 0];
            (map.swizzle, map.steps, map.spans) = (swizzle, steps, [width, 16, 3, 0, 0]);
            let map = map.of_axes(3);
            let at = [4, 3, 1, 0, 0];
            let (mut wanted, mut bytes) = (bench.rig.download(bench.input, SHARED), 0);
            each(&map, at, |place, address| {
                bytes += 4;
                let element = address.map_or(vec![0; 4], |address| bench.rig.download(address, 4));
                wanted[place..place + 4].copy_from_slice(&element);
            });
            // Units of a row that no element has stay as they are, so only the others are compared.
            assert_eq!(bench.run(&load_text(3, bytes), &map.to_bytes(), at), Outcome::Done);
            assert_eq!(bench.output(), wanted, "swizzle {swizzle}, {width} wide, steps {steps:?}");
        }
    }
}

#[test]
fn tf32_is_rounded_by_loads() {
    let mut bench = Bench::new();
    let words: [u32; 8] =
        [0x3f80_1000, 0x3f80_3000, 0x3f80_1001, 0x0000_0007, 0xbf80_3000, 0x7f80_0000, 0x4049_0fdb, 0x007f_ffff];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bench.rig.memory.write(bench.tensor, &bytes).expect("mapped");
    let mut map = map(&bench, TensorElement::Tf32, 1);
    map.spans[0] = 8;
    assert_eq!(bench.run(&load_text(1, 32), &map.to_bytes(), [0; 5]), Outcome::Done);
    let got: Vec<u32> = bench.output()[..32].as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    assert_eq!(got, [0x3f80_0000, 0x3f80_4000, 0x3f80_2000, 0, 0xbf80_4000, 0x7f80_0000, 0x4049_0000, 0]);
}

fn store_text(axes: usize, operation: &str) -> String {
    let coordinates = coordinates(axes);
    let (name, operation) = if operation.is_empty() { ("cp", "") } else { ("cp.reduce", operation) };
    around(&format!(
        "
    fence.proxy.async;
    {name}.async.bulk.tensor.{axes}d.global.shared::cta{operation}.tile.bulk_group [%map, {{{coordinates}}}], [%r10];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    cp.async.bulk.wait_group 0;"
    ))
}

#[test]
fn a_stored_box_is_cut_at_the_ends_in_whole_units() {
    let mut bench = Bench::new();
    for (element, at) in [(TensorElement::F32, [16, 6, 3, 3, 2]), (TensorElement::U16, [16, 0, 4, 0, 0])] {
        for axes in 1..=TENSOR_AXES {
            let map = map(&bench, element, axes);
            let width = element.bytes() as usize;
            let mut wanted = bench.rig.download(bench.tensor, 1 << 20);
            let source = bench.rig.download(bench.input, SHARED);
            // 21 elements: of f32 the tensor's last unit has one of 4, of u16 five of 8.
            let unit = 16 / width as u64;
            let whole = TensorMap {
                sizes: [map.sizes[0].next_multiple_of(unit), map.sizes[1], map.sizes[2], map.sizes[3], map.sizes[4]],
                ..map
            };
            each(&whole, at, |place, address| {
                let Some(address) = address else { return };
                let offset = (address - bench.tensor) as usize;
                wanted[offset..offset + width].copy_from_slice(&source[place..place + width]);
            });
            assert_eq!(bench.run(&store_text(axes, ""), &map.to_bytes(), at), Outcome::Done);
            assert!(bench.rig.download(bench.tensor, 1 << 20) == wanted, "{axes} axes of {element:?}");
        }
    }
}

#[test]
fn stores_of_swizzled_boxes_read_what_loads_of_them_write() {
    let mut bench = Bench::new();
    let mut map = map(&bench, TensorElement::F32, 2);
    (map.sizes, map.spans, map.swizzle) = ([32, 16, 0, 0, 0], [32, 16, 0, 0, 0], 128);
    let map = map.of_axes(2);
    let target = TensorMap { address: bench.tensor + (1 << 19), ..map };
    assert_eq!(bench.run(&load_text(2, 2048), &map.to_bytes(), [0; 5]), Outcome::Done);
    bench.rig.memory.copy(bench.input, bench.output, SHARED).expect("mapped");
    assert_eq!(bench.run(&store_text(2, ""), &target.to_bytes(), [0; 5]), Outcome::Done);
    for row in 0..16 {
        let of = |map: &TensorMap| bench.rig.download(map.address + 192 * row, 128);
        assert_eq!(of(&map), of(&target), "row {row}");
    }
}

#[test]
fn boxes_are_combined_with_what_is_there() {
    let mut bench = Bench::new();
    let subnormal = f32::from_bits(3);
    let cases: [(&str, TensorElement, u64, u64, u64); 16] = [
        (".add", TensorElement::U32, u64::from(u32::MAX), 2, 1),
        (".add", TensorElement::S32, 5, 7, 12),
        (".add", TensorElement::U64, u64::MAX, 2, 1),
        (".add", TensorElement::F32, subnormal.to_bits().into(), subnormal.to_bits().into(), 6),
        (".add", TensorElement::F16, 0x3c00, 0x3c00, 0x4000),
        (".add", TensorElement::Bf16, 0x3f80, 0x3f80, 0x4000),
        (".min", TensorElement::S32, 5, 0xffff_ffff, 0xffff_ffff),
        (".min", TensorElement::U32, 5, 0xffff_ffff, 5),
        (".max", TensorElement::S64, 5, u64::MAX, 5),
        (".max", TensorElement::U64, 5, u64::MAX, u64::MAX),
        (".max", TensorElement::F16, 0x3c00, 0xbc00, 0x3c00),
        (".inc", TensorElement::U32, 3, 3, 0),
        (".dec", TensorElement::U32, 0, 9, 9),
        (".and", TensorElement::U32, 12, 10, 8),
        (".or", TensorElement::S64, 12, 10, 14),
        (".xor", TensorElement::S32, 12, 10, 6),
    ];
    for (operation, element, there, new, wanted) in cases {
        let width = element.bytes() as usize;
        let repeated = |value: u64| value.to_le_bytes()[..width].repeat(64);
        bench.rig.memory.write(bench.tensor, &repeated(there)).expect("mapped");
        bench.rig.memory.write(bench.input, &repeated(new)).expect("mapped");
        let map = map(&bench, element, 1);
        assert_eq!(bench.run(&store_text(1, operation), &map.to_bytes(), [0; 5]), Outcome::Done);
        let mut expected = repeated(wanted)[..16 * width].to_vec();
        expected.extend(&repeated(there)[..width]);
        assert_eq!(bench.rig.download(bench.tensor, 17 * width), expected, "{operation} of {element:?}");
    }
    for (operation, element) in
        [(".add", TensorElement::U8), (".inc", TensorElement::S32), (".and", TensorElement::F32)]
    {
        let map = map(&bench, element, 1);
        assert_eq!(bench.fault(&store_text(1, operation), &map.to_bytes(), [0; 5]), 715, "{operation} of {element:?}");
    }
}

#[test]
fn plain_copies_go_between_global_and_shared_memory_and_within_it() {
    let mut bench = Bench::new();
    let text = around(
        "
    mov.u32 %r15, 24;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 1064;
    mov.b16 %h1, 1;
    cp.async.bulk.prefetch.L2.global [%in+2048], %r15;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%in+2048], 1024, [%r11];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r10+4096], [%in+16], %r15, [%r11], %h1;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10+5120], [%r10+4096], 16, [%r11];
WAIT:
    mbarrier.test_wait.parity.shared.b64 %p2, [%r11], 0;
    @!%p2 bra WAIT;
    cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%in], [%r10+4096], 16, %d9;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%in+32], [%r10], 16;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%in+8176], [%r10], 0;
    cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.xor.b32 [%r10+6144], [%r10+6160], 16, [%r11];",
    );
    let before = bench.rig.download(bench.input, SHARED);
    let mut shared = before.clone();
    shared.copy_within(2048..3072, 0);
    shared[4096..4120].copy_from_slice(&before[16..40]);
    shared.copy_within(4096..4112, 5120);
    (0..16).for_each(|at| shared[6144 + at] ^= shared[6160 + at]);
    let mut global = before.clone();
    global[..16].copy_from_slice(&shared[4096..4112]);
    for at in (0..16).step_by(4) {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four"));
        let sum = word(&before[32 + at..]).wrapping_add(word(&shared[at..]));
        global[32 + at..36 + at].copy_from_slice(&sum.to_le_bytes());
    }
    assert_eq!(bench.run(&text, &[0; 128], [0; 5]), Outcome::Done);
    assert_eq!(bench.output(), shared);
    assert_eq!(bench.rig.download(bench.input, SHARED), global);
}

#[test]
fn copies_without_a_loop_let_others_have_their_turn_and_a_stopped_grid_goes_on() {
    const SUMS: usize = 64;
    let mut bench = Bench::new();
    let sum = "    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%in], [%r10], 8192;\n".repeat(SUMS);
    let text = format!("{HEAD}\n    mov.u32 %r14, 3;\n    st.shared.b32 [%r10], %r14;\n{sum}    ret;\n}}");
    let first = |bench: &Bench| u32::from_le_bytes(bench.rig.download(bench.input, 4).try_into().expect("four"));
    let before = first(&bench);
    let (_program, kernel) = bench.kernel(&text);
    let values = [vec![0; 128], bench.input.to_le_bytes().to_vec(), bench.output.to_le_bytes().to_vec(), vec![0; 20]];
    let launch = bench.rig.launch(&kernel, 1, 1, parameters(&kernel, &values).expect("fit"));
    let grid = Grid::new(launch.clone()).expect("a grid");
    grid.set_quantum(10);
    grid.set_quanta(3);
    assert_eq!(grid.run(&Pool::new(1)), Outcome::Stopped);
    let done = (first(&bench) - before) / 3;
    assert!((1..SUMS as u32).contains(&done), "{done}");
    let snapshot = grid.snapshot().expect("stopped");
    assert_eq!(Grid::resume(launch, &snapshot).expect("resumes").run(&Pool::new(1)), Outcome::Done);
    assert_eq!(first(&bench) - before, 3 * SUMS as u32);
}

#[test]
fn a_copy_beyond_shared_memory_does_nothing_and_its_barrier_does_not_complete() {
    let mut bench = Bench::new();
    let map = map(&bench, TensorElement::F32, 2);
    let text = around(
        "
    mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 256;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r10+8192], [%map, {%r0, %r1}], [%r11];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10+8176], [%in], 256, [%r11];
    mbarrier.test_wait.parity.shared.b64 %p2, [%r11], 0;
    selp.b32 %r15, 7, 9, %p2;
    st.shared.b32 [%r10], %r15;",
    );
    let mut wanted = bench.rig.download(bench.input, SHARED);
    wanted[..4].copy_from_slice(&9_u32.to_le_bytes());
    assert_eq!(bench.run(&text, &map.to_bytes(), [0; 5]), Outcome::Done);
    assert_eq!(bench.output(), wanted);
}

#[test]
fn faults_of_boxes_are_those_of_an_h200() {
    let mut bench = Bench::new();
    let good = map(&bench, TensorElement::F32, 2);
    let (load, store) = (load_text(2, 256), store_text(2, ""));
    let bytes = good.to_bytes();
    for column in [2, -2, i32::MIN + 1, i32::MAX] {
        assert_eq!(bench.fault(&load, &bytes, [column, 0, 0, 0, 0]), 715, "a row at {column}");
    }
    for at in [[-4, 0, 0, 0, 0], [0, -1, 0, 0, 0]] {
        assert_eq!(bench.run(&load, &bytes, at), Outcome::Done);
        assert_eq!(bench.fault(&store, &bytes, at), 715, "a store at {at:?}");
        assert_eq!(bench.fault(&store_text(2, ".add"), &bytes, at), 715, "a sum at {at:?}");
    }
    let odd = |text: &str| text.replace("[%r10], [%map", "[%r10+64], [%map").replace("}], [%r10];", "}], [%r10+64];");
    assert_eq!(bench.fault(&odd(&load), &bytes, [0; 5]), 716);
    assert_eq!(bench.fault(&odd(&store), &bytes, [0; 5]), 716);
    for map in [map(&bench, TensorElement::F32, 3).to_bytes(), [0; 128], [0xff; 128]] {
        assert_eq!(bench.fault(&load, &map, [0; 5]), 715);
        assert_eq!(bench.fault(&store, &map, [0; 5]), 715);
    }
    let elsewhere =
        |place: &str| load.replace("    mbarrier.arrive.expect", &format!("    {place};\n    mbarrier.arrive.expect"));
    let in_shared = elsewhere("cvt.u64.u32 %map, %r10;\n    cvta.shared.u64 %map, %map");
    assert_eq!(bench.fault(&in_shared, &bytes, [0; 5]), 700);
    assert_eq!(bench.fault(&elsewhere("add.u64 %map, %map, 16"), &bytes, [0; 5]), 716);
    assert_eq!(bench.fault(&elsewhere("mov.u64 %map, 4096"), &bytes, [0; 5]), 700);
    let gone = TensorMap { address: 0x1000, ..good };
    assert_eq!(bench.fault(&load, &gone.to_bytes(), [0; 5]), 700);
    assert_eq!(bench.fault(&store, &gone.to_bytes(), [0; 5]), 700);
    let far = TensorMap { sizes: [21, 1 << 32, 0, 0, 0], strides: [(1 << 40) - 16, 0, 0, 0], ..good };
    assert_eq!(bench.fault(&load, &far.to_bytes(), [0, i32::MAX, 0, 0, 0]), 700, "an address beyond 64 bits");
}

#[test]
fn faults_of_plain_copies_are_those_of_an_h200() {
    let mut bench = Bench::new();
    let load = |target: &str, source: &str, barrier: &str| {
        let name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
        around(&format!("    mov.u64 %d8, 4096;\n    {name} [{target}], [{source}], 32, [{barrier}];"))
    };
    let store = |target: &str, source: &str| {
        around(&format!(
            "    mov.u64 %d8, 4096;\n    cp.async.bulk.global.shared::cta.bulk_group [{target}], [{source}], 16;"
        ))
    };
    let to_blocks = |blocks: u32| {
        let name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster";
        around(&format!("    mov.b16 %h1, {blocks};\n    {name} [%r10], [%in], 32, [%r11], %h1;"))
    };
    let cases = [
        (load("%r10+8", "%in", "%r11"), 716),
        (load("%r10", "%in+8", "%r11"), 716),
        (load("%r10", "%d8", "%r11"), 700),
        (load("%r10", "%in", "%r11+4"), 716),
        (load("%r10", "%in", "%r11+65536"), 700),
        (to_blocks(3), 715),
        (to_blocks(2), 715),
        (store("%in+8", "%r10"), 716),
        (store("%in", "%r10+8"), 716),
        (store("%d8", "%r10"), 700),
    ];
    for (text, code) in cases {
        assert_eq!(bench.fault(&text, &[0; 128], [0; 5]), code, "{text}");
    }
}

#[test]
fn forms_that_are_not_done_are_refused_by_name() {
    let mut bench = Bench::new();
    let cases = [
        (
            "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r10], [%map, {%r0, %r1, %r2, %r3, %r4}], [%r11];",
            ".tile::gather4",
        ),
        (
            "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%map, {%r0, %r1, %r2}], [%r10];",
            ".im2col_no_offs",
        ),
        ("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%in], [%r10], 16, %h1;", ".cp_mask"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [%in], [%r10], 16;", ".add of .s64"),
        (
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.max.u64 [%r10], [%r10], 16, [%r11];",
            "unknown instruction",
        ),
        ("tensormap.replace.tile.global_address.global.b1024.b64 [%map], %d1;", "tensormap.replace"),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%r0}], [%r10];", "2 coordinates"),
    ];
    for (line, name) in cases {
        let program = bench.rig.load(&around(line)).expect("parses");
        let error = program.kernel("k").map(drop).expect_err("refused").to_string();
        assert!(error.contains(name), "{error}");
    }
}

/// The bytes that a load makes of an element's.
fn loaded(element: TensorElement, bytes: &[u8]) -> Vec<u8> {
    let TensorElement::Tf32 = element else { return bytes.to_vec() };
    let bits = u32::from_le_bytes(bytes.try_into().expect("four"));
    let rounded = match (bits >> 23 & 0xff, bits & 0x7f_ffff) {
        (0, _) => bits & 1 << 31,
        (0xff, 0) => bits,
        (0xff, _) => 0x7fff_e000,
        // To the nearest, ties to even.
        _ => (bits + 0xfff + (bits >> 13 & 1)) & !0x1fff,
    };
    rounded.to_le_bytes().to_vec()
}

/// The place of a byte of the box in shared memory, from the rules of the CUDA driver's documentation: chunks of 16 bytes change
/// places by the row of 128 bytes that they lie in.
fn swizzled(swizzle: u32, place: usize) -> usize {
    let (row, chunk, byte) = (place / 128, place / 16 % 8, place % 16);
    let chunk = match swizzle {
        32 => chunk / 2 * 2 + (chunk + row) % 2,
        64 => chunk / 4 * 4 + ((chunk % 4) ^ (row % 4)),
        128 => chunk ^ (row % 8),
        _ => chunk,
    };
    row * 128 + chunk * 16 + byte
}

/// All elements of a box: the place in shared memory, and the coordinates.
fn places(map: &TensorMap, base: usize, at: [i32; TENSOR_AXES]) -> Vec<(usize, [i64; TENSOR_AXES])> {
    let width = map.element.bytes() as usize;
    let pitch = (map.spans[0] as usize * width).max(map.swizzle as usize);
    let mut rows = vec![at.map(i64::from)];
    for axis in (1..map.axes).rev() {
        let along = |offset: u32| {
            move |mut row: [i64; TENSOR_AXES]| {
                row[axis] += i64::from(offset);
                row
            }
        };
        let offsets = || (0..map.spans[axis]).step_by(map.steps[axis] as usize);
        rows = rows.iter().flat_map(|row| offsets().map(|offset| along(offset)(*row))).collect();
    }
    let elements = rows.iter().enumerate().flat_map(|(number, row)| {
        let place = move |index: usize| swizzled(map.swizzle, base + number * pitch + index * width);
        (0..map.spans[0]).map(move |index| {
            (place(index as usize), {
                let mut it = *row;
                it[0] += i64::from(index);
                it
            })
        })
    });
    elements.collect()
}

/// What a box of a tensor is by the documentation, in bytes of global memory from the tensor's address on.
struct Model<'m> {
    map: &'m TensorMap,
    global: Vec<u8>,
    shared: Vec<u8>,
}

impl Model<'_> {
    fn offset(&self, element: &[i64; TENSOR_AXES]) -> usize {
        let beyond: i64 = (1..self.map.axes).map(|axis| element[axis] * self.map.strides[axis - 1] as i64).sum();
        (beyond + element[0] * i64::from(self.map.element.bytes())) as usize
    }

    /// Whether the tensor has it, with this many elements along the first dimension.
    fn has(&self, element: &[i64; TENSOR_AXES], along: u64) -> bool {
        let sizes = |axis: usize| if axis == 0 { along } else { self.map.sizes[axis] };
        (0..self.map.axes).all(|axis| (0..sizes(axis) as i64).contains(&element[axis]))
    }

    fn load(&mut self, base: usize, at: [i32; TENSOR_AXES]) {
        let width = self.map.element.bytes() as usize;
        for (place, element) in places(self.map, base, at) {
            let new = if self.has(&element, self.map.sizes[0]) {
                let offset = self.offset(&element);
                loaded(self.map.element, &self.global[offset..offset + width])
            } else if self.map.fills_nan {
                [0xf7, 0x7f].repeat(width / 2)
            } else {
                vec![0; width]
            };
            self.shared[place..place + width].copy_from_slice(&new);
        }
    }

    /// Whole units of 16 bytes are stored, so up to the next one behind the tensor's end.
    fn store(&mut self, base: usize, at: [i32; TENSOR_AXES], combine: impl Fn(u64, u64) -> u64) {
        let width = self.map.element.bytes() as usize;
        let along = self.map.sizes[0].next_multiple_of(16 / width as u64);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        for (place, element) in places(self.map, base, at) {
            // A row that begins behind the end has nothing to store.
            if i64::from(at[0]) < self.map.sizes[0] as i64 && self.has(&element, along) {
                let offset = self.offset(&element);
                let new = number(&self.shared[place..place + width]);
                let old = number(&self.global[offset..offset + width]);
                self.global[offset..offset + width].copy_from_slice(&combine(old, new).to_le_bytes()[..width]);
            }
        }
    }
}

/// A map of a tensor within 512 KiB with a box within shared memory, the box's place there, and coordinates that loads may have.
fn any_copy() -> impl Strategy<Value = (TensorMap, usize, [i32; TENSOR_AXES])> {
    use TensorElement::{Bf16, F16, F32, F64, S32, S64, Tf32, U8, U16, U32, U64};
    (
        prop::sample::select(vec![Bf16, F16, F32, F64, S32, S64, Tf32, U8, U16, U32, U64]),
        (1..=TENSOR_AXES, prop::sample::select(vec![0, 32, 64, 128_u32]), any::<bool>(), 0..8_usize),
        (uniform5(1..12_u64), uniform5(0..200_u64), uniform5(1..7_u32), uniform5(1..=8_u32)),
        (1..60_u64, 1..9_u32, uniform5(-9..14_i32)),
    )
        .prop_map(|(element, (axes, swizzle, fills, base), (sizes, strides, spans, steps), (along, units, at))| {
            let unit = 16 / element.bytes();
            let units = if swizzle == 0 { units } else { 1 + units % (swizzle / 16) };
            let is_float = matches!(element, Bf16 | F16 | F32 | F64 | Tf32);
            let mut map = TensorMap {
                address: 0x1000,
                element,
                axes,
                sizes,
                strides: [0, 1, 2, 3].map(|axis| 16 * strides[axis] * (1 + axis as u64)),
                spans,
                steps,
                swizzle,
                fills_nan: fills && is_float,
            };
            (map.sizes[0], map.spans[0]) = (along, units * unit);
            let mut at = at;
            at[0] *= unit as i32;
            (map, 128 * base, at)
        })
        .prop_filter("too large a box", |(map, base, _)| {
            let rows: u32 = (1..map.axes).map(|axis| map.spans[axis].div_ceil(map.steps[axis])).product();
            let pitch = (map.spans[0] * map.element.bytes()).max(map.swizzle);
            base + (rows * pitch) as usize <= SHARED
        })
        .prop_map(|(map, base, at)| (map.of_axes(map.axes), base, at))
}

/// The combinations of whole numbers by maps.
fn combined(operator: &str, element: TensorElement, old: u64, new: u64) -> Option<u64> {
    use TensorElement::{S32, S64, U32, U64};
    let is_signed = matches!(element, S32 | S64);
    let signed = |number: u64| if element == S32 { i64::from(number as u32 as i32) } else { number as i64 };
    let is_less = if is_signed { signed(new) < signed(old) } else { new < old };
    Some(match (operator, element) {
        (_, element) if !matches!(element, S32 | S64 | U32 | U64) => return None,
        ("", _) => new,
        (".add", S64) | (".inc" | ".dec", S32 | S64 | U64) => return None,
        (".add", _) => old.wrapping_add(new),
        (".min", _) => {
            if is_less {
                new
            } else {
                old
            }
        }
        (".max", _) => {
            if is_less {
                old
            } else {
                new
            }
        }
        (".inc", _) => {
            if old >= new {
                0
            } else {
                old + 1
            }
        }
        (".dec", _) => {
            if old == 0 || old > new {
                new
            } else {
                old - 1
            }
        }
        (".and", _) => old & new,
        (".or", _) => old | new,
        (".xor", _) => old ^ new,
        _ => return None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn boxes_of_any_tensor_are_loaded_and_stored_as_a_plain_model_says(
        (map, base, at) in any_copy(),
        operator in prop::sample::select(vec!["", ".add", ".min", ".max", ".inc", ".dec", ".and", ".or", ".xor"]),
        in_pieces in prop::bool::weighted(0.1),
    ) {
        const BYTES: usize = 512 << 10;
        let mut bench = Bench::new();
        bench.rig.in_pieces = in_pieces;
        let map = TensorMap { address: bench.tensor, ..map };
        let from_base = |text: String| text
            .replace("[%r10], [%map", &format!("[%r10+{base}], [%map"))
            .replace("}], [%r10];", &format!("}}], [%r10+{base}];"));
        let global = bench.rig.download(bench.tensor, BYTES);
        let mut model = Model { map: &map, shared: bench.rig.download(bench.input, SHARED), global };
        let box_bytes = places(&map, base, at).len() as u64 * u64::from(map.element.bytes());
        let outcome = bench.run(&from_base(load_text(map.axes, box_bytes)), &map.to_bytes(), at);
        prop_assert_eq!(outcome, Outcome::Done);
        model.load(base, at);
        prop_assert!(bench.output() == model.shared, "a load of {:?} at {:?}", map, at);

        // Stores begin within the tensor. What they store is what was loaded, which the next kernel fills shared memory with.
        let at = at.map(|coordinate| coordinate.max(0));
        bench.rig.memory.write(bench.input, &model.shared).expect("mapped");
        let known = combined(operator, map.element, 0, 0).is_some() || operator.is_empty();
        if !known && matches!(map.element, TensorElement::F32 | TensorElement::F16 | TensorElement::Bf16) {
            // Sums of floats have a test of their own.
            return Ok(());
        }
        let outcome = bench.run(&from_base(store_text(map.axes, operator)), &map.to_bytes(), at);
        if known {
            prop_assert_eq!(outcome, Outcome::Done);
            model.store(base, at, |old, new| combined(operator, map.element, old, new).unwrap_or(new));
        } else {
            let code = match outcome { Outcome::Fault(fault) => fault.kind.code(), _ => 0 };
            prop_assert_eq!(code, 715, "{} of {:?}", operator, map.element);
        }
        prop_assert!(bench.rig.download(bench.tensor, BYTES) == model.global, "{:?} of {:?} at {:?}", operator, map, at);
    }
}
