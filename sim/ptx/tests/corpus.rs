//! The output of nvcc for our own sources, read whole. The numbers below were counted in the texts with grep.
//! Every text is also printed and parsed again, and read in two steps (outline, then bodies).

use floe_ptx::{
    FunctionKind, Initializer, Integer, Limits, Linkage, Module, Operand, Position, ScalarType, Span, Statement,
    Version, outline, parse, parse_body,
};

const FEATURES_90: &str = include_str!("data/features_sm_90.ptx");
const FEATURES_100: &str = include_str!("data/features_sm_100.ptx");
const DEBUG: &str = include_str!("data/lines_debug.ptx");
const LINEINFO: &str = include_str!("data/lines_lineinfo.ptx");

const ALL: [(&str, &str); 7] = [
    ("features_sm_90", FEATURES_90),
    ("features_sm_100", FEATURES_100),
    ("half_sm_75", include_str!("data/half_sm_75.ptx")),
    ("half_sm_90", include_str!("data/half_sm_90.ptx")),
    ("half_sm_100", include_str!("data/half_sm_100.ptx")),
    ("lines_debug", DEBUG),
    ("lines_lineinfo", LINEINFO),
];

fn module<'a>(name: &str, text: &'a str) -> Module<'a> {
    parse(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn bodies<'t, 'a>(module: &'t Module<'a>) -> impl Iterator<Item = &'t Statement<'a>> {
    module.functions.iter().filter_map(|function| function.body.as_ref()).flatten()
}

fn instructions(module: &Module<'_>) -> usize {
    bodies(module).filter(|statement| matches!(statement, Statement::Instruction(_))).count()
}

/// Instructions counted another way: what ends in a semicolon and does not start with a dot.
fn semicolons(text: &str) -> usize {
    let code = text.split("\n\t.section").next().unwrap_or(text);
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or(line));
    let kept: Vec<_> = lines.filter(|line| !line.trim().starts_with(".loc") && !line.ends_with(':')).collect();
    let starts_with_dot = |piece: &str| {
        let piece = piece.trim_start_matches(['{', '}', ' ', '\t', '\n']);
        piece.is_empty() || piece.starts_with('.') || piece.contains(": .callprototype")
    };
    kept.join("\n").split(';').filter(|piece| !starts_with_dot(piece)).count()
}

#[test]
fn every_text_has_its_version_target_and_instructions() {
    for (name, text) in ALL {
        let module = module(name, text);
        assert_eq!(module.version, Version { major: 9, minor: 0 }, "{name}");
        assert_eq!(module.address_size, 64, "{name}");
        let architecture = name.rsplit_once("sm_").map_or("90", |(_, number)| number);
        assert_eq!(module.architecture(), format!("sm_{architecture}"), "{name}");
        assert!(instructions(&module) > 10, "{name}: {}", instructions(&module));
    }
}

#[test]
fn printed_text_parses_to_the_same_tree() {
    for (name, text) in ALL {
        let first = module(name, text).to_string();
        let second = module(name, &first).to_string();
        assert_eq!(first, second, "{name}");
        assert_eq!(instructions(&module(name, text)), instructions(&module(name, &first)), "{name}");
    }
}

#[test]
fn outline_then_bodies_gives_the_same_as_parse() {
    for (name, text) in ALL {
        let whole = module(name, text);
        let mut pieces = outline(text, &Limits::default()).expect("a good text has an outline");
        for function in &mut pieces.functions {
            let Some(Span { start, end, .. }) = function.body_span else { continue };
            assert!(text[start..end].starts_with('{') && text[start..end].ends_with('}'), "{name} {}", function.name);
            let span = function.body_span.expect("checked above");
            function.body = Some(parse_body(text, &span, &Limits::default()).expect("a good body"));
        }
        assert_eq!(pieces, whole, "{name}");
    }
}

#[test]
fn no_instruction_is_lost_or_invented() {
    for (name, text) in ALL {
        assert_eq!(instructions(&module(name, text)), semicolons(text), "{name}");
    }
}

#[test]
fn kernel_has_its_parameters_directives_and_shared_memory() {
    let module = module("features_sm_90", FEATURES_90);
    let kernel = module.kernels().next().expect("one kernel");

    assert_eq!((kernel.name, kernel.kind, kernel.linkage), ("features", FunctionKind::Entry, Linkage::Visible));
    let sizes: Vec<_> =
        kernel.parameters.iter().map(|parameter| (parameter.size(), parameter.alignment_bytes())).collect();
    assert_eq!(sizes, [(Some(8), 8), (Some(8), 8), (Some(32), 4), (Some(4), 4)]);
    assert_eq!(kernel.directive("maxntid").expect("launch bounds").numbers, [256, 1, 1]);
    assert_eq!(kernel.directive("minnctapersm").expect("launch bounds").numbers, [2]);
    let tile = kernel.body.iter().flatten().find_map(|statement| match statement {
        Statement::Variable(variable) if variable.name.contains("tile") => Some(variable),
        _ => None,
    });
    assert_eq!(tile.expect("a shared array").size(), Some(1024));
}

