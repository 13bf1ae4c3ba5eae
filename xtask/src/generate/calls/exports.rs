use super::table::Table;
pub(super) fn text(_: &Table) -> String {
    String::new()
}
