//! The wire's types and codec: read tables come in, Rust text goes out, not yet formatted.
//! It refuses nothing and never writes a file.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::handlers::{dispatch_of_commands, handler_source};
use super::recipes::recipe_source;
use super::table::{Class, Field, Message, Noun, Side, Type, is_copied, lifetime, messages_from};

const HEADER: &str = "// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.\n\n";

fn rust_type(kind: &Type, borrowing: &BTreeSet<String>) -> String {
    match kind {
        Type::Scalar(name) | Type::Id(name) => (*name).to_owned(),
        Type::Bytes => "&'a [u8]".to_owned(),
        Type::Text => "&'a str".to_owned(),
        Type::List(inner) => format!("Vec<{}>", rust_type(inner, borrowing)),
        Type::Struct(name) if borrowing.contains(name) => format!("{name}<'a>"),
        Type::Struct(name) => name.clone(),
    }
}

pub(super) fn noun_source(noun: &Noun, borrowing: &BTreeSet<String>) -> String {
    let mut out = format!(
        "//! {}\n//! Plain values and their encoding; they check nothing beyond what the types say.\n{HEADER}",
        noun.about
    );
    out.push_str("#[allow(unused_imports)]\nuse super::*;\n#[allow(unused_imports)]\nuse crate::{ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler, KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId};\n\n");
    for message in &noun.messages {
        let doc = format!("{}\n\nKind {:#06x}, {}.", message.doc, message.id, class_words(message.class));
        struct_source(&mut out, &message.name, &doc, &message.fields, borrowing);
        message_source(&mut out, message, borrowing);
        if let Some(reply) = message.reply.as_deref().filter(|reply| !reply.is_empty()) {
            let doc = format!("What answers [`{}`] when its status is success.", message.name);
            struct_source(&mut out, &format!("{}Reply", message.name), &doc, reply, borrowing);
        }
    }
    for entry in &noun.structs {
        struct_source(&mut out, &entry.name, &entry.doc, &entry.fields, borrowing);
    }
    handler_source(&mut out, noun, borrowing);
    out
}

fn class_words(class: Class) -> &'static str {
    match class {
        Class::Post => "posted: no reply",
        Class::Call => "called: one reply",
        Class::Deliver => "called: deliveries, then one reply",
        Class::Push => "from the server, unasked",
    }
}

fn struct_source(out: &mut String, name: &str, doc: &str, fields: &[Field], borrowing: &BTreeSet<String>) {
    let life = lifetime(fields, borrowing);
    for line in doc.lines() {
        let _ = writeln!(out, "/// {line}");
    }
    let copy = if is_copied(fields) { ", Copy" } else { "" };
    let _ = writeln!(out, "#[derive(Clone{copy}, Debug, Default, PartialEq)]\npub struct {name}{life} {{");
    for field in fields {
        let _ = writeln!(out, "pub {}: {},", field.name, rust_type(&field.kind, borrowing));
    }
    let least = fields
        .iter()
        .map(|field| format!("<{} as Field<'a>>::LEAST", rust_type(&field.kind, borrowing)))
        .collect::<Vec<_>>()
        .join(" + ");
    let least = if least.is_empty() { "0".to_owned() } else { least };
    let unused = if fields.is_empty() { "_" } else { "" };
    let _ = writeln!(out, "}}\n\nimpl<'a> Field<'a> for {name}{life} {{\nconst LEAST: usize = {least};\n");
    let _ = writeln!(out, "fn write(&self, {unused}out: &mut Vec<u8>) {{");
    write_source(out, fields);
    let _ = writeln!(out, "}}\n\nfn read({unused}reader: &mut Reader<'a>) -> Result<Self, DecodeError> {{\nOk(Self {{");
    for field in fields {
        let _ = writeln!(out, "{}: reader.field({:?})?,", field.name, field.name);
    }
    out.push_str("})\n}\n}\n\n");
}

/// What appends the fields of a value.
fn write_source(out: &mut String, fields: &[Field]) {
    if let [field] = fields {
        let _ = writeln!(out, "self.{}.write(out);", field.name);
        return;
    }
    let mut run = Run::default();
    fields.iter().for_each(|field| run.write_field(out, field));
    run.write(out);
}

/// Values of known length that follow one another: there is one look for room for all of them.
#[derive(Default)]
struct Run {
    /// Each as Rust's array of its bytes, and how many they are.
    values: Vec<(String, usize)>,
}

