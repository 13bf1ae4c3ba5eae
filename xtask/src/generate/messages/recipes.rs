//! What each command does to the objects of a session: read tables come in, `Request::recipe` and `Request::names` go out.
//! It refuses a command that does not say it, and one that says it of a field that it lacks.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use heck::ToUpperCamelCase as _;

use super::table::{Field, Message, Noun, Recipe, Recipient, Side, Struct, Type, Verb, messages_from};

/// Kinds whose objects have no type of ids of their own.
const OTHER_KINDS: [&str; 5] = ["context", "mapping", "mirror", "memory", "pages"];

/// Refuses tables in which a command's recipe is missing or cannot be.
pub(super) fn refuse_recipes(nouns: &[Noun]) -> Result<()> {
    nouns.iter().flat_map(|noun| &noun.messages).try_for_each(refuse_recipe)
}

fn refuse_recipe(message: &Message) -> Result<()> {
    let name = &message.name;
    let is_command = message.from == Side::Client && message.recipient == Recipient::Issuer;
    let recipe = match &message.recipe {
        None => {
            ensure!(!is_command, "{name}: a command says `recipe`: makes, changes, ends or none");
            return Ok(());
        }
        Some(recipe) => recipe,
    };
    ensure!(is_command, "{name}: `recipe` is for commands");
    let named = [&recipe.object, &recipe.of, &recipe.range, &recipe.absorbs].into_iter().flatten();
    for field in named.chain(recipe.by.iter().flatten()) {
        ensure!(message.fields.iter().any(|it| it.name == *field), "{name}: it has no field: {field}");
    }
    if recipe.verb == Verb::None {
        let plain = recipe.object.is_none() && recipe.kind.is_none() && recipe.by.is_none();
        ensure!(plain, "{name}: its recipe is none, so it names no object");
        return Ok(());
    }
    let kind = kind_of(message, recipe)?;
    ensure!(recipe.object.is_some() != (kind == "Context"), "{name}: every object but the context is named by a field");
    let makes = recipe.verb == Verb::Makes;
    ensure!(recipe.of.is_none() || makes, "{name}: `of` is for what makes an object");
    ensure!(recipe.by.is_none() || recipe.verb == Verb::Changes, "{name}: `by` is for changes");
    ensure!(recipe.absorbs.is_none() || recipe.verb == Verb::Changes, "{name}: `absorbs` is for changes");
    ensure!(recipe.range.is_none() || !makes, "{name}: `range` is for changes and ends");
    Ok(())
}

/// The variant of `ObjectKind` of the command's object.
fn kind_of(message: &Message, recipe: &Recipe) -> Result<String> {
    if let Some(kind) = &recipe.kind {
        let known = OTHER_KINDS.contains(&kind.as_str());
        ensure!(known, "{}: no kind of objects: {kind}", message.name);
        return Ok(kind.to_upper_camel_case());
    }
    let object = recipe.object.as_deref().with_context(|| format!("{}: `object` is missing", message.name))?;
    id_kind(message, object).with_context(|| format!("{}: `kind` is missing: {object} is no id", message.name))
}

/// The kind that the type of a field names.
fn id_kind(message: &Message, name: &str) -> Option<String> {
    let field = message.fields.iter().find(|field| field.name == name)?;
    kind_of_type(&field.kind)
}

/// As `id_kind`, for a type. Functions are no objects: they are over before a session has an image.
fn kind_of_type(kind: &Type) -> Option<String> {
    match kind {
        Type::Id(id) => id.strip_suffix("Id").filter(|kind| *kind != "Function").map(str::to_owned),
        _ => None,
    }
}

/// In words, for the page.
pub(super) fn recipe_words(message: &Message) -> String {
    let Some(recipe) = &message.recipe else { return "–".to_owned() };
    let verb = match recipe.verb {
        Verb::None => return "none".to_owned(),
        Verb::Makes => "makes",
        Verb::Changes => "changes",
        Verb::Ends => "ends",
    };
    let mut words = match &recipe.object {
        Some(object) => format!("{verb} `{object}`"),
        None => format!("{verb} the context"),
    };
    if let Some(kind) = recipe.kind.as_ref().filter(|_| recipe.object.is_some()) {
        let _ = write!(words, " ({kind})");
    }
    if let Some(of) = &recipe.of {
        let _ = write!(words, " of `{of}`");
    }
    for field in recipe.by.iter().flatten() {
        let _ = write!(words, ", by `{field}`");
    }
    if let Some(absorbs) = &recipe.absorbs {
        let _ = write!(words, ", absorbs `{absorbs}`");
    }
    words
}

