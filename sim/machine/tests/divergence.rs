//! Random structured programs against a reference that runs one thread at a time.
//! A program of assignments, branches, loops, breaks, continues, returns and calls becomes PTX and runs on two warps
//! and a half. The reference evaluates the same tree per thread. Every register of every thread must agree.
//! Between the statements all threads meet: at barriers that count, also after some have returned, and in shuffles.
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

/// A step of a whole program.
#[derive(Clone, Debug)]
enum Step {
    /// Every thread on its own.
    Alone(Statement),
    /// A block barrier: `to` becomes the number of threads, returned ones aside, for which the condition holds.
    Count { to: usize, condition: Condition },
    /// `to` becomes `a` of the lane whose number differs by `distance` in its bits.
    Swap { to: usize, a: usize, distance: u32 },
    /// `to` becomes the mask of the warp's lanes for which the condition holds.
    Ballot { to: usize, condition: Condition },
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

    fn step(&mut self, step: &Step) {
        match step {
            Step::Alone(statement) => self.statement(statement, None),
            Step::Count { to, condition } => {
                condition.emit(&mut self.text);
                self.emit(&format!("barrier.red.popc.u32 %v{to}, 0, %p"));
            }
            Step::Swap { to, a, distance } => {
                self.emit(&format!("shfl.sync.bfly.b32 %v{to}, %v{a}, {distance}, 31, %members"));
            }
            Step::Ballot { to, condition } => {
                condition.emit(&mut self.text);
                self.emit(&format!("vote.sync.ballot.b32 %v{to}, %p, %members"));
            }
        }
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

fn kernel(program: &[Step]) -> String {
    let mut writer = Writer::default();
    program.iter().for_each(|step| writer.step(step));
    writer.place("finish");
    writer.store();
    writer.emit("ret");
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n\
         .func (.param .b32 result) called(.param .b32 value)\n{{\n    .reg .pred %q;\n    .reg .b32 %x;\n    \
         .reg .b32 %y;\n    ld.param.b32 %x, [value];\n    and.b32 %y, %x, 1;\n    setp.eq.u32 %q, %y, 0;\n    \
         @%q bra even;\n    xor.b32 %x, %x, 85;\n    st.param.b32 [result], %x;\n    ret;\neven:\n    \
         mad.lo.u32 %x, %x, 3, 1;\n    st.param.b32 [result], %x;\n    ret;\n}}\n\
         .visible .entry k(.param .u64 p_out)\n{{\n    .reg .pred %p;\n    .reg .b32 %v<4>, %c<{}>, %t<2>, %members;\n    \
         .reg .b64 %out;\n    ld.param.u64 %out, [p_out];\n    mov.u32 %v0, %tid.x;\n    mul.lo.u32 %v1, %v0, 7;\n    \
         xor.b32 %v2, %v0, 21;\n    mov.u32 %v3, 1;\n    \
         // The last warp has 16 lanes.\n    setp.lt.u32 %p, %v0, 64;\n    selp.b32 %members, -1, 65535, %p;\n    mad.wide.u32 %out, %v0, 16, %out;\n{}}}\n",
        writer.counters + 1,
        writer.text
    )
}

/// Runs the program step by step for all threads; a thread that returned keeps its registers.
fn reference(program: &[Step]) -> Vec<u32> {
    let mut threads: Vec<[u32; REGISTERS]> = (0..THREADS).map(|t| [t, t.wrapping_mul(7), t ^ 21, 1]).collect();
    let mut gone = vec![false; threads.len()];
    for step in program {
        let before = threads.clone();
        let holds = |condition: &Condition, thread: usize| !gone[thread] && condition.holds(&before[thread]);
        match step {
            Step::Alone(statement) => {
                let list = std::slice::from_ref(statement);
                let live = threads.iter_mut().zip(&mut gone).filter(|(_, gone)| !**gone);
                live.for_each(|(registers, gone)| *gone = evaluate(list, registers) != Flow::Next);
            }
            Step::Count { to, condition } => {
                let count = (0..before.len()).filter(|&thread| holds(condition, thread)).count();
                let live = threads.iter_mut().zip(&gone).filter(|(_, gone)| !**gone);
                live.for_each(|(registers, _)| registers[*to] = count as u32);
            }
            Step::Swap { to, a, distance } => {
                (0..before.len()).for_each(|t| threads[t][*to] = before[t ^ *distance as usize][*a]);
            }
            Step::Ballot { to, condition } => {
                let bit = |t: usize| u32::from(holds(condition, t)) << (t % 32);
                let ballot = |t: usize| (t / 32 * 32..before.len().min(t / 32 * 32 + 32)).map(bit).sum();
                (0..before.len()).for_each(|t| threads[t][*to] = ballot(t));
            }
        }
    }
    threads.concat()
}

/// Takes out what ends a thread: `return`, and `break` and `continue` outside of loops.
fn without_exits(list: &[Statement], in_loop: bool) -> Vec<Statement> {
    let kept = list.iter().filter(|statement| match statement {
        Statement::Return(_) => false,
        Statement::Break(_) | Statement::Continue(_) => in_loop,
        _ => true,
    });
    kept.map(|statement| match statement.clone() {
        Statement::If { condition, yes, no } => {
            Statement::If { condition, yes: without_exits(&yes, in_loop), no: without_exits(&no, in_loop) }
        }
        Statement::Loop { count, body } => Statement::Loop { count, body: without_exits(&body, true) },
        Statement::Switch { register, arms } => {
            Statement::Switch { register, arms: arms.iter().map(|arm| without_exits(arm, in_loop)).collect() }
        }
        simple => simple,
    })
    .collect()
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

fn run(program: &[Step], level: Level) -> Result<Vec<u32>, String> {
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

/// Steps with exits and barriers, or without exits and with everything.
fn steps(exits: bool) -> impl Strategy<Value = Vec<Step>> {
    let r = || 0..REGISTERS;
    let alone = statement().prop_map(move |statement| {
        if exits {
            return Step::Alone(statement);
        }
        let condition = Condition::Same { register: 0, other: 0 };
        Step::Alone(Statement::If { condition, yes: without_exits(&[statement], false), no: Vec::new() })
    });
    let warp = u32::from(!exits);
    let step = prop_oneof![
        5 => alone,
        2 => (r(), condition()).prop_map(|(to, condition)| Step::Count { to, condition }),
        2 * warp => (r(), r(), 1u32..16).prop_map(|(to, a, distance)| Step::Swap { to, a, distance }),
        warp => (r(), condition()).prop_map(|(to, condition)| Step::Ballot { to, condition }),
    ];
    prop::collection::vec(step, 1..10)
}

fn check(program: &[Step]) -> Result<(), TestCaseError> {
    let expected = reference(program);
    let results =
        run(program, Level::best()).map_err(|error| TestCaseError::fail(format!("{error}\n{}", kernel(program))))?;
    if let Some(wrong) = (0..expected.len()).find(|&i| results[i] != expected[i]) {
        let (thread, register) = (wrong / REGISTERS, wrong % REGISTERS);
        let (got, want) = (results[wrong], expected[wrong]);
        let text = kernel(program);
        return Err(TestCaseError::fail(format!(
            "thread {thread}, register {register}: {got:#x}, expected {want:#x}\n{text}"
        )));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn threads_of_a_warp_compute_what_they_compute_alone(program in steps(true)) {
        check(&program)?;
    }

    #[test]
    fn diverged_threads_meet_again_in_shuffles_and_votes(program in steps(false)) {
        check(&program)?;
    }
}
