//! A pipe for tests: it records each write with its thread, and gives every write the same result. Nothing is ever read
//! from it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use crate::error::Failure;
use crate::pipes::borrowed::SendMode;
use crate::pipes::pipe::{Pipe, Reach, Slot};

#[derive(Debug)]
pub(crate) struct Noting {
    writes: Mutex<Vec<(&'static str, ThreadId)>>,
    reach: Reach,
    answer: Result<(), Failure>,
}

impl Noting {
    pub(crate) fn new(reach: Reach, answer: Result<(), Failure>) -> Arc<Self> {
        Arc::new(Self { writes: Mutex::default(), reach, answer })
    }

    /// The writes, in order.
    pub(crate) fn ways(&self) -> Vec<&'static str> {
        self.writes.lock().unwrap().iter().map(|(how, _)| *how).collect()
    }

    /// The number of writes by the calling thread.
    pub(crate) fn own(&self) -> usize {
        let me = std::thread::current().id();
        self.writes.lock().unwrap().iter().filter(|(_, who)| *who == me).count()
    }

    fn note(&self, how: &'static str) -> Result<(), Failure> {
        self.writes.lock().unwrap().push((how, std::thread::current().id()));
        self.answer
    }
}

impl Pipe for Noting {
    fn write(&self, _: &[u8], _: &[u8]) -> Result<(), Failure> {
        self.note("copied")
    }

    fn write_kept(&self, _: &[u8], _: &[u8], _: SendMode) -> Result<(), Failure> {
        self.note("given")
    }

    fn write_with(&self, _: &[u8], _: &[u8], _: BorrowedFd<'_>) -> Result<(), Failure> {
        self.note("with a descriptor")
    }

    fn limit_writes(&self, _: Option<Duration>) -> Result<(), Failure> {
        Ok(())
    }

    fn read_now(&self, _: &mut [u8], _: Slot<'_>) -> Result<Option<usize>, Failure> {
        Ok(None)
    }

    fn read(&self, _: &mut [u8], _: Slot<'_>) -> Result<Option<usize>, Failure> {
        Ok(None)
    }

    fn wait(&self, _: Option<Duration>) -> Result<bool, Failure> {
        Ok(false)
    }

    fn end(&self) {}

    fn reach(&self) -> Reach {
        self.reach
    }
}
