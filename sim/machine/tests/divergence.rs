//! Random structured programs against a reference that runs one thread at a time.
//! A program of assignments, branches, loops, breaks, continues, returns and calls becomes PTX and runs on two warps and
//! a half; the reference evaluates the same tree per thread. Every register of every thread must agree.
//! Nothing is random in the kernels themselves: a failing case shrinks to a small program.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "values are bits here, and the modules serve several test programs"
)]

mod rig;

use floe_machine::{Level, Outcome};
use proptest::prelude::*;
use rig::{Rig, parameters};
use std::fmt::Write;

/// Registers a program computes with.
const REGISTERS: usize = 4;
const THREADS: u32 = 80;

#[derive(Clone, Debug)]
enum Condition {
    /// `(r & mask) < limit`
    Below { register: usize, mask: u32, limit: u32 },
    /// `r == s`, modulo 4
    Same { register: usize, other: usize },
}

#[derive(Clone, Debug)]
enum Statement {
    Add {
        to: usize,
        a: usize,
        b: usize,
    },
    Multiply {
        to: usize,
        a: usize,
        factor: u32,
    },
    Mix {
        to: usize,
        a: usize,
        shift: u32,
    },
    /// Calls a function that itself branches: `to = f(a)`.
    Call {
        to: usize,
        a: usize,
    },
    If {
        condition: Condition,
        yes: Vec<Statement>,
        no: Vec<Statement>,
    },
    /// Runs `(r & 7) + 1` times at most; the count is taken at entry.
    Loop {
        count: usize,
        body: Vec<Statement>,
    },
    /// A jump table on `r & 3`.
    Switch {
        register: usize,
        arms: Vec<Vec<Statement>>,
    },
    Break(Condition),
    Continue(Condition),
    Return(Condition),
}

/// How a statement list was left.
#[derive(PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
    Return,
}

impl Condition {
    fn holds(&self, registers: &[u32; REGISTERS]) -> bool {
        match *self {
            Condition::Below { register, mask, limit } => registers[register] & mask < limit,
            Condition::Same { register, other } => registers[register] & 3 == registers[other] & 3,
        }
    }

    fn emit(&self, out: &mut String) {
        match *self {
            Condition::Below { register, mask, limit } => {
                emit(out, &format!("and.b32 %t1, %v{register}, {mask}"));
                emit(out, &format!("setp.lt.u32 %p, %t1, {limit}"));
            }
            Condition::Same { register, other } => {
                emit(out, &format!("xor.b32 %t1, %v{register}, %v{other}"));
                emit(out, "and.b32 %t1, %t1, 3");
                emit(out, "setp.eq.u32 %p, %t1, 0");
            }
        }
    }
}

fn emit(out: &mut String, instruction: &str) {
    writeln!(out, "    {instruction};").expect("a string takes everything");
}

/// The called function, as the reference sees it.
fn called(x: u32) -> u32 {
    if x & 1 == 0 { x.wrapping_mul(3).wrapping_add(1) } else { x ^ 0x55 }
}

fn evaluate(list: &[Statement], registers: &mut [u32; REGISTERS]) -> Flow {
    for statement in list {
        let flow = match statement {
            Statement::Add { to, a, b } => {
                registers[*to] = registers[*a].wrapping_add(registers[*b]);
                Flow::Next
            }
            Statement::Multiply { to, a, factor } => {
                registers[*to] = registers[*a].wrapping_mul(*factor).wrapping_add(7);
                Flow::Next
            }
            Statement::Mix { to, a, shift } => {
                registers[*to] ^= registers[*a] >> shift;
                Flow::Next
            }
            Statement::Call { to, a } => {
                registers[*to] = called(registers[*a]);
                Flow::Next
            }
            Statement::If { condition, yes, no } => {
                let side = if condition.holds(registers) { yes } else { no };
                evaluate(side, registers)
            }
            Statement::Switch { register, arms } => evaluate(&arms[(registers[*register] & 3) as usize], registers),
            Statement::Loop { count, body } => evaluate_loop(registers[*count] & 7, body, registers),
            Statement::Break(condition) if condition.holds(registers) => Flow::Break,
            Statement::Continue(condition) if condition.holds(registers) => Flow::Continue,
            Statement::Return(condition) if condition.holds(registers) => Flow::Return,
            Statement::Break(_) | Statement::Continue(_) | Statement::Return(_) => Flow::Next,
        };
        if flow != Flow::Next {
            return flow;
        }
    }
    Flow::Next
}

fn evaluate_loop(last: u32, body: &[Statement], registers: &mut [u32; REGISTERS]) -> Flow {
    for _ in 0..=last {
        match evaluate(body, registers) {
            Flow::Break => break,
            Flow::Return => return Flow::Return,
            Flow::Next | Flow::Continue => {}
        }
    }
    Flow::Next
}

