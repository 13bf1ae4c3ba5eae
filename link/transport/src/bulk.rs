//! Bulk data of a session, over several connections at once.
//! In: data that are borrowed, with the commands they belong to; chunks of a peer that is not trusted. Out: the data in their places
//! at the other end, each transfer told of when it is whole.
//! It moves no commands: those go on the session's own connection.

mod assembly;
mod line;
mod pull;
mod queue;
mod sizes;
mod staging;
mod stripes;
mod transfers;
mod writers;

pub use pull::pull;
pub use queue::Load;
pub use sizes::{STRIPED_FROM, transfer_bytes, transfers};
pub use stripes::{MOST_CONNECTIONS, Stripes, suitable_connections, suitable_copiers};
pub use transfers::{Taken, Target, Transfers};
pub use writers::Help;
