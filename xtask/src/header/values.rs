//! Whether `api/values.toml` has all that NVIDIA's header names: each enumerator of the sets it lists, each parameter of flags or
//! of an enumeration of the functions that floe implements, and each member of the structs they take. The header's text and the table
//! come in, sentences about what is missing go out. What the answers are, the tests check.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::toolchain::repository;

/// What is read of the table.
#[derive(Deserialize)]
pub(super) struct Table {
    sets: BTreeMap<String, BTreeMap<String, i64>>,
    row: Vec<Row>,
    /// By reason: parameters `FUNCTION.NAME` and members `STRUCT.NAME` that are passed elsewhere, or are no input.
    elsewhere: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Row {
    of: Vec<String>,
}

/// The table of the repository.
pub(super) fn table() -> Result<Table> {
    let path = repository().join("api/values.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

/// What the header says, as far as values go.
#[derive(Default)]
pub(super) struct Header {
    enumerations: BTreeMap<String, BTreeMap<String, i64>>,
    /// Names of structs, with their members' names.
    structs: BTreeMap<String, Vec<String>>,
    /// What a name stands for.
    aliases: BTreeMap<String, String>,
    /// `#define NAME NUMBER`.
    defines: BTreeMap<String, i64>,
    /// By function: type and name of each parameter.
    functions: BTreeMap<String, Vec<(String, String)>>,
}

impl Header {
    /// `preprocessed` is the header behind the C preprocessor, `raw` before it.
    pub(super) fn read(preprocessed: &str, raw: &str) -> Self {
        let mut header = Self { defines: raw.lines().filter_map(define).collect(), ..Self::default() };
        let mut rest = preprocessed;
        while let Some(at) = rest.find("typedef ") {
            rest = &rest[at + "typedef ".len()..];
            rest = &rest[header.add(rest)..];
        }
        for statement in preprocessed.split(';') {
            header.functions.extend(function(statement));
        }
        header
    }

    /// Takes one type definition, and gives its length.
    fn add(&mut self, text: &str) -> usize {
        let end = text.find(';').unwrap_or(text.len());
        let Some(open) = text.find('{').filter(|open| *open < end) else {
            if let [.., stands_for, name] = *words(&text[..end]) {
                self.aliases.insert(name.to_owned(), stands_for.to_owned());
            }
            return end;
        };
        let close = open + body_length(&text[open..]);
        let after = &text[close..];
        let end = after.find(';').unwrap_or(after.len());
        let Some(name) = words(&after[..end]).first().map(|name| (*name).to_owned()) else { return close };
        let body = &text[open + 1..close - 1];
        match words(&text[..open]).first() {
            Some(&"enum") => drop(self.enumerations.insert(name, enumerators(body))),
            _ => drop(self.structs.insert(name, members(body))),
        }
        close + end
    }

    /// What a type's name stands for in the end.
    fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        let mut name = name;
        for _ in 0..8 {
            match self.aliases.get(name) {
                Some(next) if next != name => name = next,
                _ => break,
            }
        }
        name
    }

    /// A type without `const` and stars, and whether it had a star.
    fn kind<'a>(&'a self, text: &'a str) -> (&'a str, bool) {
        let names = words(text);
        let name = names.iter().find(|word| !matches!(**word, "const" | "enum" | "struct" | "unsigned"));
        (self.resolve(name.copied().unwrap_or("int")), text.contains('*'))
    }
}

/// The words of C in a text.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).collect()
}

