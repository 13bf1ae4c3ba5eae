//! A device's memory: a range of device addresses, what is mapped there, and the store the bytes live in.
//! Device addresses are numbers that only [`Memory`] turns into host addresses (`host = address + bias`). Every access,
//! of kernels and of the host, is checked against the map of valid granules, or lies in host memory that is lent. It never hands out addresses by itself:
//! where something is mapped is the caller's decision.

mod access;
mod exported;
mod lent;
mod space;
mod store;

pub use exported::{FileIdentity, MemoryFile};
pub(crate) use space::GRANULE_SHIFT;
pub use space::{GRANULE, Mapped, Memory, MemoryError, View};
pub use store::{Backing, Store};

#[cfg(test)]
mod tests;
