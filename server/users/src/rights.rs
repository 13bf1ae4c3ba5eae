//! What one user may have, and the decision about each request.
//! In: rights, a request, what the user holds already. Out: the session's limit of memory, or a denial by name.
//! Pure: it has no clock, reads no file, and keeps nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::limits::HostLimits;
use crate::name::Name;

/// What one user may have. `None` is no limit beside the server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Indices of the GPUs.
    pub gpus: Option<BTreeSet<u32>>,
    /// Bytes of device memory of all sessions together.
    pub memory: Option<u64>,
    /// Thousandths of a GPU's time of all sessions on it together that may be promised; `None`: whatever is free.
    pub share: Option<u32>,
    /// Weight among users that have work on the same GPU.
    pub weight: u32,
    /// Sessions at once.
    pub sessions: Option<usize>,
    /// A session's longest life.
    pub time: Option<Duration>,
    /// What all its workers together may take of the server's machine.
    pub host: HostLimits,
    /// Whether own sessions may be moved, suspended and resumed.
    pub may_migrate: bool,
    /// Whether all sessions are shown.
    pub may_see_others: bool,
}

/// A request for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The GPU's index.
    pub gpu: u32,
    /// The quota in bytes; 0: whatever there is.
    pub memory: u64,
    /// Thousandths of the GPU's time; 0: none are to be promised.
    pub share: u32,
}

/// What a user's sessions hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Their number.
    pub sessions: usize,
    /// The sum of their quotas in bytes; of a session without one, what it has.
    pub memory: u64,
    /// Thousandths of the wished GPU's time that they were promised.
    pub share: u32,
}

/// Why the policy denies a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// A GPU that the user may not use.
    #[error("the policy gives {name} no GPU {gpu}; granted: {granted:?}\n  name one of these, or ask the operator")]
    Gpu {
        /// The user.
        name: Name,
        /// The GPU asked for.
        gpu: u32,
        /// Those that the user may use.
        granted: Vec<u32>,
    },
    /// More memory than the user may have.
    #[error(
        "the policy gives {name} {} MiB of device memory in all; held: {} MiB, asked for: {}\n  ask for less with --memory, or end a session: floe ps, floe end",
        limit >> 20, held >> 20, asked_words(*asked)
    )]
    Memory {
        /// The user.
        name: Name,
        /// Bytes that the user may have.
        limit: u64,
        /// Bytes that the user's sessions hold.
        held: u64,
        /// Bytes asked for; 0: whatever there is.
        asked: u64,
    },
    /// More of a GPU's time than the user may be promised.
    #[error(
        "the policy gives {name} {} of a GPU's time; held: {}, asked for: {}\n  ask for less with --share, or leave it out",
        floe_size::percent(*limit), floe_size::percent(*held), floe_size::percent(*asked)
    )]
    Share {
        /// The user.
        name: Name,
        /// Thousandths that the user may be promised.
        limit: u32,
        /// Thousandths that the user's sessions were promised.
        held: u32,
        /// Thousandths asked for.
        asked: u32,
    },
    /// More sessions than the user may have.
    #[error("the policy gives {name} {limit} sessions at once; held: {held}\n  end one: floe ps, floe end")]
    Sessions {
        /// The user.
        name: Name,
        /// The most sessions.
        limit: usize,
        /// The sessions there are.
        held: usize,
    },
    /// The user may not move sessions.
    #[error("the policy does not let {0} move, suspend or resume sessions\n  ask the operator for may-migrate")]
    Migrate(Name),
}

fn asked_words(asked: u64) -> String {
    if asked == 0 { "all that is left".to_owned() } else { format!("{} MiB", asked >> 20) }
}

impl Rights {
    /// Those of a server without a policy: only the server's own limits hold.
    pub const OF_NO_POLICY: Self = Self {
        gpus: None,
        memory: None,
        share: None,
        weight: 1,
        sessions: None,
        time: None,
        host: HostLimits::NONE,
        may_migrate: true,
        may_see_others: false,
    };

    /// Whether a GPU may be used.
    #[must_use]
    pub fn grants(&self, gpu: u32) -> bool {
        self.gpus.as_ref().is_none_or(|gpus| gpus.contains(&gpu))
    }

    /// The quota of one more session in bytes, 0 for none.
    ///
    /// # Errors
    /// [`Denial`]: the first of GPU, sessions, share and memory that forbids it.
    pub fn admit(&self, name: Name, wish: Wish, held: Held) -> Result<u64, Denial> {
        let Wish { gpu, memory: asked, share } = wish;
        self.use_gpu(name, gpu)?;
        if let Some(limit) = self.sessions.filter(|limit| held.sessions >= *limit) {
            return Err(Denial::Sessions { name, limit, held: held.sessions });
        }
        if let Some(limit) = self.share.filter(|limit| share != 0 && held.share.saturating_add(share) > *limit) {
            return Err(Denial::Share { name, limit, held: held.share, asked: share });
        }
        let Some(limit) = self.memory else { return Ok(asked) };
        let left = limit.saturating_sub(held.memory);
        match asked {
            0 if left > 0 => Ok(left),
            1.. if asked <= left => Ok(asked),
            _ => Err(Denial::Memory { name, limit, held: held.memory, asked }),
        }
    }

    /// Denies a GPU that may not be used.
    ///
    /// # Errors
    /// [`Denial::Gpu`].
    pub fn use_gpu(&self, name: Name, gpu: u32) -> Result<(), Denial> {
        if self.grants(gpu) {
            return Ok(());
        }
        Err(Denial::Gpu { name, gpu, granted: self.gpus.iter().flatten().copied().collect() })
    }

