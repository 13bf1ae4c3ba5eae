//! What both sides of a move share: the move stream, its words, and memory that is staged.
//! In: steps of the session that leaves. Out: the same steps where it arrives, and answers. It decides no phase.

pub(crate) mod arrive;
pub(crate) mod differing;
pub(crate) mod ends;
pub(crate) mod keep;
pub(crate) mod leave;
pub(crate) mod staging;
pub(crate) mod stream;
pub(crate) mod words;
