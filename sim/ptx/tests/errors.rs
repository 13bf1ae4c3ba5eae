//! Errors about texts that are not PTX: the position, the found and the expected text; and the limits.

use floe_ptx::{Limits, ParseError, Position, Problem, parse, parse_body, parse_with, text};

const HEAD: &str = ".version 9.0\n.target sm_90\n";

/// The message for a text whose first two lines are the header.
fn message(items: &str) -> String {
    match parse(&format!("{HEAD}{items}")) {
        Ok(module) => panic!("{items} parses to {module:?}"),
        Err(error) => error.to_string(),
    }
}

fn in_body(statement: &str) -> String {
    message(&format!(".entry k()\n{{\n{statement}\n}}"))
}

#[test]
fn missing_header_is_named() {
    let error = parse("").expect_err("no version");
    assert_eq!(error.to_string(), "line 1, column 1: expected `.version`, found the end of the text");
    let error = parse(".version 9.0\n.address_size 64").expect_err("no target");
    assert_eq!(error.to_string(), "line 2, column 1: expected `.target`, found `.address_size`");
    let error = parse(".version nine").expect_err("no number");
    assert_eq!(error.to_string(), "line 1, column 10: expected a version such as `9.0`, found `nine`");
    let error = parse(".version 9.99999999999 .target sm_90").expect_err("beyond 32 bits");
    assert_eq!(error.to_string(), "line 1, column 10: not a version such as `9.0`: 9.99999999999");
}

#[test]
fn missing_semicolon_is_found_at_the_next_token() {
    assert_eq!(in_body("bar.sync 0\nexit;"), "line 6, column 1: expected `,` or `;` after an operand, found `exit`");
    assert_eq!(in_body("mov.u32 %r1, %r2"), "line 6, column 1: expected `,` or `;` after an operand, found `}`");
}

#[test]
fn missing_operand_is_named() {
    assert_eq!(in_body("add.s32 %r1, , 3;"), "line 5, column 14: expected an operand, found `,`");
    assert_eq!(in_body("add.s32 %r1, ;"), "line 5, column 14: expected an operand, found `;`");
}

#[test]
fn broken_address_is_found_inside_its_brackets() {
    let expected = "line 5, column 25: expected `]`, `+` or `,` in an address, found `;`";
    assert_eq!(in_body("ld.global.u32 %r1, [%rd1;"), expected);
    let expected = "line 5, column 21: expected a register, a symbol or a number in brackets, found `]`";
    assert_eq!(in_body("ld.global.u32 %r1, []; "), expected);
    assert_eq!(in_body("ld.u32 %r1, [%rd1+%rd2];"), "line 5, column 19: expected a number, found `%rd2`");
}

#[test]
fn broken_numbers_are_shown() {
    for number in ["0f3F80", "0d3FF0", "0x", "0b12", "089", "99999999999999999999", "1.2.3", "12abc"] {
        let expected = format!("line 5, column 14: not a number of PTX: {number}");
        assert_eq!(in_body(&format!("mov.b32 %r1, {number};")), expected);
    }
}

#[test]
fn division_by_zero_in_a_constant_is_refused() {
    let expected = "line 5, column 15: this operator has no value for these operands: /";
    assert_eq!(in_body("mov.b32 %r1, 1/0;"), expected);
}

#[test]
fn unfinished_texts_are_found_where_they_opened_or_end() {
    let end = message(".entry k()\n{\nret;");
    assert_eq!(end, "line 5, column 5: expected a statement or `}`, found the end of the text");
    let comment = message(".global .u32 a;\n  /* no end");
    let expected = "line 4, column 3: expected `*/` before the end of the text, found a comment without end";
    assert_eq!(comment, expected);
    let string = message(".pragma \"no end\n\";");
    let expected = "line 3, column 9: expected a closing quote on the same line, found a string without end";
    assert_eq!(string, expected);
}

#[test]
fn unknown_items_are_shown() {
    let expected = "line 3, column 1: expected a variable, a function or another directive of a module, found";
    assert_eq!(message(".nonsense 3;"), format!("{expected} `.nonsense`"));
    assert_eq!(message("hello"), format!("{expected} `hello`"));
    assert_eq!(message("\u{1}"), format!("{expected} the character U+0001"));
    assert_eq!(message("é"), format!("{expected} `é`"));
    assert_eq!(message(".reg .u32 a;"), format!("{expected} `.reg`"));
    assert_eq!(
        in_body(".nonsense;"),
        "line 5, column 1: expected a declaration, an instruction or `}`, found `.nonsense`"
    );
}

