//! Reads from a link's pipe, each with its kind of wait.
//! In: the pipe's bytes and, where wanted, the descriptors that came with them. Out: both, as they arrive.
//! It spins for a moment before it sleeps on the pipe.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Failure, LinkError};
use crate::frames::halt::Halt;
use crate::frames::traffic::Traffic;
use crate::pipes::pipe::Pipe;
use crate::spin::{Expected, Spin};

/// Pause of a wait with a deadline when readable bytes gave nothing yet.
const FRUITLESS: Duration = Duration::from_millis(1);

/// The kind of wait of one read.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// Without a limit; it spins for a moment before it sleeps.
    Always,
    /// Until a deadline.
    Until(Instant),
    /// Not at all.
    Never,
}

/// A pipe that is read by one thread at a time.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) pipe: Arc<dyn Pipe>,
    pub(crate) spin: Spin,
    /// Whether bytes are expected soon.
    pub(crate) expected: Expected,
    /// Whether descriptors are taken; otherwise the kernel closes them.
    pub(crate) wants_descriptors: bool,
    /// The descriptor that came last.
    pub(crate) descriptor: Option<OwnedFd>,
    /// Data of a bulk frame were left unread: the next bytes are no frame.
    pub(crate) is_broken: bool,
    /// Whether each large frame is acknowledged.
    pub(crate) tells: bool,
    /// Whether to stop at a frame's border.
    pub(crate) halt: Halt,
    /// Where its bytes are counted.
    pub(crate) traffic: Option<Arc<Traffic>>,
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
            halt: Halt::default(),
            traffic: None,
        }
    }

    /// The descriptor that came last, with the bytes read last or before.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        let beside = if self.wants_descriptors { self.pipe.descriptor() } else { None };
        let among = self.descriptor.take();
        beside.or(among)
    }

    /// Reads the bytes that have arrived, after waiting for some. `None`: there are none, and `wait` forbids waiting.
    pub(crate) fn read(&mut self, target: &mut [u8], wait: Wait) -> Result<Option<usize>, LinkError> {
        let read = self.take(target, wait)?;
        if let (Some(traffic), Some(count)) = (&self.traffic, read) {
            traffic.has_received(count);
        }
        Ok(read)
    }

    fn take(&mut self, target: &mut [u8], wait: Wait) -> Result<Option<usize>, LinkError> {
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
        let (began, mut fruitless) = (Instant::now(), false);
        loop {
            self.halt.check_waiting()?;
            let read = if let Wait::Until(deadline) = wait {
                wait_until(pipe, deadline, began)?;
                if fruitless {
                    // A part of a sealed record is readable, but gives no bytes yet. A peer can send records without bytes for ever.
                    if Instant::now() >= deadline {
                        return Err(timed_out(deadline, began));
                    }
                    std::thread::sleep(FRUITLESS);
                }
                // The wait may have been on a connection that is gone by now; this read must not wait for the next one.
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

fn timed_out(deadline: Instant, began: Instant) -> LinkError {
    let after = deadline.saturating_duration_since(began);
    LinkError::TimedOut { what: "waiting for the peer's next frame".into(), after }
}

fn wait_until(pipe: &dyn Pipe, deadline: Instant, began: Instant) -> Result<(), LinkError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match pipe.wait(Some(left)) {
            Ok(true) => return Ok(()),
            Ok(false) if left.is_zero() => {
                return Err(timed_out(deadline, began));
            }
            Ok(false) => {}
            Err(failure) => return Err(LinkError::during("waiting for the peer", failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::pipes::reads::{ReadOnly, Reads};

    /// A pipe that is readable all the time, and gives its first byte after so many reads.
    #[derive(Debug)]
    struct Empty(AtomicU32);

    impl Reads for Empty {
        fn read(&self, _: &mut [u8]) -> Result<Option<usize>, Failure> {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            Ok((left == 0).then_some(1))
        }
    }

    /// What a read gets behind its deadline, of a pipe that gives its first byte after so many reads.
    fn late(reads: u32) -> Result<Option<usize>, LinkError> {
        Reading::new(Arc::new(ReadOnly(Empty(AtomicU32::new(reads))))).read(&mut [0], Wait::Until(Instant::now()))
    }

    #[test]
    fn a_peer_that_sends_records_without_bytes_is_waited_for_until_the_deadline() {
        assert!(matches!(late(50), Err(LinkError::TimedOut { .. })));
        // What has arrived by then is taken.
        assert_eq!(late(0).unwrap(), Some(1));
    }
}
