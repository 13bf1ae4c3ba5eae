//! Worker processes: their start, connections, supervision and end; and the devices that they report.
//! In: admissions. Out: processes, and their reports.
//! Nothing here speaks to a client.

pub(crate) mod driver_settings;
mod lines;
pub(crate) mod probe;
pub(crate) mod supervision;
pub(crate) mod worker_channel;
pub(crate) mod worker_process;