#[test]
fn declarations_are_checked_word_by_word() {
    assert_eq!(message(".global .u33 a;"), "line 3, column 9: not a type or attribute of a variable: u33");
    assert_eq!(message(".global .align 3 .u32 a;"), "line 3, column 16: an alignment must be a power of two: 3");
    assert_eq!(message(".global a;"), "line 3, column 9: expected a type, found `a`");
    assert_eq!(message(".global .u32 5;"), "line 3, column 14: expected the name of a variable, found `5`");
    let negative = message(".global .u32 a[-1];");
    assert_eq!(negative, "line 3, column 16: this must be a whole number, not negative: -1");
    assert_eq!(
        message(".global .u32 a = {1, 2;"),
        "line 3, column 23: expected `,` or `}` in an initialiser, found `;`"
    );
}

#[test]
fn registers_are_scalars_or_vectors() {
    let expected = "line 5, column 11: a register cannot be an array, have attributes or an initial value: a";
    assert_eq!(in_body(".reg .b32 a[3];"), expected);
    assert_eq!(in_body(".reg .b32 a = 3;"), expected);
    let expected = "line 5, column 9: expected a declaration, an instruction or `}`, found `.reg`";
    assert_eq!(in_body(".extern .reg .b32 a;"), expected);
}

#[test]
fn source_locations_are_read_to_their_end() {
    assert_eq!(in_body(".loc 1 2 3, nonsense 4"), "line 5, column 13: not an attribute of a source location: nonsense");
    assert_eq!(in_body(".loc 1 2"), "line 6, column 1: expected a column number, found `}`");
}

#[test]
fn long_names_are_shortened_in_messages() {
    let long = "x".repeat(5000);
    let error = message(&long);
    assert!(error.len() < 250, "{error}");
    assert!(error.ends_with("…`"), "{error}");
}

fn limited(items: &str, limits: Limits) -> Problem {
    parse_with(&format!("{HEAD}{items}"), &limits).expect_err("beyond a limit").problem
}

#[test]
fn limits_stop_a_text() {
    let default = Limits::default();
    let problem = limited("", Limits { text_bytes: 10, ..default });
    assert_eq!(problem, Problem::Limit { what: "bytes of text", limit: 10 });
    let problem = limited(".global .u32 a, b, c;", Limits { statements: 2, ..default });
    assert_eq!(problem, Problem::Limit { what: "statements", limit: 2 });
    let problem = limited(".global .u32 a[] = {1, 2, 3};", Limits { elements: 4, ..default });
    assert_eq!(problem, Problem::Limit { what: "operands and elements", limit: 4 });
    let problem = limited(".entry k() { { { {", Limits { depth: 2, ..default });
    assert_eq!(problem, Problem::Limit { what: "levels of nesting", limit: 2 });
}

#[test]
fn nesting_of_every_kind_is_limited() {
    let deep = |open: &str| open.repeat(1_000_000);
    for items in [
        format!(".global .u32 a[] = {}", deep("{")),
        format!(".global .u32 a = {}", deep("(")),
        format!(".global .u32 a = {}", deep("-")),
        format!(".global .u32 a = {}", deep("1?")),
        format!(".entry k() {}", deep("{")),
        format!(".entry k() {{ mov.b32 {}", deep("{")),
        format!(".entry k() {{ mov.b32 {}", deep("[a,")),
        format!(".entry k() {{ mov.b32 a, {}", deep("(1+")),
    ] {
        let problem = limited(&items, Limits::default());
        assert_eq!(problem, Problem::Limit { what: "levels of nesting", limit: 64 }, "{}", &items[..30]);
    }
}

#[test]
fn bytes_that_are_no_text_are_found() {
    assert_eq!(text(b".version 9.0\0\0\xff"), Ok(".version 9.0"));
    for not_ascii in [&b"ab\ncd\xffe"[..], "ab\n//\u{2026}".as_bytes()] {
        let error = text(not_ascii).expect_err("NVIDIA's compiler takes it neither, also in a comment");
        assert_eq!(error, ParseError { position: Position { line: 2, column: 3 }, problem: Problem::Encoding });
    }
}

#[test]
fn body_of_another_text_is_refused() {
    let first = format!("{HEAD}.entry k() {{ ret; }}");
    let module = parse(&first).expect("good");
    let span = module.functions[0].body_span.expect("a body");
    assert!(parse_body(&first, &span, &Limits::default()).is_ok());
    assert!(parse_body("short", &span, &Limits::default()).is_err());
    assert!(parse_body(&"é".repeat(100), &span, &Limits::default()).is_err());
}
