//! Statements of tensor cores: products and moves of matrices, asynchronous copies, barriers in memory.
//! Bytes choose the instruction, its registers and its addresses; one line of text goes out. Most addresses lie in shared
//! memory, some anywhere. Copies of boxes go by one map, which bytes choose too.

use std::fmt::Write as _;

use floe_machine::{TENSOR_AXES, TensorElement, TensorMap};

use super::Writer;
use crate::device::BASE;

/// In a template `@r`, `@d`, `@h` and `@p` are registers, `@s` is a source of 32 bits, `@a` an address, `@b` one where a box
/// may lie, `@i` one in the input, `@m` a map.
const MATRICES: &[&str] = &[
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {@r, @r}, {@r, @s}, {@r}, {@r, @r};",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {@r, @r, @r, @r}, {@r, @r, @r, @r}, {@r, @r}, {@r, @r, @s, @r};",
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {@r, @r, @r, @r}, {@r, @r}, {@r}, {@r, @r, @s, @r};",
    "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {@r, @r, _, @r}, {@r, @r}, {@r}, {@r, @r, @s, @r};",
    "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 {@r, @r, @r, @r}, {@r, @r, @r, @r}, {@r, @r}, {@r, @r, @s, @r};",
    "mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {@r, @r}, {@r}, {@r}, {@r, @r};",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {@d, @d}, {@d}, {@d}, {@d, @d};",
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {@d, @d, @d, @d}, {@d, @d, @d, @d}, {@d, @d}, {@d, @d, @d, @d};",
    "wmma.load.a.sync.aligned.row.m16n16k16.f16 {@r, @r, @r, @r, @r, @r, @r, @r}, [@a], @s;",
    "wmma.load.b.sync.aligned.col.m8n32k16.shared.s8 {@r, @r, @r, @r, @r, @r, @r, @r}, [@a];",
    "wmma.load.c.sync.aligned.col.m32n8k16.global.s32 {@r, @r, @r, @r, @r, @r, @r, @r}, [@a], @s;",
    "wmma.load.a.sync.aligned.row.m8n8k4.f64 {@d}, [@a], @s;",
    "wmma.store.d.sync.aligned.row.m16n16k16.f16 [@a], {@r, @r, @r, @s}, @s;",
    "wmma.store.d.sync.aligned.col.m8n8k4.shared.f64 [@a], {@d, @d};",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {@r, @r, @r, @r}, {@r, @r, @r, @r, @r, @r, @r, @r}, \
     {@r, @r, @r, @r, @r, @r, @r, @r}, {@r, @r, @r, @r};",
    "wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32 {@r, @r, @r, @r, @r, @r, @r, @r}, {@r, @r, @r, @r}, \
     {@r, @r, @r, @r}, {@r, @r, @r, @r, @r, @r, @r, @r};",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {@r, @r, @r, @r}, [@a];",
    "ldmatrix.sync.aligned.m8n8.x1.b16 {@r}, [@a];",
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [@a], {@r, @s};",
    "movmatrix.sync.aligned.m8n8.trans.b16 @r, @s;",
];

const COPIES: &[&str] = &[
    "cp.async.ca.shared.global [@a], [@a], 4;",
    "cp.async.ca.shared.global [@a], [@a], 8, @s;",
    "cp.async.cg.shared.global.L2::cache_hint [@a], [@a], 16, @p, @d;",
    "cp.async.ca.shared::cta.global [@a], [@a], 16, !@p;",
    "cp.async.wait_all;",
    "cp.async.mbarrier.arrive.noinc.shared.b64 [@a];",
];

const BULK_COPIES: &[&str] = &[
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [@b], [@i], @s, [@b];",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [@b], [@i], 64, [@b], @d;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [@b], [@a], @s, [@b], @h;",
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [@b], [@b], 128, [@a];",
    "cp.async.bulk.global.shared::cta.bulk_group [@i], [@b], @s;",
    "cp.async.bulk.prefetch.L2.global [@i], @s;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [@i], [@b], @s;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s64 [@i], [@b], 48;",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.inc.u32 [@b], [@b], @s, [@a];",
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [@b], [@m, {@s}], [@a];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [@b], [@m, {@s, 0}], [@a];",
    "cp.async.bulk.tensor.3d.shared::cta.global.mbarrier::complete_tx::bytes [@b], [@m, {0, @s, @s}], [@a];",
    "cp.async.bulk.tensor.4d.shared::cta.global.mbarrier::complete_tx::bytes [@b], [@m, {16, @s, 1, 0}], [@a];",
    "cp.async.bulk.tensor.5d.shared::cta.global.mbarrier::complete_tx::bytes [@b], [@m, {0, 1, @s, 1, @s}], [@a];",
    "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [@m, {@s}], [@b];",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [@m, {0, @s}], [@b];",
    "cp.async.bulk.prefetch.tensor.2d.L2.global [@m, {0, @s}];",
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [@m, {@s}], [@b];",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.xor.tile.bulk_group [@m, {0, 1}], [@b];",
    "cp.async.bulk.commit_group;",
    "cp.async.bulk.wait_group.read 0;",
    "fence.proxy.async.shared::cta;",
];

