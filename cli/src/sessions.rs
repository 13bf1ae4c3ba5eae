//! Commands for the sessions of servers: who has one, moves, ends.
//! In: a session's number. Out: rows, progress, results.

pub(crate) mod end;
pub(crate) mod migrate;
pub(crate) mod ps;
pub(crate) mod suspend;
pub(crate) mod top;
pub(crate) mod upgrade;
