//! The bytes charged for a text, beside the variables that the CPU device's parser finds in it. None of them may be missed.

use floe_image::{Demand, Limits, demand};
use floe_ptx::{Space, Statement, Variable};
use proptest::prelude::*;

/// Pieces of texts: whole ones, halves, and what moves the border between them.
const PIECES: &[&str] = &[
    ".global .b8 a[1000];",
    ".visible.global.align 8 .b8 b[2000];",
    ".const .v4 .b32 c[3000];",
    ".extern .global .b8 d[4000];",
    ".global .u64 e[5000] = {1, 2, {3}}, f[6000];",
    ".global .b32 g[][7000] = {{1}, {2}};",
    ".weak .global .attribute(.managed) .b8 h[0x2000U];",
    ".global .texref i;",
    ".extern .shared .b8 s[];",
    ".shared .b8 t[9000];",
    ".visible .entry k(.param .u64 .ptr .global .align 8 p)",
    ".func (.param .b32 r) f(.param .b64 q)",
    "{",
    "}",
    "ret;",
    "ld.global.u32 %r1, [%rd1+4];",
    "mov.b64 {%r1, %r2}, %rd1;",
    "@%p bra L;",
    "L:",
    ".reg .b32 %r<9>;",
    ".loc 1 2 3",
    ".file 1 \"a/*\\\"",
    ".pragma \"}\";",
    ".section .debug_info { .b8 1 }",
    "/*",
    "/*/",
    "*/",
    "//",
    "\"",
    "\\",
    "\n",
    "\r\n",
    "\r",
    " ",
    ";",
    ".",
    ".global",
    ".b8 x[8000];",
    "@@DWARF",
    "#",
];

fn is_counted(variable: &&Variable<'_>) -> bool {
    matches!(variable.space, Space::Global | Space::Constant)
}

/// Bytes of the variables that the parser finds, bodies included.
fn found(text: &str) -> Option<u64> {
    let module = floe_ptx::parse(text).ok()?;
    let inside = module.functions.iter().flat_map(|function| function.body.iter().flatten());
    let inside = inside.filter_map(|statement| match statement {
        Statement::Variable(variable) => Some(&**variable),
        _ => None,
    });
    let all = module.variables.iter().chain(inside).filter(is_counted);
    Some(all.fold(0, |sum, variable| sum + variable.size().unwrap_or(0)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn whatever_is_parsed_is_charged_or_unknown(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24)) {
        let text = [".version 8.0\n.target sm_90\n", &pieces.concat()].concat();
        if let Some(bytes) = found(&text) {
            let charged = demand(text.as_bytes(), &Limits::default());
            prop_assert!(!matches!(charged, Demand::Bytes(charged) if charged < bytes), "{charged:?} of {bytes}: {text}");
        }
    }

    #[test]
    fn whole_declarations_are_never_unknown(
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..10]), 0..24),
        inside in proptest::collection::vec(proptest::sample::select(&PIECES[..10]), 0..4),
    ) {
        let (pieces, inside) = (pieces.concat(), inside.concat());
        let text = format!(".version 8.0\n.target sm_90\n{pieces}.entry k() {{ {inside} ret; }}");
        let bytes = found(&text);
        prop_assert!(bytes.is_some(), "{text}");
        let charged = demand(text.as_bytes(), &Limits::default());
        prop_assert!(matches!(charged, Demand::Bytes(charged) if Some(charged) >= bytes), "{charged:?} of {bytes:?}: {text}");
    }
}
