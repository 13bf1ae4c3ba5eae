use super::table::Table;
pub(super) fn files(_: &Table) -> Vec<(String, String)> {
    Vec::new()
}
