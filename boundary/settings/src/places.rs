//! Default paths of settings and tokens: the folders of the XDG specification, the same for all programs. The
//! environment comes in, paths go out. It opens no file.

use std::path::PathBuf;

use crate::source::Source;

/// The file for all users of a machine.
pub(crate) const MACHINE_FILE: &str = "/etc/floe/floe.toml";

/// A folder that the environment names. As XDG's specification demands, a relative path is ignored.
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

/// The default file of the token.
#[must_use]
pub fn token_file(source: &dyn Source) -> PathBuf {
    configuration_folder(source).join("token")
}
