//! Prints what commands say to stdout: rows for people (a table) or for programs (JSON), and lines.
//! Out: what stdout does not take is an error, never a panic.

use std::fmt::Display;
use std::io::{self, Write as _};

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// Prints rows as a table with these headings, or all of them as JSON.
pub(crate) fn print<R: Serialize>(
    rows: &[R],
    json: bool,
    headings: &[&str],
    cells: impl Fn(&R) -> Vec<String>,
) -> Result<()> {
    if json {
        return print_json(rows);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    for row in rows {
        table.add_row(cells(row));
    }
    print_line(table.trim_fmt())
}

/// Prints a value as JSON. docs/json.md says what is in it.
pub(crate) fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<()> {
    print_line(serde_json::to_string_pretty(value)?)
}

/// Stdout does not take what a command says.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout: {0}")]
pub(crate) struct Unprinted(io::Error);

impl Unprinted {
    /// Whether the reader of a pipe has had enough, as `head` has.
    pub(crate) fn is_left(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Prints a line, or several.
pub(crate) fn print_line(text: impl Display) -> Result<()> {
    let mut stdout = io::stdout().lock();
    Ok(writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(Unprinted)?)
}
