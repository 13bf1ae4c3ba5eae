//! Texts made to leave a frame, a parameter or an allocation. Each is refused by name, or its launch ends with a fault.
//! None reads or writes beyond, and none takes the machine's memory or minutes.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "values are bits here, and the modules serve several test programs"
)]

mod rig;

use std::fmt::Write as _;

use floe_machine::{FaultKind, Grid, Level, LoadError, Outcome, Snapshot};
use rig::Rig;

/// First device address of a test's device.
fn base() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static BASES: AtomicU64 = AtomicU64::new(0x2000_0000_0000);
    BASES.fetch_add(1 << 34, Ordering::Relaxed)
}

fn rig() -> Rig {
    Rig::new(base(), 1, Level::best())
}

const HEADER: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// The text of a kernel `k` with that body.
fn kernel(parameters: &str, body: &str) -> String {
    format!("{HEADER}.visible .entry k({parameters})\n{{\n{body}\nret;\n}}\n")
}

/// The fault of a kernel that is refused.
fn refusal(text: &str) -> String {
    let program = rig().load(text).expect("a program");
    match program.kernel("k") {
        Err(LoadError::Unsupported { what, .. }) => what,
        Err(error) => panic!("refused as something else: {error}"),
        Ok(_) => panic!("not refused: {text}"),
    }
}

/// How a launch of one warp of the kernel ends.
fn outcome(text: &str, parameters: Vec<u8>) -> Outcome {
    let mut rig = rig();
    let program = rig.load(text).expect("a program");
    let kernel = program.kernel("k").unwrap_or_else(|error| panic!("{error}"));
    rig.run(rig.launch(&kernel, 1, 32, parameters)).expect("ends")
}

fn fault(text: &str) -> FaultKind {
    match outcome(text, Vec::new()) {
        Outcome::Fault(fault) => fault.kind,
        other => panic!("no fault: {other:?}"),
    }
}

/// `count` argument buffers of `bytes` bytes.
fn buffers(count: usize, bytes: u64) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, ".param .align 4 .b8 p{number}[{bytes}];");
        text
    })
}

#[test]
fn argument_buffers_whose_total_leaves_32_bits_are_refused() {
    // In all 2^32 bytes of frame and a little more, in pieces of every size; stored to and loaded from far behind.
    for (count, bytes) in [(8, (1 << 24) - 4), (9, 1 << 24), (16, 1 << 23), (1 << 12, 1 << 15), (1 << 16, 1 << 11)] {
        let last = count - 1;
        let access = format!(
            ".reg .b32 %r1;\nmov.u32 %r1, 7;\nst.param.b32 [p0+4096], %r1;\nst.param.b32 [p{last}], %r1;\nld.param.b32 %r1, [p0+8];"
        );
        let what = refusal(&kernel("", &format!("{}{access}", buffers(count, bytes))));
        assert!(what.contains("more bytes than a frame has"), "{count} × {bytes}: {what}");
    }
    for bytes in [1_u64 << 25, 1 << 30, u64::from(u32::MAX), 1 << 32, (1 << 32) + 4, 1 << 63, u64::MAX] {
        let what = refusal(&kernel("", &buffers(1, bytes)));
        assert!(what.contains("frame has") || what.contains("variable too large"), "{bytes}: {what}");
    }
    let product = ".param .b8 p0[65536][65536][65536][65536];";
    assert!(refusal(&kernel("", product)).contains("variable too large"));
}

#[test]
fn formal_parameters_whose_total_leaves_32_bits_are_refused() {
    for (count, bytes) in [(1 << 9, 1 << 16), (1 << 17, (1 << 15) + 4), (8, 1 << 30)] {
        let formals: Vec<String> = (0..count).map(|number| format!(".param .b8 f{number}[{bytes}]")).collect();
        let text = format!(
            "{HEADER}.func f({}) {{ .reg .b32 %r1; ld.param.b32 %r1, [f0+4]; ret; }}\n.visible .entry k() {{\n\
             .reg .b64 %rd1; mov.u64 %rd1, f; ret; }}\n",
            formals.join(",")
        );
        assert!(refusal(&text).contains("frame has"), "{count} × {bytes}");
    }
}

