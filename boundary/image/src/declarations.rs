//! Bytes of the variables that PTX text declares in the device's memory.
//! In goes a text as programs carry it, out comes the sum of its `.global` and `.const` variables, wherever they stand.
//! It has no tokens of its own: the parser of the CPU device reads the text. For a text that the parser refuses there is no answer.

use floe_ptx::{Initializer, Limits, Linkage, Module, ScalarType, Space, Statement, Variable};

/// The parts of a text that are read: values of variables only where their number is the size.
const LIMITS: Limits = Limits { text_bytes: 1 << 30, statements: 64 << 20, elements: 4 << 20, depth: 64 };
/// The most variables that one declaration makes, as far as names are made of it.
const MOST_OF_ONE: u64 = 1 << 16;
/// The least alignment of a variable: the next one begins no further behind it.
const ALIGNED: u64 = 16;
/// Bytes of a texture, sampler or surface in memory, and some more: ptxas 13.0 has 64, 4 and 32 of them.
const HANDLE: u64 = 64;

/// Bytes of the variables; `None` where the meaning of the text is not certain. More than 64 bits are `u64::MAX`.
pub(crate) fn bytes(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| is_plain(text.as_bytes()))?;
    let module = floe_ptx::declarations(text, &LIMITS).ok()?;
    let mut all = variables(&module);
    all.try_fold(0_u64, |sum, variable| Some(sum.saturating_add(of_variable(variable)?)))
}

/// The names of the variables; `None` as for [`bytes`].
pub(crate) fn names(text: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(self::text(text)?).ok().filter(|text| is_plain(text.as_bytes()))?;
    let module = floe_ptx::declarations(text, &LIMITS).ok()?;
    let all = variables(&module);
    let nameable = all.filter(|variable| matches!(variable.space, Space::Global | Space::Constant));
    let mut names = Vec::new();
    for variable in nameable {
        match variable.range {
            None => names.push(variable.name.to_string()),
            // `name<N>` declares name0 to nameN-1.
            Some(count) if u64::from(count) <= MOST_OF_ONE => {
                names.extend((0..count).map(|number| format!("{}{number}", variable.name)));
            }
            Some(_) => return None,
        }
    }
    Some(names)
}

/// All variables, wherever they stand.
fn variables<'a, 'b>(module: &'b Module<'a>) -> impl Iterator<Item = &'b Variable<'a>> {
    let inside = module.functions.iter().flat_map(|function| function.body.iter().flatten());
    let inside = inside.filter_map(|statement| match statement {
        Statement::Variable(variable) => Some(&**variable),
        _ => None,
    });
    module.variables.iter().chain(inside)
}

/// Whether every compiler ends the text's lines and strings at the same places. ptxas 13.0 knows no escapes and
/// continues no line. Others may, and no compiler writes such a text.
fn is_plain(text: &[u8]) -> bool {
    let has_escape = memchr::memchr_iter(b'\\', text).any(|at| matches!(text.get(at + 1), Some(b'"' | b'\n' | b'\r')));
    let has_bare_return = memchr::memchr_iter(b'\r', text).any(|at| text.get(at + 1) != Some(&b'\n'));
    !has_escape && !has_bare_return
}

/// Bytes of a variable and what its alignment may add.
fn of_variable(variable: &Variable<'_>) -> Option<u64> {
    let element = match (variable.space, variable.scalar) {
        (Space::Texture, _) => HANDLE,
        // Only a parameter points.
        (Space::Global | Space::Constant, _) if variable.pointer.is_some() => return None,
        (Space::Global | Space::Constant, scalar) => element(scalar)?.saturating_mul(variable.lanes.into()),
        _ => return Some(0),
    };
    // An `.extern` one takes memory too: ptxas 13.0 makes it where nothing defines it, if its size is written.
    let count = match (&variable.dimensions[..], &variable.initializer) {
        ([None, ..], None) if variable.linkage == Linkage::Extern => return Some(0),
        ([None, rest @ ..], Some(Initializer::List(values))) => product(rest)?.saturating_mul(values.len() as u64),
        (all, _) => product(all)?,
    };
    let count = count.saturating_mul(variable.range.unwrap_or(1).into());
    let aligned = variable.alignment.map_or(ALIGNED, |bytes| u64::from(bytes).max(ALIGNED));
    Some(element.saturating_mul(count).saturating_add(aligned - 1))
}

