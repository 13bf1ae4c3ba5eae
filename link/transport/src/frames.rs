//! Frames in order, over any pipe.
//! In: messages to send, and a pipe's bytes. Out: frames with a sequence at the pipe, and received frames.
//! They use the pipe's interface only, and never interpret a message.

pub(crate) mod bulk_frame;
pub(crate) mod flusher;
pub(crate) mod halt;
pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod reading;
pub(crate) mod receiver;
pub(crate) mod salt;
pub(crate) mod sender;
pub(crate) mod traffic;
pub(crate) mod writing;
