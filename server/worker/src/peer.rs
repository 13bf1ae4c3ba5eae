//! What sessions share: blocks of device memory and pages of words, exported by tickets, imported from others.
//! In: the client's tickets, and notices of the daemon's. Out: descriptors for those who prove a ticket's key, and what was
//! imported.
//! No thread here waits for another session's commands, and nothing of another session is believed.

pub(crate) mod collective;
pub(crate) mod ends;
pub(crate) mod exporter;
pub(crate) mod exports;
pub(crate) mod hub;
pub(crate) mod imports;
pub(crate) mod link;
pub(crate) mod page;
pub(crate) mod proof;
pub(crate) mod tickets;
