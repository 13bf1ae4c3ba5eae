//! PTX texts from bytes: each byte chooses an instruction, an operand, a number.
//! Tame texts do the same whatever lanes run together: each thread reads and writes its own part of every memory.
//! Wild ones beside it access any address, declare anything of any size, and talk to other lanes.

mod memory;
mod tensor;

use std::fmt::Write as _;
use std::sync::OnceLock;

use arbitrary::Unstructured;
use floe_machine::isa::{self, Form};

/// Numbers at which sizes, offsets and counts go wrong.
const NUMBERS: [i64; 32] = [
    0,
    1,
    2,
    3,
    4,
    8,
    15,
    16,
    31,
    32,
    63,
    64,
    127,
    128,
    255,
    256,
    4095,
    4096,
    32_764,
    65_535,
    65_536,
    1 << 20,
    (1 << 24) - 4,
    1 << 24,
    (1 << 31) - 4,
    1 << 31,
    (1 << 32) - 4,
    1 << 32,
    i64::MAX,
    i64::MAX - 7,
    -1,
    i64::MIN,
];

/// Statements in all; a text is as long as its bytes otherwise.
const STATEMENTS: usize = 120;

struct Writer<'u, 'b> {
    bytes: &'u mut Unstructured<'b>,
    text: String,
    wild: bool,
    /// Whether sizes and offsets may be any number: most such texts are refused, by the part under test.
    reckless: bool,
    labels: usize,
    left: usize,
}

/// A text with a kernel `k(in, out)`.
pub fn text(bytes: &mut Unstructured<'_>, wild: bool) -> String {
    let mut writer = Writer { bytes, text: String::new(), wild, reckless: false, labels: 0, left: STATEMENTS };
    writer.reckless = wild && writer.below(3) == 0;
    writer.module();
    writer.text
}

fn forms() -> &'static [Form] {
    static FORMS: OnceLock<Vec<Form>> = OnceLock::new();
    FORMS.get_or_init(isa::forms)
}

impl Writer<'_, '_> {
    fn below(&mut self, count: usize) -> usize {
        self.bytes.int_in_range(0..=count - 1).unwrap_or(0)
    }

