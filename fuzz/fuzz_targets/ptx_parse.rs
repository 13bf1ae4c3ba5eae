//! PTX texts: in go any bytes, out comes a module or an error with a position.
//! A text that parses has an outline, bodies that read the same on their own, and a printed form that parses to itself.
//! It never keeps more than small limits allow.
#![no_main]

use floe_ptx::{Limits, Problem, outline, parse_body, parse_with, text};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { text_bytes: 1 << 20, statements: 1 << 16, elements: 1 << 16, depth: 32 };

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = text(bytes) else { return };
    let module = match parse_with(text, &LIMITS) {
        Ok(module) => module,
        Err(error) => {
            let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
            assert!(error.position.line >= 1 && error.position.line as usize <= lines, "{error}");
            assert!(error.problem != Problem::Encoding && error.to_string().len() < 400, "{error}");
            return;
        }
    };
    let outlined = outline(text, &LIMITS).expect("what parses has an outline");
    assert_eq!(outlined.functions.len(), module.functions.len());
    for (outlined, whole) in outlined.functions.iter().zip(&module.functions) {
        assert_eq!(outlined.body_span, whole.body_span);
        let Some(span) = &whole.body_span else { continue };
        let body = parse_body(text, span, &LIMITS).expect("a body reads on its own as it did in its module");
        assert_eq!(Some(body), whole.body);
    }
    let printed = module.to_string();
    let again = parse_with(&printed, &Limits::default()).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again.to_string(), printed);
});
