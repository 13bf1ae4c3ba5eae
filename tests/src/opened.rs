//! An installation that every user may read, which the repository's need not be.
//! In: the installation under test. Out: a folder with what serves and runs a program.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;

/// The parts of an installation that serve and run a program.
const PARTS: [&str; 7] = [
    "bin/floe",
    "bin/floe-demo",
    "bin/floe-worker",
    "bin/floed",
    "lib/client/cupti/libcupti.so.13",
    "lib/client/libcuda.so.1",
    "lib/device/libcuda.so.1",
];

/// The installation in a folder that every user may read, which the repository's need not be.
#[derive(Debug)]
pub struct Open {
    folder: TempDir,
}

impl Open {
    /// Copies it.
    ///
    /// # Panics
    /// When a part is missing.
    #[must_use]
    pub fn copied() -> Self {
        let open = Self { folder: tempfile::tempdir().expect("a folder") };
        std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        for file in PARTS {
            let to = open.path().join(file);
            std::fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            crate::copy_executable(&crate::installation().join(file), &to);
        }
        open
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}
