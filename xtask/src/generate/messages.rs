//! Turns `api/messages/*.toml` into the wire's types and codec and the tables of the protocol page.
//! In: the message tables. Out: `link/wire/src/generated/*.rs` and the marked part of `docs/protocol.md`.
//! It never invents a message, and it refuses a table with a repeated id, an unknown type or a missing reply.

mod code;
mod handlers;
mod page;
mod recipes;
mod table;

use anyhow::{Context as _, Result};

use crate::generate::emit::emit;
use crate::toolchain::repository;
use code::{dispatch_source, module_source, noun_source, sample_source};
use page::page_tables;
use recipes::refuse_recipes;
use table::{borrowing_structs, read_tables, refuse_contradictions};

const PAGE: &str = "docs/protocol.md";
/// The line of the page after which generated tables stand.
const PAGE_MARK: &str = "<!-- tables: made by `cargo xtask gen` from api/messages; edit those -->";

/// Writes everything that is made from the message tables; with `check` only compares and fails when a file is stale.
pub(crate) fn run(check: bool) -> Result<()> {
    let nouns = read_tables(&repository().join("api/messages"))?;
    let borrowing = borrowing_structs(&nouns);
    refuse_contradictions(&nouns)?;
    refuse_recipes(&nouns)?;
    for noun in &nouns {
        emit(&format!("link/wire/src/generated/{}.rs", noun.name), &noun_source(noun, &borrowing), check)?;
    }
    emit("link/wire/src/generated/mod.rs", &module_source(&nouns), check)?;
    emit("link/wire/src/generated/dispatch.rs", &dispatch_source(&nouns, &borrowing), check)?;
    emit("link/wire/src/generated/sample.rs", &sample_source(&nouns, &borrowing), check)?;
    let text = std::fs::read_to_string(repository().join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    let (head, _) = text.split_once(PAGE_MARK).with_context(|| format!("{PAGE} lacks the line: {PAGE_MARK}"))?;
    emit(PAGE, &format!("{head}{PAGE_MARK}\n\n{}", page_tables(&nouns)), check)
}
