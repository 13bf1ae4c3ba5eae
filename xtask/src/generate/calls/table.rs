//! The call table as data: `api/calls/*.toml` and `api/symbols.txt` in, checked entries out. A mistake in the table
//! stops here with file and function, never as odd code further on.

use crate::toolchain::repository;
use anyhow::{Context, Result, bail, ensure};
use heck::ToSnakeCase;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The whole table.
pub(super) struct Table {
    pub(super) nouns: Vec<Noun>,
    /// Every name NVIDIA's library exports.
    pub(super) symbols: BTreeSet<String>,
}

/// One file of the table.
pub(super) struct Noun {
    pub(super) name: String,
    pub(super) entries: Vec<Entry>,
}

/// One exported function.
pub(super) struct Entry {
    pub(super) symbol: String,
    pub(super) method: String,
    pub(super) arguments: Vec<Argument>,
    /// The per-thread default stream's symbol, with the suffix it has: of this entry and of each alias.
    pub(super) per_thread: Vec<String>,
    pub(super) raw: RawEntry,
}

/// An entry as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEntry {
    pub(super) doc: String,
    pub(super) class: Class,
    pub(super) creates: Option<String>,
    pub(super) uses: Option<String>,
    pub(super) frees: Option<String>,
    method: Option<String>,
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    #[serde(default)]
    pub(super) implicit_stream: bool,
    #[serde(default)]
    pub(super) custom: bool,
    /// The surface answers by itself or through another entry's method: no method of its own.
    #[serde(default)]
    pub(super) surface: bool,
    #[serde(default)]
    pub(super) device: bool,
    /// The worker makes the call as it is: only handles and numbers go in and out.
    #[serde(default)]
    pub(super) plain: bool,
    #[serde(default)]
    pub(super) before_init: bool,
    /// Flags, values and members of structs that are refused, by CUDA's names. What CUDA does not name need not be said.
    pub(super) refuses: Option<String>,
    /// Flags, values and members of structs that are accepted and change nothing a program may rely on.
    pub(super) no_effect: Option<String>,
    /// The trait's method where it does not follow from the arguments.
    pub(super) signature: Option<String>,
    args: Vec<String>,
}

/// The client's way of answering a call.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Class {
    Local,
    Post,
    Call,
}

impl Class {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Post => "post",
            Self::Call => "call",
        }
    }
}

/// One argument as C passes it.
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) direction: Direction,
    pub(super) shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Value,
    In { optional: bool },
    Out { optional: bool },
}

pub(super) enum Shape {
    /// One value of a type.
    Plain(String),
    /// Values of a type; the count is another argument.
    Array { element: String, count: String },
    /// C text, NUL-terminated, in.
    Text,
    /// A buffer for C text, out.
    TextBuffer { length: String },
    /// Host memory of so many bytes.
    Host { bytes: String },
    /// Memory on either side of so many bytes.
    Unified { bytes: String },
    /// An `int` that is 0 or 1.
    Flag,
}

impl Entry {
    /// Whether some method takes this call as its own.
    pub(super) fn has_method(&self) -> bool {
        !self.raw.surface
    }

    /// Whether the marshaller gets the default stream that its symbol means.
    pub(super) fn takes_default_stream(&self) -> bool {
        self.raw.implicit_stream || !self.per_thread.is_empty() || self.arguments.iter().any(Argument::is_stream)
    }

    /// Names of the arguments that only say how long another one is.
    pub(super) fn lengths(&self) -> BTreeSet<&str> {
        self.arguments.iter().filter_map(Argument::length).collect()
    }

    /// The exported names of this entry: its own, then its aliases.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.symbol.as_str()).chain(self.raw.aliases.iter().map(String::as_str))
    }
}

impl Argument {
    pub(super) fn is_stream(&self) -> bool {
        self.direction == Direction::Value && matches!(&self.shape, Shape::Plain(name) if name == "Stream")
    }

    /// Whether it is a handle or a number by value, or comes out of the call: no address of anything.
    fn is_plain(&self) -> bool {
        let is_address = |kind: &str| kind.starts_with('*') || matches!(kind, "DevicePtr" | "HostPointer");
        match (&self.shape, self.direction) {
            (Shape::Plain(kind), Direction::Value) => !is_address(kind),
            (Shape::Plain(_) | Shape::Flag, Direction::Out { optional: false }) => true,
            _ => false,
        }
    }

