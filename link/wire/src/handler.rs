//! Who takes a client's messages: what a handler of commands is, and who takes the others.
//! In: nothing. Out: two types that the generated traits and `Request::dispatch` are written in.
//! No message is named here.

use std::fmt;

/// Carries out a client's commands: the generated traits, one per noun, each have a method per command.
pub trait Handler {
    /// How a command is answered.
    type Answer;
    /// Why one is not.
    type Fault;

    /// A message that is no command has come among the commands.
    fn misplaced(recipient: Recipient) -> Self::Fault;
}

/// Who takes a message of the client's that is no command.
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
