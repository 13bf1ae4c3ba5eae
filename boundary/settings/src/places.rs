//! Where settings and tokens lie unless they are named: the folders of the XDG specification, the same for all programs.
//! The environment comes in, paths go out. It opens nothing.

use std::path::PathBuf;

use crate::source::Source;

/// The file for all users of a machine.
pub(crate) const MACHINE_FILE: &str = "/etc/floe/floe.toml";

/// A folder that the environment names. A relative path is not taken: XDG's specification says so.
#[must_use]
pub fn set_folder(source: &dyn Source, name: &str) -> Option<PathBuf> {
    source.variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// `$XDG_CONFIG_HOME/floe`, else `~/.config/floe`, else `/etc/floe`.
#[must_use]
pub fn configuration_folder(source: &dyn Source) -> PathBuf {
    let own = set_folder(source, "XDG_CONFIG_HOME");
    let base = own.or_else(|| set_folder(source, "HOME").map(|home| home.join(".config")));
    base.unwrap_or_else(|| PathBuf::from("/etc")).join("floe")
}

/// The token's file where none is named.
#[must_use]
pub fn token_file(source: &dyn Source) -> PathBuf {
    configuration_folder(source).join("token")
}
