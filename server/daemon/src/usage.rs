//! The use of GPUs: sessions, the account of device memory, telemetry of GPUs and processes.
//! In: admissions, reports, readings. Out: rows and decisions.
//! It never starts or asks a worker.

pub(crate) mod accounting;
pub(crate) mod carried;
pub(crate) mod door;
pub(crate) mod ended;
pub(crate) mod figures;
pub(crate) mod nodes;
pub(crate) mod place;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod seat;
pub(crate) mod second_look;
pub(crate) mod sessions;
pub(crate) mod telemetry;
pub(crate) mod turns;
pub(crate) mod warden;
