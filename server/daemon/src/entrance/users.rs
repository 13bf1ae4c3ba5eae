//! The users of this server: who a local peer is by its account, and what the policy lets each have.
//! In: the policy's file, at the start and at SIGHUP. Out: names, rights.
//! A broken file stops a start and changes nothing later. It believes no name from a message.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use floe_lock::lock;
use floe_transport::{Peer, TokenNumber};
use floe_users::{FileError, Name, Policy, Rights, Whose};
use nix::unistd::{Uid, User};

use super::conversation::Refusal;
use super::limits::Source;
use crate::{log, status, warn};

/// The users, as the policy has them now.
#[derive(Debug, Default)]
pub(crate) struct Users {
    path: Option<PathBuf>,
    /// `None`: there is no policy.
    policy: Mutex<Option<Arc<Policy>>>,
    /// Whether a policy may limit what users' workers take of this machine: one at the start did.
    limits_hosts: bool,
}

impl Users {
    /// Reads the policy's file, if one is named, as the user that the server stays.
    ///
    /// # Errors
    /// [`FileError`].
    pub(crate) fn new(path: Option<PathBuf>, offered: &[u32]) -> Result<Self, FileError> {
        let policy = path.as_deref().map(Policy::read).transpose()?;
        if let (Some(policy), Some(path)) = (&policy, &path) {
            log(format_args!("policy: {}: {}", path.display(), words(policy, offered)));
        }
        let limits_hosts = policy.as_ref().is_some_and(Policy::limits_hosts);
        Ok(Self { path, policy: Mutex::new(policy.map(Arc::new)), limits_hosts })
    }

    /// Reads the file again. A broken one changes nothing.
    pub(crate) fn reload(&self, offered: &[u32]) {
        let Some(path) = &self.path else { return };
        match Policy::read(path) {
            Ok(policy) if policy.limits_hosts() && !self.limits_hosts => {
                warn(format_args!(
                    "the policy stays as it was: host-memory, processors and tasks count from a start with them on: {}",
                    path.display()
                ));
            }
            Ok(policy) => {
                log(format_args!("policy read again: {}: {}", path.display(), words(&policy, offered)));
                *lock(&self.policy) = Some(Arc::new(policy));
            }
            Err(error) => warn(format_args!("the policy stays as it was: {error}")),
        }
    }

    /// Whether users' workers have limits together.
    pub(crate) fn limits_hosts(&self) -> bool {
        self.limits_hosts
    }

    fn policy(&self) -> Option<Arc<Policy>> {
        lock(&self.policy).clone()
    }

    /// Whether there is a policy.
    pub(crate) fn has_policy(&self) -> bool {
        self.path.is_some()
    }

    /// What a user may have; `None`: it is no user of this server.
    pub(crate) fn rights(&self, name: Name) -> Option<Rights> {
        self.policy().map_or(Some(Rights::OF_NO_POLICY), |policy| policy.rights(name))
    }

    /// A peer's name and rights; `None`: it has no name, and the policy says nothing of it.
    ///
    /// # Errors
    /// A name that has no place in the policy any more.
    pub(crate) fn rights_of(&self, source: Option<Source>) -> Result<Option<(Name, Rights)>, Refusal> {
        let Some(name) = source.and_then(Source::name) else { return Ok(None) };
        let rights = self.rights(name).ok_or_else(|| no_user(name))?;
        Ok(Some((name, rights)))
    }

    /// The name of another user of this machine, if the policy has a place for it.
    pub(crate) fn of_account(&self, uid: u32) -> Option<Name> {
        let policy = self.policy()?;
        let name = Name::new(&account(uid)?).ok()?;
        policy.rights(name).map(|_| name)
    }

    /// The user that a certificate names, if the policy has a place for it.
    ///
    /// # Errors
    /// What is no name, and a name that has no place.
    pub(crate) fn certified(&self, name: &str) -> Result<Name, Refusal> {
        let name = Name::new(name).map_err(|error| Refusal {
            status: status::NOT_PERMITTED,
            detail: format!("the client's certificate names no user: {error}"),
        })?;
        self.rights(name).map(|_| name).ok_or_else(|| no_user(name))
    }

    /// Whether a peer is shown all sessions.
    pub(crate) fn sees_others(&self, source: Option<Source>) -> bool {
        source.and_then(Source::name).and_then(|name| self.rights(name)).is_some_and(|rights| rights.may_see_others)
    }
}

/// The refusal of a name without a place in the policy.
fn no_user(name: Name) -> Refusal {
    let detail = format!("the policy of this server has no place for {name}\n  ask the operator for one");
    Refusal { status: status::NOT_PERMITTED, detail }
}

/// The name to show for a peer's sessions; empty where none is known.
pub(crate) fn shown(source: Option<Source>, peer: &Peer) -> String {
    match (source, peer) {
        (Some(Source::Named(name)), _) => name.to_string(),
        (Some(Source::User(uid)), _) | (None, &Peer::Unix { uid, .. }) => account(uid).unwrap_or_default(),
        (None, Peer::Tcp(_)) => "operator".to_owned(),
        (Some(Source::Host(_) | Source::Network(_) | Source::Forwarded(_)), _) => String::new(),
    }
}

