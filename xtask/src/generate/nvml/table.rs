//! The management library's table as data: `api/nvml` in, checked entries out. A mistake in the table stops here with
//! file and function, never as odd code further on.

use crate::toolchain::repository;
use anyhow::{Context, Result, bail, ensure};
use heck::ToSnakeCase;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The one exported function that returns no result; the surface has it by itself.
pub(super) const ERROR_TEXT: &str = "nvmlErrorString";

/// The whole table.
pub(super) struct Table {
    pub(super) nouns: Vec<Noun>,
    /// By number.
    pub(super) readings: BTreeMap<u32, Reading>,
    /// Every name NVIDIA's library exports.
    pub(super) symbols: BTreeSet<String>,
}

/// One number a device can be asked for.
pub(super) struct Reading {
    pub(super) name: String,
    pub(super) doc: String,
}

/// One file of the table.
pub(super) struct Noun {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) entries: Vec<Entry>,
}

/// One exported function.
pub(super) struct Entry {
    pub(super) symbol: String,
    pub(super) method: String,
    pub(super) doc: String,
    pub(super) aliases: Vec<String>,
    pub(super) answers: Vec<Answer>,
    /// Its lists are always empty.
    pub(super) empty: bool,
    pub(super) before_init: bool,
    pub(super) arguments: Vec<Argument>,
}

/// The value of an output without a method.
#[derive(Deserialize, Clone)]
#[serde(untagged)]
pub(super) enum Answer {
    Always(u32),
    Reading(String),
}

/// One argument as C passes it.
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) shape: Shape,
}

pub(super) enum Shape {
    Value(String),
    In(String),
    Text,
    Out(String),
    OutText {
        length: String,
    },
    /// The count of the list of the same name.
    Count,
    List(String),
    Update {
        element: String,
        count: String,
    },
    Versioned(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReading {
    number: u32,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    doc: String,
    args: Vec<String>,
    #[serde(default)]
    answers: Vec<Answer>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    empty: bool,
    #[serde(default)]
    before_init: bool,
}

impl Entry {
    /// The exported names: its own, then its aliases.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.symbol.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    /// Whether the implementation is asked by a method of the noun's trait.
    pub(super) fn has_method(&self) -> bool {
        self.answers.is_empty() && !self.empty
    }

    /// Whether an argument only says how long another one is.
    pub(super) fn is_length(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| match &argument.shape {
            Shape::OutText { length } => length == name,
            Shape::Update { count, .. } => count == name,
            _ => false,
        })
    }
}

impl Argument {
    fn parse(text: &str) -> Result<Self> {
        let (words, kind) = match text.split_once(": ") {
            Some((words, kind)) => (words, Some(kind.to_owned())),
            None => (text, None),
        };
        let bracketed = |name: &str| -> Result<(String, String)> {
            let (name, length) = name.split_once('[').context("a length in brackets is expected")?;
            Ok((name.to_owned(), length.trim_end_matches(']').to_owned()))
        };
        let words: Vec<&str> = words.split(' ').collect();
        let (name, shape) = match (words.as_slice(), kind) {
            (["out", "text", name], None) => {
                let (name, length) = bracketed(name)?;
                (name, Shape::OutText { length })
            }
            (["text", name], None) => ((*name).to_owned(), Shape::Text),
            (["count", name], None) => (format!("{name}_count"), Shape::Count),
            (["in", name], Some(kind)) => ((*name).to_owned(), Shape::In(kind)),
            (["out", name], Some(kind)) => ((*name).to_owned(), Shape::Out(kind)),
            (["list", name], Some(kind)) => ((*name).to_owned(), Shape::List(kind)),
            (["versioned", name], Some(kind)) => ((*name).to_owned(), Shape::Versioned(kind)),
            (["update", name], Some(element)) => {
                let (name, count) = bracketed(name)?;
                (name, Shape::Update { element, count })
            }
            ([name], Some(kind)) => ((*name).to_owned(), Shape::Value(kind)),
            _ => bail!("not an argument: {text}"),
        };
        Ok(Self { name, shape })
    }

