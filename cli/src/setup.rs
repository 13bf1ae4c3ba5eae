//! What others need to know of this installation: shells, `man`, container engines.

pub(crate) mod cdi;
pub(crate) mod manual;
