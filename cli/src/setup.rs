//! What others need to know of this installation: shells and `man`.

pub(crate) mod manual;
