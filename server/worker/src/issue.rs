//! The session as the issuing thread has it: its objects, and each command carried out in order.
//! In: commands of the client, which nobody has checked yet. Out: calls of the device, replies, tasks for the completer.
//! It never waits for the GPU where a command need not.

pub(crate) mod apart;
pub(crate) mod aside;
pub(crate) mod cache;
pub(crate) mod errands;
pub(crate) mod fault;
pub(crate) mod host_functions;
mod inline_wait;
pub(crate) mod issuer;
pub(crate) mod objects;
pub(crate) mod recipes;
pub(crate) mod stands;
pub(crate) mod turn;
