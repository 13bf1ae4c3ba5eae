//! Which user has which id while its workers live.
//! In: users' names, ends of workers. Out: an id for each, of the operator's range. Two users never have the same one.
//! Pure: it starts nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use floe_launcher::Ids;
use floe_lock::lock;
use floe_users::Name;

/// Whose an id is. All who have no name share one.
type Whose = Option<Name>;

/// The ids of a daemon's workers.
#[derive(Clone, Debug)]
pub(crate) struct Leases(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    ids: Ids,
    /// The id to be looked at first, so that one that was given back rests for as long as possible.
    next: u32,
    /// The id of each user with workers, and their number.
    held: BTreeMap<Whose, (u32, usize)>,
}

/// A worker's id. Dropping it, behind the worker's end, gives it back.
#[derive(Debug)]
pub(crate) struct Lease {
    table: Leases,
    whose: Whose,
    id: u32,
}

/// Other users have all ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "all user ids that this server has for workers are in use: {0} (--worker-ids)\n  try again when another user's \
     programs have ended, or ask the operator for a wider range"
)]
pub(crate) struct NoId(Ids);

impl Leases {
    pub(crate) fn new(ids: Ids) -> Self {
        Self(Arc::new(Mutex::new(Table { ids, next: ids.first(), held: BTreeMap::new() })))
    }

    /// The id for one more worker of a user.
    ///
    /// # Errors
    /// [`NoId`].
    pub(crate) fn take(&self, whose: Option<Name>) -> Result<Lease, NoId> {
        let mut table = lock(&self.0);
        let Table { ids, next, held } = &mut *table;
        if let Some((id, count)) = held.get_mut(&whose) {
            *count += 1;
            return Ok(Lease { table: self.clone(), whose, id: *id });
        }
        let taken: BTreeSet<u32> = held.values().map(|(id, _)| *id).collect();
        let behind = ids.of_users().filter(|id| id >= next).chain(ids.of_users().filter(|id| id < next));
        let id = behind.into_iter().find(|id| !taken.contains(id)).ok_or(NoId(*ids))?;
        *next = ids.after(id);
        held.insert(whose, (id, 1));
        Ok(Lease { table: self.clone(), whose, id })
    }
}

impl Lease {
    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let held = &mut lock(&self.table.0).held;
        if let Some((_, count)) = held.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases(text: &str) -> Leases {
        Leases::new(text.parse().expect("a range"))
    }

    fn name(text: &str) -> Whose {
        Some(Name::new(text).expect("a name"))
    }

    #[test]
    fn a_user_has_one_id_and_no_two_users_have_the_same() {
        let leases = leases("5000-5003");
        let take = |whose| leases.take(whose).expect("there is one");
        let all = [take(name("alice")), take(name("bob")), take(name("alice")), take(None), take(None)];
        assert_eq!(all.each_ref().map(Lease::id), [5000, 5001, 5000, 5002, 5002]);
        let refused = leases.take(name("carol")).expect_err("all are in use");
        assert!(refused.to_string().contains("in use: 5000-5003 (--worker-ids)"), "{refused}");
    }

    #[test]
    fn an_id_is_given_back_with_its_users_last_worker_and_then_rests_for_as_long_as_possible() {
        let leases = leases("5000-5002");
        let [first, second] = [(); 2].map(|()| leases.take(name("alice")).expect("there is one"));
        let other = leases.take(name("bob")).expect("there is one");
        drop(first);
        assert!(leases.take(name("carol")).is_err(), "one worker is left");
        drop(second);
        assert_eq!(leases.take(name("carol")).expect("given back").id(), 5000);
        drop(other);
        assert_eq!(leases.take(None).expect("given back").id(), 5001, "5000 was given back later");
    }
}
