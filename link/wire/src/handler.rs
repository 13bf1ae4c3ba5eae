//! The receivers of a client's messages: the handler of commands, and the parts that take the others.
//! In: nothing. Out: two types that the generated traits and `Request::dispatch` use.
//! It names no message.

use std::fmt;

/// Carries out a client's commands: the generated traits, one per noun, each have a method per command.
pub trait Handler {
    /// The answer to a command.
    type Answer;
    /// Why a command fails.
    type Fault;

    /// Refuses a message that is no command among the commands.
    fn misplaced(recipient: Recipient) -> Self::Fault;
}

/// The part that takes a client's message that is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The daemon, before there is a session.
    Daemon,
    /// The worker's reader, at once.
    Reader,
    /// A connection with a task of its own: one that joins, a bulk connection, or the one with acknowledgements.
    Connection,
}

impl fmt::Display for Recipient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Daemon => "only the daemon takes this message",
            Self::Reader => "the reader takes this message, and no command carries it",
            Self::Connection => "only a connection with a task of its own takes this message",
        })
    }
}