impl Run {
    /// Goes on with a field; what cannot stand in a run ends it.
    fn write_field(&mut self, out: &mut String, field: &Field) {
        let name = &field.name;
        match &field.kind {
            Type::Scalar("bool") => self.values.push((format!("[u8::from(self.{name})]"), 1)),
            Type::Scalar(scalar) => self.values.push((format!("self.{name}.to_le_bytes()"), scalar_bytes(scalar))),
            Type::Id(_) => self.values.push((format!("self.{name}.0.to_le_bytes()"), 8)),
            Type::Struct(_) => {
                self.write(out);
                let _ = writeln!(out, "self.{name}.write(out);");
            }
            Type::Bytes | Type::Text | Type::List(_) => {
                self.add_length(field);
                self.write(out);
                let _ = match &field.kind {
                    Type::List(_) => writeln!(out, "for element in &self.{name} {{\nelement.write(out);\n}}"),
                    Type::Text => writeln!(out, "out.extend_from_slice(self.{name}.as_bytes());"),
                    _ => writeln!(out, "out.extend_from_slice(self.{name});"),
                };
            }
        }
    }

    /// Goes on with the length that stands before a field.
    fn add_length(&mut self, field: &Field) {
        self.values.push((format!("crate::reader::length_bytes(self.{}.len())", field.name), 4));
    }

    /// Ends the run.
    fn write(&mut self, out: &mut String) {
        let bytes: usize = self.values.iter().map(|(_, bytes)| bytes).sum();
        if bytes > 0 {
            let _ = writeln!(out, "let room = crate::reader::room::<{bytes}>(out);");
        }
        let mut at = 0;
        for (value, bytes) in self.values.drain(..) {
            let _ = writeln!(out, "room[{at}..{}].copy_from_slice(&{value});", at + bytes);
            at += bytes;
        }
    }
}

fn scalar_bytes(scalar: &str) -> usize {
    match scalar {
        "u8" | "bool" => 1,
        "u16" => 2,
        "u64" => 8,
        _ => 4,
    }
}

fn message_source(out: &mut String, message: &Message, borrowing: &BTreeSet<String>) {
    let life = lifetime(&message.fields, borrowing);
    let anonymous = if life.is_empty() { "" } else { "<'_>" };
    let _ = writeln!(out, "impl Message for {}{anonymous} {{", message.name);
    let _ = writeln!(out, "const KIND: u16 = {:#06x};\nconst CLASS: Class = Class::{:?};", message.id, message.class);
    let _ = writeln!(out, "const NAME: &'static str = {:?};", message.name);
    if let Some((last, others)) = message.fields.split_last().filter(|(last, _)| matches!(last.kind, Type::Bytes)) {
        out.push_str("const TAIL: bool = true;\n\nfn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {\n");
        let mut run = Run::default();
        others.iter().for_each(|field| run.write_field(out, field));
        run.add_length(last);
        run.write(out);
        let _ = writeln!(out, "self.{}\n}}", last.name);
    } else {
        out.push_str("const TAIL: bool = false;\n\nfn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {\nself.write(out);\n&[]\n}\n");
    }
    out.push_str("}\n\n");
    if let Some(reply) = &message.reply {
        let answer = if reply.is_empty() {
            "()".to_owned()
        } else {
            format!("{}Reply{}", message.name, lifetime(reply, borrowing))
        };
        let _ = writeln!(out, "impl Call for {}{anonymous} {{\ntype Reply<'a> = {answer};\n}}\n", message.name);
    }
}

pub(super) fn module_source(nouns: &[Noun]) -> String {
    let mut out = format!(
        "//! The messages, one file per noun of `api/messages`.\n//! Everything here is re-exported by the crate's root; it holds no logic.\n{HEADER}"
    );
    out.push_str("mod dispatch;\n#[cfg(test)]\nmod sample;\n");
    for noun in nouns {
        let _ = writeln!(out, "mod {};", noun.name);
    }
    out.push_str("\npub use dispatch::{Push, Request};\n#[cfg(test)]\npub(crate) use sample::{push_sample, request_sample, PUSH_SAMPLES, REQUEST_SAMPLES};\n");
    for noun in nouns {
        let _ = writeln!(out, "pub use {}::*;", noun.name);
    }
    out
}

pub(super) fn dispatch_source(nouns: &[Noun], borrowing: &BTreeSet<String>) -> String {
    let mut out = format!(
        "//! Which message a frame holds: every kind of one direction as one enum.\n//! A kind that is not in the table is an error that names it.\n{HEADER}"
    );
    out.push_str("use super::*;\nuse crate::{Class, Decode, DecodeError, Key, Message, Object, ObjectKind, Recipe, Recipient};\n\n");
    enum_source(&mut out, "Request", "What a client says.", &messages_from(nouns, Side::Client), borrowing);
    dispatch_of_commands(&mut out, nouns);
    recipe_source(&mut out, nouns);
    enum_source(&mut out, "Push", "What a server says.", &messages_from(nouns, Side::Server), borrowing);
    out
}

