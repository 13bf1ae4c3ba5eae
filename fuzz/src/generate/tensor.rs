//! Statements of tensor cores: products and moves of matrices, asynchronous copies, barriers in memory.
//! Bytes choose the instruction, its registers and its addresses; one line of text goes out. Most addresses lie in shared
//! memory, some anywhere.

use super::Writer;

/// In a template `@r`, `@d` and `@p` are registers, `@s` is a source of 32 bits, `@a` an address.
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
