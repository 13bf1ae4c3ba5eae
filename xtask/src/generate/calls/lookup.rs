use super::table::Table;
pub(super) fn text(_: &Table) -> anyhow::Result<String> {
    Ok(String::from("//! Answers.\n"))
}
