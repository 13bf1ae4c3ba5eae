//! Texts made to break the parser: arbitrary bytes, and good texts with pieces changed, cut, moved and repeated.
//! The result is always a module or an error with a position inside the text, never a panic. A text that parses is
//! printed and parsed again without loss.

use floe_ptx::{Limits, Problem, outline, parse_with, text};
use proptest::prelude::*;

const GOOD: [&str; 3] = [
    include_str!("data/features_sm_90.ptx"),
    include_str!("data/features_sm_100.ptx"),
    include_str!("data/lines_debug.ptx"),
];

const WORDS: [&str; 40] = [
    ".version 9.0",
    ".target sm_90",
    ".entry k()",
    ".func ",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    ":",
    "::",
    ".",
    "@",
    "@!p ",
    "|",
    "+",
    "-",
    "=",
    "<",
    ">",
    ".global .u32 ",
    ".reg .b32 %r<3>;",
    ".param .b64 ",
    "a",
    "%r1",
    "0x1F",
    "0f3F800000",
    "1.5e",
    "\"",
    "//",
    "/*",
    "*/",
    "\n",
    ".callprototype",
    ".section .s ",
    ".loc 1 2 3\n",
    "generic(",
];

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let limits = Limits { text_bytes: 1 << 20, statements: 1 << 16, elements: 1 << 16, depth: 32 };
    let Ok(text) = text(bytes) else { return Ok(()) };
    let lines = u32::try_from(text.matches('\n').count() + 1).expect("short");
    match parse_with(text, &limits) {
        Ok(module) => {
            let printed = module.to_string();
            let again = parse_with(&printed, &Limits::default());
            let again = again.map_err(|error| TestCaseError::fail(format!("{error}\n{printed}")))?;
            prop_assert_eq!(again.to_string(), printed);
            let outlined = outline(text, &limits);
            prop_assert!(outlined.is_ok(), "what parses has an outline: {:?}", outlined.err());
        }
        Err(error) => {
            prop_assert!((1..=lines).contains(&error.position.line), "{error}");
            prop_assert!(error.position.column >= 1);
            prop_assert!(error.problem != Problem::Encoding);
            prop_assert!(error.to_string().len() < 400, "{error}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        check(&bytes)?;
    }

    #[test]
    fn words_in_any_order_never_panic(words in proptest::collection::vec(0..WORDS.len(), 0..60)) {
        let mut text = String::from(".version 9.0 .target sm_90 ");
        for word in words {
            text.push_str(WORDS[word]);
            text.push(' ');
        }
        check(text.as_bytes())?;
    }

    #[test]
    fn statements_in_any_order_never_panic(words in proptest::collection::vec(0..WORDS.len(), 0..12)) {
        let mut text = String::from(".version 9.0 .target sm_90 .entry k() { mov.b32 ");
        for word in words {
            text.push_str(WORDS[word]);
        }
        text.push_str("; }");
        check(text.as_bytes())?;
    }

    #[test]
    fn good_texts_with_changed_bytes_never_panic(
        which in 0..GOOD.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = GOOD[which].as_bytes().to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value & 0x7f;
        }
        check(&bytes)?;
    }

    #[test]
    fn good_texts_cut_and_spliced_never_panic(
        which in 0..GOOD.len(),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        into in any::<prop::sample::Index>(),
    ) {
        let good = GOOD[which].as_bytes();
        let (from, to, into) = (from.index(good.len()), to.index(good.len()), into.index(good.len()));
        let piece = &good[from.min(to)..from.max(to)];
        let mut bytes = good[..into].to_vec();
        bytes.extend_from_slice(piece);
        check(&bytes)?;
        bytes.extend_from_slice(&good[into..]);
        check(&bytes)?;
    }
}
