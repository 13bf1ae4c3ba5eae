//! The message tables, read: `api/messages/*.toml` come in, messages and structs with typed fields go out.
//! It refuses a repeated id, an unknown type, a missing reply. It never writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use heck::ToSnakeCase as _;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageEntry {
    id: u16,
    from: Side,
    #[serde(default)]
    recipient: Recipient,
    class: Class,
    recipe: Option<Verb>,
    object: Option<String>,
    kind: Option<String>,
    of: Option<String>,
    by: Option<Vec<String>>,
    range: Option<String>,
    absorbs: Option<String>,
    doc: String,
    fields: Vec<String>,
    reply: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StructEntry {
    doc: Option<String>,
    fields: Vec<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Side {
    Client,
    Server,
}

/// Who takes a client's message: a command goes to the issuer, the others never get there.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
pub(super) enum Recipient {
    #[default]
    Issuer,
    Reader,
    Connection,
    Daemon,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Class {
    Post,
    Call,
    Deliver,
    Push,
}

/// What a command does to the objects of its session.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verb {
    Makes,
    Changes,
    Ends,
    None,
}

/// What the worker must know of a command to keep it as part of an object's recipe.
pub(super) struct Recipe {
    pub(super) verb: Verb,
    /// The field that names the object; none for the context.
    pub(super) object: Option<String>,
    /// The object's kind, where the field's type does not say it.
    pub(super) kind: Option<String>,
    /// The field that names the object that the new one is a part of.
    pub(super) of: Option<String>,
    /// A change takes the place of an earlier one that has the same in these fields.
    pub(super) by: Option<Vec<String>>,
    /// The field with the bytes of a range of objects that begins at `object`.
    pub(super) range: Option<String>,
    /// The field that names an object that the change takes in.
    pub(super) absorbs: Option<String>,
}

/// One `name: type` of a message, reply or struct.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) wire: String,
    pub(super) kind: Type,
}

pub(super) enum Type {
    Scalar(&'static str),
    Bytes,
    Text,
    List(Box<Type>),
    Id(&'static str),
    Struct(String),
}

pub(super) struct Message {
    pub(super) name: String,
    pub(super) id: u16,
    pub(super) from: Side,
    pub(super) recipient: Recipient,
    pub(super) class: Class,
    /// Of a command.
    pub(super) recipe: Option<Recipe>,
    pub(super) doc: String,
    pub(super) fields: Vec<Field>,
    pub(super) reply: Option<Vec<Field>>,
}

pub(super) struct Struct {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) fields: Vec<Field>,
}

pub(super) struct Noun {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) messages: Vec<Message>,
    pub(super) structs: Vec<Struct>,
}

const IDS: [&str; 15] = [
    "StreamId",
    "EventId",
    "LibraryId",
    "KernelId",
    "BlockId",
    "FunctionId",
    "GraphId",
    "ArrayId",
    "TextureId",
    "SurfaceId",
    "TicketId",
    "SignalsId",
    "PeerLinkId",
    "CommId",
    "DevicePtr",
];
const SCALARS: [&str; 7] = ["u8", "u16", "u32", "u64", "i32", "f32", "bool"];

pub(super) fn read_tables(folder: &Path) -> Result<Vec<Noun>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let texts = paths.iter().map(|path| Ok((path, std::fs::read_to_string(path)?))).collect::<Result<Vec<_>>>()?;
    let mut known = BTreeSet::new();
    for (path, text) in &texts {
        let table: toml::Table = text.parse().with_context(|| format!("in {}", path.display()))?;
        if let Some(structs) = table.get("struct").and_then(toml::Value::as_table) {
            known.extend(structs.keys().cloned());
        }
    }
    texts
        .iter()
        .map(|(path, text)| read_noun(path, text, &known).with_context(|| format!("in {}", path.display())))
        .collect()
}

fn read_noun(path: &Path, text: &str, known: &BTreeSet<String>) -> Result<Noun> {
    let name = path.file_stem().and_then(|stem| stem.to_str()).context("a file name")?.to_owned();
    let about = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim())
        .collect::<Vec<_>>()
        .join(" ");
    let mut table: toml::Table = text.parse()?;
    let mut structs = Vec::new();
    if let Some(entries) = table.remove("struct") {
        let entries: BTreeMap<String, StructEntry> = entries.try_into()?;
        for (name, entry) in entries {
            let fields = read_fields(&name, &entry.fields, known)?;
            let doc = entry.doc.unwrap_or_else(|| format!("Part of other messages: {}.", sentence_of(&name)));
            structs.push(Struct { name, doc, fields });
        }
    }
    let entries: BTreeMap<String, MessageEntry> = toml::Value::Table(table).try_into()?;
    let mut messages = Vec::new();
    for (name, entry) in entries {
        let fields = read_fields(&name, &entry.fields, known)?;
        let reply = entry.reply.as_deref().map(|reply| read_fields(&name, reply, known)).transpose()?;
        messages.push(Message {
            name,
            id: entry.id,
            from: entry.from,
            recipient: entry.recipient,
            class: entry.class,
            recipe: entry.recipe.map(|verb| Recipe {
                verb,
                object: entry.object,
                kind: entry.kind,
                of: entry.of,
                by: entry.by,
                range: entry.range,
                absorbs: entry.absorbs,
            }),
            doc: entry.doc,
            fields,
            reply,
        });
    }
    messages.sort_by_key(|message| message.id);
    Ok(Noun { name, about, messages, structs })
}

