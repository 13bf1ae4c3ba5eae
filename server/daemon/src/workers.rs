//! Worker processes: how each starts, gets its connections, is watched and ends; and what devices they offer.
//! In: admissions. Out: processes, and what they report.
//! Nothing here speaks to a client.

pub(crate) mod driver_settings;
mod lines;
pub(crate) mod probe;
pub(crate) mod supervision;
pub(crate) mod worker_channel;
pub(crate) mod worker_process;
