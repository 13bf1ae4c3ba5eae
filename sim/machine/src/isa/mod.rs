//! The opcode table: which arithmetic instructions there are, what their operands are, and the handlers that execute them.
//! One row per instruction as written in PTX (`fma.rn.ftz.f32`), grouped in files by kind; lowering looks the opcode's text
//! up here. Instructions with operands of a special form (memory, control, warp) are listed by their families instead.

mod carry;
mod compare;
mod convert;
mod double;
mod float;
mod half;
mod integer;
mod logic;
mod packed;
mod rows;

use std::collections::HashMap;
use std::sync::OnceLock;

pub(crate) use rows::{Row, Shape, Value};

/// The row of an opcode.
pub(crate) fn find(opcode: &str) -> Option<&'static Row> {
    static TABLE: OnceLock<HashMap<&'static str, Row>> = OnceLock::new();
    let table = TABLE.get_or_init(|| all().into_iter().map(|row| (row.name, row)).collect());
    table.get(opcode)
}

fn all() -> Vec<Row> {
    let mut rows = Vec::with_capacity(2048);
    integer::rows(&mut rows);
    carry::rows(&mut rows);
    logic::rows(&mut rows);
    compare::rows(&mut rows);
    float::rows(&mut rows);
    double::rows(&mut rows);
    half::rows(&mut rows);
    packed::rows(&mut rows);
    convert::rows(&mut rows);
    rows
}

/// Families of instructions whose operands have a special form, as patterns: what lowering accepts besides the table.
const FAMILIES: &[&str] = &[
    "mov (registers, special registers, addresses, packing and unpacking of vectors)",
    "cvta, isspacep",
    "ld{.weak,.volatile,.relaxed,.acquire,.mmio}{.global,.shared,.local,.const,.param,generic}{.v2,.v4}, ldu",
    "st{.weak,.volatile,.relaxed,.release,.mmio}{.global,.shared,.local,.param,generic}{.v2,.v4}",
    "atom, red {.and,.or,.xor,.exch,.cas,.add,.inc,.dec,.min,.max} of 16 to 64 bits, integer and float",
    "tex, tex.level, tex.grad, tld4 {.1d,.2d,.3d,.a1d,.a2d}.v4{.f32,.s32,.u32}{.f32,.s32} by number, without mipmaps",
    "suld.b, sust.b {.1d,.2d,.3d,.a1d,.a2d}{.v2,.v4}{.b8,.b16,.b32,.b64}{.trap,.clamp,.zero} by number",
    "cp.async{.ca,.cg}.shared.global of 4, 8, 16 bytes; cp.async.commit_group, .wait_group, .wait_all, .mbarrier.arrive{.noinc}",
    "cp.async.bulk, .prefetch, .commit_group, .wait_group, cp.reduce.async.bulk {.global,.shared::cta,.shared::cluster}",
    "cp.async.bulk.tensor, .prefetch.tensor, cp.reduce.async.bulk.tensor {.1d,.2d,.3d,.4d,.5d}{.tile}",
    "mbarrier.init, .inval, .arrive, .arrive_drop{.noComplete,.expect_tx}, .expect_tx, .complete_tx, .pending_count",
    "mbarrier.test_wait, .try_wait {.parity}",
    "ldmatrix, stmatrix {.x1,.x2,.x4}{.trans}.b16, movmatrix",
    "mma {.m16n8k8,.m16n8k16} of f16, bf16; {.m16n8k4,.m16n8k8} of tf32; {.m8n8k16,.m16n8k16,.m16n8k32} of s8, u8; \
     {.m8n8k4,.m16n8k4,.m16n8k8,.m16n8k16} of f64",
    "wmma.load, .store, .mma {.m16n16k16,.m32n8k16,.m8n32k16} of f16, bf16, s8, u8; .m16n16k8 of tf32; .m8n8k4 of f64",
    "membar, fence{.proxy.alias,.proxy.async,.proxy.tensormap::generic,.mbarrier_init}",
    "prefetch, prefetchu, applypriority, discard, nanosleep, pmevent, griddepcontrol",
    "bra, brx.idx, call (direct and indirect), ret, exit, trap, brkpt",
    "bar{.cta}, barrier{.cta} {.sync,.arrive,.red}, bar.warp.sync",
    "alloca, stacksave, stackrestore",
    "shfl{.sync}, vote{.sync}, match.sync, redux.sync, activemask, elect.sync",
];

/// An opcode of the table with the classes of its operands: what generators of texts need.
pub struct Form {
    /// As written in PTX.
    pub opcode: String,
    /// The result's, then the sources': `p` a predicate, `h`, `r`, `d` a register of 16, 32, 64 bits.
    pub operands: Vec<char>,
}

/// All opcodes of the table.
pub fn forms() -> Vec<Form> {
    let class = |value: Value| match value.bits() {
        1 => 'p',
        8 | 16 => 'h',
        32 => 'r',
        _ => 'd',
    };
    let form = |row: &Row| {
        let mut operands = vec![class(row.result)];
        operands.extend(row.sources.iter().flatten().map(|value| class(*value)));
        // Minimum and maximum of three have rows of their own.
        let opcode = row.name.strip_suffix(".3").unwrap_or(row.name).to_owned();
        Form { opcode, operands }
    };
    let mut forms: Vec<Form> = all().iter().map(form).collect();
    forms.sort_by(|one, other| one.opcode.cmp(&other.opcode));
    forms
}

/// Everything the machine executes, sorted: the opcodes of the table and the families, for the coverage page.
pub fn supported() -> Vec<String> {
    let mut names: Vec<String> = all().into_iter().map(|row| row.name.to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names.extend(FAMILIES.iter().map(|family| (*family).to_owned()));
    names
}
