//! Statements that touch memory: loads, stores, atomics and declarations in every space.
//! Bytes choose space, width, address and offset; text goes out. Tame statements stay within the thread's own part.

use std::fmt::Write as _;

use super::Writer;

impl Writer<'_, '_> {
    /// The type, registers and bytes of an access.
    fn access(&mut self) -> (&'static str, String, usize) {
        let (kind, class, bytes, lanes) = match self.below(14) {
            0 => (".u8", 'r', 1, 1),
            1 => (".s8", 'r', 1, 1),
            2 => (".u16", 'h', 2, 1),
            3 => (".s16", 'r', 2, 1),
            4 => (".u32", 'd', 4, 1),
            5 => (".s32", 'd', 4, 1),
            6 => (".b64", 'd', 8, 1),
            7 => (".v2.b32", 'r', 8, 2),
            8 => (".v4.b32", 'r', 16, 4),
            9 => (".v2.b64", 'd', 16, 2),
            10 => (".v4.u8", 'h', 4, 4),
            11 => (".v2.u16", 'h', 4, 2),
            _ => (".b32", 'r', 4, 1),
        };
        let registers: Vec<String> = (0..lanes).map(|_| self.register(class)).collect();
        let registers = if lanes == 1 { registers[0].clone() } else { format!("{{{}}}", registers.join(", ")) };
        (kind, registers, bytes)
    }

    fn moves(&mut self, space: &str, address: &str, room: usize) {
        let (kind, registers, bytes) = self.access();
        let offset = self.below(room / bytes) * bytes;
        let guard = self.guard();
        let hint = self.choose(&["", "", "", ".volatile"]);
        // The register of a load may be wider than its type, that of a store may not.
        let stores = self.below(2) == 0 && !(kind.ends_with("32") && registers.contains("%d")) && !kind.contains(".s");
        let _ = if stores {
            writeln!(self.text, "{guard}st{hint}{space}{kind} [{address}+{offset}], {registers};")
        } else {
            writeln!(self.text, "{guard}ld{hint}{space}{kind} {registers}, [{address}+{offset}];")
        };
    }

    pub(super) fn local(&mut self) {
        match self.below(3) {
            0 => self.moves(".local", "l", 64),
            1 => {
                let register = self.register('r');
                let _ = writeln!(self.text, "and.b32 %g0, {register}, 48;\nmov.u32 %g4, l;\nadd.u32 %g0, %g0, %g4;");
                self.moves(".local", "%g0", 16);
            }
            _ => {
                self.line("mov.u64 %a3, l;\ncvta.local.u64 %a3, %a3;");
                self.moves("", "%a3", 64);
            }
        }
    }

    pub(super) fn own(&mut self) {
        match self.below(3) {
            0 => {
                let (kind, registers, bytes) = self.access();
                let offset = self.below(64 / bytes) * bytes;
                let _ = writeln!(self.text, "ld.global{kind} {registers}, [%a0+{offset}];");
            }
            1 => self.moves("", "%a1", 256),
            _ => self.moves(".global", "%a1", 256),
        }
    }

    /// Shared memory: single accesses, and runs of loads and multiply-adds as tiled kernels have them.
    pub(super) fn shared(&mut self) {
        if self.below(3) != 0 {
            return self.moves(".shared", "%g2", 64);
        }
        for _ in 0..3 + self.below(6) {
            let (a, b, c, d) = (self.register('r'), self.register('r'), self.register('r'), self.register('r'));
            let offset = 4 * self.below(16);
            let _ = if self.below(2) == 0 {
                writeln!(self.text, "ld.shared.b32 {a}, [%g2+{offset}];")
            } else {
                writeln!(self.text, "fma.rn.f32 {a}, {b}, {c}, {d};")
            };
        }
    }

    pub(super) fn anywhere(&mut self) {
        let spaces = [".global", ".shared", ".local", ".const", "", "", ".param"];
        let space = self.choose(if self.reckless { &spaces } else { &spaces[..6] });
        let (kind, registers, _) = self.access();
        let offset = self.offset();
        let base = match self.below(6) {
            0 => self.register('d'),
            1 => self.register('r'),
            2 => self.choose(&["%a0", "%a1", "%a2", "%a3", "%g2", "%g0"]).to_owned(),
            3 if self.reckless => self.choose(&["l", "s", "word", "in", "out", "v1", "f", "k"]).to_owned(),
            _ => format!("{}", self.number()),
        };
        let address = if base.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
            base
        } else {
            format!("{base}{offset:+}")
        };
        let guard = self.guard();
        let _ = if self.below(2) == 0 {
            writeln!(self.text, "{guard}st{space}{kind} [{address}], {registers};")
        } else {
            writeln!(self.text, "{guard}ld{space}{kind} {registers}, [{address}];")
        };
    }

    pub(super) fn declaration(&mut self) {
        let label = self.label();
        let (size, inner, offset) = (self.size(), self.size(), self.offset());
        let space = self.choose(&["param", "param", "local", "shared", "reg"]);
        let (kind, registers, _) = self.access();
        if space == "reg" {
            let class = self.choose(&["b16", "b32", "b64", "pred", "b128", "f64"]);
            let _ = writeln!(self.text, ".reg .{class} %w{label}_<{size}>;");
            return;
        }
        let dimensions = if self.below(2) == 0 { format!("[{size}]") } else { format!("[{size}][{inner}]") };
        let align = 1_u64 << self.below(if self.reckless { 32 } else { 5 });
        let _ = writeln!(self.text, ".{space} .align {align} .b8 x{label}{dimensions};");
        let _ = writeln!(self.text, "st.{space}{kind} [x{label}{offset:+}], {registers};");
        let offset = self.offset();
        let _ = writeln!(self.text, "ld.{space}{kind} {registers}, [x{label}{offset:+}];");
    }

    pub(super) fn atomic(&mut self) {
        let operation = self.choose(&[
            "add.u32 r",
            "add.u64 d",
            "cas.b32 r",
            "cas.b64 d",
            "cas.b16 h",
            "exch.b32 r",
            "min.s64 d",
            "inc.u32 r",
            "add.noftz.f16x2 r",
            "add.f32 r",
            "add.f64 d",
            "add.noftz.f16 h",
            "or.b64 d",
        ]);
        let (name, class) = operation.split_once(' ').expect("two words");
        let class = class.chars().next().expect("a letter");
        let space = self.choose(&[".global", ".shared", "", ".local"]);
        let (a, b, c, offset) = (self.register(class), self.source(class), self.source(class), self.offset());
        let base = self.choose(&["%a0", "%a1", "%a2", "%d0", "%d1", "%g2", "s", "word", "l", "%a3"]);
        let offset = if self.below(2) == 0 { offset } else { offset & 60 };
        let last = if name.starts_with("cas") { format!(", {c}") } else { String::new() };
        let guard = self.guard();
        let _ = writeln!(self.text, "{guard}atom{space}.{name} {a}, [{base}{offset:+}], {b}{last};");
    }

    /// An address with nothing of its own: the windows of shared, local, parameter and function addresses.
    pub(super) fn buffer(&mut self) {
        let (register, number) = (self.register('d'), self.number());
        let window = self.below(8) as i64;
        let _ = writeln!(self.text, "mov.u64 {register}, {};", ((0x0f + window) << 32).wrapping_add(number));
        let (kind, registers, _) = self.access();
        let _ = if self.below(2) == 0 {
            writeln!(self.text, "st{kind} [{register}], {registers};")
        } else {
            writeln!(self.text, "ld{kind} {registers}, [{register}];")
        };
    }
}