fn enum_source(out: &mut String, name: &str, doc: &str, messages: &[&Message], borrowing: &BTreeSet<String>) {
    let _ = writeln!(out, "/// {doc}\n#[derive(Clone, Debug, PartialEq)]\npub enum {name}<'a> {{");
    for message in messages {
        let _ = writeln!(out, "/// See [`{0}`].\n{0}({0}{1}),", message.name, lifetime(&message.fields, borrowing));
    }
    let _ = writeln!(out, "}}\n\nimpl<'a> {name}<'a> {{");
    out.push_str("/// Decodes a payload by its frame's kind.\n///\n/// # Errors\n/// [`DecodeError`] when the kind is unknown or the payload is not exactly one such message.\n");
    out.push_str("pub fn decode(kind: u16, payload: &'a [u8]) -> Result<Self, DecodeError> {\nmatch kind {\n");
    for message in messages {
        let _ = writeln!(out, "{0}::KIND => {0}::decode(payload).map(Self::{0}),", message.name);
    }
    out.push_str("_ => Err(DecodeError::unknown_kind(kind)),\n}\n}\n\n");
    out.push_str(
        "/// The message's name in the table.\n#[must_use]\npub fn name(&self) -> &'static str {\nmatch self {\n",
    );
    for message in messages {
        let _ = writeln!(out, "Self::{0}(_) => {0}::NAME,", message.name);
    }
    out.push_str(
        "}\n}\n\n/// Whether and how it is answered.\n#[must_use]\npub fn class(&self) -> Class {\nmatch self {\n",
    );
    for message in messages {
        let _ = writeln!(out, "Self::{0}(_) => {0}::CLASS,", message.name);
    }
    out.push_str("}\n}\n\n/// The frame's kind.\n#[must_use]\npub fn kind(&self) -> u16 {\nmatch self {\n");
    for message in messages {
        let _ = writeln!(out, "Self::{0}(_) => {0}::KIND,", message.name);
    }
    out.push_str("}\n}\n\n/// Appends the payload.\npub fn encode(&self, out: &mut Vec<u8>) {\nmatch self {\n");
    for message in messages {
        let _ = writeln!(out, "Self::{}(message) => message.encode(out),", message.name);
    }
    out.push_str("}\n}\n}\n\n");
}

/// Test support: every message made from a stream of arbitrary bytes, so that a property can speak of all of them.
pub(super) fn sample_source(nouns: &[Noun], borrowing: &BTreeSet<String>) -> String {
    let mut out = format!(
        "//! For tests: builds each message from arbitrary bytes, so that a property can range over all of them.\n//! It is compiled for tests only.\n{HEADER}"
    );
    out.push_str("use super::*;\nuse crate::sample::{Sample, Source};\n\n");
    for noun in nouns {
        for message in &noun.messages {
            sample_impl(&mut out, &message.name, &message.fields, borrowing);
        }
        for entry in &noun.structs {
            sample_impl(&mut out, &entry.name, &entry.fields, borrowing);
        }
    }
    for (name, side, constant) in [("request", Side::Client, "REQUEST"), ("push", Side::Server, "PUSH")] {
        let messages = messages_from(nouns, side);
        let kind = if side == Side::Client { "Request" } else { "Push" };
        let _ = writeln!(out, "pub(crate) const {constant}_SAMPLES: usize = {};\n", messages.len());
        let _ = writeln!(
            out,
            "pub(crate) fn {name}_sample<'a>(which: usize, source: &mut Source<'a>) -> {kind}<'a> {{\nmatch which % {constant}_SAMPLES {{"
        );
        for (index, message) in messages.iter().enumerate() {
            let pattern = if index + 1 == messages.len() { "_".to_owned() } else { index.to_string() };
            let _ = writeln!(out, "{pattern} => {kind}::{}(Sample::sample(source)),", message.name);
        }
        out.push_str("}\n}\n\n");
    }
    out
}

fn sample_impl(out: &mut String, name: &str, fields: &[Field], borrowing: &BTreeSet<String>) {
    let life = lifetime(fields, borrowing);
    let unused = if fields.is_empty() { "_" } else { "" };
    let _ = writeln!(
        out,
        "impl<'a> Sample<'a> for {name}{life} {{\nfn sample({unused}source: &mut Source<'a>) -> Self {{\nSelf {{"
    );
    for field in fields {
        let _ = writeln!(out, "{}: Sample::sample(source),", field.name);
    }
    out.push_str("}\n}\n}\n\n");
}
