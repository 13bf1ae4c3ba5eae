//! Zero-copy sends: the kernel sends the pages that hold the bytes.
//! In: memory that its owner does not change until the peer has it. Out: how many bytes the socket took; the caller
//! copies the rest.
//! The pages pass a pipe, which is how the kernel gives memory to a socket. That raises SIGPIPE when the peer is gone,
//! and no flag prevents it. So only threads that have opted in do it: they block all signals but those of their own
//! instructions.

use std::cell::Cell;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{SpliceFFlags, vmsplice};
use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};

use crate::error::Failure;

/// The fewest bytes for which a copy costs more than sending the pages.
const LEAST: usize = 64 << 10;
/// Bytes in a pipe at a time: a small chunk, in one step. The kernel may allow this user less; from `LEAST_PIPE_BYTES`
/// on that is enough.
const PIPE_BYTES: usize = 256 << 10;
const LEAST_PIPE_BYTES: usize = 32 << 10;

/// Signals of a thread's own instructions, for which a program may have a handler.
const OF_INSTRUCTIONS: [Signal; 6] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP, Signal::SIGSYS];

thread_local! {
    static OFFERED: Cell<bool> = const { Cell::new(false) };
}

/// Set when the kernel has pipes for pages, but no way from there to a socket. The first attempt shows it and ends its
/// connection; later connections send copies.
static NO_WAY_ON: AtomicBool = AtomicBool::new(false);

/// Lets this thread send zero-copy from here on, and blocks all signals on it but those of its own instructions.
pub(crate) fn offer() {
    let mut signals = SigSet::all();
    OF_INSTRUCTIONS.into_iter().for_each(|signal| signals.remove(signal));
    OFFERED.set(signals.thread_block().is_ok());
}

/// Zero-copy sends to one socket.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pipe: Mutex<Option<Ends>>,
    /// The kernel does not support it, or not for this user.
    refused: AtomicBool,
    to_take_back: AtomicBool,
}

#[derive(Debug)]
struct Ends {
    from: OwnedFd,
    to: OwnedFd,
}

impl Pages {
    /// Whether sending the pages of `bytes` pays, and this thread may.
    pub(crate) fn suit(&self, bytes: &[u8]) -> bool {
        let may = || !self.refused.load(Ordering::Relaxed) && !NO_WAY_ON.load(Ordering::Relaxed);
        bytes.len() >= LEAST && OFFERED.get() && may()
    }

    /// Whether the socket may hold pages that must not leave after its end.
    pub(crate) fn any_to_take_back(&self) -> bool {
        self.to_take_back.load(Ordering::Acquire)
    }

    /// Sends the first of the bytes to a stream socket, zero-copy, and returns how many. Nobody else may write to the
    /// socket meanwhile. With `takes_back` the socket drops unsent pages at its end.
    ///
    /// # Errors
    /// The socket's own.
    pub(crate) fn give(&self, socket: &OwnedFd, bytes: &[u8], takes_back: bool) -> Result<usize, Failure> {
        let mut kept = floe_lock::lock(&self.pipe);
        // Taken out: bytes that an error leaves in it must not precede others.
        let Some(ends) = kept.take().or_else(Ends::new) else {
            self.refused.store(true, Ordering::Relaxed);
            return Ok(0);
        };
        let mut given = 0;
        while given < bytes.len() {
            match vmsplice(&ends.to, &[IoSlice::new(&bytes[given..])], SpliceFFlags::empty()) {
                Ok(0) => break,
                Ok(count) => {
                    self.to_take_back.fetch_or(takes_back, Ordering::Release);
                    pass(&ends.from, socket, count)?;
                    given += count;
                }
                Err(nix::Error::EINTR) => {}
                // Device memory, which has no pages to send.
                Err(nix::Error::EFAULT) => break,
                Err(_) => {
                    self.refused.store(true, Ordering::Relaxed);
                    break;
                }
            }
        }
        *kept = Some(ends);
        Ok(given)
    }
}

impl Ends {
    /// `None`: the kernel gives no pipe, or one that is too small.
    fn new() -> Option<Self> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        // A smaller pipe only takes more steps.
        let _ = fcntl_setpipe_size(&to, PIPE_BYTES);
        (fcntl_getpipe_size(&to).ok()? >= LEAST_PIPE_BYTES).then_some(Self { from, to })
    }
}

