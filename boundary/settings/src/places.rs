//! Default paths of settings and tokens: the folders of the XDG specification, the same for all programs. The
//! environment comes in, paths go out. It opens no file.

use std::path::PathBuf;

use crate::source::Source;

/// The file for all users of a machine.
pub(crate) const MACHINE_FILE: &str = "/etc/floe/floe.toml";

/// A folder that the environment names. As XDG's specification demands, a relative path is ignored.
#[must_use]
pub fn set_folder(source: &dyn Source, name: &str) -> Option<PathBuf> {
    source.folder(name).filter(|folder| folder.is_absolute())
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

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use super::*;

    /// A user whose home folder has a name of another time.
    #[derive(Debug)]
    struct Latin1;

    impl Source for Latin1 {
        fn variable(&self, name: &str) -> Option<String> {
            self.folder(name).map(|folder| folder.to_string_lossy().into_owned())
        }

        fn folder(&self, name: &str) -> Option<PathBuf> {
            (name == "HOME").then(|| PathBuf::from(OsStr::from_bytes(b"/home/j\xf6rg")))
        }

        fn file(&self, _path: &Path) -> std::io::Result<String> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn a_home_folder_is_found_whatever_bytes_its_name_has() {
        let expected = OsStr::from_bytes(b"/home/j\xf6rg/.config/floe/token");
        assert_eq!(token_file(&Latin1).as_os_str(), expected);
    }
}
