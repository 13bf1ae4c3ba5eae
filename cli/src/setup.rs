//! What others need to know of this installation: shells, `man`, container engines, whoever looks for a setting's origin.

pub(crate) mod cdi;
pub(crate) mod config;
pub(crate) mod manual;