const BARRIERS: &[&str] = &[
    "mbarrier.init.shared.b64 [@a], @s;",
    "mbarrier.init.b64 [@a], 3;",
    "mbarrier.inval.shared.b64 [@a];",
    "mbarrier.arrive.shared.b64 @d, [@a];",
    "mbarrier.arrive.noComplete.b64 @d, [@a], @s;",
    "mbarrier.arrive.expect_tx.shared.b64 _, [@a], @s;",
    "mbarrier.arrive_drop.shared.b64 @d, [@a], @s;",
    "mbarrier.expect_tx.shared.b64 [@a], @s;",
    "mbarrier.complete_tx.shared.b64 [@a], @s;",
    "mbarrier.pending_count.b64 @r, @d;",
    "mbarrier.test_wait.shared.b64 @p, [@a], @d;",
    "mbarrier.try_wait.parity.shared.b64 @p, [@a], @s;",
];

impl Writer<'_, '_> {
    pub(super) fn matrix(&mut self) -> String {
        self.fill(MATRICES)
    }

    pub(super) fn async_copy(&mut self) -> String {
        self.fill(COPIES)
    }

    pub(super) fn bulk_copy(&mut self) -> String {
        self.fill(BULK_COPIES)
    }

    /// The variable that holds the map: of some tensor in the input, mostly a possible one.
    pub(super) fn map(&mut self) {
        let map = TensorMap {
            address: BASE + 16 * self.below(64) as u64,
            element: TensorElement::from_number(self.below(13) as u32).unwrap_or(TensorElement::F32),
            axes: 1 + self.below(TENSOR_AXES),
            sizes: [(); TENSOR_AXES].map(|()| if self.below(8) == 0 { 1 << 32 } else { 1 + self.below(40) as u64 }),
            strides: [(); TENSOR_AXES - 1].map(|()| 16 * self.below(40) as u64),
            spans: [(); TENSOR_AXES].map(|()| 1 << self.below(6)),
            steps: [(); TENSOR_AXES].map(|()| 1 + self.below(3) as u32),
            swizzle: [0, 32, 64, 128][self.below(4)],
            fills_nan: self.below(4) == 0,
        };
        let bytes = map.to_bytes();
        let words = bytes.as_chunks::<8>().0.iter().map(|word| format!("{:#x}U", u64::from_le_bytes(*word)));
        let words = words.collect::<Vec<_>>().join(", ");
        let _ = writeln!(self.text, ".global .align 64 .b64 map[16] = {{{words}}};");
    }

    pub(super) fn mbarrier(&mut self) -> String {
        self.fill(BARRIERS)
    }

    /// One of the templates with its registers and addresses.
    fn fill(&mut self, templates: &[&str]) -> String {
        let mut parts = self.choose(templates).split('@');
        let mut line = parts.next().unwrap_or("").to_owned();
        for part in parts {
            let (kind, rest) = part.split_at(1);
            line += &match kind {
                "a" => self.address(),
                "b" => self.choose(&["%g2", "%g2", "%g2", "%g2+64", "%g4", "%g4+128", "%r1"]).to_owned(),
                "i" => self.choose(&["%a0", "%a1", "%a1+64", "%a3", "%d0", "map"]).to_owned(),
                "m" => self.choose(&["map", "map", "map", "map", "%a0", "%d0", "word"]).to_owned(),
                "s" => self.source('r'),
                kind => self.register(kind.chars().next().unwrap_or('r')),
            };
            line += rest;
        }
        line
    }

    /// An address, mostly of shared memory: a register or a variable, and an offset.
    fn address(&mut self) -> String {
        let base = self.choose(&["%g2", "%g2", "%g2", "s", "%a0", "%a1", "%a3", "%d0", "%r1", "%g0"]);
        let offset = if self.below(3) == 0 { self.offset() } else { 16 * self.below(4) as i64 };
        format!("{base}{offset:+}")
    }
}