fn element(scalar: ScalarType) -> Option<u64> {
    match scalar {
        ScalarType::TextureReference | ScalarType::SamplerReference | ScalarType::SurfaceReference => Some(HANDLE),
        ScalarType::Predicate => None,
        scalar => Some(scalar.size().into()),
    }
}

fn product(dimensions: &[Option<u64>]) -> Option<u64> {
    dimensions.iter().try_fold(1_u64, |count, dimension| Some(count.saturating_mul((*dimension)?)))
}

/// The text of an image up to its NUL; `None`: there is more behind that, which some may read.
pub(crate) fn text(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(end);
    rest.iter().all(|&byte| byte == 0).then_some(text)
}

#[cfg(test)]
mod tests {
    /// Bytes that alignment may add to a variable.
    const ALIGN: u64 = 15;
    const BIG: u64 = 200 << 20;

    fn bytes(rest: &str) -> Option<u64> {
        super::bytes(format!(".version 8.0\n.target sm_90\n.address_size 64\n{rest}").as_bytes())
    }

    #[test]
    fn variables_of_the_devices_memory_are_counted_and_nothing_else() {
        let text = "// .global .b8 no[1];\n\
            .file 1 \"a;.global.b8 x[9];\"\n\
            .visible .global .align 4 .b8 big[209715200];\n\
            .const .v4 .f32 table[2][0x10] = {1, 2};\n\
            /* .global .b8 c[7]; */ .global .u64 one, two = 5, three[3];\n\
            .extern .shared .b8 shared[];\n\
            .extern .global .b8 theirs[];\n\
            .visible .entry k(.param .u64 .ptr .global .align 8 a) { .reg .b32 %r<5>; .local .b8 l[64];\n\
            label: ld.global.u32 %r1, [%rd1]; .shared .b8 s[32]; new.instruction.const <%r1 ~ %r2>;\n\
            p: .callprototype (.param .b32 _) _ (.param .u64 .ptr .global .align 8 _); }\n";
        assert_eq!(bytes(text), Some(BIG + 2 * 16 * 16 + 5 * 8 + 5 * ALIGN));
    }

    #[test]
    fn products_that_overflow_are_more_than_there_can_be() {
        assert_eq!(bytes(".global .b64 x[4294967296][4294967296];"), Some(u64::MAX));
        assert_eq!(bytes(".global .b64 x[2305843009240000000];"), Some(u64::MAX), "ptxas makes 210448384 of it");
        assert_eq!(bytes(".global .b64 x[99999999999999999999];"), None);
    }