fn sentence_of(name: &str) -> String {
    name.to_snake_case().replace('_', " ")
}

fn read_fields(owner: &str, fields: &[String], known: &BTreeSet<String>) -> Result<Vec<Field>> {
    fields
        .iter()
        .map(|field| {
            let (name, wire) = field.split_once(':').with_context(|| format!("{owner}: not `name: type`: {field}"))?;
            let wire = wire.trim();
            let kind = read_type(wire, known).with_context(|| format!("{owner}: field {field}"))?;
            Ok(Field { name: name.trim().to_owned(), wire: wire.to_owned(), kind })
        })
        .collect()
}

fn read_type(text: &str, known: &BTreeSet<String>) -> Result<Type> {
    if let Some(inner) = text.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>')) {
        return Ok(Type::List(Box::new(read_type(inner, known)?)));
    }
    if let Some(scalar) = SCALARS.into_iter().find(|scalar| *scalar == text) {
        return Ok(Type::Scalar(scalar));
    }
    if let Some(id) = IDS.into_iter().find(|id| *id == text) {
        return Ok(Type::Id(id));
    }
    match text {
        "bytes" => Ok(Type::Bytes),
        "text" => Ok(Type::Text),
        name if known.contains(name) => Ok(Type::Struct(name.to_owned())),
        name => bail!("unknown type: {name}"),
    }
}

pub(super) fn refuse_contradictions(nouns: &[Noun]) -> Result<()> {
    let mut ids = BTreeMap::new();
    for message in nouns.iter().flat_map(|noun| &noun.messages) {
        if let Some(other) = ids.insert(message.id, &message.name) {
            bail!("id {:#06x} is both {other} and {}", message.id, message.name);
        }
        let answered = matches!(message.class, Class::Call | Class::Deliver);
        ensure!(
            answered == message.reply.is_some(),
            "{}: class {:?} and `reply` disagree",
            message.name,
            message.class
        );
        let pushed = message.class == Class::Push;
        ensure!(
            pushed == (message.from == Side::Server),
            "{}: class {:?} and `from` disagree",
            message.name,
            message.class
        );
        ensure!(
            message.from == Side::Client || message.recipient == Recipient::Issuer,
            "{}: `recipient` says who of the server takes a client's message",
            message.name
        );
    }
    Ok(())
}

/// Names of the structs that borrow from the frame they were decoded from.
pub(super) fn borrowing_structs(nouns: &[Noun]) -> BTreeSet<String> {
    let structs: Vec<&Struct> = nouns.iter().flat_map(|noun| &noun.structs).collect();
    let mut borrowing = BTreeSet::new();
    loop {
        let before = borrowing.len();
        for entry in &structs {
            if entry.fields.iter().any(|field| borrows(&field.kind, &borrowing)) {
                borrowing.insert(entry.name.clone());
            }
        }
        if borrowing.len() == before {
            return borrowing;
        }
    }
}

pub(super) fn borrows(kind: &Type, borrowing: &BTreeSet<String>) -> bool {
    match kind {
        Type::Bytes | Type::Text => true,
        Type::List(inner) => borrows(inner, borrowing),
        Type::Struct(name) => borrowing.contains(name),
        Type::Scalar(_) | Type::Id(_) => false,
    }
}

fn owns_a_list(kind: &Type) -> bool {
    matches!(kind, Type::List(_) | Type::Struct(_))
}

pub(super) fn lifetime(fields: &[Field], borrowing: &BTreeSet<String>) -> &'static str {
    if fields.iter().any(|field| borrows(&field.kind, borrowing)) { "<'a>" } else { "" }
}

/// Whether a value of these fields is copied where it is given, as it owns nothing.
pub(super) fn is_copied(fields: &[Field]) -> bool {
    !fields.iter().any(|field| owns_a_list(&field.kind))
}

pub(super) fn messages_from(nouns: &[Noun], side: Side) -> Vec<&Message> {
    nouns.iter().flat_map(|noun| &noun.messages).filter(|message| message.from == side).collect()
}
