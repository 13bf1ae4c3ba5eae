//! The user that the daemon runs as.
//! In: the user that the operator names, and what only root can prepare. Out: a process of that user, or a warning that
//! it is root's.
//! A private daemon never changes its user: it serves only that one.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
use std::path::Path;

use floe_worker::sandbox::empty_bounding_set;
use nix::unistd::{Gid, Uid, User, initgroups, setgid, setuid};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities};

use crate::error::DaemonError;
use crate::{log, warn};

/// The user that a daemon of root becomes by default, if it exists.
const USUAL: &str = "floe";

/// A user to become.
#[derive(Debug)]
pub(crate) struct Account {
    name: std::ffi::CString,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// The user to become. `None` if the daemon is not root's, or if no user is named and the usual one does not exist.
    ///
    /// # Errors
    /// When the named user does not exist, or this process may not become it.
    pub(crate) fn find(named: Option<&str>) -> Result<Option<Self>, DaemonError> {
        let wrong = |reason: String| DaemonError::User { name: named.unwrap_or(USUAL).to_owned(), reason };
        let user = User::from_name(named.unwrap_or(USUAL)).map_err(|error| wrong(error.to_string()))?;
        let root = Uid::effective().is_root();
        match user {
            None if named.is_some() => Err(wrong("there is no such user".to_owned())),
            Some(user) if !root && named.is_some() && user.uid != Uid::effective() => {
                Err(wrong("only root can become another user".to_owned()))
            }
            Some(user) if root && !user.uid.is_root() => {
                let name = std::ffi::CString::new(user.name).map_err(|error| wrong(error.to_string()))?;
                Ok(Some(Self { name, uid: user.uid, gid: user.gid }))
            }
            _ => Ok(None),
        }
    }

    /// Its user and group.
    pub(crate) fn ids(&self) -> (u32, u32) {
        (self.uid.as_raw(), self.gid.as_raw())
    }

    /// Makes a folder for this user. If root owns the folder already, the user gets it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn give(&self, folder: &Path) -> std::io::Result<()> {
        if !folder.exists() {
            if let Some(parent) = folder.parent() {
                std::fs::create_dir_all(parent)?;
            }
            DirBuilder::new().mode(0o700).create(folder)?;
        }
        if std::fs::symlink_metadata(folder)?.uid() == 0 { self.own(folder) } else { Ok(()) }
    }

    /// Makes this user the owner of a file or folder.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn own(&self, path: &Path) -> std::io::Result<()> {
        chown(path, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
    }

    /// Becomes this user for good. The process keeps the capability that [`Account::shut`] needs; its children do not
    /// get it.
    ///
    /// # Errors
    /// When the system refuses. This process then may still be root's and must not continue.
    pub(crate) fn become_it(&self) -> Result<(), DaemonError> {
        // If the system refuses, no capability is left and the bounding set keeps its value.
        let _ = set_keep_capabilities(true);
        initgroups(&self.name, self.gid).map_err(|error| self.refused(error))?;
        setgid(self.gid).map_err(|error| self.refused(error))?;
        setuid(self.uid).map_err(|error| self.refused(error))?;
        self.keep(CapabilitySet::empty(), CapabilitySet::SETPCAP)?;
        log(format_args!("running as the user: {}", self.name.to_string_lossy()));
        Ok(())
    }

    /// Empties the bounding set of this thread and of those that it starts, so that no setuid program gives them
    /// capabilities. NVIDIA's driver has such a program make its devices; the probe has done that by then.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn shut(&self) -> Result<(), DaemonError> {
        self.keep(CapabilitySet::SETPCAP, CapabilitySet::SETPCAP)?;
        empty_bounding_set().map_err(|error| self.refused(error))?;
        self.keep(CapabilitySet::empty(), CapabilitySet::empty())
    }

    /// Drops all other capabilities.
    fn keep(&self, effective: CapabilitySet, permitted: CapabilitySet) -> Result<(), DaemonError> {
        let has = capabilities(None).map_err(|error| self.refused(error))?.permitted;
        let (effective, permitted) = (effective & has, permitted & has);
        let sets = CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).map_err(|error| self.refused(error))
    }

    fn refused(&self, error: impl std::fmt::Display) -> DaemonError {
        DaemonError::User { name: self.name.to_string_lossy().into_owned(), reason: error.to_string() }
    }
}

/// This process's user and group.
pub(crate) fn own() -> (u32, u32) {
    (Uid::effective().as_raw(), Gid::effective().as_raw())
}

/// Warns if the daemon serves as root.
pub(crate) fn warn_of_root() {
    if Uid::effective().is_root() {
        warn(format_args!(
            "WARNING: running as root: a client that breaks out of its worker is root\n  \
             make the user that floed then becomes: useradd --system {USUAL}; or name another with --user"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_user_must_be_there_and_root_is_nobody_to_become() {
        assert!(matches!(Account::find(Some("no such user here")), Err(DaemonError::User { .. })));
        if Uid::effective().is_root() {
            assert!(Account::find(Some("root")).expect("it is root already").is_none());
            assert!(Account::find(Some("nobody")).expect("nobody is everywhere").is_some());
        } else {
            assert!(matches!(Account::find(Some("root")), Err(DaemonError::User { .. })));
        }
    }

    #[test]
    fn roots_folders_are_given_away_and_others_are_not_touched() {
        if !Uid::effective().is_root() {
            return;
        }
        let account = Account::find(Some("nobody")).expect("nobody is everywhere").expect("not root");
        let folder = tempfile::tempdir().expect("a folder");
        let made = folder.path().join("deep/modules");
        account.give(&made).expect("given");
        let found = std::fs::metadata(&made).expect("made");
        assert_eq!((found.uid(), found.mode() & 0o777), (account.uid.as_raw(), 0o700));
        let others = folder.path().join("others");
        std::fs::create_dir(&others).expect("made");
        chown(&others, Some(12_345), None).expect("root may");
        account.give(&others).expect("left alone");
        assert_eq!(std::fs::metadata(&others).expect("there").uid(), 12_345);
    }
}
