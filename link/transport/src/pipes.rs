//! The pipes that carry a link's bytes: sockets, TLS, records sealed by the token, rings in shared memory.
//! In: a connected socket, or the transport that two sides agreed on. Out: bytes in both directions, behind one
//! interface.
//! They know no frames. A new transport is one file here.

pub(crate) mod borrowed;
#[cfg(test)]
pub(crate) mod noting;
pub(crate) mod opening;
pub(crate) mod pages;
pub(crate) mod pipe;
#[cfg(test)]
pub(crate) mod reads;
pub(crate) mod rings;
pub(crate) mod sealed;
pub(crate) mod socket;
pub(crate) mod socket_options;
pub(crate) mod tls;
