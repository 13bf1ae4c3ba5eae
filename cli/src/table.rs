//! Prints rows for people (a table) or for programs (JSON).

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
    println!("{}", table.trim_fmt());
    Ok(())
}

/// Prints a value as JSON. docs/json.md says what is in it.
pub(crate) fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}
