//! The page of settings: the tables of `boundary/settings` come in, `docs/settings.md` goes out.

use anyhow::Result;

use crate::generate::emit::emit;

/// Writes the page, or compares it where `check` is set.
pub(crate) fn run(check: bool) -> Result<()> {
    emit("docs/settings.md", &floe_settings::page(), check)
}
