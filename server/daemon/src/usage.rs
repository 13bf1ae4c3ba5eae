//! Who uses what: sessions, the account of device memory, what GPUs and processes were seen to do.
//! In: admissions, reports, readings. Out: rows and decisions.
//! Nothing here starts or asks a worker.

pub(crate) mod accounting;
pub(crate) mod second_look;
pub(crate) mod sessions;
pub(crate) mod telemetry;