    pub(super) fn length(&self) -> Option<&str> {
        match &self.shape {
            Shape::Array { count: name, .. }
            | Shape::TextBuffer { length: name }
            | Shape::Host { bytes: name }
            | Shape::Unified { bytes: name } => Some(name),
            Shape::Plain(_) | Shape::Text | Shape::Flag => None,
        }
    }

    /// Whether the method returns it.
    pub(super) fn is_returned(&self) -> bool {
        matches!(self.direction, Direction::Out { .. })
            && matches!(self.shape, Shape::Plain(_) | Shape::Flag | Shape::TextBuffer { .. })
    }

    /// The type in the C signature.
    pub(super) fn c_type(&self) -> String {
        let out = matches!(self.direction, Direction::Out { .. });
        let pointer = if out { "*mut" } else { "*const" };
        match &self.shape {
            Shape::Plain(name) if self.direction == Direction::Value => name.clone(),
            Shape::Plain(name) | Shape::Array { element: name, .. } => format!("{pointer} {name}"),
            Shape::Text | Shape::TextBuffer { .. } => format!("{pointer} c_char"),
            Shape::Host { .. } => format!("{pointer} c_void"),
            Shape::Unified { .. } => "DevicePtr".to_owned(),
            Shape::Flag if out => "*mut i32".to_owned(),
            Shape::Flag => "i32".to_owned(),
        }
    }
}

/// Reads and checks the table.
pub(super) fn load() -> Result<Table> {
    let symbols = std::fs::read_to_string(repository().join("api/symbols.txt")).context("reading api/symbols.txt")?;
    let symbols: BTreeSet<String> = symbols.lines().map(str::to_owned).collect();
    let mut paths: Vec<_> = std::fs::read_dir(repository().join("api/calls"))
        .context("reading api/calls")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    paths.sort();
    let mut nouns = Vec::new();
    for path in paths {
        let name = path.file_stem().and_then(|stem| stem.to_str()).context("a file name in api/calls")?.to_owned();
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        nouns.push(noun(name, &text, &symbols)?);
    }
    let table = Table { nouns, symbols };
    check_unique(&table)?;
    Ok(table)
}

fn noun(name: String, text: &str, symbols: &BTreeSet<String>) -> Result<Noun> {
    let raw: BTreeMap<String, RawEntry> = toml::from_str(text).with_context(|| format!("api/calls/{name}.toml"))?;
    let mut entries = Vec::new();
    for (symbol, raw) in raw {
        entries.push(entry(&symbol, raw, symbols).with_context(|| format!("api/calls/{name}.toml, {symbol}"))?);
    }
    // In the file's order, which groups what belongs together.
    entries.sort_by_key(|entry| text.find(&format!("[{}]", entry.symbol)));
    Ok(Noun { name, entries })
}

fn entry(symbol: &str, raw: RawEntry, symbols: &BTreeSet<String>) -> Result<Entry> {
    let arguments = raw.args.iter().map(|text| argument(text)).collect::<Result<Vec<_>>>()?;
    for argument in &arguments {
        if let Some(length) = argument.length() {
            ensure!(arguments.iter().any(|other| other.name == length), "no argument is called {length}");
        }
    }
    let mut per_thread = Vec::new();
    for name in std::iter::once(symbol).chain(raw.aliases.iter().map(String::as_str)) {
        ensure!(symbols.contains(name), "no such exported name: {name}");
        for suffix in ["_ptsz", "_ptds"] {
            per_thread.extend(symbols.get(&format!("{name}{suffix}")).cloned());
        }
    }
    let method = raw.method.clone().unwrap_or_else(|| method_name(symbol));
    let entry = Entry { symbol: symbol.to_owned(), method, arguments, per_thread, raw };
    if !entry.per_thread.is_empty() && !entry.raw.custom && !entry.raw.implicit_stream {
        ensure!(entry.arguments.iter().any(Argument::is_stream), "has a per-thread form but no stream");
    }
    for said in [&entry.raw.refuses, &entry.raw.no_effect].into_iter().flatten() {
        ensure!(is_cell(said), "no cell of a table: {said}");
    }
    ensure!(!entry.raw.surface || entry.raw.custom, "`surface` needs `custom`");
    ensure!(!entry.raw.plain || entry.raw.device, "`plain` needs `device`");
    ensure!(!entry.raw.plain || entry.arguments.iter().all(Argument::is_plain), "`plain` passes no address");
    Ok(entry)
}

