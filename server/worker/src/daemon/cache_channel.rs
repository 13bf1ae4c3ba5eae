//! The way between a worker and the daemon's cache of modules: one socket for each session, one answer to each request.
//! In: at the worker's end, hashes. Out: descriptors of memory for contents, and for reading of files the daemon has written.
//! No path goes over it, and descriptors come from the daemon only. Neither end believes the other's bytes: the daemon
//! hashes what it stores, the worker what it maps.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use floe_transport::{receive_with, try_send_with};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use serde::{Deserialize, Serialize};

/// The most bytes of a request or an answer.
const MESSAGE_BYTES: usize = 1024;

/// A BLAKE3 hash.
pub type Hash = [u8; 32];

/// A worker's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheRequest {
    /// For the content of this hash and size.
    Find(Hash, u64),
    /// For memory to write the content of this hash and size to.
    Store(Hash, u64),
    /// To keep the content that has been written to the memory that was given last.
    Written,
    /// To look again at a file that did not have its hash.
    Damaged(Hash),
    /// For the hash and size of the machine code that was noted under this name.
    Compiled(Hash),
    /// To note, under this name, the hash and size of machine code.
    Note(Hash, Hash, u64),
}

/// The daemon's answer; a descriptor comes with [`CacheAnswer::Here`] and [`CacheAnswer::Write`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheAnswer {
    /// The content's file.
    Here,
    /// Memory of the content's size, for the worker to write to.
    Write,
    /// There is no such content.
    Missing,
    /// The hash and size that were noted.
    Compiled(Hash, u64),
    /// It is noted.
    Noted,
    /// The content is not kept, and why.
    Refused(String),
}

/// One end.
#[derive(Debug)]
pub struct CacheEnd(OwnedFd);

/// Both ends of one session's way: the daemon's, the worker's.
///
/// # Errors
/// When the system gives no socket.
pub fn cache_ends() -> io::Result<(CacheEnd, CacheEnd)> {
    let (daemon, worker) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((CacheEnd(daemon), CacheEnd(worker)))
}

impl CacheEnd {
    /// The worker's end as it was passed.
    pub(crate) fn of(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// The descriptor to pass.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Asks, at the worker's end.
    ///
    /// # Errors
    /// When the daemon is gone.
    pub fn ask(&self, request: CacheRequest) -> io::Result<()> {
        send(&self.0, &serde_json::to_vec(&request)?, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for the next request, at the daemon's end; `None` when the worker is gone. Descriptors are closed unseen.
    ///
    /// # Errors
    /// When what comes is no request.
    pub fn request(&self) -> io::Result<Option<CacheRequest>> {
        let mut bytes = [0; MESSAGE_BYTES];
        loop {
            match recv(&self.0, &mut bytes[..], RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                Ok((_, 0)) => return Ok(None),
                received => return Ok(Some(serde_json::from_slice(&bytes[..received?.1])?)),
            }
        }
    }

    /// Answers, with a descriptor where the answer has one, and never waits for the worker.
    ///
    /// # Errors
    /// `WouldBlock` when the worker does not take its answers, others when it is gone.
    pub fn answer(&self, answer: &CacheAnswer, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = serde_json::to_vec(answer)?;
        match descriptor {
            Some(descriptor) => try_send_with(&self.0, &bytes, descriptor)?,
            None => send(&self.0, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?,
        };
        Ok(())
    }

    /// Waits for the answer, at the worker's end, and the descriptor that came with it; `None` when the daemon is gone.
    ///
    /// # Errors
    /// When what comes is no answer.
    pub fn answered(&self) -> io::Result<Option<(CacheAnswer, Option<OwnedFd>)>> {
        let (mut bytes, mut descriptor) = ([0; MESSAGE_BYTES], None);
        let count = loop {
            match receive_with(&self.0, &mut bytes, &mut descriptor, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                received => break received?,
            }
        };
        Ok(if count == 0 { None } else { Some((serde_json::from_slice(&bytes[..count])?, descriptor)) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::fs::File;
    use std::io::Read as _;

    use super::*;

    #[test]
    fn requests_and_answers_arrive_whole_with_their_descriptors() {
        let (daemon, worker) = cache_ends().unwrap();
        worker.ask(CacheRequest::Find([255; 32], u64::MAX)).unwrap();
        assert_eq!(daemon.request().unwrap(), Some(CacheRequest::Find([255; 32], u64::MAX)));
        let file = File::open("/proc/self/status").unwrap();
        daemon.answer(&CacheAnswer::Here, Some(file.as_fd())).unwrap();
        let (answer, descriptor) = worker.answered().unwrap().unwrap();
        assert_eq!(answer, CacheAnswer::Here);
        let mut text = String::new();
        File::from(descriptor.unwrap()).read_to_string(&mut text).unwrap();
        assert!(text.starts_with("Name:"));
        drop(daemon);
        assert!(worker.answered().unwrap().is_none());
    }

    #[test]
    fn bytes_that_are_no_request_are_an_error_and_no_panic() {
        let (daemon, worker) = cache_ends().unwrap();
        for bytes in [&b"{}"[..], b"\xff\xff", b"{\"find\":[[1],2]}", &[b'['; MESSAGE_BYTES + 9]] {
            send(&worker.0, bytes, SendFlags::empty()).unwrap();
            assert!(daemon.request().is_err());
        }
    }

    #[test]
    fn a_worker_that_takes_no_answer_is_not_waited_for() {
        let (daemon, worker) = cache_ends().unwrap();
        let file = File::open("/proc/self/status").unwrap();
        let refused = loop {
            if let Err(error) = daemon.answer(&CacheAnswer::Here, Some(file.as_fd())) {
                break error;
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(worker);
    }

    #[test]
    fn a_descriptor_that_a_worker_sends_is_closed_unseen() {
        let (daemon, worker) = cache_ends().unwrap();
        let (ours, theirs) = rustix::pipe::pipe().unwrap();
        try_send_with(&worker.0, &serde_json::to_vec(&CacheRequest::Written).unwrap(), theirs.as_fd()).unwrap();
        drop(theirs);
        assert_eq!(daemon.request().unwrap(), Some(CacheRequest::Written));
        // Nobody has the other end any more.
        assert_eq!(rustix::io::read(&ours, &mut [0; 1]), Ok(0));
    }
}
