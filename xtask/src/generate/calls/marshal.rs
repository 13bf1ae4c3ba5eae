use super::table::Noun;
pub(super) fn noun(_: &Noun) -> String {
    String::new()
}