#[test]
fn newer_front_end_says_what_a_parameter_points_to() {
    let module = module("features_sm_100", FEATURES_100);
    let kernel = module.function("features").expect("the kernel");

    let pointer = kernel.parameters[0].pointer.expect("`.ptr .align 1`");

    assert_eq!((pointer.space, pointer.alignment), (None, Some(1)));
    assert_eq!(kernel.parameters[0].alignment, None);
    assert!(kernel.parameters[3].pointer.is_none());
}

#[test]
fn module_data_is_read_with_its_values() {
    let module = module("features_sm_90", FEATURES_90);
    let variable = |name: &str| module.variables.iter().find(|variable| variable.name == name).expect("declared");

    let counter = variable("counter");
    assert_eq!(counter.initializer, Some(Initializer::Integer(Integer::signed(-5))));
    assert!(variable("shared_count").managed);
    assert!(variable("scratch").is_open() && variable("scratch").linkage == Linkage::Extern);
    let Some(Initializer::List(words)) = &variable("words").initializer else { panic!("a list of addresses") };
    assert!(matches!(&words[1], Initializer::Symbol(address) if address.generic && address.name == "$str$1"));
    let Some(Initializer::List(choices)) = &variable("choices").initializer else { panic!("a list of addresses") };
    assert!(matches!(&choices[0], Initializer::Symbol(address) if !address.generic && address.name == "_Z5twicef"));
    assert_eq!(variable("grid").size(), Some(48));
}

#[test]
fn functions_are_found_by_their_definition() {
    let module = module("features_sm_90", FEATURES_90);

    let twice = module.function("_Z5twicef").expect("declared and defined");
    assert!(twice.body.is_some());
    assert_eq!(twice.returns[0].scalar, ScalarType::B32);
    let vprintf = module.function("vprintf").expect("declared");
    assert!(vprintf.body.is_none() && vprintf.linkage == Linkage::Extern);
    assert_eq!(vprintf.parameters.len(), 2);
}

#[test]
fn calls_come_apart_direct_and_indirect() {
    let module = module("features_sm_90", FEATURES_90);
    let calls: Vec<_> = bodies(&module)
        .filter_map(|statement| match statement {
            Statement::Instruction(instruction) if instruction.opcode.mnemonic() == "call" => {
                Some(instruction.call().expect("a call comes apart"))
            }
            _ => None,
        })
        .collect();

    let direct = calls.iter().find(|call| call.target == "vprintf").expect("printf is called");
    assert_eq!((direct.returns.len(), direct.arguments.len(), direct.prototype), (1, 2, None));
    let indirect: Vec<_> = calls.iter().filter(|call| call.prototype.is_some()).collect();
    assert_eq!(indirect.len(), FEATURES_90.matches(".callprototype").count());
    for call in indirect {
        assert!(call.target.starts_with("%rd"));
        let prototype = bodies(&module).find_map(|statement| match statement {
            Statement::Prototype(prototype) if Some(prototype.name) == call.prototype => Some(prototype),
            _ => None,
        });
        assert_eq!(prototype.expect("declared before the call").parameters.len(), call.arguments.len());
    }
}

#[test]
fn inline_assembly_keeps_its_scope_and_constants() {
    let module = module("features_sm_90", FEATURES_90);
    let statements: Vec<_> = bodies(&module).collect();
    let at = statements
        .iter()
        .position(|statement| matches!(statement, Statement::Registers(registers) if registers.name == "p"))
        .expect("the register of the inline assembly");

    assert!(matches!(statements[at - 1], Statement::ScopeOpen(_)));
    let Statement::Instruction(compare) = statements[at + 1] else { panic!("setp") };
    assert_eq!(compare.operands[2], Operand::Integer(Integer::signed(18)));
    let Statement::Instruction(moved) = statements[at + 2] else { panic!("mov") };
    assert_eq!(moved.guard.expect("guarded").register, "p");
    assert_eq!(moved.operands[1], Operand::Integer(Integer::signed(32)));
}

#[test]
fn source_lines_are_kept_and_sections_skipped() {
    let debug = module("lines_debug", DEBUG);
    let lineinfo = module("lines_lineinfo", LINEINFO);

    assert_eq!(lineinfo.files[0].path, "lines.cu");
    let lines = |module: &Module<'_>| -> Vec<u32> {
        bodies(module)
            .filter_map(|statement| match statement {
                Statement::Location(location) => Some(location.line),
                _ => None,
            })
            .collect()
    };
    assert_eq!(lines(&debug).len(), DEBUG.matches("\t.loc\t").count());
    assert_eq!(lines(&lineinfo).len(), LINEINFO.matches("\t.loc\t").count());
    assert!(lines(&lineinfo).contains(&6));
    assert_eq!(debug.kernels().count(), 1);
}

#[test]
fn positions_are_those_of_the_text() {
    let module = module("features_sm_90", FEATURES_90);
    let lines: Vec<&str> = FEATURES_90.lines().collect();

    for statement in bodies(&module) {
        let Statement::Instruction(instruction) = statement else { continue };
        let Position { line, column } = instruction.position;
        let found = &lines[line as usize - 1][column as usize - 1..];
        let start = if instruction.guard.is_some() { "@" } else { instruction.opcode.text() };
        assert!(found.starts_with(start), "{line}:{column}: {found}");
    }
}
