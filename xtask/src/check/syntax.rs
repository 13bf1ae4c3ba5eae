//! Questions about parsed Rust: attributes come in, answers go out. It never expands a macro and knows of a
//! configuration only whether it is that of tests.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Item, Lit, Meta, Token};

/// The name of folders and files of generated code, which no limit holds for.
pub(crate) const GENERATED: &str = "generated";

/// Parses a file.
///
/// # Errors
/// When it cannot be read or is no Rust.
pub(crate) fn parse(path: &Path) -> Result<syn::File> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read: {}", path.display()))?;
    syn::parse_file(&text)
        .map_err(|error| anyhow!("cannot parse: {}:{}: {error}", path.display(), error.span().start().line))
}

/// Whether a file is generated.
pub(crate) fn is_generated(path: &Path) -> bool {
    path.with_extension("").components().any(|part| part.as_os_str() == GENERATED)
}

/// Whether what has these attributes is compiled for tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test") || path.is_ident("cfg") && attribute.parse_args().is_ok_and(|meta| needs_test(&meta))
    })
}

/// Whether a configuration holds in tests only.
fn needs_test(meta: &Meta) -> bool {
    let parts = |list: &syn::MetaList| {
        list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default()
    };
    match meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(needs_test),
        Meta::List(list) if list.path.is_ident("any") => parts(list).iter().all(needs_test),
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

/// The file that `#[path = "…"]` names.
pub(crate) fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// The attributes of an item, where it has any of its own.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an attribute says exactly this; words without blanks.
pub(crate) fn says(attribute: &Attribute, words: &str) -> bool {
    let mut said = quote::ToTokens::to_token_stream(&attribute.meta).to_string();
    said.retain(|sign| !sign.is_whitespace());
    said == words
}
