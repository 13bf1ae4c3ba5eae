//! Every construct of the grammar, one small text each. The module-level and instruction-level texts follow the PTX ISA
//! 9.0 document; instructions are taken as written whether or not a device has them.

use floe_ptx::{
    Float, Function, Initializer, Instruction, Integer, Linkage, Module, Opcode, Operand, Pointer, Position,
    ScalarType, Space, Statement, SymbolAddress, TargetsKind, Variable, parse,
};

const HEAD: &str = ".version 9.0\n.target sm_90a, texmode_independent, debug\n.address_size 64\n";

fn with_module<T>(items: &str, look: impl FnOnce(&Module<'_>) -> T) -> T {
    let text = format!("{HEAD}{items}");
    look(&parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

fn with_variable<T>(declaration: &str, look: impl FnOnce(&Variable<'_>) -> T) -> T {
    with_module(declaration, |module| look(&module.variables[0]))
}

fn with_body<T>(body: &str, look: impl FnOnce(&[Statement<'_>]) -> T) -> T {
    with_module(&format!(".entry k() {{ {body} }}"), |module| {
        look(module.functions[0].body.as_deref().expect("a body"))
    })
}

fn with_instruction<T>(text: &str, look: impl FnOnce(&Instruction<'_>) -> T) -> T {
    with_body(text, |body| match body {
        [Statement::Instruction(instruction)] => look(instruction),
        other => panic!("one instruction, not {other:?}"),
    })
}

fn operand_is(text: &str, expected: &Operand<'_>) {
    with_instruction(&format!("mov.b64 {text};"), |instruction| {
        assert_eq!(instruction.operands, std::slice::from_ref(expected), "{text}");
    });
}

fn integer(value: i64) -> Operand<'static> {
    Operand::Integer(Integer::signed(value))
}

#[test]
fn header_gives_version_targets_and_size() {
    with_module("", |module| {
        assert_eq!(module.targets, ["sm_90a", "texmode_independent", "debug"]);
        assert_eq!((module.version.major, module.version.minor, module.address_size), (9, 0, 64));
    });
    let module = parse(".version 10.12 .target sm_75").expect("address size may be left out");
    assert_eq!((module.version.major, module.version.minor), (10, 12));
}

#[test]
fn linkages_are_told_apart() {
    let text = ".visible .global .u32 a; .extern .global .u32 b; .weak .global .u32 c; .common .global .u32 d;
                .internal .global .u32 e; .global .u32 f;";
    with_module(text, |module| {
        let linkages: Vec<_> = module.variables.iter().map(|variable| variable.linkage).collect();
        use Linkage::{Common, Extern, Internal, Visible, Weak};
        assert_eq!(linkages, [Visible, Extern, Weak, Common, Internal, Internal]);
    });
}

#[test]
fn spaces_are_told_apart() {
    let text = ".global .u32 a; .const .u32 b; .const[2] .u32 c; .shared .u32 d; .tex .u64 e; .local .u32 f;";
    with_module(text, |module| {
        let spaces: Vec<_> = module.variables.iter().map(|variable| variable.space).collect();
        use Space::{Constant, Global, Local, Shared, Texture};
        assert_eq!(spaces, [Global, Constant, Constant, Shared, Texture, Local]);
    });
}

#[test]
fn declaration_of_several_names_shares_its_shape() {
    with_module(".global .align 16 .v4 .f32 a, b[3], c = 5;", |module| {
        let [a, b, c] = module.variables.as_slice() else { panic!("three variables") };
        assert_eq!((a.lanes, a.scalar, a.alignment, a.size()), (4, ScalarType::F32, Some(16), Some(16)));
        assert_eq!((b.size(), b.dimensions.len()), (Some(48), 1));
        assert_eq!((c.initializer.is_some(), a.initializer.is_some()), (true, false));
    });
}

#[test]
fn arrays_may_have_several_dimensions_and_an_open_one() {
    with_variable(".global .u8 a[2][3*4][0x10];", |a| assert_eq!(a.size(), Some(2 * 12 * 16)));
    with_variable(".extern .shared .align 16 .b8 a[];", |a| {
        assert!(a.is_open());
        assert_eq!((a.size(), a.alignment_bytes()), (None, 16));
    });
    with_variable(".global .s32 a[][2] = {{1, 2}, {3, 4}};", |a| assert_eq!(a.dimensions, [None, Some(2)]));
}

#[test]
fn size_beyond_64_bits_is_none() {
    with_variable(".global .u64 a[0x7fffffffffffffff][16];", |a| assert_eq!(a.size(), None));
}

#[test]
fn attributes_are_kept() {
    with_variable(".global .attribute(.managed, .unified(19, 95)) .u32 a;", |a| {
        assert!(a.managed);
        assert_eq!(a.unified, Some([19, 95]));
    });
    with_module(".func .attribute(.unified(0x1, 2)) (.param .u32 r) f (.param .u32 x);", |module| {
        assert_eq!(module.functions[0].directive("unified").expect("kept").numbers, [1, 2]);
    });
}

#[test]
fn initialisers_hold_numbers_floats_and_nested_lists() {
    with_variable(".global .f32 a[2][2] = {{0f3F800000, -1.5}, {2, -0f40000000},};", |a| {
        let list = |values: Vec<Initializer<'static>>| Initializer::List(values);
        let single = |value: f32| Initializer::Float(Float::Single(value.to_bits()));
        let expected = list(vec![
            list(vec![single(1.0), Initializer::Float(Float::Double((-1.5_f64).to_bits()))]),
            list(vec![Initializer::Integer(Integer::signed(2)), single(-2.0)]),
        ]);
        assert_eq!(a.initializer, Some(expected));
    });
    with_variable(".global .u8 a[4] = {};", |a| assert_eq!(a.initializer, Some(Initializer::List(Vec::new()))));
}

#[test]
fn initialisers_hold_addresses_in_every_form() {
    let text = ".global .u64 a[] = {sym, sym+4, generic(sym), generic(sym)+8, generic(sym+16), 0xFF00(sym), 0xFF(generic(sym)), sym-4};";
    let address = |offset, generic, mask| Initializer::Symbol(SymbolAddress { name: "sym", offset, generic, mask });
    with_variable(text, |a| {
        let expected = vec![
            address(0, false, None),
            address(4, false, None),
            address(0, true, None),
            address(8, true, None),
            address(16, true, None),
            address(0, false, Some(0xff00)),
            address(0, true, Some(0xff)),
            address(-4, false, None),
        ];
        assert_eq!(a.initializer, Some(Initializer::List(expected)));
    });
}

#[test]
fn textures_samplers_and_surfaces_are_declared() {
    let text = ".global .texref t; .global .samplerref s; .global .surfref u[4];";
    with_module(text, |module| {
        let types: Vec<_> = module.variables.iter().map(|variable| variable.scalar).collect();
        assert_eq!(types, [ScalarType::TextureReference, ScalarType::SamplerReference, ScalarType::SurfaceReference]);
    });
}

#[test]
fn kernel_parameters_keep_pointer_and_alignment() {
    let text = ".entry k(.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 b[24], .param .u64 .ptr c) {}";
    with_module(text, |module| {
        let [a, b, c] = module.functions[0].parameters.as_slice() else { panic!("three parameters") };
        assert_eq!(a.pointer, Some(Pointer { space: Some(Space::Global), alignment: Some(16) }));
        assert_eq!((a.alignment, b.alignment, b.size()), (None, Some(8), Some(24)));
        assert_eq!(c.pointer, Some(Pointer { space: None, alignment: None }));
    });
}

#[test]
fn functions_have_returns_parameters_and_prototypes() {
    let text = ".extern .func (.param .b32 r) f (.param .b64 _, .param .align 4 .b8 _[12]);
                .func g { ret; } .visible .func (.reg .u32 r) h (.reg .u32 a, .reg .u32 b) { add.u32 r, a, b; ret; }
                .weak .func i () .noreturn .abi_preserve 3 ;";
    with_module(text, |module| {
        let [f, g, h, i] = module.functions.as_slice() else { panic!("four functions") };
        assert_eq!((f.linkage, f.body.is_none(), f.body_span.is_none()), (Linkage::Extern, true, true));
        assert_eq!((f.parameters[1].name, f.parameters[1].size()), ("_", Some(12)));
        assert!(g.parameters.is_empty() && g.returns.is_empty());
        assert_eq!((h.parameters[1].space, h.returns[0].space), (Space::Register, Space::Register));
        assert!(i.directive("noreturn").is_some());
        assert_eq!(i.directive("abi_preserve").expect("kept").numbers, [3]);
    });
}

#[test]
fn definition_is_preferred_over_prototypes() {
    with_module(".func f (.param .u32 a); .func f (.param .u32 a) { ret; } .func g;", |module| {
        assert!(module.function("f").is_some_and(|f| f.body.is_some()));
        assert!(module.function("g").is_some_and(|g| g.body.is_none()));
        assert!(module.function("h").is_none());
    });
}

#[test]
fn performance_directives_are_kept_as_written() {
    let text = ".entry k() .maxntid 16,16 ,4 .minnctapersm 2 .maxnreg 64 .reqntid 256 .explicitcluster
                .reqnctapercluster 2, 1, 1 .maxclusterrank 8 .blocksareclusters .pragma \"nounroll\", \"x\"; { ret; }";
    with_module(text, |module| {
        let kernel: &Function<'_> = &module.functions[0];
        let names: Vec<_> = kernel.directives.iter().map(|directive| directive.name).collect();
        assert_eq!(
            names,
            [
                "maxntid",
                "minnctapersm",
                "maxnreg",
                "reqntid",
                "explicitcluster",
                "reqnctapercluster",
                "maxclusterrank",
                "blocksareclusters",
                "pragma"
            ]
        );
        assert_eq!(kernel.directive("maxntid").expect("kept").numbers, [16, 16, 4]);
        assert_eq!(kernel.directive("pragma").expect("kept").strings, ["nounroll", "x"]);
        assert!(kernel.body.is_some());
    });
}

#[test]
fn aliases_pragmas_and_files_are_kept() {
    let text = ".pragma \"frequency 5\";\n.func f () {} .alias g, f;\n.file 1 \"a\\\"b.cu\", 12, 34\n@@DWARF .byte 1\n";
    with_module(text, |module| {
        assert_eq!(module.pragmas, ["frequency 5"]);
        assert_eq!((module.aliases[0].name, module.aliases[0].target), ("g", "f"));
        assert_eq!((module.files[0].number, module.files[0].path), (1, "a\\\"b.cu"));
    });
}

#[test]
fn registers_are_declared_with_ranges_and_vectors() {
    with_body(".reg .b32 %r<12>, %x; .reg .v4 .f32 %v; .reg .pred p;", |body| {
        let declared: Vec<_> = body
            .iter()
            .map(|statement| match statement {
                Statement::Registers(registers) => (registers.name, registers.range, registers.lanes),
                other => panic!("registers, not {other:?}"),
            })
            .collect();
        assert_eq!(declared, [("%r", Some(12), 1), ("%x", None, 1), ("%v", None, 4), ("p", None, 1)]);
    });
}

#[test]
fn variables_inside_bodies_are_statements() {
    with_body(".local .align 8 .b8 d[16]; .shared .u32 s, t; .param .b64 p; .const .u32 c = 1;", |body| {
        let spaces: Vec<_> = body
            .iter()
            .map(|statement| match statement {
                Statement::Variable(variable) => (variable.space, variable.name),
                other => panic!("a variable, not {other:?}"),
            })
            .collect();
        use Space::{Constant, Local, Parameter, Shared};
        assert_eq!(spaces, [(Local, "d"), (Shared, "s"), (Shared, "t"), (Parameter, "p"), (Constant, "c")]);
    });
}

#[test]
fn scopes_are_flat_and_balanced() {
    with_body("{ { ret; } { } }", |body| {
        let marks: String = body
            .iter()
            .map(|statement| match statement {
                Statement::ScopeOpen(_) => '{',
                Statement::ScopeClose(_) => '}',
                _ => '.',
            })
            .collect();
        assert_eq!(marks, "{{.}{}}");
    });
}

#[test]
fn labels_stand_before_statements_and_closing_braces() {
    with_body("$L__BB0_1: ret; A: B: { C : }", |body| {
        let labels: Vec<_> = body
            .iter()
            .filter_map(|statement| match statement {
                Statement::Label(label) => Some(label.name),
                _ => None,
            })
            .collect();
        assert_eq!(labels, ["$L__BB0_1", "A", "B", "C"]);
    });
}

#[test]
fn target_lists_and_call_prototypes_take_their_label() {
    let text = "T: .branchtargets A, B; C: .calltargets f, g;
                P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 x) .noreturn; Q: .callprototype _ ();";
    with_body(text, |body| {
        let [Statement::Targets(branch), Statement::Targets(call), Statement::Prototype(p), Statement::Prototype(q)] =
            body
        else {
            panic!("two lists and two prototypes, not {body:?}")
        };
        assert_eq!((branch.name, branch.kind, branch.targets.as_slice()), ("T", TargetsKind::Branch, &["A", "B"][..]));
        assert_eq!((call.name, call.kind, call.targets.as_slice()), ("C", TargetsKind::Call, &["f", "g"][..]));
        assert_eq!((p.name, p.returns.len(), p.parameters.len(), p.directives.len()), ("P", 1, 2, 1));
        assert_eq!((q.name, q.returns.len(), q.parameters.len()), ("Q", 0, 0));
    });
}

#[test]
fn locations_end_with_their_line() {
    with_body("\n.loc 1 12 3, function_name $L__info_string0, inlined_at 1 4 8\n.loc\t2 7 0\nret;", |body| {
        let [Statement::Location(first), Statement::Location(second), Statement::Instruction(_)] = body else {
            panic!("two locations and an instruction, not {body:?}")
        };
        assert_eq!((first.file, first.line, first.column), (1, 12, 3));
        assert_eq!((second.file, second.line, second.column), (2, 7, 0));
    });
}

#[test]
fn sections_are_skipped_with_braces_in_comments() {
    with_module(".section .debug_info { .b8 1 // }\n .b32 2, 3 /* } */ }\n.global .u32 a;", |module| {
        assert_eq!(module.variables.len(), 1);
    });
}

#[test]
fn guards_are_kept() {
    with_instruction("@%p1 bra $L;", |instruction| {
        assert_eq!(instruction.guard.map(|guard| (guard.register, guard.negated)), Some(("%p1", false)));
    });
    with_instruction("@ !p exit;", |instruction| {
        assert_eq!(instruction.guard.map(|guard| (guard.register, guard.negated)), Some(("p", true)));
        assert!(instruction.operands.is_empty());
    });
}

#[test]
fn opcodes_split_into_mnemonic_and_modifiers() {
    let text = "ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {a,b,c,d}, [p];";
    with_instruction(text, |instruction| {
        let opcode = instruction.opcode;
        assert_eq!(opcode.mnemonic(), "ld");
        let modifiers: Vec<_> = opcode.modifiers().collect();
        assert_eq!(modifiers, ["global", "nc", "L1::no_allocate", "L2::cache_hint", "v4", "f32"]);
        assert!(opcode.has("nc") && !opcode.has("n"));
        assert_eq!(opcode.last_type(), Some(ScalarType::F32));
    });
    with_instruction("tcgen05.ld.sync.aligned.32x32b.x2.b32 {a, b}, [t];", |instruction| {
        assert!(instruction.opcode.has("32x32b"));
    });
}

#[test]
fn blanks_in_an_opcode_are_no_part_of_it() {
    with_instruction("add .s32\n\t.sat a, b, 1;", |instruction| {
        assert_eq!(instruction.opcode.mnemonic(), "add");
        assert_eq!(instruction.opcode.modifiers().collect::<Vec<_>>(), ["s32", "sat"]);
        assert_eq!(instruction.opcode.to_string(), "add.s32.sat");
        assert_eq!(instruction.operands.len(), 3);
    });
    assert_eq!(Opcode::new("ret").mnemonic(), "ret");
    assert_eq!(Opcode::new("ret").modifiers().count(), 0);
}

#[test]
fn names_keep_their_components() {
    for name in ["%tid.x", "%r1", "%r1.b0", "%v.w", "$str$1", "_Z3fooi", "%clock64", "a"] {
        operand_is(name, &Operand::Name(name));
    }
    operand_is("_", &Operand::Sink);
}

#[test]
fn integers_are_read_in_every_base() {
    for (text, value) in [("0", 0), ("42", 42), ("-5", -5), ("0x1F", 31), ("0XfF", 255), ("017", 15), ("0b101", 5)] {
        operand_is(text, &integer(value));
    }
    for (text, bits) in
        [("5U", 5), ("0xFFFFFFFFFFFFFFFF", u64::MAX), ("0x80000000U", 1 << 31), ("18446744073709551615", u64::MAX)]
    {
        operand_is(text, &Operand::Integer(Integer { bits, unsigned: true }));
    }
    operand_is("-9223372036854775808", &Operand::Integer(Integer { bits: 1 << 63, unsigned: true }));
    operand_is("WARP_SZ", &integer(32));
}

#[test]
fn floats_are_read_by_bits_and_by_value() {
    operand_is("0f3F800000", &Operand::Float(Float::Single(0x3f80_0000)));
    operand_is("0F7fc00001", &Operand::Float(Float::Single(0x7fc0_0001)));
    operand_is("0d3FF0000000000000", &Operand::Float(Float::Double(1.0_f64.to_bits())));
    for (text, value) in [("1.5", 1.5), ("1e10", 1e10), ("2.5E-3", 2.5e-3), ("-0.0", -0.0), ("1.", 1.0), (".5", 0.5)] {
        operand_is(text, &Operand::Float(Float::Double(f64::to_bits(value))));
    }
    operand_is("-0f3F800000", &Operand::Float(Float::Single(0xbf80_0000)));
}

#[test]
fn single_precision_value_of_a_double_rounds_once() {
    assert_eq!(Float::Double(0.1_f64.to_bits()).as_f32().to_bits(), 0.1_f32.to_bits());
    assert_eq!(Float::Single(0x3f80_0000).as_f64().to_bits(), 1.0_f64.to_bits());
}

#[test]
fn constant_expressions_are_evaluated() {
    let cases = [
        ("(1<<4)+2", 18),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-7 / 2", -3),
        ("!5", 0),
        ("1 ? 10 : 20", 10),
        ("0 ? 10 : 1 ? 20 : 30", 20),
        ("5 > 3 && 2 <= 2", 1),
        ("6 & 3 | 8 ^ 1", 11),
        ("-8 >> 1", -4),
        ("WARP_SZ * 4", 128),
        ("(.s64) 3.9", 3),
        ("1.5 < 2", 1),
    ];
    for (text, value) in cases {
        operand_is(text, &integer(value));
    }
    operand_is("-1 > 5U", &integer(1));
    // The results of ptxas 13.0, which differ from C's.
    let unsigned = |bits| Operand::Integer(Integer { bits, unsigned: true });
    operand_is("-7 % 3", &unsigned(0));
    operand_is("~0 / 2", &unsigned(u64::MAX / 2));
    operand_is("~0 > 0", &integer(1));
    operand_is("-9223372036854775808 / 2", &unsigned(1 << 62));
    operand_is("0x8000000000000000 >> 4", &unsigned(1 << 59));
    operand_is("(.u64) -1", &Operand::Integer(Integer { bits: u64::MAX, unsigned: true }));
    operand_is("1.5 * 2", &Operand::Float(Float::Double(3.0_f64.to_bits())));
}

#[test]
fn addresses_are_read_in_every_form() {
    let address = |base, offset| Operand::Address { base, offset };
    operand_is("[%rd1]", &address(Some("%rd1"), 0));
    operand_is("[%rd1+8]", &address(Some("%rd1"), 8));
    operand_is("[ %rd1 + -4 ]", &address(Some("%rd1"), -4));
    operand_is("[%rd1-4]", &address(Some("%rd1"), -4));
    operand_is("[sym+4*8+1]", &address(Some("sym"), 33));
    operand_is("[0x1000]", &address(None, 0x1000));
    operand_is("sym+4", &Operand::Offset { name: "sym", offset: 4 });
    operand_is("a[3]", &Operand::Element { array: "a", index: None, offset: 3 });
    operand_is("a[%r1+1]", &Operand::Element { array: "a", index: Some("%r1"), offset: 1 });
}

#[test]
fn vectors_pairs_and_negations_are_read() {
    use Operand::{Name, Negated, Not, Pair, Sink, Vector};
    operand_is("{a, _, 1, %r.x}", &Vector(vec![Name("a"), Sink, integer(1), Name("%r.x")]));
    operand_is("p|q", &Pair(Some("p"), Some("q")));
    operand_is("_ | q", &Pair(None, Some("q")));
    operand_is("p|_", &Pair(Some("p"), None));
    operand_is("!p", &Not("p"));
    operand_is("-%r1", &Negated("%r1"));
}

#[test]
fn texture_and_tensor_addresses_are_tuples() {
    use Operand::{Address, Name, Offset, Tuple, Vector};
    let coordinates = || Vector(vec![Name("x"), Name("y")]);
    operand_is("[tex, {x, y}]", &Tuple(vec![Name("tex"), coordinates()]));
    operand_is("[tex, smp, {x, y}]", &Tuple(vec![Name("tex"), Name("smp"), coordinates()]));
    operand_is("[a+4, 1]", &Tuple(vec![Offset { name: "a", offset: 4 }, integer(1)]));
    let bulk = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [d], [m, {x, y}], [b];";
    with_instruction(bulk, |instruction| {
        let simple = |base| Address { base: Some(base), offset: 0 };
        assert_eq!(instruction.operands, [simple("d"), Tuple(vec![Name("m"), coordinates()]), simple("b")]);
        assert!(instruction.opcode.has("mbarrier::complete_tx::bytes"));
    });
}

#[test]
fn calls_come_apart() {
    let parts = |text: &str, returns: usize, target: &str, arguments: usize, prototype: Option<&str>| {
        with_instruction(text, |instruction| {
            let call = instruction.call().unwrap_or_else(|| panic!("{text} comes apart"));
            assert_eq!(
                (call.returns.len(), call.target, call.arguments.len(), call.prototype),
                (returns, target, arguments, prototype),
                "{text}"
            );
        });
    };
    parts("call.uni (r), f, (a, b);", 1, "f", 2, None);
    parts("call f;", 0, "f", 0, None);
    parts("call f, ();", 0, "f", 0, None);
    parts("call (r), %rd1, (a, 5), proto;", 1, "%rd1", 2, Some("proto"));
    parts("call.uni %rd1, (a), list;", 0, "%rd1", 1, Some("list"));
    parts("call (a, b), f;", 2, "f", 0, None);
    with_instruction("mov.u32 a, (3);", |instruction| assert!(instruction.call().is_none()));
}

#[test]
fn comments_and_blanks_stand_anywhere() {
    let text = "/* a\n */ @p /*b*/ ld.global.u32 // c\r\n %r1 /**/ , [ %rd1 /* d */ + 4 ] ; // e\n";
    with_instruction(text, |instruction| assert_eq!(instruction.operands.len(), 2));
}

#[test]
fn positions_count_lines_and_bytes_from_one() {
    let module = parse(".version 9.0\n.target sm_90\n.entry k()\n{\n\tret;\n  /* é\n */ @p exit;\n}").expect("good");
    let body = module.functions[0].body.as_deref().expect("a body");
    assert_eq!(module.functions[0].position, Position { line: 3, column: 8 });
    let at: Vec<_> = body
        .iter()
        .map(|statement| match statement {
            Statement::Instruction(instruction) => (instruction.position.line, instruction.position.column),
            other => panic!("an instruction, not {other:?}"),
        })
        .collect();
    assert_eq!(at, [(5, 2), (7, 5)]);
}

#[test]
fn a_percent_sign_before_a_word_begins_a_name_and_is_no_operator() {
    let text = format!("{HEAD}.entry k(.param .u64 .ptr .align 1 %rd57, .param .u64 .ptr .align 8 %1) {{ ret; }}\n");
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let names: Vec<_> = module.functions[0].parameters.iter().map(|parameter| parameter.name).collect();
    assert_eq!(names, ["%rd57", "%1"]);
    let printed = module.to_string();
    assert_eq!(parse(&printed).expect("what was printed is read").to_string(), printed);
    // By itself it is no name, or what is printed behind a number would read as a remainder.
    assert!(parse(&format!("{HEAD}.entry k(.param .u64 %) {{ ret; }}\n")).is_err());
    operand_is("7 % 4", &Operand::Integer(Integer { bits: 3, unsigned: true }));
}