/// Moves so many bytes from a pipe that holds them to a socket.
fn pass(from: &OwnedFd, socket: &OwnedFd, mut left: usize) -> Result<(), Failure> {
    while left > 0 {
        match splice(from, None, socket, None, left, SpliceFlags::empty()) {
            Ok(0) => return Err(Errno::PIPE.into()),
            Ok(count) => left -= count,
            Err(Errno::INTR) => {}
            Err(error) => {
                if !is_of_the_connection(error) {
                    NO_WAY_ON.store(true, Ordering::Relaxed);
                }
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// Whether the error ends this connection only, and tells nothing about others.
fn is_of_the_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::PIPE
            | Errno::CONNRESET
            | Errno::CONNABORTED
            | Errno::TIMEDOUT
            | Errno::NOTCONN
            | Errno::AGAIN
            | Errno::HOSTUNREACH
            | Errno::HOSTDOWN
            | Errno::NETUNREACH
            | Errno::NETDOWN
            | Errno::NETRESET
    )
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    fn connection() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let from = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let peer = listener.accept().expect("accepted").0;
        // A read fails when its bytes do not arrive.
        peer.set_read_timeout(Some(Duration::from_secs(20))).expect("limited");
        (from.into(), peer)
    }

    fn data(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|index| (index * 31 + index / 251).to_le_bytes()[0]).collect()
    }

    /// Runs on a thread of its own, which has opted in.
    fn offered<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                offer();
                work()
            });
            thread.join().expect("it does not panic")
        })
    }

    #[test]
    fn all_bytes_arrive_in_order_wherever_they_begin_and_end() {
        let (socket, peer) = connection();
        let data = data(3 * PIPE_BYTES + 4097);
        let parts = [0..data.len(), 1..data.len(), 4095..4097 + LEAST, 17..PIPE_BYTES + 17];
        let (sent, pages) = (parts.clone(), Pages::default());
        std::thread::scope(|scope| {
            // Each side alone holds its end: a failure closes it, and the other side does not wait.
            let (data, pages, mut peer) = (&data, &pages, peer);
            scope.spawn(move || {
                offer();
                for part in sent {
                    assert!(pages.suit(&data[part.clone()]));
                    assert_eq!(pages.give(&socket, &data[part.clone()], true), Ok(part.len()));
                }
            });
            for part in parts {
                let mut came = vec![0; part.len()];
                peer.read_exact(&mut came).expect("they come");
                assert!(came == data[part.clone()], "{part:?}");
            }
        });
    }

    #[test]
    fn zero_copy_sends_do_not_copy() {
        let (socket, mut peer) = connection();
        let mut data = vec![1; LEAST];
        offered(|| assert_eq!(Pages::default().give(&socket, &data, true), Ok(LEAST)));
        // A zero-copy sender must not do this: the peer has not read the pages.
        data.fill(2);
        let mut came = vec![0; LEAST];
        peer.read_exact(&mut came).expect("they come");
        assert!(came == data);
    }

    #[test]
    fn only_threads_that_opted_in_send_zero_copy_and_only_large_data() {
        let pages = Pages::default();
        assert!(!pages.suit(&[0; LEAST]));
        let blocked = offered(|| {
            assert!(pages.suit(&[0; LEAST]) && !pages.suit(&[0; LEAST - 1]));
            SigSet::thread_get_mask().expect("asked")
        });
        assert!(blocked.contains(Signal::SIGPIPE) && !blocked.contains(Signal::SIGSEGV));
        assert!(!SigSet::thread_get_mask().expect("asked").contains(Signal::SIGPIPE));
    }

    #[test]
    fn bytes_that_a_broken_socket_refused_do_not_reach_another() {
        let (pages, data) = (Pages::default(), data(2 * PIPE_BYTES));
        let (broken, peer) = connection();
        peer.shutdown(Shutdown::Both).expect("shut down");
        rustix::net::shutdown(&broken, rustix::net::Shutdown::Both).expect("shut down");
        let (socket, mut other) = connection();
        offered(|| {
            assert!(pages.give(&broken, &vec![9; 2 * PIPE_BYTES], true).is_err());
            assert_eq!(pages.give(&socket, &data[..LEAST], true), Ok(LEAST));
        });
        let mut came = vec![0; LEAST];
        other.read_exact(&mut came).expect("they come");
        assert!(came == data[..LEAST]);
    }

    #[test]
    fn where_there_is_no_pipe_to_be_had_nothing_is_given() {
        let (socket, _peer) = connection();
        let pages = Pages { refused: AtomicBool::new(true), ..Pages::default() };
        offered(|| assert!(!pages.suit(&[0; LEAST])));
        let wrong: OwnedFd = std::fs::File::open("/dev/null").expect("it is there").into();
        let not_a_pipe = Ends { from: wrong.try_clone().expect("copied"), to: wrong };
        let pages = Pages { pipe: Mutex::new(Some(not_a_pipe)), ..Pages::default() };
        offered(|| assert_eq!(pages.give(&socket, &[0; LEAST], true), Ok(0)));
        assert!(pages.refused.load(Ordering::Relaxed));
    }
}
