//! Users of a server: their names, and what the policy lets each have.
//! In: files of the operator, names that the server knows by itself, requests. Out: rights, and decisions by name.
//! It opens no socket, and believes no name that a message brings.
#![forbid(unsafe_code)]

mod audit;
mod file;
mod limits;
mod name;
mod policy;
mod rights;
mod tokens;

pub use audit::{Audit, Event, Whose};
pub use file::FileError;
pub use limits::HostLimits;
pub use name::{Name, NotAName};
pub use policy::Policy;
pub use rights::{Denial, Held, Rights, Wish};
pub use tokens::{Entry, Revoked, Tokens, make, revoke, server_key};