    /// ptxas 13.0 makes 200 MiB of memory of each of these, which look smaller.
    #[test]
    fn no_spelling_hides_a_variable() {
        for text in [
            ".entry k() { ret; }\n/*/ */ .visible .global .b8 big[209715200];",
            "/* /* */ .visible .global .b8 big[209715200];",
            ".visible.global.b8 big[209715200];",
            "\x0c.visible/**/.global//\n.b8 big [ 209715200 ];",
            "// x \\ \n.visible .global .b8 big[209715200];",
            "// ??/\n.visible .global .b8 big[209715200]; // .extern",
            ".pragma \"/*\"; .visible .global .b8 big[209715200]; .pragma \"*/\";",
            ".pragma \"x\n{\"; .visible .global .b8 big[209715200];",
            ".file 1 \"a.func\"\n.visible .global .b8 big[209715200];",
            ".section .debug_x { .b8 1 }\n.visible .global .b8 big[209715200];",
            ".section .debug_x { .b8 1 /* } */ }\n.visible .global .b8 big[209715200];",
            ".func f() { ret; /* } */ }\n.visible .global .b8 big[209715200];",
            ".entry k() { .pragma \"}\"; ret; }\n.visible .global .b8 big[209715200];",
            ".entry k() { .global.b8 big[209715200]; ret; }",
            ".entry k() { { a: b: .global .b8 big[209715200]; } ret; }",
            ".file 1 \"a\"\n.entry k() { .loc 1 1 1 .global .b8 big[209715200]; ret; }",
            ".func (.param .b32 r) f(.param .b64 p) { .global .b8 big[209715200]; ret; }",
            ".extern .global .b8 big[209715200];",
            ".extern .global .b8 big[209715200]; .visible .global .b8 big[209715200];",
            ".weak .global .b8 big[209715200];",
            ".common .global .b8 big[209715200];",
            ".visible .global .attribute(.managed) .b8 big[209715200];",
            ".visible .global .attribute(.unified(1, 2)) .b8 big[209715200];",
            ".global .b8 a[4] = {1, 2}, big[209715200];",
            ".global .b8 a = 5, big[0xC800000];",
            ".global .b8 big[0xC800000U];",
            ".global .b8 big[01440000000];",
            ".global .b8 big[0b1100100000000000000000000000];",
            ".global .v4 .b32 big[13107200];",
            ".global .b128 big[100][131072];",
            ".global .b8 big[][209715200] = {{1}};",
            ".global .align 1073741824 .b8 aligned;",
        ] {
            assert!(bytes(text).is_none_or(|bytes| bytes >= BIG), "{text}: {:?}", bytes(text));
        }
    }

    #[test]
    fn ptxas_makes_no_more_of_rarer_types() {
        // Bytes of `.nv.global` and `.nv.global.init` by ptxas 13.0 for sm_90.
        for (text, made) in [
            (".global .texref t[1000]; .global .surfref s[1000]; .global .samplerref m[1000];", 100_000),
            (".global .b32 open[][1000] = {{1}, {2}, {3}};", 12_000),
            (".global .b32 open[] = {1, 2, 3};", 12),
            (".global .v4 .b32 v[1000];", 16_000),
            (".global .b128 b[1000];", 16_000),
            (".global .f16x2 h[1000];", 4_000),
        ] {
            assert!(bytes(text).is_some_and(|bytes| bytes >= made), "{text}: {:?}", bytes(text));
        }
    }

    #[test]
    fn uncertain_texts_are_unknown() {
        for text in [
            ".global .b8 x[N];",
            ".global .b8 x[];",
            ".global .b8 x[4][] = {1};",
            ".global .strange x;",
            ".global .b8 x(4);",
            ".global .pred x;",
            ".global .ptr .param .b8 big[209715200];",
            ".global .attribute(.param) .b8 big[209715200];",
            ".global.b8",
            "#define N 5\n",
            "# 1 \"x\"\n.global .b8 x[4];",
            "@@DWARF .section\n",
            "\x0b.global .b8 big[4];",
            "\x01.global .b8 big[4];",
            "// ä is none of PTX's letters, \u{85}\r.global .b8 big[4];",
            ".pragma \"x\\\"\" ; .global .b8 big[4];",
            ".pragma \"x\\\"; .global .b8 big[4];",
            "// \\\n/*\n.global .b8 big[4];\n// */",
            "/* .global .b8 big[4];",
            ".pragma \"x; .global .b8 big[4];",
            ".section .debug_x { .b8 1 .global .b8 big[4];",
            ".entry k() { @p .global .b8 big[4]; ret; }",
            ".entry k() { add.u32 a, b, c .global .b8 big[4]; ret; }",
            ".entry k() { ld .global .u32 a, [b]; ret; }",
            ".entry k() { .reg .b32 a .global .b8 big[4]; ret; }",
            ".entry k() { .shared.global .b8 big[4]; ret; }",
            ".entry k() { ret; ",
            ".entry k() { ret; } } .global .b8 big[4];",
            "mov.u32 a, b; .global .b8 big[4];",
            "x: .global .b8 big[4];",
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
        assert_eq!(super::bytes(b".global .b8 big[4];"), None, "no version");
        assert_eq!(super::bytes(b".version 8.0\n.target sm_90\n// \xff\n"), None, "no UTF-8");
    }
}