/// The methods that say what a command does to objects.
pub(super) fn recipe_source(out: &mut String, nouns: &[Noun]) {
    out.push_str("impl Request<'_> {\n/// What the command does to the objects of its session.\n#[must_use]\npub fn recipe(&self) -> Recipe {\nmatch self {\n");
    for message in messages_from(nouns, Side::Client) {
        let recipe = message.recipe.as_ref().filter(|recipe| recipe.verb != Verb::None);
        if let Some(value) = recipe.and_then(|recipe| recipe_value(message, recipe)) {
            let unused = if value.contains("it.") { "it" } else { "_" };
            let _ = writeln!(out, "Self::{}({unused}) => {value},", message.name);
        }
    }
    out.push_str("_ => Recipe::None,\n}\n}\n\n/// Gives `see` every object that a command of a recipe names.\npub fn names(&self, see: &mut dyn FnMut(Object)) {\nmatch self {\n");
    let structs: Vec<&Struct> = nouns.iter().flat_map(|noun| &noun.structs).collect();
    for message in messages_from(nouns, Side::Client) {
        if message.recipe.as_ref().is_none_or(|recipe| recipe.verb == Verb::None) {
            continue;
        }
        let mut seen = String::new();
        names_source(&mut seen, "it", &message.fields, &structs);
        if !seen.is_empty() {
            let _ = writeln!(out, "Self::{}(it) => {{\n{seen}}}", message.name);
        }
    }
    out.push_str("_ => {}\n}\n}\n}\n\n");
}

fn recipe_value(message: &Message, recipe: &Recipe) -> Option<String> {
    let kind = kind_of(message, recipe).ok()?;
    let object = match &recipe.object {
        Some(object) => format!("Object {{ kind: ObjectKind::{kind}, id: it.{object}.0 }}"),
        None => "Object::CONTEXT".to_owned(),
    };
    let other = |field: &Option<String>| match field.as_deref().map(|field| (field, id_kind(message, field))) {
        Some((field, Some(kind))) => format!("Some(Object {{ kind: ObjectKind::{kind}, id: it.{field}.0 }})"),
        _ => "None".to_owned(),
    };
    let bytes = recipe.range.as_ref().map_or_else(|| "None".to_owned(), |range| format!("Some(it.{range})"));
    Some(match recipe.verb {
        Verb::None => return None,
        Verb::Makes => format!("Recipe::Makes {{ object: {object}, of: {} }}", other(&recipe.of)),
        Verb::Ends => format!("Recipe::Ends {{ object: {object}, bytes: {bytes} }}"),
        Verb::Changes => {
            let by = recipe.by.as_ref().map_or_else(
                || "None".to_owned(),
                |by| {
                    let parts: String = by.iter().map(|field| format!(".with(&it.{field})")).collect();
                    format!("Some(Key::default(){parts})")
                },
            );
            let absorbs = other(&recipe.absorbs);
            format!("Recipe::Changes {{ object: {object}, bytes: {bytes}, by: {by}, absorbs: {absorbs} }}")
        }
    })
}

fn names_source(out: &mut String, value: &str, fields: &[Field], structs: &[&Struct]) {
    for field in fields {
        let place = format!("{value}.{}", field.name);
        names_of(out, &place, &field.kind, structs);
    }
}

fn names_of(out: &mut String, place: &str, kind: &Type, structs: &[&Struct]) {
    match kind {
        Type::Id(_) => {
            if let Some(kind) = kind_of_type(kind) {
                let _ = writeln!(out, "see(Object {{ kind: ObjectKind::{kind}, id: {place}.0 }});");
            }
        }
        Type::Struct(name) => {
            if let Some(entry) = structs.iter().find(|entry| entry.name == *name) {
                names_source(out, place, &entry.fields, structs);
            }
        }
        Type::List(inner) => {
            let mut each = String::new();
            names_of(&mut each, "each", inner, structs);
            if !each.is_empty() {
                let _ = writeln!(out, "for each in &{place} {{\n{each}}}");
            }
        }
        Type::Scalar(_) | Type::Bytes | Type::Text => {}
    }
}
