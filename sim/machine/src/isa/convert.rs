//! Placeholder.
use super::Row;
pub(super) fn rows(_rows: &mut Vec<Row>) {}