#[test]
fn buffers_of_scopes_side_by_side_share_their_bytes() {
    // Far more calls than a frame has room for at once: each in a scope of its own, as compilers write them.
    let mut body = String::from(".reg .b32 %r<4>;\n.reg .b64 %rd<2>;\nmov.u32 %r1, %tid.x;\n");
    for _ in 0..3000 {
        body.push_str(
            "{ .param .b32 p0; .param .b8 p1[100]; .param .b32 out; st.param.b32 [p0], %r1; st.param.b32 [p1+96], %r1;\n\
             call (out), add, (p0, p1); ld.param.b32 %r1, [out]; }\n",
        );
    }
    body.push_str("ld.param.u64 %rd1, [to]; mul.wide.u32 %rd0, %r2, 4; st.global.u32 [%rd1], %r1;");
    let text = format!(
        "{HEADER}.func (.param .b32 out) add(.param .b32 p0, .param .b8 p1[100]) {{ .reg .b32 %r<3>;\n\
         ld.param.b32 %r0, [p0]; ld.param.b32 %r1, [p1+96]; sub.u32 %r2, %r0, %r1; add.u32 %r2, %r2, %r0; add.u32 %r2, %r2, 1;\n\
         st.param.b32 [out], %r2; ret; }}\n{}",
        &kernel(".param .u64 to", &body)[HEADER.len()..]
    );
    let mut rig = rig();
    let to = rig.allocate(4);
    let program = rig.load(&text).expect("a program");
    let kernel = program.kernel("k").unwrap_or_else(|error| panic!("{error}"));
    let outcome = rig.run(rig.launch(&kernel, 1, 1, to.to_le_bytes().to_vec())).expect("ends");
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(rig.download(to, 4), 3000_u32.to_le_bytes());
}

#[test]
fn a_buffer_of_an_outer_scope_outlives_the_scopes_in_it() {
    // Declared behind the inner scope, and kept over a second turn through it.
    let body = ".reg .b32 %r<6>;\n.reg .pred %p1;\n.reg .b64 %rd1;\nmov.u32 %r1, 0;\nmov.u32 %r3, 0;\nTURN:\n\
                { .param .b32 inner; mov.u32 %r2, 99; st.param.b32 [inner], %r2; }\n\
                .param .b32 outer;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 st.param.b32 [outer], 7;\nld.param.b32 %r4, [outer];\n\
                add.u32 %r3, %r3, %r4;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 3;\n@%p1 bra TURN;\n\
                ld.param.u64 %rd1, [to]; st.global.u32 [%rd1], %r3;";
    let mut rig = rig();
    let to = rig.allocate(4);
    let program = rig.load(&kernel(".param .u64 to", body)).expect("a program");
    let kernel = program.kernel("k").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(rig.run(rig.launch(&kernel, 1, 1, to.to_le_bytes().to_vec())).expect("ends"), Outcome::Done);
    assert_eq!(rig.download(to, 4), 21_u32.to_le_bytes());
}

#[test]
fn accesses_at_the_ends_of_64_bits_are_outside_their_parameters() {
    let far = [i64::MAX, i64::MAX - 3, i64::MAX - 7, i64::MAX - 15, i64::MIN, -4, 1 << 32, (1 << 32) - 4, 1 << 34];
    for offset in far {
        for access in [
            format!("ld.param.b32 %r1, [p{offset:+}];"),
            format!("ld.param.v4.b32 {{%r1, %r2, %r3, %r4}}, [p{offset:+}];"),
            format!("ld.param.b64 %rd1, [p{offset:+}];"),
            format!("st.param.b32 [p{offset:+}], %r1;"),
            format!("st.param.v2.b64 [p{offset:+}], {{%rd1, %rd1}};"),
        ] {
            let body = format!(".reg .b32 %r<5>;\n.reg .b64 %rd<2>;\n.param .align 16 .b8 p[64];\n{access}");
            let what = refusal(&kernel("", &body));
            assert!(what.contains("outside the parameter") || what.contains("misaligned"), "{access}: {what}");
            if access.starts_with("ld") {
                let body = format!(".reg .b32 %r<5>;\n.reg .b64 %rd<2>;\n{access}");
                let what = refusal(&kernel(".param .align 16 .b8 p[64]", &body));
                assert!(what.contains("outside parameter p"), "{access}: {what}");
            }
        }
    }
    for (bytes, good, bad) in [(5, 0, 4), (6, 4, 6), (64, 60, 61)] {
        let width = if bytes == 6 { "b16" } else { "b32" };
        let text = |at: i64| {
            kernel("", &format!(".reg .{width} %h;\n.param .align 4 .b8 p[{bytes}];\nld.param.{width} %h, [p+{at}];"))
        };
        assert!(rig().load(&text(good)).expect("a program").kernel("k").is_ok());
        refusal(&text(bad));
    }
}

