//! Whose rights the daemon has.
//! In: the user the operator names, and what root alone can prepare. Out: a process of that user, or a warning that it is root's.
//! A private daemon stays who it is: it serves its own user only.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
use std::path::Path;

use floe_worker::sandbox::empty_bounding_set;
use nix::unistd::{Gid, Uid, User, initgroups, setgid, setuid};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities};

use crate::error::DaemonError;
use crate::log;

/// The user a daemon of root becomes where there is one of this name.
const USUAL: &str = "floe";

/// A user to become.
#[derive(Debug)]
pub(crate) struct Account {
    name: std::ffi::CString,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// The user to become: none for a daemon that is not root's, and for one of root's where no user is named or usual.
    ///
    /// # Errors
    /// When a user is named who is not there, or whom this process may not become.
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

    /// Makes a folder of this user's, or gives the user one of root's.
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

    /// Makes a file or folder this user's.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn own(&self, path: &Path) -> std::io::Result<()> {
        chown(path, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
    }

    /// Becomes this user, for good. It keeps what [`Account::shut`] needs, and nothing that it starts has that.
    ///
    /// # Errors
    /// When the system refuses: then this process still is root's, and must not go on.
    pub(crate) fn become_it(&self) -> Result<(), DaemonError> {
        // Where the system refuses it, none are left, and the bounding set stays as it is.
        let _ = set_keep_capabilities(true);
        initgroups(&self.name, self.gid).map_err(|error| self.refused(error))?;
        setgid(self.gid).map_err(|error| self.refused(error))?;
        setuid(self.uid).map_err(|error| self.refused(error))?;
        self.keep(CapabilitySet::empty(), CapabilitySet::SETPCAP)?;
        log(format_args!("running as the user: {}", self.name.to_string_lossy()));
        Ok(())
    }

    /// Takes from this thread and those it starts from here on what programs of root's could give them. NVIDIA's driver has
    /// one make its devices, which the probe has done by then.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn shut(&self) -> Result<(), DaemonError> {
        self.keep(CapabilitySet::SETPCAP, CapabilitySet::SETPCAP)?;
        empty_bounding_set().map_err(|error| self.refused(error))?;
        self.keep(CapabilitySet::empty(), CapabilitySet::empty())
    }

    /// Keeps these capabilities at most.
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

/// Says loudly that root serves strangers.
pub(crate) fn warn_of_root() {
    if Uid::effective().is_root() {
        log(format_args!(
            "WARNING: running as root, so a client that breaks out of its worker is root\n  \
             make a user (useradd --system {USUAL}); floed becomes it, or the one named with --user"
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
