//! Completed GPU work: replies, data for the client, events that are used again, output of kernels.
//! In: tasks with the events they wait for. Out: messages to the client.
//! Nothing here issues commands of the client.

pub(crate) mod completer;
pub(crate) mod events;
pub(crate) mod failures;
pub(crate) mod output;
pub(crate) mod printing;