    /// Denies moves to who may make none.
    ///
    /// # Errors
    /// [`Denial::Migrate`].
    pub fn migrate(&self, name: Name) -> Result<(), Denial> {
        if self.may_migrate { Ok(()) } else { Err(Denial::Migrate(name)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    const LIMITED: Rights =
        Rights { memory: Some(8 << 20), sessions: Some(2), may_migrate: false, ..Rights::OF_NO_POLICY };

    fn name() -> Name {
        Name::new("alice").expect("a name")
    }

    #[test]
    fn each_denial_names_the_user_the_limit_and_what_to_do() {
        let rights = Rights { gpus: Some([0, 2].into()), ..LIMITED };
        let denied = |gpu, memory, sessions, held| {
            let outcome =
                rights.admit(name(), Wish { gpu, memory, share: 0 }, Held { sessions, memory: held, share: 0 });
            outcome.expect_err("denied").to_string()
        };
        for (words, expected) in [
            (denied(1, 0, 0, 0), "the policy gives alice no GPU 1; granted: [0, 2]\n  name one"),
            (denied(0, 0, 2, 0), "the policy gives alice 2 sessions at once; held: 2\n  end one: floe ps, floe end"),
            (
                denied(2, 9 << 20, 0, 0),
                "the policy gives alice 8 MiB of device memory in all; held: 0 MiB, asked for: 9 MiB\n",
            ),
            (denied(2, 0, 1, 8 << 20), "held: 8 MiB, asked for: all that is left\n"),
        ] {
            assert!(words.contains(expected), "{words}");
        }
        let limited = Rights { share: Some(250), ..Rights::OF_NO_POLICY };
        let held = Held { sessions: 1, memory: 0, share: 125 };
        let words =
            limited.admit(name(), Wish { gpu: 0, memory: 0, share: 200 }, held).expect_err("denied").to_string();
        assert!(
            words.starts_with("the policy gives alice 25% of a GPU's time; held: 12.5%, asked for: 20%\n"),
            "{words}"
        );
        let words = rights.migrate(name()).expect_err("denied").to_string();
        assert!(words.starts_with("the policy does not let alice move"), "{words}");
    }

    #[test]
    fn a_session_without_a_quota_gets_what_is_left() {
        let outcome = LIMITED.admit(
            name(),
            Wish { gpu: 5, memory: 0, share: 0 },
            Held { sessions: 1, memory: 3 << 20, share: 0 },
        );
        assert_eq!(outcome, Ok(5 << 20));
        assert_eq!(Rights::OF_NO_POLICY.admit(name(), Wish { gpu: 5, memory: 0, share: 0 }, Held::default()), Ok(0));
    }

    fn rights() -> impl Strategy<Value = Rights> {
        let limits = (
            prop::option::of(btree_set(0_u32..4, 0..4)),
            prop::option::of(0_u64..100),
            prop::option::of(0_usize..5),
            prop::option::of(0_u32..300),
        );
        (limits, any::<bool>()).prop_map(|((gpus, memory, sessions, share), may_migrate)| Rights {
            gpus,
            share,
            memory,
            sessions,
            may_migrate,
            ..Rights::OF_NO_POLICY
        })
    }

    proptest! {
        #[test]
        fn no_row_of_requests_and_ends_gets_more_than_the_rights(
            rights in rights(),
            events in vec((0_u32..4, 0_u64..60, 0_u32..200, any::<prop::sample::Index>(), any::<bool>()), 0..60),
        ) {
            let mut sessions: Vec<(u32, u64, u32)> = Vec::new();
            for (gpu, memory, share, which, ends) in events {
                if ends && !sessions.is_empty() {
                    sessions.remove(which.index(sessions.len()));
                    continue;
                }
                let promised = |sessions: &[(u32, u64, u32)]| sessions.iter().filter(|it| it.0 == gpu).map(|it| it.2).sum::<u32>();
                let memory_held = sessions.iter().map(|it| it.1).sum();
                let held = Held { sessions: sessions.len(), memory: memory_held, share: promised(&sessions) };
                match rights.admit(name(), Wish { gpu, memory, share }, held) {
                    Ok(quota) => {
                        prop_assert!(memory == 0 || quota == memory);
                        sessions.push((gpu, quota, share));
                    }
                    Err(Denial::Gpu { .. }) => prop_assert!(!rights.grants(gpu)),
                    Err(Denial::Sessions { .. }) => prop_assert_eq!(Some(sessions.len()), rights.sessions),
                    Err(Denial::Memory { .. }) => {
                        let left = rights.memory.expect("a limit") - held.memory;
                        let is_over = if memory == 0 { left == 0 } else { memory > left };
                        prop_assert!(is_over);
                    }
                    Err(Denial::Share { .. }) => prop_assert!(share > 0 && rights.share.is_some_and(|most| held.share + share > most)),
                    Err(Denial::Migrate(_)) => prop_assert!(false, "nobody asked for a move"),
                }
                prop_assert!(sessions.iter().all(|(gpu, ..)| rights.grants(*gpu)));
                prop_assert!(rights.share.is_none_or(|most| promised(&sessions) <= most));
                prop_assert!(rights.sessions.is_none_or(|most| sessions.len() <= most));
                let sum: u64 = sessions.iter().map(|it| it.1).sum();
                prop_assert!(rights.memory.is_none_or(|most| sum <= most && sessions.iter().all(|it| it.1 > 0)));
            }
        }
    }
}