    fn choose<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.below(choices.len())]
    }

    fn number(&mut self) -> i64 {
        match self.below(4) {
            0 => self.bytes.arbitrary().unwrap_or(0),
            1 => i64::from(self.bytes.arbitrary::<i8>().unwrap_or(0)),
            _ => NUMBERS[self.below(NUMBERS.len())],
        }
    }

    /// Bytes or elements of what is declared.
    fn size(&mut self) -> u64 {
        if self.reckless && self.below(3) == 0 { self.number().unsigned_abs() } else { 4 * self.below(40) as u64 }
    }

    /// An offset to an address.
    fn offset(&mut self) -> i64 {
        if self.reckless && self.below(3) == 0 { self.number() } else { 4 * self.below(20) as i64 - 8 }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn module(&mut self) {
        self.line(".version 8.6\n.target sm_90\n.address_size 64");
        self.line(".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);");
        self.line(".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);");
        self.line(".global .align 8 .b8 word[16] = {37, 115, 37, 42, 100, 37, 102, 10, 0};");
        if self.wild {
            self.map();
        }
        for _ in 0..if self.wild { self.below(3) } else { 0 } {
            let (space, size) = (self.choose(&["global", "const", "shared"]), self.size());
            let inner = self.size();
            self.labels += 1;
            let label = self.labels;
            let _ = writeln!(self.text, ".{space} .align 4 .b32 v{label}[{size}][{inner}];");
        }
        let bytes = if self.reckless { self.size() } else { 12 };
        let _ = writeln!(self.text, ".func (.param .b64 o) f(.param .b32 a, .param .align 8 .b8 b[{bytes}])\n{{");
        self.registers();
        self.line("ld.param.b32 %r0, [a];\nld.param.b32 %r1, [b+8];\nadd.u32 %r2, %r0, %r1;");
        self.block(1, true);
        self.line("cvt.u64.u32 %d0, %r2;\nst.param.b64 [o], %d0;\nret;\n}");
        self.line(".visible .entry k(.param .u64 in, .param .u64 out)\n{");
        self.registers();
        self.line(PROLOGUE);
        self.block(0, false);
        self.line("END:");
        self.line(EPILOGUE);
        self.line("ret;\n}");
    }

    /// Registers of each width, each with a value.
    fn registers(&mut self) {
        self.line(".reg .b16 %h<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\n.reg .pred %p<4>;");
        self.line(".reg .b32 %g<5>;\n.reg .b64 %a<4>;\n.local .align 16 .b8 l[64];");
        for number in 0..8 {
            let _ = writeln!(self.text, "mov.u32 %r{number}, {};", number * 77);
        }
        for number in 0..4 {
            let _ = writeln!(self.text, "mov.u64 %d{number}, {number}; mov.u16 %h{number}, {number};");
            let _ = writeln!(self.text, "setp.eq.u32 %p{number}, {number}, 1;");
        }
        // The carry flag too: what was before is another block's.
        self.line("add.cc.u32 %g0, 0, 0;");
        for at in [0, 16, 32, 48] {
            let _ = writeln!(self.text, "st.local.v4.u32 [l+{at}], {{%r0, %r1, %r2, %r3}};");
        }
    }

    fn block(&mut self, depth: usize, in_function: bool) {
        let count = 1 + self.below(if depth == 0 { 40 } else { 6 });
        for _ in 0..count {
            if self.left == 0 || self.bytes.is_empty() {
                return;
            }
            self.left -= 1;
            self.statement(depth, in_function);
        }
    }

    fn statement(&mut self, depth: usize, in_function: bool) {
        match self.below(if self.wild { 20 } else { 12 }) {
            0..=4 => self.arithmetic(),
            5 => self.constant(),
            6 if depth < 3 => self.branch(depth, in_function),
            7 if depth < 3 => self.turns(depth, in_function),
            8 => self.local(),
            9 if !in_function => self.own(),
            10 if !in_function => self.shared(),
            11 if !in_function || self.wild => self.call(),
            12 => self.anywhere(),
            13 => self.declaration(),
            14 => self.lanes(),
            15 => self.atomic(),
            16 => self.host(),
            17 => self.buffer(),
            18 => self.stack(),
            19 => self.table(depth, in_function),
            _ => self.arithmetic(),
        }
    }

    fn register(&mut self, class: char) -> String {
        let count = if class == 'r' { 8 } else { 4 };
        format!("%{class}{}", self.below(count))
    }

    /// A source: a register, or now and then a number.
    fn source(&mut self, class: char) -> String {
        if class == 'p' || self.below(6) != 0 {
            return self.register(class);
        }
        match class {
            'h' => (self.number() as i16).to_string(),
            'r' => (self.number() as i32).to_string(),
            _ => self.number().to_string(),
        }
    }

    fn guard(&mut self) -> String {
        match self.below(6) {
            0 => format!("@{} ", self.register('p')),
            1 => format!("@!{} ", self.register('p')),
            _ => String::new(),
        }
    }

    fn arithmetic(&mut self) {
        let form = &forms()[self.below(forms().len())];
        let guard = self.guard();
        let mut operands = vec![self.register(form.operands[0])];
        for class in &form.operands[1..] {
            operands.push(self.source(*class));
        }
        let _ = writeln!(self.text, "{guard}{} {};", form.opcode, operands.join(", "));
    }

    fn constant(&mut self) {
        let class = ['h', 'r', 'd'][self.below(3)];
        let (register, number, guard) = (self.register(class), self.number(), self.guard());
        let number = if class == 'h' { i64::from(number as i16) } else { number };
        let width = match class {
            'h' => 16,
            'r' => 32,
            _ => 64,
        };
        let _ = writeln!(self.text, "{guard}mov.b{width} {register}, {number};");
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    fn branch(&mut self, depth: usize, in_function: bool) {
        let (label, predicate) = (self.label(), self.register('p'));
        let _ = writeln!(self.text, "@{predicate} bra ELSE{label};");
        self.block(depth + 1, in_function);
        let _ = writeln!(self.text, "bra JOIN{label};\nELSE{label}:");
        self.block(depth + 1, in_function);
        let _ = writeln!(self.text, "JOIN{label}:");
    }

    /// A loop of a few turns; each level of nesting counts in a register of its own.
    fn turns(&mut self, depth: usize, in_function: bool) {
        let (label, counter, turns) = (self.label(), depth + 1, 1 + self.below(5));
        let _ = writeln!(self.text, ".reg .pred %q{label};\n.reg .b32 %c{label};\nmov.u32 %c{label}, 0;\nTURN{label}:");
        let _ = counter;
        self.block(depth + 1, in_function);
        let _ = writeln!(self.text, "add.u32 %c{label}, %c{label}, 1;\nsetp.lt.u32 %q{label}, %c{label}, {turns};");
        let _ = writeln!(self.text, "@%q{label} bra TURN{label};");
    }

    fn call(&mut self) {
        let (first, second, result, guard) = (self.register('r'), self.register('r'), self.register('d'), self.guard());
        let offset = if self.reckless { self.offset() } else { 8 };
        let size = if self.reckless { self.size() } else { 12 };
        let _ = writeln!(
            self.text,
            "{{ .param .b32 x; .param .align 8 .b8 y[{size}]; .param .b64 z;\nst.param.b32 [x], {first};\n\
             st.param.b32 [y{offset:+}], {second};\n{guard}call (z), f, (x, y);\n{guard}ld.param.b64 {result}, [z]; }}"
        );
    }

    fn lanes(&mut self) {
        let (a, b, c, d) = (self.register('r'), self.source('r'), self.source('r'), self.source('r'));
        let (p, q, guard) = (self.register('p'), self.register('p'), self.guard());
        let mask = self.choose(&["-1", "0", "1", "0xffff", "%r1", "0xaaaaaaaa"]);
        let line = match self.below(18) {
            0 => format!("shfl.sync.up.b32 {a}|{p}, {b}, {c}, {d}, {mask};"),
            1 => format!("shfl.sync.down.b32 {a}, {b}, {c}, {d}, {mask};"),
            2 => format!("shfl.sync.bfly.b32 {a}|{p}, {b}, {c}, {d}, {mask};"),
            3 => format!("shfl.sync.idx.b32 {a}, {b}, {c}, {d}, {mask};"),
            4 => format!("vote.sync.ballot.b32 {a}, {p}, {mask};"),
            5 => format!("vote.sync.all.pred {q}, !{p}, {mask};"),
            6 => format!("match.any.sync.b32 {a}, {b}, {mask};"),
            7 => format!("match.all.sync.b32 {a}|{p}, {b}, {mask};"),
            8 => format!("redux.sync.add.u32 {a}, {b}, {mask};"),
            9 => format!("bar.warp.sync {mask};"),
            10 => format!("elect.sync {a}|{p}, {mask};"),
            12 => self.matrix(),
            13 => self.async_copy(),
            14 => self.mbarrier(),
            15 | 16 => self.bulk_copy(),
            11 => format!("bar.red.popc.u32 {a}, {b}, {c}, {p};"),
            _ => format!("{} {b}, {c};", self.choose(&["bar.sync", "bar.arrive", "barrier.sync"])),
        };
        let _ = writeln!(self.text, "{guard}{line}");
    }

    fn host(&mut self) {
        let (a, b, result) = (self.register('d'), self.source('d'), self.register('d'));
        let line = match self.below(4) {
            0 => format!(
                "{{ .param .b64 x; .param .b64 y; .param .b32 z;\nmov.u64 %a3, word;\nst.param.b64 [x], %a3;\n\
                 st.param.b64 [y], {a};\ncall (z), vprintf, (x, y); }}"
            ),
            1 => format!(
                "{{ .param .b64 x; .param .b64 z;\nst.param.b64 [x], {b};\ncall (z), malloc, (x);\n\
                 ld.param.b64 {result}, [z]; }}"
            ),
            2 => format!("{{ .param .b64 x;\nst.param.b64 [x], {a};\ncall free, (x); }}"),
            _ => format!("{{ .param .b8 x[{}];\n.param .b64 z;\ncall (z), malloc, (x); }}", self.size()),
        };
        self.line(&line);
    }

    fn stack(&mut self) {
        let (a, b) = (self.register('d'), self.source('d'));
        let align = 1 << self.below(13);
        let line = match self.below(3) {
            0 => format!("alloca.u64 {a}, {b}, {align};"),
            1 => format!("stacksave.u64 {a};"),
            _ => format!("stackrestore.u64 {b};"),
        };
        self.line(&line);
    }

    fn table(&mut self, depth: usize, in_function: bool) {
        let (label, index) = (self.label(), self.source('r'));
        let _ =
            writeln!(self.text, "T{label}: .branchtargets A{label}, B{label};\nbrx.idx {index}, T{label};\nA{label}:");
        if depth < 3 {
            self.block(depth + 1, in_function);
        }
        let _ = writeln!(self.text, "B{label}:");
        if self.below(4) == 0 {
            let target = self.choose(&["f", "k", "vprintf", "word"]);
            let _ = writeln!(
                self.text,
                "mov.u64 %a3, {target};\nP{label}: .callprototype (.param .b64 o) _ (.param .b32 a, .param .align 8 .b8 b[12]);\n\
                 {{ .param .b32 x; .param .align 8 .b8 y[12]; .param .b64 z;\ncall (z), %a3, (x, y), P{label}; }}"
            );
        }
    }
}

/// Addresses of this thread's parts, and values for its registers. A part of shared memory is set: other blocks had it.
const PROLOGUE: &str = ".shared .align 128 .b8 s[4096];
ld.param.u64 %a0, [in];
ld.param.u64 %a1, [out];
mov.u32 %g0, %ctaid.x;
mov.u32 %g1, %ntid.x;
mov.u32 %g2, %tid.x;
mad.lo.u32 %g3, %g0, %g1, %g2;
mul.wide.u32 %a2, %g3, 64;
add.u64 %a0, %a0, %a2;
mul.wide.u32 %a2, %g3, 256;
add.u64 %a1, %a1, %a2;
shl.b32 %g2, %g2, 6;
mov.u32 %g4, s;
add.u32 %g2, %g2, %g4;
ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%a0];
ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%a0+16];
ld.global.v2.b64 {%d0, %d1}, [%a0+32];
ld.global.v2.b64 {%d2, %d3}, [%a0+48];
ld.global.u16 %h0, [%a0+2];
ld.global.u16 %h1, [%a0+4];
ld.global.u16 %h2, [%a0+6];
ld.global.u16 %h3, [%a0+8];
setp.lt.s32 %p0, %r0, 0;
setp.lt.u32 %p1, %r1, %r2;
setp.lt.s32 %p2, %r3, 0;
setp.gt.u64 %p3, %d0, %d1;
st.shared.v4.b32 [%g2], {%r0, %r1, %r2, %r3};
st.shared.v4.b32 [%g2+16], {%r4, %r5, %r6, %r7};
st.shared.v4.b32 [%g2+32], {%r0, %r1, %r2, %r3};
st.shared.v4.b32 [%g2+48], {%r4, %r5, %r6, %r7};
mov.u64 %a3, %a1;
mov.u32 %g0, 0;";

/// All registers to this thread's part of the output.
const EPILOGUE: &str = "st.global.v4.b32 [%a1], {%r0, %r1, %r2, %r3};
st.global.v4.b32 [%a1+16], {%r4, %r5, %r6, %r7};
st.global.v2.b64 [%a1+32], {%d0, %d1};
st.global.v2.b64 [%a1+48], {%d2, %d3};
st.global.u16 [%a1+64], %h0;
st.global.u16 [%a1+66], %h1;
st.global.u16 [%a1+68], %h2;
st.global.u16 [%a1+70], %h3;
selp.u32 %r0, 1, 0, %p0;
selp.u32 %r1, 1, 0, %p1;
selp.u32 %r2, 1, 0, %p2;
selp.u32 %r3, 1, 0, %p3;
st.global.v4.b32 [%a1+80], {%r0, %r1, %r2, %r3};
ld.local.v4.b32 {%r0, %r1, %r2, %r3}, [l];
st.global.v4.b32 [%a1+96], {%r0, %r1, %r2, %r3};
ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%g2+16];
st.global.v4.b32 [%a1+112], {%r0, %r1, %r2, %r3};";
