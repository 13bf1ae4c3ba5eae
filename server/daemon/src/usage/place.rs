//! An applicant for a session, and its place in the queue.
//! In: what admission has checked. Out: the same. A place that is dropped frees itself, however its thread ends.
//! It decides nothing.

use std::sync::Arc;
use std::time::Duration;

use super::request::SessionRequest;
use super::sessions::{Conditions, Table};

/// A checked request: all of a session but its number, its door and the channel to its worker.
#[derive(Debug)]
pub(crate) struct Applicant {
    pub(crate) session_request: SessionRequest,
    pub(crate) conditions: Arc<Conditions>,
    pub(crate) gpu: u32,
    pub(crate) wait: Duration,
}

/// An applicant's place in the queue. Dropping it has the queue forget the applicant.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) table: Table,
    pub(crate) number: u64,
    pub(crate) applicant: Applicant,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.table.lock().queue().leave(self.number);
    }
}