#[test]
fn offsets_from_registers_have_32_bits() {
    for space in ["global", "shared", "local", "const", "param"] {
        for offset in [1_i64 << 31, -(1_i64 << 31) - 1, i64::MAX, i64::MIN] {
            let body = format!(".reg .b32 %r1;\n.reg .b64 %rd1;\nld.{space}.b32 %r1, [%rd1{offset:+}];");
            assert!(refusal(&kernel("", &body)).contains("offset beyond 32 bits"), "{space} {offset}");
        }
    }
}

#[test]
fn runs_of_shared_loads_with_far_offsets_stay_in_shared_memory() {
    // Long enough to run as one; the offsets reach from one end of 32 bits to the other.
    for far in [2_147_483_644_i64, -2_147_483_648, 4096, -4096, 1020] {
        let mut body = String::from(".reg .b32 %a;\n.reg .b32 %r<9>;\n.shared .align 4 .b8 s[1024];\nmov.u32 %a, s;\n");
        for (number, offset) in [0, 4, 8, far, 12, 16].into_iter().enumerate() {
            let _ = writeln!(body, "ld.shared.b32 %r{number}, [%a{offset:+}];");
        }
        let text = kernel("", &body);
        if far == 1020 {
            assert_eq!(outcome(&text, Vec::new()), Outcome::Done);
        } else {
            assert_eq!(fault(&text), FaultKind::IllegalAddress, "{far}");
        }
    }
}

#[test]
fn shared_addresses_wrap_at_32_bits_for_one_lane_as_for_all() {
    // -16 + 32 is 16, whichever handler does it.
    let body = ".reg .b32 %a;\n.reg .b32 %v;\n.reg .b64 %rd1;\n.shared .align 4 .b8 s[1024];\nmov.u32 %v, s;\nmov.u32 %a, 0xfffffff0;\n\
                st.shared.b32 [%a+32], 5;\nld.shared.b32 %v, [16];\nld.shared.b32 %v, [%a+32];\nst.shared.b32 [%a+36], %v;";
    for threads in [1, 31, 32] {
        let mut rig = rig();
        let program = rig.load(&kernel("", body)).expect("a program");
        let kernel = program.kernel("k").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(rig.run(rig.launch(&kernel, 1, threads, Vec::new())).expect("ends"), Outcome::Done, "{threads}");
    }
}

#[test]
fn a_kernel_cannot_be_called() {
    let victim =
        ".visible .entry victim(.param .align 8 .b8 p[4096]) { .reg .b64 %rd1; ld.param.b64 %rd1, [p+4088]; ret; }\n";
    let direct = format!("{HEADER}{victim}{}", &kernel("", "call victim;")[HEADER.len()..]);
    assert!(refusal(&direct).contains("call of a kernel: victim"));
    let itself = kernel("", "call k;");
    assert!(refusal(&itself).contains("call of a kernel: k"));
    for target in ["victim", "k"] {
        let body =
            format!(".reg .b64 %rd1;\nproto: .callprototype _ ();\nmov.u64 %rd1, {target};\ncall %rd1, (), proto;");
        let indirect = format!("{HEADER}{victim}{}", &kernel("", &body)[HEADER.len()..]);
        assert_eq!(fault(&indirect), FaultKind::InvalidProgramCounter, "{target}");
    }
}

#[test]
fn parameters_of_a_kernel_are_limited_together() {
    let parameters: Vec<String> = (0..140_000).map(|number| format!(".param .b8 p{number}[32764]")).collect();
    let text = kernel(&parameters.join(","), ".reg .b32 %r1;\nld.param.b32 %r1, [p1];");
    assert!(refusal(&text).contains("parameters have more bytes than a kernel"));
    let one = kernel(".param .align 4096 .b8 p[4], .param .align 4096 .b8 q[32764]", "");
    assert!(refusal(&one).contains("parameters have more bytes than a kernel"));
}

#[test]
fn kernels_cannot_write_their_parameters() {
    let target = ".reg .b64 %rd<3>;\nmov.u64 %rd1, p;\ncvta.param.u64 %rd1, %rd1;\n";
    for access in ["st.b32 [%rd1], 1;", "atom.add.u32 _, [%rd1], 1;", "st.b8 [%rd1], 1;"] {
        let text = kernel(".param .align 8 .b8 p[64]", &format!("{target}{access}"));
        let Outcome::Fault(fault) = outcome(&text, vec![0; 64]) else { panic!("{access} ran") };
        assert_eq!(fault.kind, FaultKind::IllegalAddress, "{access}");
    }
}

