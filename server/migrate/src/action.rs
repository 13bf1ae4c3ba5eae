//! What is done with a session, by the numbers that cross the wire.
//! In and out: plain data. Nothing here decides anything.

/// What is done with a session. All are moves: between GPUs, and from and to host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// From a GPU to a GPU.
    Move,
    /// From a GPU to host memory.
    Suspend,
    /// From host memory to a GPU.
    Resume,
}

impl Action {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Move, Self::Suspend, Self::Resume];

    /// Its number on the wire: its place in [`Self::ALL`].
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The action of this number.
    #[must_use]
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.number() == number)
    }
}
