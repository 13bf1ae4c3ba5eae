//! Worker processes: their start, connections, supervision and end; the devices that they report; what their sessions share.
//! In: admissions. Out: processes, and their reports.
//! Nothing here speaks to a client.

mod broker;
pub(crate) mod dialer;
pub(crate) mod driver_settings;
pub(crate) mod groups;
pub(crate) mod launcher;
pub(crate) mod moves;
pub(crate) mod mps;
mod outbox;
pub(crate) mod passing;
pub(crate) mod probe;
pub(crate) mod supervision;
pub(crate) mod tending;
pub(crate) mod worker_channel;
pub(crate) mod worker_process;
