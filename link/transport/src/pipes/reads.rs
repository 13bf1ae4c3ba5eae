//! A pipe for tests that need only its reading side.
//! In: what each read is to get. Out: a [`Pipe`] that takes every write and says nothing of it.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::pipe::{Pipe, Reach, Slot};
use crate::error::Failure;

/// What the reads of a pipe get.
pub(crate) trait Reads: fmt::Debug + Send + Sync {
    /// As [`Pipe::read_now`].
    fn read(&self, target: &mut [u8]) -> Result<Option<usize>, Failure>;

    /// Whether a read gets something.
    fn has_more(&self) -> bool {
        true
    }
}

/// The pipe with these reads.
#[derive(Debug, Default)]
pub(crate) struct ReadOnly<R>(pub(crate) R);

impl<R: Reads> Pipe for ReadOnly<R> {
    fn write(&self, _: &[u8], _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn write_with(&self, _: &[u8], _: &[u8], _: BorrowedFd<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn limit_writes(&self, _: Option<Duration>) -> Result<(), Failure> {
        Ok(())
    }

    fn read_now(&self, target: &mut [u8], _: Slot<'_>) -> Result<Option<usize>, Failure> {
        self.0.read(target)
    }

    fn read(&self, target: &mut [u8], _: Slot<'_>) -> Result<Option<usize>, Failure> {
        self.0.read(target)
    }

    fn wait(&self, _: Option<Duration>) -> Result<bool, Failure> {
        Ok(self.0.has_more())
    }

    fn end(&self) {}

    fn reach(&self) -> Reach {
        Reach::Network
    }
}