/// Emits instructions and hands out labels and loop counters.
#[derive(Default)]
struct Writer {
    text: String,
    labels: u32,
    counters: u32,
}

impl Writer {
    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn place(&mut self, label: &str) {
        writeln!(self.text, "{label}:").expect("a string takes everything");
    }

    fn emit(&mut self, instruction: &str) {
        emit(&mut self.text, instruction);
    }

    /// `around` holds the labels that break and continue go to.
    fn list(&mut self, list: &[Statement], around: Option<(&str, &str)>) {
        for statement in list {
            self.statement(statement, around);
        }
    }

    fn statement(&mut self, statement: &Statement, around: Option<(&str, &str)>) {
        match statement {
            Statement::Add { to, a, b } => self.emit(&format!("add.u32 %v{to}, %v{a}, %v{b}")),
            Statement::Multiply { to, a, factor } => self.emit(&format!("mad.lo.u32 %v{to}, %v{a}, {factor}, 7")),
            Statement::Mix { to, a, shift } => {
                self.emit(&format!("shr.u32 %t1, %v{a}, {shift}"));
                self.emit(&format!("xor.b32 %v{to}, %v{to}, %t1"));
            }
            Statement::Call { to, a } => self.call(*to, *a),
            Statement::If { condition, yes, no } => {
                let (other, join) = (self.label(), self.label());
                condition.emit(&mut self.text);
                self.emit(&format!("@!%p bra {other}"));
                self.list(yes, around);
                self.emit(&format!("bra {join}"));
                self.place(&other);
                self.list(no, around);
                self.place(&join);
            }
            Statement::Loop { count, body } => self.looped(*count, body),
            Statement::Switch { register, arms } => self.switch(*register, arms, around),
            Statement::Break(condition) => self.jump(condition, around.map(|(exit, _)| exit)),
            Statement::Continue(condition) => self.jump(condition, around.map(|(_, next)| next)),
            Statement::Return(condition) => self.leave(condition),
        }
    }

    fn call(&mut self, to: usize, a: usize) {
        self.text.push_str("    {\n    .param .b32 a0;\n    .param .b32 r0;\n");
        self.emit(&format!("st.param.b32 [a0], %v{a}"));
        self.emit("call (r0), called, (a0)");
        self.emit(&format!("ld.param.b32 %v{to}, [r0]"));
        self.text.push_str("    }\n");
    }

    fn looped(&mut self, count: usize, body: &[Statement]) {
        let (head, next, exit) = (self.label(), self.label(), self.label());
        let counter = self.counters;
        self.counters += 1;
        self.emit(&format!("and.b32 %c{counter}, %v{count}, 7"));
        self.emit(&format!("add.u32 %c{counter}, %c{counter}, 1"));
        self.place(&head);
        self.list(body, Some((&exit, &next)));
        self.place(&next);
        self.emit(&format!("sub.u32 %c{counter}, %c{counter}, 1"));
        self.emit(&format!("setp.ne.u32 %p, %c{counter}, 0"));
        self.emit(&format!("@%p bra {head}"));
        self.place(&exit);
    }

    fn switch(&mut self, register: usize, arms: &[Vec<Statement>], around: Option<(&str, &str)>) {
        let labels: Vec<String> = arms.iter().map(|_| self.label()).collect();
        let (table, join) = (self.label(), self.label());
        self.emit(&format!("and.b32 %t1, %v{register}, 3"));
        writeln!(self.text, "{table}: .branchtargets {};", labels.join(", ")).expect("a string takes everything");
        self.emit(&format!("brx.idx %t1, {table}"));
        for (label, arm) in labels.iter().zip(arms) {
            self.place(label);
            self.list(arm, around);
            self.emit(&format!("bra {join}"));
        }
        self.place(&join);
    }

    /// A jump out of a loop; outside of one the reference ends the list, which is the end of the program.
    fn jump(&mut self, condition: &Condition, target: Option<&str>) {
        condition.emit(&mut self.text);
        self.emit(&format!("@%p bra {}", target.unwrap_or("finish")));
    }

    /// A return in the middle, with stores of its own.
    fn leave(&mut self, condition: &Condition) {
        let on = self.label();
        condition.emit(&mut self.text);
        self.emit(&format!("@!%p bra {on}"));
        self.store();
        self.emit("ret");
        self.place(&on);
    }

    fn store(&mut self) {
        self.emit("st.global.v4.u32 [%out], {%v0, %v1, %v2, %v3}");
    }
}