#[test]
fn arguments_without_bytes_are_zero() {
    let body = ".reg .b64 %rd1;\n.param .b8 none[0];\n.param .b64 out;\ncall (out), malloc, (none);\nld.param.b64 %rd1, [out];";
    assert_eq!(outcome(&kernel("", body), Vec::new()), Outcome::Done);
}

#[test]
fn local_variables_beyond_a_threads_memory_are_refused() {
    let many = (0..300).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, ".local .align 16 .b8 l{number}[16777212];");
        text
    });
    assert!(refusal(&kernel("", &many)).contains("local variables have more bytes than a thread"));
    let aligned = ".local .b8 a[1];\n.local .align 2147483648 .b8 b[4];\n.local .align 2147483648 .b8 c[4];";
    let what = refusal(&kernel("", aligned));
    assert!(what.contains("local variables") || what.contains("variable too large"), "{what}");
}

#[test]
fn shared_variables_beyond_counting_are_refused() {
    let many = (0..5).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, ".shared .align 16 .b8 s{number}[9223372036854775807];\n.reg .b64 %rd{number};");
        let _ = writeln!(text, "mov.u64 %rd{number}, s{number};");
        text
    });
    assert!(refusal(&kernel("", &many)).contains("shared variables have more bytes"));
}

#[test]
fn registers_beyond_a_frame_or_counting_are_refused() {
    let wide = (0..5000).fold(String::from(".reg .b64 %rd<5000>;\n"), |mut text, number| {
        let _ = writeln!(text, "ld.global.u64 %rd{number}, [{}];", 8 * number);
        text
    });
    let uses = (0..5000).fold(wide, |mut text, number| {
        let _ = writeln!(text, "st.global.u64 [{}], %rd{number};", 8 * number);
        text
    });
    assert!(refusal(&kernel("", &uses)).contains("more bytes than a frame has"));
    let counted = ".reg .b32 %a<4294967295>;\n.reg .b64 %b<100>;\nmov.u64 %b5, 1;";
    assert!(refusal(&kernel("", counted)).contains("more registers than a function may declare"));
}

#[test]
fn names_of_many_digits_are_looked_up_at_once() {
    let zeros = "0".repeat(1 << 20);
    let body = format!(".reg .b32 %r<9>;\nmov.u32 %r{zeros}1, %r{zeros}2;");
    assert!(rig().load(&kernel("", &body)).and_then(|program| program.kernel("k").map(|_| ())).is_err());
}

#[test]
fn tables_of_jumps_that_multiply_are_refused() {
    let labels: Vec<String> = (0..5000).map(|number| format!("L{number}")).collect();
    let mut body = format!(".reg .b32 %r1;\nmov.u32 %r1, 0;\nlist: .branchtargets {};\n", labels.join(","));
    for label in &labels {
        let _ = writeln!(body, "{label}: brx.idx %r1, list;");
    }
    assert!(refusal(&kernel("", &body)).contains("more targets of branches"));
}

#[test]
fn blocks_times_registers_beyond_memory_are_refused() {
    let count = 60_000;
    let body = (0..count).fold(format!(".reg .b32 %r<{count}>;\n.reg .pred %p1;\n"), |mut text, number| {
        let _ = writeln!(text, "L{number}: mov.u32 %r{number}, 1; @%p1 bra L{};", number / 2);
        text
    });
    assert!(refusal(&kernel("", &body)).contains("too large to allot registers"));
}

#[test]
fn many_functions_are_linked_in_no_time() {
    let mut text = String::from(HEADER);
    for number in 0..60_000 {
        let _ = writeln!(text, ".func f{number}() {{ ret; }}\n.entry e{number}() {{ ret; }}");
    }
    let program = rig().load(&text).expect("a program");
    assert_eq!(program.kernel_names().len(), 60_000);
}

#[test]
fn initial_values_beyond_their_variable_are_refused() {
    let mut rig = rig();
    for text in [
        ".global .b8 x[0][1099511627776][1099511627776] = {{{1}}};",
        ".global .b8 x[2] = {1, 2, 3};",
        ".global .b32 x[2][2] = {{1, 2}, {3, 4}, {5, 6}};",
        ".global .b64 x[1][9223372036854775807][0] = {{{1}}, {{1}}};",
    ] {
        let loaded = rig.load(&format!("{HEADER}{text}\n"));
        assert!(matches!(loaded, Err(LoadError::Memory { .. } | LoadError::Unsupported { .. })), "{text}");
    }
    let program = rig.load(&format!("{HEADER}.global .b128 x = 5;\n.global .b16 y[2][3] = {{{{1}}, {{2, 3}}}};\n"));
    let program = program.expect("a program");
    let at = |name| program.global(name).expect("there");
    assert_eq!(rig.download(at("x").0, 16), 5_u128.to_le_bytes());
    assert_eq!(rig.download(at("y").0, 12), [1, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0]);
}

