//! What the daemon needs before it can start a launcher, and what the operator's ids may be.
//! In: the ids, this process's rights, the users of this machine. Out: why it cannot be, or the rights passed to one child.

use std::io;

use floe_launcher::{Ids, NEEDED};
use nix::unistd::{Gid, Group, Uid, User};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    set_capabilities,
};

/// Why a daemon that will be this user and group cannot have workers of these ids; `None`: it can.
pub(crate) fn obstacle(ids: Ids, (user, group): (u32, u32)) -> Option<String> {
    let has = capabilities(None).map(|sets| sets.permitted).unwrap_or(CapabilitySet::empty());
    if !has.contains(NEEDED) {
        return Some("floed has to be started by root, or with CAP_SETUID, CAP_SETGID and CAP_KILL".to_owned());
    }
    if let Some(own) = [user, group].into_iter().find(|own| ids.all().any(|id| id == *own)) {
        return Some(format!("{own} is the server's own id"));
    }
    if let Some(whose) = ids.all().find_map(known) {
        return Some(whose);
    }
    let what = "make the user that it then becomes (useradd --system floe), or name another with --user";
    (user == 0).then(|| format!("the server stays root's, who can trace every worker: {what}"))
}

/// Whose an id is already.
fn known(id: u32) -> Option<String> {
    let user = User::from_uid(Uid::from_raw(id)).ok().flatten().map(|user| format!("the user {}", user.name));
    let group = || Group::from_gid(Gid::from_raw(id)).ok().flatten().map(|group| format!("the group {}", group.name));
    user.or_else(group).map(|whose| format!("{id} is the id of {whose}"))
}

/// Starts something with the rights of a launcher, which a process of root has anyway, and keeps others from having them.
pub(crate) fn lent<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    let before = capabilities(None)?;
    let inheritable = before.inheritable | NEEDED;
    set_capabilities(None, CapabilitySets { inheritable, effective: before.effective | NEEDED, ..before })?;
    for right in NEEDED.iter() {
        configure_capability_in_ambient_set(right, true)?;
    }
    let started = start();
    clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::empty(), ..before })?;
    Ok(started)
}

/// Gives up the rights of a launcher, in a process that is not root's.
pub(crate) fn give_up() -> io::Result<()> {
    if Uid::effective().is_root() {
        return Ok(());
    }
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    let [effective, permitted, inheritable] = [effective, permitted, inheritable].map(|set| set - NEEDED);
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_somebody_and_the_servers_own_are_refused_by_name() {
        assert_eq!(known(0).as_deref(), Some("0 is the id of the user root"));
        assert_eq!(known(4_000_000_000), None);
        let ids: Ids = "4000000000-4000000001".parse().expect("a range");
        if !Uid::effective().is_root() {
            assert!(obstacle(ids, (1, 1)).is_some_and(|why| why.contains("started by root")));
            return;
        }
        assert_eq!(obstacle(ids, (1, 1)), None);
        assert!(obstacle(ids, (0, 0)).is_some_and(|why| why.starts_with("the server stays root's")));
        for own in [(4_000_000_001, 1), (1, 4_000_000_001)] {
            assert_eq!(obstacle(ids, own).as_deref(), Some("4000000001 is the server's own id"));
        }
        let nobody = "65530-65540".parse().expect("a range");
        assert!(obstacle(nobody, (1, 1)).is_some_and(|why| why.starts_with("65534 is the id of")));
    }
}
