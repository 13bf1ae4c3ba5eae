//! Descriptors that stand for sockets: reading ends of pipes, told from all others by their inode.
//! In: what a descriptor is to become, connections for ports. Out: descriptors that can be polled as a listening socket can.
//! It knows no address. The writing ends say which descriptors have been closed, so that nothing is kept for those.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};

/// The first port that is given to one who asks for none.
const FIRST_PORT: u16 = 1024;
/// Connections that wait for `accept` at a port.
const MOST_WAITING: usize = 256;

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A socket that is neither bound nor connected.
    Fresh,
    /// One with this port.
    Bound(u16),
    /// One that accepts connections for this port.
    Listening(u16),
    /// One that reaches nobody.
    Nowhere,
}

/// Of a file: its device and inode.
type Inode = (u64, u64);

#[derive(Debug)]
struct Entry {
    kind: Kind,
    /// The pipe's writing end.
    wake: OwnedFd,
    waiting: VecDeque<OwnedFd>,
}

/// All of a process.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Mutex<BTreeMap<Inode, Entry>>,
}

fn inode(fd: BorrowedFd<'_>) -> Option<Inode> {
    rustix::fs::fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl Table {
    /// A new descriptor.
    pub(super) fn add(&self, kind: Kind, flags: OFlags) -> io::Result<OwnedFd> {
        let (end, wake) = pipe_with(PipeFlags::CLOEXEC)?;
        if flags.contains(OFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(&end, OFlags::NONBLOCK)?;
        }
        if !flags.contains(OFlags::CLOEXEC) {
            rustix::io::fcntl_setfd(&end, rustix::io::FdFlags::empty())?;
        }
        let key = inode(std::os::fd::AsFd::as_fd(&end)).ok_or_else(|| error(libc::EBADF))?;
        let mut entries = floe_lock::lock(&self.entries);
        entries.retain(|_, entry| is_open(&entry.wake));
        entries.insert(key, Entry { kind, wake, waiting: VecDeque::new() });
        Ok(end)
    }

    pub(super) fn kind(&self, fd: BorrowedFd<'_>) -> Option<Kind> {
        let key = inode(fd)?;
        floe_lock::lock(&self.entries).get(&key).map(|entry| entry.kind)
    }

    /// Gives a port, the one asked for or a free one.
    pub(super) fn bind(&self, fd: BorrowedFd<'_>, wanted: u16) -> io::Result<()> {
        let key = inode(fd).ok_or_else(|| error(libc::EBADF))?;
        let mut entries = floe_lock::lock(&self.entries);
        entries.retain(|_, entry| is_open(&entry.wake));
        let is_free = |port: u16| {
            entries.values().all(|entry| !matches!(entry.kind, Kind::Bound(at) | Kind::Listening(at) if at == port))
        };
        let port = if wanted == 0 { (FIRST_PORT..=u16::MAX).find(|port| is_free(*port)) } else { Some(wanted) };
        let port = port.filter(|port| is_free(*port)).ok_or_else(|| error(libc::EADDRINUSE))?;
        entries.get_mut(&key).ok_or_else(|| error(libc::EBADF))?.kind = Kind::Bound(port);
        Ok(())
    }

    pub(super) fn port(&self, fd: BorrowedFd<'_>) -> u16 {
        match self.kind(fd) {
            Some(Kind::Bound(port) | Kind::Listening(port)) => port,
            _ => 0,
        }
    }

    pub(super) fn listen(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if self.kind(fd) == Some(Kind::Fresh) {
            self.bind(fd, 0)?;
        }
        let key = inode(fd).ok_or_else(|| error(libc::EBADF))?;
        let mut entries = floe_lock::lock(&self.entries);
        match entries.get_mut(&key) {
            Some(entry) => match entry.kind {
                Kind::Bound(port) | Kind::Listening(port) => entry.kind = Kind::Listening(port),
                _ => return Err(error(libc::EINVAL)),
            },
            None => return Err(error(libc::EBADF)),
        }
        Ok(())
    }

    /// The next connection. The pipe holds a byte for each, so the wait is the pipe's.
    pub(super) fn accept(&self, fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        if !matches!(self.kind(fd), Some(Kind::Listening(_))) {
            return Err(error(libc::EINVAL));
        }
        let read = rustix::io::read(fd, &mut [0_u8; 1])?;
        let key = inode(fd).ok_or_else(|| error(libc::EBADF))?;
        let next = floe_lock::lock(&self.entries).get_mut(&key).and_then(|entry| entry.waiting.pop_front());
        next.filter(|_| read == 1).ok_or_else(|| error(libc::EINVAL))
    }

    pub(super) fn listens(&self, port: u16) -> bool {
        let entries = floe_lock::lock(&self.entries);
        entries.values().any(|entry| entry.kind == Kind::Listening(port) && is_open(&entry.wake))
    }

    pub(super) fn deliver(&self, port: u16, connection: OwnedFd) -> bool {
        let mut entries = floe_lock::lock(&self.entries);
        let found = entries.values_mut().find(|entry| entry.kind == Kind::Listening(port) && is_open(&entry.wake));
        let Some(entry) = found.filter(|entry| entry.waiting.len() < MOST_WAITING) else { return false };
        entry.waiting.push_back(connection);
        // A pipe holds more bytes than connections wait.
        let woken = rustix::io::write(&entry.wake, &[0]).is_ok();
        if !woken {
            entry.waiting.pop_back();
        }
        woken
    }

    /// Nothing more comes: who waits in `accept` goes on with an error.
    pub(super) fn end(&self, fd: BorrowedFd<'_>) {
        let Some(key) = inode(fd) else { return };
        if let Some(entry) = floe_lock::lock(&self.entries).get_mut(&key) {
            entry.kind = Kind::Nowhere;
            entry.waiting.clear();
            let _ = rustix::io::write(&entry.wake, &[0]);
        }
    }
}

/// Whether any reading end of a pipe is open.
fn is_open(wake: &OwnedFd) -> bool {
    let mut ends = [PollFd::new(wake, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut ends, Some(&at_once)).is_ok() && !ends[0].revents().contains(PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::os::fd::AsFd as _;

    use super::*;

    fn listening(table: &Table, port: u16) -> OwnedFd {
        let fd = table.add(Kind::Fresh, OFlags::NONBLOCK).unwrap();
        table.bind(fd.as_fd(), port).unwrap();
        table.listen(fd.as_fd()).unwrap();
        fd
    }

    #[test]
    fn a_connection_for_a_port_is_accepted_there_and_nowhere_else() {
        let table = Table::default();
        let (first, second) = (listening(&table, 0), listening(&table, 0));
        let port = table.port(first.as_fd());
        assert_ne!(port, table.port(second.as_fd()));
        let (end, _) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let sent = inode(end.as_fd());
        assert!(table.deliver(port, end));
        assert_eq!(table.accept(second.as_fd()).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        assert_eq!(inode(table.accept(first.as_fd()).unwrap().as_fd()), sent);
        assert_eq!(table.accept(first.as_fd()).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
    }

    #[test]
    fn closed_descriptors_free_their_port_and_get_nothing() {
        let table = Table::default();
        drop(listening(&table, 77));
        let (end, _) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        assert!(!table.deliver(77, end));
        let again = listening(&table, 77);
        assert_eq!(table.port(again.as_fd()), 77);
        assert_eq!(floe_lock::lock(&table.entries).len(), 1);
        let taken = table.add(Kind::Fresh, OFlags::empty()).unwrap();
        assert_eq!(table.bind(taken.as_fd(), 77).unwrap_err().raw_os_error(), Some(libc::EADDRINUSE));
    }

    #[test]
    fn a_duplicate_is_the_same_socket_and_other_descriptors_are_none() {
        let table = Table::default();
        let fd = listening(&table, 0);
        let copy = fd.try_clone().unwrap();
        assert_eq!(table.kind(copy.as_fd()), table.kind(fd.as_fd()));
        assert_eq!(table.kind(std::io::stdin().as_fd()), None);
    }

    #[test]
    fn who_waits_in_accept_goes_on_when_the_socket_is_shut_down() {
        let table = Table::default();
        let fd = table.add(Kind::Fresh, OFlags::empty()).unwrap();
        table.listen(fd.as_fd()).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| table.accept(fd.as_fd()).map(drop).unwrap_err().raw_os_error());
            table.end(fd.as_fd());
            assert_eq!(waits.join().unwrap(), Some(libc::EINVAL));
        });
    }

    #[test]
    fn so_many_connections_wait_at_a_port() {
        let table = Table::default();
        let fd = listening(&table, 9);
        let connection = || pipe_with(PipeFlags::CLOEXEC).unwrap().0;
        assert_eq!((0..MOST_WAITING + 5).filter(|_| table.deliver(9, connection())).count(), MOST_WAITING);
        drop(fd);
    }
}
