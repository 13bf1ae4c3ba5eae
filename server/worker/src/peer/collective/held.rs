//! Communicators that threads use in NCCL: none is freed under a thread, however long that waits for other ranks.
//! In: who begins to use one and who leaves it, and that it is to end. Out: whether it ends now, or with the last who leaves.
//! The list knows communicators by values that it compares, and calls nothing.

use std::sync::Mutex;

struct Held<C, E> {
    comm: C,
    users: usize,
    end: Option<E>,
}

/// What is in use.
pub(super) struct Holds<C, E>(Mutex<Vec<Held<C, E>>>);

impl<C, E> Default for Holds<C, E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Copy + PartialEq, E> Holds<C, E> {
    /// One more uses it.
    pub(super) fn enter(&self, comm: C) {
        let mut all = floe_lock::lock(&self.0);
        match all.iter_mut().find(|held| held.comm == comm) {
            Some(held) => held.users += 1,
            None => all.push(Held { comm, users: 1, end: None }),
        }
    }

    /// One has left it: how it ends, if that was the last one and it is to.
    pub(super) fn leave(&self, comm: C) -> Option<E> {
        let mut all = floe_lock::lock(&self.0);
        let at = all.iter().position(|held| held.comm == comm)?;
        all[at].users -= 1;
        if all[at].users == 0 { all.swap_remove(at).end } else { None }
    }

    /// It is to end with the last who leaves, of whom the caller is one from here on. `Err`: nobody uses it, and the caller
    /// ends it.
    pub(super) fn end(&self, comm: C, end: E) -> Result<(), E> {
        let mut all = floe_lock::lock(&self.0);
        let Some(held) = all.iter_mut().find(|held| held.comm == comm) else { return Err(end) };
        (held.users, held.end) = (held.users + 1, Some(end));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_uses_ends_at_once_and_else_with_the_last_who_leaves() {
        let all = Holds::<u32, &str>::default();
        assert_eq!(all.end(1, "destroyed"), Err("destroyed"));
        all.enter(1);
        all.enter(1);
        assert_eq!((all.end(1, "destroyed"), all.leave(1)), (Ok(()), None), "two still use it");
        assert_eq!((all.end(2, "destroyed"), all.leave(1)), (Err("destroyed"), None));
        assert_eq!((all.leave(1), all.leave(1)), (Some("destroyed"), None));
        all.enter(1);
        assert_eq!(all.leave(1), None, "it is another one with that value");
    }
}
