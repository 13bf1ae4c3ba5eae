//! A pipe made of a pair of rings in memory that both processes map, and the Unix socket over which they met.
//! In: such memory and the socket. Out: bytes through the rings, descriptors over the socket.
//! The socket stays open to show when the peer is gone, however it ended: then all sleeping threads are woken.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_ring::{BadIndex, Ring};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};

use crate::error::{Failure, LinkError};
use crate::pipes::pipe::{Movable, Pipe, Reach, RingParts, Slot, Upgrade};
use crate::pipes::socket::{receive_with, send_with};
use crate::spin::Spin;

/// Bytes of a ring in each direction. So much fits a server processor's cache, so bulk data do not pass through main
/// memory. It also lets the program be some ten thousand launches ahead.
pub const RING_BYTES: u32 = 2 << 20;

/// Reads of the socket for one descriptor.
const MOST_DESCRIPTORS: usize = 64;

/// Pause of a writer while the rings are held.
const HELD: Duration = Duration::from_millis(1);

/// Rings on which nothing has been sent.
#[derive(Debug)]
pub struct Rings {
    ring: Ring,
    /// Their memory, for another process that continues this side.
    memory: OwnedFd,
}

impl Rings {
    /// Makes rings of so many bytes (a power of two) in each direction, and returns their memory's descriptor for the
    /// peer.
    ///
    /// # Errors
    /// [`LinkError::System`] where there is no memory for them.
    pub fn offer(bytes: u32) -> Result<(Self, OwnedFd), LinkError> {
        let bytes = usize::try_from(bytes).expect("addresses have at least 32 bits");
        let offer = || {
            let (ring, file) = Ring::offer(bytes)?;
            Ok((Self { ring, memory: file.try_clone()? }, file))
        };
        offer().map_err(|source: std::io::Error| LinkError::system("making rings", source))
    }

    /// The other side of rings that a peer offered.
    ///
    /// # Errors
    /// [`LinkError::System`] where the descriptor does not name such memory.
    pub fn take(file: impl AsFd, bytes: u32) -> Result<Self, LinkError> {
        let take = || Ok(Self { ring: Ring::take(&file, bytes.into())?, memory: file.as_fd().try_clone_to_owned()? });
        take().map_err(|source: std::io::Error| LinkError::system("taking rings", source))
    }

    /// The side that another process has, and the socket of the two sides. Nothing goes through before
    /// [`RingPipe::resume`].
    ///
    /// # Errors
    /// [`LinkError::System`] where the descriptors name no such memory, or a thread does not start.
    pub(crate) fn expect(parts: RingParts) -> Result<Arc<RingPipe>, LinkError> {
        let RingParts { memory, bytes, offered, socket } = parts;
        let ring = Ring::expect(&memory, bytes, offered);
        let ring = ring.map_err(|source| LinkError::system("taking rings over", source))?;
        Self { ring, memory }.pipe(Arc::new(socket))
    }

    /// Makes the pipe, with a thread that notices the peer's end.
    fn pipe(self, socket: Arc<OwnedFd>) -> Result<Arc<RingPipe>, LinkError> {
        let pipe = RingPipe {
            ring: Arc::new(self.ring),
            memory: self.memory,
            socket: Arc::clone(&socket),
            spin: Spin::of_process(),
            limit: Mutex::default(),
        };
        let ring = Arc::clone(&pipe.ring);
        let watch = move || {
            wait_for_the_end(&socket);
            ring.end();
        };
        let started = std::thread::Builder::new().name("floe-peer".into()).spawn(watch);
        started.map_err(|source| LinkError::system("starting a thread", source))?;
        Ok(Arc::new(pipe))
    }
}

impl Upgrade for Rings {
    fn into_pipe(self, socket: Arc<OwnedFd>) -> Result<Arc<dyn Pipe>, LinkError> {
        Ok(self.pipe(socket)?)
    }
}

/// Sleeps until one side has shut the socket down or is gone. It reads no bytes.
fn wait_for_the_end(socket: &OwnedFd) {
    while matches!(poll(&mut [PollFd::new(socket, PollFlags::RDHUP)], None), Ok(0) | Err(Errno::INTR)) {}
}

/// A pipe through rings.
#[derive(Debug)]
pub(crate) struct RingPipe {
    ring: Arc<Ring>,
    /// For another process that continues this side.
    memory: OwnedFd,
    socket: Arc<OwnedFd>,
    /// How long a write spins for room before it sleeps.
    spin: Spin,
    limit: Mutex<Option<Duration>>,
}