/// Bytes from a brace to the one that closes it.
fn body_length(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

fn number(text: &str) -> Option<i64> {
    if let Some((number, bits)) = text.split_once("<<") {
        return self::number(number)?.checked_shl(u32::try_from(self::number(bits)?).ok()?);
    }
    let text = text.trim().trim_matches(['(', ')']).trim_end_matches(['u', 'U', 'l', 'L']);
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn define(line: &str) -> Option<(String, i64)> {
    let mut words = line.strip_prefix("#define ")?.split_whitespace();
    Some((words.next()?.to_owned(), number(words.next()?)?))
}

/// Enumerators with their values; -1 for one that is no number.
fn enumerators(body: &str) -> BTreeMap<String, i64> {
    let (mut found, mut last) = (BTreeMap::new(), Some(-1));
    for part in body.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) =
            part.split_once('=').map_or((part, None), |(name, value)| (name.trim(), Some(value.trim())));
        last = match value {
            Some(value) => number(value).or_else(|| found.get(value).copied()),
            None => last.map(|last| last + 1),
        };
        found.insert(name.to_owned(), last.unwrap_or(-1));
    }
    found
}

/// The names of a struct's own members; of a nested struct or union its name, or its members where it has none.
fn members(body: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), body);
    while let Some(end) = rest.find([';', '{']) {
        let is_nested = rest[end..].starts_with('{');
        let close = if is_nested { end + body_length(&rest[end..]) } else { end };
        let last = rest[close..].find(';').map_or(rest.len(), |at| close + at);
        let declared = rest[if is_nested { close } else { 0 }..last].split('[').next().unwrap_or_default();
        match words(declared).last() {
            Some(name) if is_nested || !declared.trim().is_empty() => found.push((*name).to_owned()),
            _ if is_nested => found.extend(members(&rest[end + 1..close - 1])),
            _ => {}
        }
        rest = rest.get(last + 1..).unwrap_or_default();
    }
    found
}

/// The function that a statement declares.
fn function(statement: &str) -> Option<(String, Vec<(String, String)>)> {
    let at = statement.rfind("CUresult ").filter(|_| !statement.contains("typedef"))?;
    let (name, arguments) = statement[at + "CUresult ".len()..].split_once('(')?;
    let (arguments, _) = arguments.rsplit_once(')').filter(|_| name.trim().starts_with("cu"))?;
    let parameter = |text: &str| {
        let name = *words(text).last()?;
        let (kind, _) = text.rsplit_once(name)?;
        Some((kind.trim().to_owned(), name.to_owned()))
    };
    let parameters = arguments.split(',').filter(|text| text.trim() != "void").filter_map(parameter);
    Some((name.trim().to_owned(), parameters.collect()))
}

/// A function's name without its version, and without the suffix of the per-thread default stream.
fn base(name: &str) -> &str {
    let name = ["_ptsz", "_ptds"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    name.rsplit_once("_v").filter(|(_, version)| version.parse::<u8>().is_ok()).map_or(name, |(base, _)| base)
}

/// What the table says is passed: words of each probe, by the function's name without its version.
fn probed(table: &Table) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for probe in table.row.iter().flat_map(|row| &row.of) {
        let (function, rest) = probe.split_once('.').unwrap_or((probe, ""));
        let of = found.entry(base(function)).or_default();
        of.extend(rest.split('.').chain(rest.split(['.', '_'])).chain([rest]));
    }
    found
}

/// All that is missing or other in the table, one sentence each. `ours` are the functions that floe implements.
pub(super) fn missing(table: &Table, header: &Header, ours: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, set) in &table.sets {
        found.extend(compare_set(name, set, header));
    }
    let passed = probed(table);
    let elsewhere: BTreeSet<&str> = table.elsewhere.values().flatten().map(String::as_str).collect();
    let mut structs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (function, parameters) in header.functions.iter().filter(|(function, _)| ours.contains(*function)) {
        let own = passed.get(base(function));
        for (kind, name) in parameters {
            let (kind, is_pointer) = header.kind(kind);
            if header.structs.contains_key(kind) {
                structs.entry(kind).or_default().insert(base(function));
                continue;
            }
            let is_wish = ["flags", "option", "mode"].iter().any(|word| name.to_lowercase().contains(word))
                && !name.starts_with("num");
            let matters = header.enumerations.contains_key(kind) || is_wish && !is_pointer;
            let is_known = own.is_some_and(|own| own.contains(name.as_str()))
                || elsewhere.contains(format!("{}.{name}", base(function)).as_str());
            if matters && !is_known {
                found.push(format!("no value is passed for: {function}.{name}"));
            }
        }
    }
    for (kind, functions) in structs {
        let all: BTreeSet<&str> =
            functions.iter().filter_map(|function| passed.get(function)).flatten().copied().collect();
        for member in &header.structs[kind] {
            if !all.contains(member.as_str()) && !elsewhere.contains(format!("{kind}.{member}").as_str()) {
                found.push(format!("no value is passed for: {kind}.{member}"));
            }
        }
    }
    found
}

