//! Frames in order, over any pipe.
//! In: messages to send, and a pipe's bytes. Out: frames with a sequence at the pipe, and frames that have come.
//! They name the pipe by its interface only, and do not know what a message means.

pub(crate) mod bulk_frame;
pub(crate) mod flusher;
pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod reading;
pub(crate) mod receiver;
pub(crate) mod salt;
pub(crate) mod sender;
pub(crate) mod writing;
