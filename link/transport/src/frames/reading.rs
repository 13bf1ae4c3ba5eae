//! Reads of a link's pipe, each with its way of waiting.
//! In: the pipe's bytes and, where they are wanted, descriptors that came with them. Out: both, as they come.
//! It looks again for a moment before it has the pipe sleep.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Failure, LinkError};
use crate::pipes::pipe::Pipe;
use crate::spin::{Expected, Spin};

/// How long who waits until a time lets pass when there was something to read which could not be.
const FRUITLESS: Duration = Duration::from_millis(1);

/// How one read waits.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// As long as it takes; looks again for a moment before it sleeps.
    Always,
    /// Until then.
    Until(Instant),
    /// Not at all.
    Never,
}

/// A pipe that is read by one thread at a time.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) pipe: Arc<dyn Pipe>,
    pub(crate) spin: Spin,
    /// Whether something will come soon.
    pub(crate) expected: Expected,
    /// Whether descriptors are taken; otherwise the system closes them unseen.
    pub(crate) wants_descriptors: bool,
    /// The descriptor that came last.
    pub(crate) descriptor: Option<OwnedFd>,
    /// Data of a bulk frame were left unread: what follows is no frame.
    pub(crate) is_broken: bool,
    /// Whether the peer hears of each large frame that it has come.
    pub(crate) tells: bool,
}

impl Reading {
    pub(crate) fn new(pipe: Arc<dyn Pipe>) -> Self {
        Self {
            pipe,
            spin: Spin::default(),
            expected: Expected::default(),
            wants_descriptors: false,
            descriptor: None,
            is_broken: false,
            tells: true,
        }
    }

    /// The descriptor that came last, with the bytes read last or before.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        let beside = if self.wants_descriptors { self.pipe.descriptor() } else { None };
        let among = self.descriptor.take();
        beside.or(among)
    }

    /// Reads what is there, after waiting for something; `None` where there is nothing and `wait` says not to.
    pub(crate) fn read(&mut self, target: &mut [u8], wait: Wait) -> Result<Option<usize>, LinkError> {
        let pipe = &*self.pipe;
        let mut descriptor = self.wants_descriptors.then_some(&mut self.descriptor);
        match wait {
            Wait::Always if self.spin.is_on() => {
                let look = || pipe.read_now(target, descriptor.as_deref_mut()).transpose();
                if let Some(done) = self.spin.look_while(look, |_| self.expected.is()) {
                    return done.map(Some).map_err(failed);
                }
            }
            Wait::Never => return pipe.read_now(target, descriptor).map_err(failed),
            Wait::Always | Wait::Until(_) => {}
        }
        let mut fruitless = false;
        loop {
            let read = if let Wait::Until(deadline) = wait {
                wait_until(pipe, deadline)?;
                if fruitless {
                    // A part of a sealed record counts as readable, and gives nothing yet.
                    std::thread::sleep(FRUITLESS);
                }
                // It may have waited for a connection that is gone by now: this must not wait for the next.
                pipe.read_now(target, descriptor.as_deref_mut())
            } else {
                pipe.read(target, descriptor.as_deref_mut())
            };
            if let Some(count) = read.map_err(failed)? {
                return Ok(Some(count));
            }
            fruitless = true;
        }
    }
}

fn failed(failure: Failure) -> LinkError {
    LinkError::during("receiving", failure)
}

fn wait_until(pipe: &dyn Pipe, deadline: Instant) -> Result<(), LinkError> {
    let began = Instant::now();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match pipe.wait(Some(left)) {
            Ok(true) => return Ok(()),
            Ok(false) if left.is_zero() => {
                let after = deadline.saturating_duration_since(began);
                return Err(LinkError::TimedOut { what: "waiting for the peer's next frame".into(), after });
            }
            Ok(false) => {}
            Err(failure) => return Err(LinkError::during("waiting for the peer", failure)),
        }
    }
}
