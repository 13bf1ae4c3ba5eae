//! A channel as the pipe that the layers above it use.
//! In: bytes to write, and readers that wait. Out: each write is kept until the peer has acknowledged it, with or without a
//! connection; reads wait for the next connection while there is none.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::channel::{Attempt, Channel, HOLE_BYTES, Siblings, lock};
use super::log::Held;
use crate::error::Failure;
use crate::frames::outgoing::BULK_BYTES;
use crate::pipes::borrowed::{BorrowedBuffer, SendMode};
use crate::pipes::pipe::{Pipe, Reach, Slot};

impl<S: Siblings> Pipe for Channel<S> {
    fn write(&self, head: &[u8], tail: &[u8]) -> Result<(), Failure> {
        if tail.len() >= HOLE_BYTES {
            return self.write_through(head, tail);
        }
        let _waiting = self.waits.begin();
        let under = self.log(|log| {
            log.append(head);
            log.append(tail);
        })?;
        if let Some(under) = under {
            self.settle(&under, under.pipe.write(head, tail));
        }
        Ok(())
    }

    fn write_with(&self, head: &[u8], tail: &[u8], descriptor: BorrowedFd<'_>) -> Result<(), Failure> {
        let kept: OwnedFd = descriptor
            .try_clone_to_owned()
            .map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))?;
        let _waiting = self.waits.begin();
        let under = self.log(|log| {
            log.append_with(head, kept);
            log.append(tail);
        })?;
        if let Some(under) = under {
            self.settle(&under, under.pipe.write_with(head, tail, descriptor));
        }
        Ok(())
    }

    fn write_borrowed(&self, head: &[u8], borrowed: Box<dyn BorrowedBuffer>) -> Result<(), Failure> {
        let bytes = borrowed.len();
        if bytes < BULK_BYTES {
            // The peer does not say at once that so little has come, and the owner may be waiting for it.
            let mut written = Ok(());
            borrowed.with_bytes(&mut |data| written = self.write(head, data));
            return written;
        }
        let send_mode = borrowed.send_mode();
        let held = Held::new(borrowed);
        let _waiting = self.waits.begin();
        let under = self.log(|log| {
            log.append(head);
            log.hold(held.clone(), bytes);
        })?;
        if let Some(under) = under {
            let mut written = Ok(());
            held.with_bytes(&mut |data| {
                written = match send_mode {
                    SendMode::Copy => under.pipe.write(head, data),
                    SendMode::Pages | SendMode::PagesForGood => under.pipe.write_kept(head, data, send_mode),
                };
            });
            self.settle(&under, written);
        }
        Ok(())
    }

    fn limit_writes(&self, _time: Option<Duration>) -> Result<(), Failure> {
        Ok(())
    }

    fn read_now(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        match self.attempt(target, |pipe, target| pipe.read_now(target, slot))? {
            Attempt::Got(got) => Ok(got),
            Attempt::Without => Ok((!self.goes_on()?).then_some(0)),
        }
    }

    fn read(&self, target: &mut [u8], mut slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        loop {
            match self.attempt(target, |pipe, target| pipe.read(target, slot.as_deref_mut()))? {
                Attempt::Got(got) => return Ok(got),
                Attempt::Without if !self.goes_on()? => return Ok(Some(0)),
                Attempt::Without if self.is_parked() => return Err(Failure::Stopped),
                Attempt::Without => self.await_connection()?,
            }
        }
    }

    fn is_ahead(&self) -> bool {
        lock(&self.current).as_ref().is_some_and(|under| under.pipe.is_ahead())
    }

    fn wait(&self, time: Option<Duration>) -> Result<bool, Failure> {
        let began = Instant::now();
        let current = lock(&self.current).clone();
        match current {
            // What fails there shows in what is read next.
            Some(under) => Ok(under.pipe.wait(time).unwrap_or(true)),
            None => {
                let current = lock(&self.current);
                if current.is_some() || !self.goes_on()? || self.is_parked() {
                    return Ok(true);
                }
                let left = time.map_or(Duration::from_secs(1), |time| time.saturating_sub(began.elapsed()));
                drop(self.came.wait_timeout(current, left));
                Ok(time.is_none_or(|time| began.elapsed() < time))
            }
        }
    }

    fn taken(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.tell(false);
        }
    }

    fn has_history(&self) -> bool {
        true
    }

    fn end(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.end(None);
        }
    }

    fn reach(&self) -> Reach {
        self.reach
    }
}
