//! Reads of a link's socket, each with its way of waiting.
//! In: the socket's bytes and, where they are wanted, descriptors that came with them. Out: both, as they come.
//! It keeps one descriptor at most and closes every other: a peer cannot fill this process's table.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg};

use crate::error::LinkError;
use crate::spin::{Expected, Spin};

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

/// A socket that is read by one thread at a time.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) spin: Spin,
    /// Whether something will come soon.
    pub(crate) expected: Expected,
    /// Whether descriptors are taken; otherwise the system closes them unseen.
    pub(crate) wants_descriptors: bool,
    /// The descriptor that came last.
    pub(crate) descriptor: Option<OwnedFd>,
}

impl Reading {
    pub(crate) fn new(socket: Arc<OwnedFd>) -> Self {
        Self {
            socket,
            spin: Spin::default(),
            expected: Expected::default(),
            wants_descriptors: false,
            descriptor: None,
        }
    }

    /// Reads what is there, after waiting for something; `None` where there is nothing and `wait` says not to.
    pub(crate) fn read(&mut self, target: &mut [u8], wait: Wait) -> Result<Option<usize>, LinkError> {
        match wait {
            Wait::Always if self.spin.is_on() => {
                let (spin, expected) = (self.spin, self.expected.clone());
                if let Some(done) = spin.look_while(|| self.read_now(target).transpose(), || expected.is()) {
                    return done.map(Some);
                }
            }
            Wait::Never => return self.read_now(target),
            Wait::Always | Wait::Until(_) => {}
        }
        loop {
            if let Wait::Until(deadline) = wait {
                wait_until(&self.socket, deadline)?;
            }
            match self.receive(target, RecvFlags::empty()) {
                Ok(count) => return Ok(Some(count)),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(source) => return Err(LinkError::system("receiving", source)),
            }
        }
    }

    fn read_now(&mut self, target: &mut [u8]) -> Result<Option<usize>, LinkError> {
        match self.receive(target, RecvFlags::DONTWAIT) {
            Ok(count) => Ok(Some(count)),
            Err(Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(source) => Err(LinkError::system("receiving", source)),
        }
    }

    fn receive(&mut self, target: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
        if !self.wants_descriptors {
            return recv(&*self.socket, target, flags).map(|(_, count)| count);
        }
        // Descriptors beyond this room are closed by the system.
        let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut parts = [IoSliceMut::new(target)];
        let received = recvmsg(&*self.socket, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                self.descriptor = descriptors.next().or(self.descriptor.take());
                // The room's padding may have held another.
                descriptors.for_each(drop);
            }
        }
        Ok(received.bytes)
    }
}

fn wait_until(socket: &OwnedFd, deadline: Instant) -> Result<(), LinkError> {
    let began = Instant::now();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(0) if left.is_zero() => {
                let after = deadline.saturating_duration_since(began);
                return Err(LinkError::TimedOut { what: "waiting for the peer's next frame".into(), after });
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(source) => return Err(LinkError::system("waiting for the peer", source)),
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 })
}