fn kernel(program: &[Statement]) -> String {
    let mut writer = Writer::default();
    writer.list(program, None);
    writer.place("finish");
    writer.store();
    writer.emit("ret");
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n\
         .func (.param .b32 result) called(.param .b32 value)\n{{\n    .reg .pred %q;\n    .reg .b32 %x;\n    \
         .reg .b32 %y;\n    ld.param.b32 %x, [value];\n    and.b32 %y, %x, 1;\n    setp.eq.u32 %q, %y, 0;\n    \
         @%q bra even;\n    xor.b32 %x, %x, 85;\n    st.param.b32 [result], %x;\n    ret;\neven:\n    \
         mad.lo.u32 %x, %x, 3, 1;\n    st.param.b32 [result], %x;\n    ret;\n}}\n\
         .visible .entry k(.param .u64 p_out)\n{{\n    .reg .pred %p;\n    .reg .b32 %v<4>, %c<{}>, %t<2>;\n    \
         .reg .b64 %out;\n    ld.param.u64 %out, [p_out];\n    mov.u32 %v0, %tid.x;\n    mul.lo.u32 %v1, %v0, 7;\n    \
         xor.b32 %v2, %v0, 21;\n    mov.u32 %v3, 1;\n    mad.wide.u32 %out, %v0, 16, %out;\n{}}}\n",
        writer.counters + 1,
        writer.text
    )
}

fn reference(program: &[Statement]) -> Vec<u32> {
    let mut results = Vec::new();
    for thread in 0..THREADS {
        let mut registers = [thread, thread.wrapping_mul(7), thread ^ 21, 1];
        evaluate(program, &mut registers);
        results.extend(registers);
    }
    results
}

fn condition() -> impl Strategy<Value = Condition> {
    let register = 0..REGISTERS;
    prop_oneof![
        (register.clone(), prop::sample::select(vec![1, 3, 7, 31, 0xff]), 0u32..40)
            .prop_map(|(register, mask, limit)| Condition::Below { register, mask, limit }),
        (register.clone(), register).prop_map(|(register, other)| Condition::Same { register, other }),
    ]
}

fn statement() -> impl Strategy<Value = Statement> {
    let r = || 0..REGISTERS;
    let simple = prop_oneof![
        4 => (r(), r(), r()).prop_map(|(to, a, b)| Statement::Add { to, a, b }),
        3 => (r(), r(), 1u32..50).prop_map(|(to, a, factor)| Statement::Multiply { to, a, factor }),
        3 => (r(), r(), 1u32..8).prop_map(|(to, a, shift)| Statement::Mix { to, a, shift }),
        1 => (r(), r()).prop_map(|(to, a)| Statement::Call { to, a }),
        1 => condition().prop_map(Statement::Break),
        1 => condition().prop_map(Statement::Continue),
        1 => condition().prop_map(Statement::Return),
    ];
    simple.prop_recursive(4, 40, 5, move |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..5);
        prop_oneof![
            3 => (condition(), list(), list()).prop_map(|(condition, yes, no)| Statement::If { condition, yes, no }),
            2 => (0..REGISTERS, list()).prop_map(|(count, body)| Statement::Loop { count, body }),
            1 => (0..REGISTERS, prop::collection::vec(list(), 4))
                .prop_map(|(register, arms)| Statement::Switch { register, arms }),
        ]
    })
}

fn run(program: &[Statement], level: Level) -> Result<Vec<u32>, String> {
    let mut rig = Rig::new(0x3800_0000_0000, 1, level);
    let loaded = rig.load(&kernel(program)).map_err(|error| error.to_string())?;
    let kernel = loaded.kernel("k").map_err(|error| error.to_string())?;
    let output = rig.upload(&vec![0xee; THREADS as usize * 16]);
    let bytes = parameters(&kernel, &[output.to_le_bytes().to_vec()])?;
    match rig.run(rig.launch(&kernel, 1, THREADS, bytes))? {
        Outcome::Done => {}
        outcome => return Err(format!("{outcome:?}")),
    }
    let bytes = rig.download(output, THREADS as usize * 16);
    Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn threads_of_a_warp_compute_what_they_compute_alone(program in prop::collection::vec(statement(), 1..8)) {
        let expected = reference(&program);
        match run(&program, Level::best()) {
            Ok(results) => {
                let wrong = (0..expected.len()).find(|&i| results[i] != expected[i]);
                prop_assert!(wrong.is_none(), "thread {}, register {}: {:#x}, expected {:#x}\n{}",
                    wrong.unwrap_or(0) / 4, wrong.unwrap_or(0) % 4, results[wrong.unwrap_or(0)],
                    expected[wrong.unwrap_or(0)], kernel(&program));
            }
            Err(error) => prop_assert!(false, "{error}\n{}", kernel(&program)),
        }
    }
}