/// Whether a table of the page can hold it: text in one line, without an end of a cell.
fn is_cell(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(['|', '\n'])
}

fn check_unique(table: &Table) -> Result<()> {
    let mut seen = BTreeSet::new();
    for entry in table.nouns.iter().flat_map(|noun| &noun.entries) {
        for name in entry.names().chain(entry.per_thread.iter().map(String::as_str)) {
            ensure!(seen.insert(name.to_owned()), "{name} stands twice in the call table");
        }
    }
    Ok(())
}

/// Snake case of the name without `cu` and `_vN`.
fn method_name(symbol: &str) -> String {
    let name = symbol.strip_prefix("cu").unwrap_or(symbol);
    let name = match name.rsplit_once("_v") {
        Some((head, tail)) if tail.chars().all(|letter| letter.is_ascii_digit()) => head,
        _ => name,
    };
    name.to_snake_case()
}

fn argument(text: &str) -> Result<Argument> {
    let (head, kind) = text.split_once(": ").with_context(|| format!("argument without a type: {text}"))?;
    let words: Vec<&str> = head.split(' ').collect();
    let (direction, name) = match words.as_slice() {
        [name] => (Direction::Value, *name),
        ["in", name] => (Direction::In { optional: false }, *name),
        ["opt", "in", name] => (Direction::In { optional: true }, *name),
        ["out", name] => (Direction::Out { optional: false }, *name),
        ["opt", "out", name] => (Direction::Out { optional: true }, *name),
        _ => bail!("argument not understood: {text}"),
    };
    let out = matches!(direction, Direction::Out { .. });
    let shape = match kind.strip_suffix(']').and_then(|kind| kind.split_once('[')) {
        Some(("cstr", length)) if out => Shape::TextBuffer { length: length.to_owned() },
        Some(("host", bytes)) => Shape::Host { bytes: bytes.to_owned() },
        Some(("unified", bytes)) => Shape::Unified { bytes: bytes.to_owned() },
        Some((element, count)) => Shape::Array { element: element.to_owned(), count: count.to_owned() },
        None if kind == "cstr" => Shape::Text,
        None if kind == "flag" => Shape::Flag,
        None => Shape::Plain(kind.to_owned()),
    };
    Ok(Argument { name: name.to_owned(), direction, shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_is_the_symbol_in_snake_case_without_version() {
        assert_eq!(method_name("cuMemAlloc_v2"), "mem_alloc");
        assert_eq!(method_name("cuDeviceGetP2PAttribute"), "device_get_p2p_attribute");
        assert_eq!(method_name("cuCtxResetPersistingL2Cache"), "ctx_reset_persisting_l2_cache");
    }

    #[test]
    fn a_cell_is_one_line_of_text() {
        assert!(is_cell("`CU_CTX_MAP_HOST`"));
        assert!(![" ", "", "two|cells", "two\nlines"].into_iter().any(is_cell));
    }

    #[test]
    fn argument_kinds_become_their_c_types() {
        let c = |text: &str| argument(text).expect("an argument").c_type();
        assert_eq!(c("out dptr: DevicePtr"), "*mut DevicePtr");
        assert_eq!(c("in x: host[n]"), "*const c_void");
        assert_eq!(c("out name: cstr[length]"), "*mut c_char");
        assert_eq!(c("in access: MemAccess[count]"), "*const MemAccess");
        assert_eq!(c("stream: Stream"), "Stream");
        assert!(argument("out of order x: u32").is_err());
    }

    #[test]
    fn plain_are_handles_and_numbers_and_no_addresses() {
        let plain = |text: &str| argument(text).expect("an argument").is_plain();
        assert!(["event: Event", "flags: u32", "out total: usize"].into_iter().all(plain));
        let others = ["at: DevicePtr", "user: *mut c_void", "in x: host[n]", "in name: cstr", "opt out total: usize"];
        assert!(!others.into_iter().any(plain));
    }
}