/// Whose an event is, for the audit log.
pub(crate) fn whose(source: Option<Source>, peer: &Peer, token: Option<TokenNumber>) -> Whose {
    let (token, share) = (token.map(|number| number.to_string()), source.map(|source| source.to_string()));
    Whose { user: shown(source, peer), peer: peer.to_string(), token, share: share.unwrap_or_default() }
}

/// The name of an account of this machine.
fn account(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

/// What of a policy the log says.
fn words(policy: &Policy, offered: &[u32]) -> String {
    let (users, groups) = policy.count();
    let others = if policy.has_default() { "others have [default]" } else { "others are refused" };
    let unknown = policy.unknown_gpus(offered);
    let gpus = if unknown.is_empty() { String::new() } else { format!("; WARNING: not offered: GPUs {unknown:?}") };
    format!("{users} users, {groups} groups, {others}{gpus}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a policy may be written.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("policy.toml");
        (folder, path)
    }

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn a_broken_policy_stops_a_start_and_changes_nothing_later() {
        let (_folder, path) = place();
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write("[users.alice]\nshares = 1\n");
        assert!(Users::new(Some(path.clone()), &[0]).is_err_and(|error| error.to_string().contains("shares")));
        write("[users.alice]\nsessions = 1\n");
        let users = Users::new(Some(path.clone()), &[0]).expect("a policy");
        let sessions = || users.rights(name("alice")).and_then(|rights| rights.sessions);
        write("[users.alice]\nsessions = \"x\"\n");
        users.reload(&[0]);
        assert_eq!(sessions(), Some(1));
        std::fs::remove_file(&path).expect("removed");
        users.reload(&[0]);
        assert_eq!(sessions(), Some(1));
        write("[users.alice]\nsessions = 2\n");
        users.reload(&[0]);
        assert_eq!(sessions(), Some(2));
        write("");
        users.reload(&[0]);
        assert_eq!(users.rights(name("alice")), None);
    }

    #[test]
    fn limits_of_this_machine_need_a_start_with_them() {
        let (_folder, path) = place();
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write("[users.alice]\n");
        let users = Users::new(Some(path.clone()), &[0]).expect("a policy");
        assert!(!users.limits_hosts());
        write("[users.alice]\ntasks = 100\n");
        users.reload(&[0]);
        assert_eq!(users.rights(name("alice")).map(|rights| rights.host), Some(floe_users::HostLimits::NONE));
        let users = Users::new(Some(path.clone()), &[0]).expect("a policy");
        write("[users.alice]\ntasks = 200\n");
        users.reload(&[0]);
        assert_eq!(users.rights(name("alice")).and_then(|rights| rights.host.tasks), Some(200));
    }

    #[test]
    fn an_account_without_a_place_in_the_policy_is_no_user() {
        let (_folder, path) = place();
        std::fs::write(&path, "[users.root]\n").expect("written");
        let users = Users::new(Some(path.clone()), &[]).expect("a policy");
        assert_eq!(users.of_account(0), Some(name("root")));
        assert_eq!((users.of_account(65534), users.of_account(4_000_000_000)), (None, None));
        std::fs::write(&path, "[default]\n").expect("written");
        users.reload(&[]);
        assert_eq!(users.of_account(4_000_000_000), None, "an account without a name");
        assert_eq!(Users::default().of_account(0), None, "without a policy");
    }

    /// Whoever has many addresses of one network, or many processes, hides no line of others.
    #[test]
    fn the_audit_log_counts_refusals_of_peers_as_the_limits_count_peers() {
        let share = |peer: Peer| whose(Some(Source::of(&peer)), &peer, None).share;
        let tcp = |address: &str| share(Peer::Tcp(address.parse().expect("an address")));
        let local = |uid, pid| share(Peer::Unix { uid, pid });
        assert_eq!(tcp("[2001:db8::1]:1"), tcp("[2001:db8::2]:2"));
        assert_ne!(tcp("[2001:db8::1]:1"), tcp("[2001:db8:0:1::1]:1"));
        assert_eq!(tcp("192.0.2.1:1"), tcp("192.0.2.1:2"));
        assert_eq!(local(4_000_000_000, 7), local(4_000_000_000, 8));
        assert_ne!(local(4_000_000_000, 7), local(4_000_000_001, 7));
    }

    #[test]
    fn what_the_log_says_of_a_policy_names_gpus_that_are_not_offered() {
        let policy = Policy::parse(std::path::Path::new("p"), "[default]\ngpus = [0, 7]\n").expect("a policy");
        assert_eq!(words(&policy, &[0]), "0 users, 0 groups, others have [default]; WARNING: not offered: GPUs {7}");
    }
}