impl RingPipe {
    /// Goes on where the other process of this side has stopped, which has written and read so many bytes.
    ///
    /// # Errors
    /// [`BadIndex`] when the other side's indices are impossible behind that.
    pub(crate) fn resume(&self, indices: [u64; 2]) -> Result<(), BadIndex> {
        self.ring.resume(indices)
    }

    fn write_part(&self, mut bytes: &[u8], began: &mut Option<Instant>) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let count = self.write_some(bytes)?;
            if count == 0 {
                self.wait_for_room(*began.get_or_insert_with(Instant::now))?;
            } else {
                bytes = &bytes[count..];
                *began = None;
            }
        }
        Ok(())
    }

    fn write_some(&self, bytes: &[u8]) -> Result<usize, Failure> {
        if self.ring.is_over() { Err(Errno::PIPE.into()) } else { Ok(self.ring.write(bytes)?) }
    }

    /// Waits for room, as long as a write that has been stuck since `began` may.
    fn wait_for_room(&self, began: Instant) -> Result<(), Failure> {
        if self.ring.is_held() {
            std::thread::sleep(HELD);
            return Ok(());
        }
        let look = || (self.ring.has_room() || self.ring.is_over()).then_some(());
        if self.spin.look(look).is_some() {
            return Ok(());
        }
        let limit = *floe_lock::lock(&self.limit);
        let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Errno::AGAIN.into());
        }
        self.ring.sleep_for_room(left);
        Ok(())
    }
}

impl Pipe for RingPipe {
    fn write(&self, head: &[u8], tail: &[u8]) -> Result<(), Failure> {
        let mut stuck = None;
        self.write_part(head, &mut stuck)?;
        self.write_part(tail, &mut stuck)
    }

    fn write_with(&self, head: &[u8], tail: &[u8], descriptor: BorrowedFd<'_>) -> Result<(), Failure> {
        send_with(&self.socket, &[0], descriptor)?;
        self.write(head, tail)
    }

    fn write_now(&self, bytes: &[u8]) -> Result<bool, Failure> {
        if self.ring.is_over() {
            return Err(Errno::PIPE.into());
        }
        Ok(self.ring.write_whole(bytes)? == bytes.len())
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn limit_writes(&self, time: Option<Duration>) -> Result<(), Failure> {
        *floe_lock::lock(&self.limit) = time;
        Ok(())
    }

    fn read_now(&self, target: &mut [u8], _: Slot<'_>) -> Result<Option<usize>, Failure> {
        let is_over = self.ring.is_over();
        // Bytes written before the end are read after it.
        let count = self.ring.read(target)?;
        Ok((count > 0 || is_over).then_some(count))
    }

    fn read(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        self.ring.sleep_for_bytes(None);
        self.read_now(target, slot)
    }

    fn wait(&self, time: Option<Duration>) -> Result<bool, Failure> {
        self.ring.sleep_for_bytes(time);
        Ok(time.is_none() || self.ring.has_bytes() || self.ring.is_over())
    }

    fn descriptor(&self) -> Option<OwnedFd> {
        let (mut last, mut bytes) = (None, [0; 16]);
        // A byte came with each. A peer that sends too many is not read to the end.
        for _ in 0..MOST_DESCRIPTORS {
            let read = receive_with(&self.socket, &mut bytes, &mut last, RecvFlags::DONTWAIT);
            if !matches!(read, Ok(1..)) {
                break;
            }
        }
        last
    }

    fn end(&self) {
        self.ring.end();
        if self.ring.is_held() {
            // The other process that may continue here has this socket, too.
            return;
        }
        // A socket that is not connected needs no shutdown.
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
    }

    fn wake_readers(&self) {
        self.ring.wake_readers();
    }

    fn movable(&self) -> Option<&dyn Movable> {
        Some(self)
    }

    fn reach(&self) -> Reach {
        Reach::Machine
    }
}

impl Movable for RingPipe {
    fn parts(&self) -> std::io::Result<RingParts> {
        let (memory, socket) = (self.memory.try_clone()?, self.socket.try_clone()?);
        Ok(RingParts { memory, bytes: self.ring.bytes(), offered: self.ring.has_offered(), socket })
    }

    fn hold(&self) {
        self.ring.hold();
    }

    fn indices(&self) -> [u64; 2] {
        self.ring.indices()
    }

    fn let_write(&self) -> bool {
        self.ring.let_write()
    }
}

impl Drop for RingPipe {
    fn drop(&mut self) {
        // The watching thread holds the socket, too: it ends, and the peer sees the end.
        self.end();
    }
}