    /// As C passes it.
    pub(super) fn c_type(&self) -> String {
        match &self.shape {
            Shape::Value(kind) => kind.clone(),
            Shape::In(kind) => format!("*const {kind}"),
            Shape::Text => "*const c_char".to_owned(),
            Shape::OutText { .. } => "*mut c_char".to_owned(),
            Shape::Count => "*mut u32".to_owned(),
            Shape::Out(kind) | Shape::List(kind) | Shape::Versioned(kind) | Shape::Update { element: kind, .. } => {
                format!("*mut {kind}")
            }
        }
    }
}

impl Table {
    /// Answered names with their noun and entry.
    pub(super) fn rows(&self) -> BTreeMap<&str, (&str, &Entry)> {
        let rows = self.nouns.iter().flat_map(|noun| {
            noun.entries
                .iter()
                .flat_map(move |entry| entry.names().map(move |name| (name, (noun.name.as_str(), entry))))
        });
        rows.collect()
    }
}

/// Reads and checks the table.
pub(super) fn load() -> Result<Table> {
    let folder = repository().join("api/nvml");
    let symbols = std::fs::read_to_string(folder.join("symbols.txt")).context("api/nvml/symbols.txt")?;
    let symbols: BTreeSet<String> = symbols.lines().map(str::to_owned).collect();
    let readings = load_readings(&std::fs::read_to_string(folder.join("readings.toml"))?)?;
    let mut files: Vec<_> = std::fs::read_dir(folder.join("calls"))?.collect::<std::io::Result<_>>()?;
    files.sort_by_key(std::fs::DirEntry::path);
    let mut nouns = Vec::new();
    for file in files {
        let path = file.path();
        let name = path.file_stem().context("a table without a name")?.to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path)?;
        nouns.push(load_noun(name, &text).with_context(|| path.display().to_string())?);
    }
    let table = Table { nouns, readings, symbols };
    check(&table)?;
    Ok(table)
}

fn load_readings(text: &str) -> Result<BTreeMap<u32, Reading>> {
    let raw: BTreeMap<String, RawReading> = toml::from_str(text).context("api/nvml/readings.toml")?;
    let mut readings = BTreeMap::new();
    for (name, RawReading { number, doc }) in raw {
        let other = readings.insert(number, Reading { name, doc });
        ensure!(other.is_none(), "api/nvml/readings.toml: two readings have the number {number}");
    }
    Ok(readings)
}

fn load_noun(name: String, text: &str) -> Result<Noun> {
    let raw: BTreeMap<String, RawEntry> = toml::from_str(text)?;
    let first =
        text.lines().next().and_then(|line| line.strip_prefix("# ")).context("the first line says what it is")?;
    let mut entries = Vec::new();
    for (symbol, raw) in raw {
        let arguments: Result<_> = raw.args.iter().map(|text| Argument::parse(text)).collect();
        let method = symbol.strip_prefix("nvml").unwrap_or(&symbol).to_snake_case();
        entries.push(Entry {
            method,
            arguments: arguments.with_context(|| symbol.clone())?,
            symbol,
            doc: raw.doc,
            aliases: raw.aliases,
            answers: raw.answers,
            empty: raw.empty,
            before_init: raw.before_init,
        });
    }
    Ok(Noun { name, doc: first.to_owned(), entries })
}

fn check(table: &Table) -> Result<()> {
    let known: BTreeSet<&str> = table.readings.values().map(|reading| reading.name.as_str()).collect();
    let mut seen = BTreeSet::new();
    for entry in table.nouns.iter().flat_map(|noun| &noun.entries) {
        for name in entry.names() {
            ensure!(table.symbols.contains(name), "{name} is not exported by NVIDIA's library");
            ensure!(seen.insert(name), "{name} is in the table twice");
        }
        let outs = entry.arguments.iter().filter(|argument| matches!(argument.shape, Shape::Out(_))).count();
        ensure!(entry.answers.is_empty() || entry.answers.len() == outs, "{}: one answer per out", entry.symbol);
        for answer in &entry.answers {
            if let Answer::Reading(name) = answer {
                ensure!(known.contains(name.as_str()), "{}: no such reading: {name}", entry.symbol);
            }
        }
    }
    Ok(())
}