#[test]
fn recursion_ends_with_its_stack_or_its_registers() {
    // A frame of some hundred kilobytes for each of sixteen bytes of stack.
    let mut text = format!("{HEADER}.func f() {{ .reg .b64 %rd<3000>;\n");
    for number in 0..3000 {
        let _ = writeln!(text, "mov.u64 %rd{number}, {number};");
    }
    text.push_str("call f;\n");
    for number in 1..3000 {
        let _ = writeln!(text, "add.u64 %rd0, %rd0, %rd{number};");
    }
    text.push_str("ret; }\n");
    text.push_str(&kernel("", "call f;")[HEADER.len()..]);
    assert_eq!(fault(&text), FaultKind::StackOverflow);
}

#[test]
fn a_text_that_asks_for_endless_output_is_cut() {
    let long = "%s".repeat(30_000);
    let text = format!(
        "{HEADER}.global .b8 format[60001] = {{{}, 0}};\n.global .b8 word[60000];\n{}",
        long.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(","),
        &kernel(
            ".param .u64 arguments",
            ".reg .b64 %rd<3>;\n.reg .b32 %r1;\n.param .b64 p0;\n.param .b64 p1;\n.param .b32 out;\n\
             mov.u64 %rd1, format;\nld.param.u64 %rd2, [arguments];\nst.param.b64 [p0], %rd1;\nst.param.b64 [p1], %rd2;\n\
             call (out), vprintf, (p0, p1);"
        )[HEADER.len()..]
    );
    let mut rig = rig();
    let program = rig.load(&text).expect("a program");
    let word = program.global("word").expect("there").0;
    rig.memory.fill(word, u32::from(b'x'), 1, 59_999).expect("mapped");
    let arguments = rig.upload(&word.to_le_bytes().repeat(30_000));
    let kernel = program.kernel("k").unwrap_or_else(|error| panic!("{error}"));
    let outcome = rig.run(rig.launch(&kernel, 1, 1, arguments.to_le_bytes().to_vec())).expect("ends");
    assert_eq!(outcome, Outcome::Done);
    assert!(rig.printed().len() < 2 << 20);
}

#[test]
fn a_run_ends_after_its_quanta() {
    let mut rig = rig();
    for body in
        ["L: bra L;", "L: nanosleep.u32 100; bra L;", ".reg .b32 %r1;\nL: ld.volatile.global.b32 %r1, [%rd1]; bra L;"]
    {
        let body = format!(".reg .b64 %rd1;\nmov.u64 %rd1, {};\n{body}", rig.memory.base());
        let program = rig.load(&kernel("", &body)).expect("a program");
        let kernel = program.kernel("k").unwrap_or_else(|error| panic!("{error}"));
        let grid = Grid::new(rig.launch(&kernel, 40, 64, Vec::new())).expect("a grid");
        grid.set_quanta(50);
        assert_eq!(grid.run(&floe_machine::Pool::new(2)), Outcome::Stopped, "{body}");
    }
}