/// The header's set of this name: an enumeration, or the definitions that begin so.
fn compare_set(name: &str, set: &BTreeMap<String, i64>, header: &Header) -> Vec<String> {
    let defined: BTreeMap<String, i64> = match header.enumerations.get(name) {
        Some(enumerators) => enumerators.clone(),
        None => {
            let begins = header.defines.iter().filter(|(define, _)| name.ends_with('_') && define.starts_with(name));
            begins.map(|(define, value)| (define.clone(), *value)).collect()
        }
    };
    // A set that is none of the header's has no values.
    let differs = |one: &BTreeMap<String, i64>, other: &BTreeMap<String, i64>, what: &str| {
        let names = one.iter().filter(|(name, value)| other.get(*name) != Some(value));
        names.map(|(name, value)| format!("{what}: {name} = {value}")).collect::<Vec<_>>()
    };
    [differs(&defined, set, "api/values.toml lacks"), differs(set, &defined, "cuda.h has no")].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "typedef enum E_enum { A = 1 << 0, B, C = A, LAST = 0x7FFFFFFF } E; typedef E F;\n\
        typedef struct S_st { E kind; int reserved[3]; union { int one; struct { int x; } two; }; struct { int y; } in; } S_v1;\n\
        typedef S_v1 S; CUresult cuOne(const S *what, F choice, unsigned int flags, size_t bytes);\n\
        CUresult cuTwo_v2(void *data, E *choices); CUresult cuThree(unsigned int flags);";
    const RAW: &str = "#define CU_MEM_ONE 0x02\n#define CU_MEM_TWO ((void*)1)\n";

    fn found(table: &str) -> Vec<String> {
        let ours = ["cuOne", "cuTwo_v2"].map(str::to_owned).into();
        missing(&toml::from_str(table).expect("a table"), &Header::read(HEADER, RAW), &ours)
    }

    const WHOLE: &str = "[sets]\nE = { A = 1, B = 2, C = 1, LAST = 2147483647 }\nCU_MEM_ = { CU_MEM_ONE = 2 }\n\
        [[row]]\nof = ['cuOne.choice', 'cuOne.flags', 'cuTwo.choices', 'cuOne.what.kind', 'cuOne.what.reserved', 'cuOne.in.y']\n\
        [elsewhere]\n'a number' = ['S_v1.one', 'S_v1.two']\n";

    #[test]
    fn a_table_with_all_of_a_header_lacks_nothing() {
        assert_eq!(found(WHOLE), [""; 0]);
    }

    #[test]
    fn what_is_left_out_of_a_table_is_named() {
        for (left_out, named) in [
            ("'cuOne.choice', ", "cuOne.choice"),
            ("'cuOne.flags', ", "cuOne.flags"),
            ("'cuTwo.choices', ", "cuTwo_v2.choices"),
            ("'cuOne.what.reserved', ", "S_v1.reserved"),
            ("'S_v1.one', ", "S_v1.one"),
            ("B = 2, ", "lacks: B = 2"),
            ("CU_MEM_ONE = 2", "lacks: CU_MEM_ONE = 2"),
        ] {
            let found = found(&WHOLE.replace(left_out, ""));
            assert!(found.len() == 1 && found[0].contains(named), "{left_out}: {found:?}");
        }
        assert_eq!(found(&WHOLE.replace("B = 2", "B = 3")).len(), 2);
    }
}
