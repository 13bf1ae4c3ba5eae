//! The terms on which a session computes.
//! In: what a client asks for and a policy gives. Out: plain data, checked.
//! It decides nothing.

/// A whole GPU, in thousandths.
pub const WHOLE: u32 = 1000;
/// The highest weight.
pub const MOST_WEIGHT: u32 = 1000;

/// A priority class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It takes turns by its share.
    #[default]
    Batch,
    /// It goes first, up to a bounded time ahead of its share.
    Latency,
}

/// What a session asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Thousandths of the GPU that it gets whenever it has work; 0: what the others' shares leave, by weight.
    pub share: u32,
    /// Its weight among its user's sessions; 0: one of several without terms of their own.
    pub weight: u32,
    /// Its priority class.
    pub class: Class,
}

impl Terms {
    /// Whether it asks for anything.
    #[must_use]
    pub fn are_any(self) -> bool {
        self != Self::default()
    }
}

/// A session, for the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<U> {
    /// Whose it is.
    pub user: U,
    /// The user's weight, from the policy; 1 where it says nothing.
    pub user_weight: u32,
    /// Whether the user has a name. Those divide the GPU among each other, however many sessions each has; peers without a name
    /// may be many users, or one of several.
    pub is_named: bool,
    /// Its terms.
    pub terms: Terms,
}

/// The GPU's other sessions leave no room for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} thousandths of the GPU were asked for, {free} are free")]
pub struct NoShare {
    /// Thousandths asked for.
    pub asked: u32,
    /// Thousandths that nobody was promised.
    pub free: u32,
}