#[test]
fn a_snapshot_that_lies_is_refused_or_faults() {
    // Every word of a snapshot in the middle of calls and barriers, set to the ends of 32 bits.
    let text = format!(
        "{HEADER}.func f(.param .b32 n) {{ .reg .b32 %r<4>;\n.reg .pred %p1;\n.local .b8 l[64];\nld.param.b32 %r1, [n];\nL: sub.u32 %r1, %r1, 1;\n\
         setp.ne.u32 %p1, %r1, 0;\n@%p1 bra L;\nret; }}\n{}",
        &kernel("", "{ .param .b32 n; st.param.b32 [n], 100000; call f, (n); }\nbar.sync 0;")[HEADER.len()..]
    );
    let mut rig = rig();
    let program = rig.load(&text).expect("a program");
    let kernel = program.kernel("k").unwrap_or_else(|error| panic!("{error}"));
    let launch = rig.launch(&kernel, 1, 48, Vec::new());
    let pool = floe_machine::Pool::new(1);
    let grid = Grid::new(launch.clone()).expect("a grid");
    grid.set_quantum(10);
    grid.set_quanta(20);
    assert_eq!(grid.run(&pool), Outcome::Stopped);
    let bytes = grid.snapshot().expect("stopped").to_bytes().to_vec();
    let mut refused = 0;
    for at in (8..bytes.len().min(4000)).step_by(12) {
        for word in [1, u32::MAX] {
            let mut lie = bytes.clone();
            let end = (at + 4).min(lie.len());
            lie[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            let resumed = Snapshot::from_bytes(&lie).and_then(|snapshot| Grid::resume(launch.clone(), &snapshot));
            let Ok(grid) = resumed else {
                refused += 1;
                continue;
            };
            grid.set_quantum(10);
            grid.set_quanta(10);
            let _ = grid.run(&pool);
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn many_kernels_that_call_one_large_function_are_refused_together() {
    let mut text = format!("{HEADER}.func f() {{ .reg .b32 %r1;\nmov.u32 %r1, 0;\n");
    for _ in 0..20_000 {
        text.push_str("add.u32 %r1, %r1, 1;\n");
    }
    text.push_str("ret; }\n");
    for number in 0..500 {
        let _ = writeln!(text, ".visible .entry k{number}() {{ call f; ret; }}");
    }
    let program = rig().load(&text).expect("a program");
    let names: Vec<String> = program.kernel_names().into_iter().map(str::to_owned).collect();
    let refused = names.iter().filter(|name| program.kernel(name).is_err()).count();
    assert!(program.kernel("k0").is_ok() && refused > 50, "{refused}");
}

#[test]
fn blocks_that_take_too_much_memory_are_refused() {
    let mut rig = rig();
    let text = kernel("", ".local .align 16 .b8 l[524288];\n.reg .b32 %r1;\nld.local.b32 %r1, [l];");
    let program = rig.load(&text).expect("a program");
    let kernel = program.kernel("k").unwrap_or_else(|error| panic!("{error}"));
    assert!(Grid::new(rig.launch(&kernel, 1, 32, Vec::new())).is_ok());
    let refused = Grid::new(rig.launch(&kernel, 1, 1024, Vec::new())).err().expect("refused").to_string();
    assert!(refused.contains("bytes of a block while it runs"), "{refused}");
    let mut together = rig.launch(&kernel, 1000, 32, Vec::new());
    together.cooperative = true;
    let refused = Grid::new(together).err().expect("refused").to_string();
    assert!(refused.contains("bytes of all blocks together"), "{refused}");
}

/// The registers of the next test.
const ASYNCHRONOUS: &str =
    ".shared .align 16 .b8 s[16];\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n.reg .pred %p<4>;\nmov.u64 %d1, 0;\n";

#[test]
fn asynchronous_instructions_with_a_part_that_means_nothing_are_refused() {
    let copy = "cp.async.cg.shared.global";
    for (instruction, why) in [
        (format!("{copy}.L2::128B.L2::64B [s], [%d1], 16;").as_str(), "given twice"),
        (&format!("{copy}.L2::cache_hint.L2::cache_hint [s], [%d1], 16, %d2, %d2;"), "given twice"),
        (&format!("{copy}.L2::cache_hint [s], [%d1], 16, missing;"), "missing"),
        ("mbarrier.test_wait.shared.b64 %p1, [s], %d1, %r1;", "unknown instruction"),
        ("mbarrier.try_wait.shared.b64 %p1, [s], %d1, missing;", "missing"),
        ("mbarrier.init.shared.shared::cta.b64 [s], 1;", "given twice"),
        ("mbarrier.arrive.release.acquire.cta.shared.b64 %d1, [s];", "given twice"),
        ("mbarrier.arrive.release.cta.cluster.shared.b64 %d1, [s];", "given twice"),
        ("mbarrier.arrive.shared.b64.b64 %d1, [s];", "given twice"),
    ] {
        let what = refusal(&kernel("", &format!("{ASYNCHRONOUS}{instruction}")));
        assert!(what.contains(why), "{instruction}: {what}");
    }
    for instruction in [
        "cp.async.wait_group -1;",
        "mbarrier.try_wait.shared.b64 %p1, [s], %d1, %r1;",
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [s], %r2, %r1;",
    ] {
        let program = rig().load(&kernel("", &format!("{ASYNCHRONOUS}{instruction}"))).expect("a program");
        program.kernel("k").unwrap_or_else(|error| panic!("{instruction}: {error}"));
    }
}
