//! What sessions of this daemon share with each other: memory and pages of words.
//! In: requests and answers of workers. Out: notices and descriptors to other workers, and ends of workers that lie.
//! No worker is ever waited for, and no ticket's key comes here.

pub(crate) mod broker;
pub(crate) mod outbox;
pub(crate) mod passing;
