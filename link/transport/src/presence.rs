//! What a peer shows of who it is: a token, a certificate, a descriptor. Proof that a process of this machine holds its end of a
//! Unix socket itself, and does not forward bytes for another.
//! In: a first message to send, or the descriptor that came with one. Out: the message with a descriptor of the
//! sender's process, or whether the kernel names that process as the peer.
//! A byte proxy (socat, a hypervisor's vsock proxy) cannot forward a descriptor, and one of its own names another
//! process.

use std::os::fd::{AsRawFd as _, OwnedFd};

use floe_wire::Message;
use rustix::net::getsockname;
use rustix::process::{PidfdFlags, geteuid, getpid, pidfd_open};

use crate::error::LinkError;
use crate::link::Link;
use crate::peer::Peer;
use crate::secret::Protection;

impl Link {
    /// This end as the kernel of the other one sees it, if nothing in between translates it. `None`: there is no socket.
    #[must_use]
    pub fn own_end(&self) -> Option<Peer> {
        let local = getsockname(self.socket()?).ok()?;
        Some(match std::net::SocketAddr::try_from(local) {
            Ok(address) => Peer::Tcp(address),
            Err(_) => Peer::Unix { uid: geteuid().as_raw(), pid: getpid().as_raw_nonzero().get() },
        })
    }

    /// The names of users in the certificate that the peer has shown, at a server that takes them from there. Nobody has looked
    /// at the names.
    #[must_use]
    pub fn users(&self) -> &[String] {
        &self.shown.users
    }

    /// Sends a message. Over a Unix socket a descriptor of this process goes with it, where the kernel supports that.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub fn send_in_person(&mut self, message: &impl Message) -> Result<u64, LinkError> {
        let process = (*self.protection() == Protection::Local).then(|| pidfd_open(getpid(), PidfdFlags::empty()));
        match process {
            Some(Ok(process)) => self.send_with(message, std::os::fd::AsFd::as_fd(&process)),
            // A client without this descriptor proves the token instead.
            Some(Err(_)) | None => self.send(message),
        }
    }
}

impl Peer {
    /// Whether this descriptor, sent by the peer, names the process that connected.
    #[must_use]
    pub fn is_shown_by(&self, descriptor: Option<&OwnedFd>) -> bool {
        let (Self::Unix { pid, .. }, Some(descriptor)) = (self, descriptor) else { return false };
        let said = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd())).unwrap_or_default();
        let process = said.lines().find_map(|line| line.strip_prefix("Pid:"));
        process.is_some_and(|process| *pid > 0 && process.trim().parse() == Ok(*pid))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use floe_wire::MemoryInfo;
    use rustix::process::Pid;

    use super::*;

    fn peer(pid: u32) -> Peer {
        Peer::Unix { uid: 0, pid: i32::try_from(pid).unwrap() }
    }

    #[test]
    fn a_process_shows_itself_and_no_other() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut near, mut far) = (Link::new(ours.into()), Link::new(theirs.into()));
        far.take_descriptors(true);
        near.send_in_person(&MemoryInfo {}).unwrap();
        far.receive(None).unwrap().unwrap();
        let shown = far.descriptor();
        assert!(peer(std::process::id()).is_shown_by(shown.as_ref()));
        assert!(!peer(1).is_shown_by(shown.as_ref()), "a proxy that passes descriptors on is another process");
        assert!(!Peer::Tcp(([127, 0, 0, 1], 1).into()).is_shown_by(shown.as_ref()));
        assert!(!peer(std::process::id()).is_shown_by(None));
    }

    #[test]
    fn other_descriptors_show_nobody() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(!peer(std::process::id()).is_shown_by(Some(&one.into())));
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        assert!(!peer(std::process::id()).is_shown_by(Some(&process)));
    }
}
