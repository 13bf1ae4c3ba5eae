//! A client's first message, as far as it has arrived. Only here do a connection's first bytes decide which protection
//! its client uses.
//! In: a socket from which nothing has been read. Out: whether its whole first message is there, and whether it is
//! sealed, TLS or a frame in the clear.
//! It reads no byte and keeps none: a silent connection costs its socket only.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use floe_wire::{FrameHeader, HEADER_BYTES};
use rustix::event::{Timespec, epoll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, recv};

use crate::error::LinkError;
use crate::pipes::sealed::{MAGIC, MOST_FIRST_BYTES, first_is_of, sealed_bytes};
use crate::pipes::tls::RECORD_HEAD;
use crate::secret::{Secret, Secrets};

/// Bytes of the head of a TLS record.
const TLS_HEAD_BYTES: usize = 5;
/// The longest first TLS record that a server waits for as a whole: that of rustls has a few hundred bytes.
const LONGEST_RECORD: usize = 4 << 10;
/// The longest payload of a first frame that a server waits for as a whole: a `Hello` has some fifty bytes.
const LONGEST_PAYLOAD: usize = 1 << 10;
/// So many bytes tell the length of the first message.
const LONGEST_HEAD: usize = HEADER_BYTES;

/// How much of a client's first message has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Nothing, or a part.
    Partly,
    /// All of it, or enough to refuse it.
    Whole,
    /// The client has closed, or the connection failed.
    Closed,
}

/// The protection that a client uses. Read as a frame's head, a sealed or TLS beginning announces a longer payload than
/// any first frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// Sealed by the token.
    Sealed,
    /// TLS.
    Tls,
    /// Frames in the clear.
    Clear,
}

impl Speech {
    /// The protection of a client with these first bytes, as far as they tell.
    #[must_use]
    pub fn of(first: &[u8]) -> Self {
        if first.starts_with(&MAGIC) {
            Self::Sealed
        } else if speaks_tls(first) {
            Self::Tls
        } else {
            Self::Clear
        }
    }
}

impl Secret {
    /// Whether a client's first bytes prove that it knows the token. `None`: they are no such proof, or one of an
    /// unknown kind; TLS and clear connections prove it later. Replayed bytes pass as well: only the first frame behind
    /// them is surely new.
    #[must_use]
    pub fn is_proved_by(&self, first: &[u8]) -> Option<bool> {
        is_proved(self, first)
    }
}

/// The same of all tokens that a server knows.
fn is_proved(secrets: &dyn Secrets, first: &[u8]) -> Option<bool> {
    if Speech::of(first) != Speech::Sealed {
        return None;
    }
    first_is_of(secrets, &first[..first.len().min(sealed_bytes(first))])
}

/// Whether a connection's first message, which has arrived, proves another token than these. It costs some hashes. If
/// so, it reads the message: closing a connection with unread bytes resets it, and its client would lose the refusal.
/// Otherwise the message stays.
#[must_use]
pub fn is_stranger(socket: impl AsFd, secrets: &dyn Secrets) -> bool {
    let mut first = [0; MOST_FIRST_BYTES];
    let Ok((_, count)) = recv(&socket, &mut first[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) else { return false };
    if is_proved(secrets, &first[..count]) != Some(false) {
        return false;
    }
    // A connection that cannot be read is closed without a refusal.
    let bytes = sealed_bytes(&first);
    let _ = recv(&socket, &mut first[..bytes], RecvFlags::DONTWAIT);
    true
}

/// Whether a connection's first frame, whose header has arrived, is in the clear and of this kind. It stays unread.
#[must_use]
pub fn begins_with(socket: impl AsFd, kind: u16) -> bool {
    let mut head = [0; HEADER_BYTES];
    let count = recv(&socket, &mut head[..], RecvFlags::PEEK | RecvFlags::DONTWAIT).map_or(0, |(_, count)| count);
    let longest = u32::try_from(LONGEST_PAYLOAD).unwrap_or(u32::MAX);
    count == HEADER_BYTES
        && Speech::of(&head) == Speech::Clear
        && FrameHeader::decode(&head, longest).is_ok_and(|header| header.kind == kind)
}

/// How many bytes a connection's first message needs, as far as its bytes so far tell. The message is whole when no
/// more are needed than have arrived. A server does not wait for a message that is too long to be the first.
#[must_use]
pub fn first_bytes_needed(peeked: &[u8]) -> usize {
    match Speech::of(peeked) {
        Speech::Sealed => sealed_bytes(peeked),
        Speech::Tls => match peeked.get(3..TLS_HEAD_BYTES) {
            Some(&[high, low]) => TLS_HEAD_BYTES + usize::from(u16::from_be_bytes([high, low])).min(LONGEST_RECORD),
            _ => TLS_HEAD_BYTES,
        },
        Speech::Clear => {
            let length =
                peeked.first_chunk().filter(|_| peeked.len() >= HEADER_BYTES).map(|length| u32::from_le_bytes(*length));
            match length.map(usize::try_from) {
                Some(Ok(length @ ..=LONGEST_PAYLOAD)) => HEADER_BYTES + length,
                _ => HEADER_BYTES,
            }
        }
    }
}

/// Whether a client with these first bytes speaks TLS: a handshake record of some version 3. The third byte belongs to
/// the version as well; as part of a frame's length it would make one that is refused.
fn speaks_tls(first: &[u8]) -> bool {
    first.starts_with(&RECORD_HEAD) && first.get(RECORD_HEAD.len()).is_some_and(|byte| *byte != 0)
}

/// How much of a connection's first message has arrived. Does not wait.
///
/// # Errors
/// The system's own.
pub fn look(socket: impl AsFd) -> Result<Opening, Errno> {
    let mut head = [0; LONGEST_HEAD];
    let (opening, _) = peek(socket.as_fd(), &mut head)?;
    Ok(opening)
}

fn peek<'a>(socket: BorrowedFd<'_>, head: &'a mut [u8; LONGEST_HEAD]) -> Result<(Opening, &'a [u8]), Errno> {
    let count = match recv(socket, &mut head[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => return Ok((Opening::Closed, &[])),
        Ok((_, count)) => count,
        Err(Errno::AGAIN | Errno::INTR) => return Ok((Opening::Partly, &[])),
        Err(Errno::CONNRESET) => return Ok((Opening::Closed, &[])),
        Err(error) => return Err(error),
    };
    let head = &head[..count];
    let needed = first_bytes_needed(head);
    let is_whole = needed <= count || ioctl_fionread(socket)? >= u64::try_from(needed).unwrap_or(u64::MAX);
    Ok((if is_whole { Opening::Whole } else { Opening::Partly }, head))
}

/// Waits for a connection's first message and returns its protection. Only newly arrived bytes wake it.
pub(crate) fn await_speech(socket: BorrowedFd<'_>, deadline: Instant) -> Result<Speech, LinkError> {
    const DOING: &str = "waiting for a client's first bytes";
    let failed = |source: Errno| LinkError::system(DOING, source);
    let (began, mut head) = (Instant::now(), [0; LONGEST_HEAD]);
    let mut arrivals = None;
    loop {
        let (opening, first) = peek(socket, &mut head).map_err(failed)?;
        if opening != Opening::Partly {
            return Ok(Speech::of(first));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LinkError::TimedOut { what: DOING.into(), after: deadline.saturating_duration_since(began) });
        }
        let arrivals = match &mut arrivals {
            Some(arrivals) => arrivals,
            none => none.insert(Arrivals::of(socket).map_err(failed)?),
        };
        arrivals.wait(left).map_err(failed)?;
    }
}

/// The kernel's report of newly arrived bytes behind others.
struct Arrivals(std::os::fd::OwnedFd);

impl Arrivals {
    fn of(socket: BorrowedFd<'_>) -> Result<Self, Errno> {
        let arrivals = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let events = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&arrivals, socket, epoll::EventData::new_u64(0), events)?;
        Ok(Self(arrivals))
    }

    fn wait(&self, time: Duration) -> Result<(), Errno> {
        // A kernel without fractions of a millisecond would not wait at all.
        let time = Timespec::try_from(Duration::from_millis(1).max(time)).ok();
        match epoll::wait(&self.0, &mut [std::mem::MaybeUninit::uninit(); 1], time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn frame(length: u32) -> [u8; HEADER_BYTES] {
        FrameHeader { length, kind: 1, sequence: 1 }.encode()
    }

    #[test]
    fn a_frame_is_waited_for_to_its_end_unless_it_is_too_long_for_a_first_one() {
        assert_eq!(first_bytes_needed(&[]), HEADER_BYTES);
        assert_eq!(first_bytes_needed(&frame(40)[..15]), HEADER_BYTES);
        assert_eq!(first_bytes_needed(&frame(40)), HEADER_BYTES + 40);
        assert_eq!(first_bytes_needed(&frame(60_000)), HEADER_BYTES);
        assert_eq!(first_bytes_needed(&[0xff; HEADER_BYTES]), HEADER_BYTES);
    }

    #[test]
    fn the_kind_of_a_first_frame_is_seen_and_the_frame_stays() {
        let (mut client, server) = UnixStream::pair().expect("a pair");
        assert!(!begins_with(&server, 1), "nothing has come");
        client.write_all(&frame(0)).expect("sent");
        assert!(begins_with(&server, 1) && !begins_with(&server, 2) && begins_with(&server, 1));
        let (mut client, server) = UnixStream::pair().expect("a pair");
        client.write_all(b"floe\x01\x01 and a handshake").expect("sent");
        assert!((0..10).all(|kind| !begins_with(&server, kind)), "a sealed beginning");
    }

    #[test]
    fn a_record_of_tls_is_waited_for_to_its_end() {
        assert_eq!(first_bytes_needed(&[0x16, 0x03, 0x01]), TLS_HEAD_BYTES);
        assert_eq!(first_bytes_needed(&[0x16, 0x03, 0x01, 0x01, 0x02]), TLS_HEAD_BYTES + 0x102);
        assert_eq!(first_bytes_needed(&[0x16, 0x03, 0x01, 0xff, 0xff]), TLS_HEAD_BYTES + LONGEST_RECORD);
        assert_eq!(first_bytes_needed(&[0x16, 0x03]), HEADER_BYTES, "it may be a frame's length yet");
    }

    #[test]
    fn the_first_bytes_tell_what_a_client_speaks() {
        for (first, speech) in [
            (&b"floe\x01\x01"[..], Speech::Sealed),
            (b"flo", Speech::Clear),
            (&[0x16, 3, 1, 2], Speech::Tls),
            (&[0x16, 3, 0, 0], Speech::Clear),
            (&[40, 0, 0, 0], Speech::Clear),
        ] {
            assert_eq!(Speech::of(first), speech, "{first:?}");
        }
        assert_eq!(first_bytes_needed(b"floe"), 56);
        assert_eq!(first_bytes_needed(b"floe\x01\x01\x01\x00"), MOST_FIRST_BYTES);
        const { assert!(HEADER_BYTES < MOST_FIRST_BYTES, "what may be sealed yet is waited for no longer than that") };
    }

    #[test]
    fn a_first_message_is_whole_with_its_last_byte_and_stays_where_it_is() {
        let (mut client, server) = UnixStream::pair().expect("a pair");
        assert_eq!(look(&server), Ok(Opening::Partly));
        client.write_all(&frame(4)).expect("sent");
        client.write_all(&[1, 2, 3]).expect("sent");
        assert_eq!(look(&server), Ok(Opening::Partly));
        client.write_all(&[4]).expect("sent");
        assert_eq!(look(&server), Ok(Opening::Whole));
        assert_eq!(look(&server), Ok(Opening::Whole));
        let (client, server) = UnixStream::pair().expect("a pair");
        drop(client);
        assert_eq!(look(&server), Ok(Opening::Closed));
    }

    #[test]
    fn bytes_that_are_there_wake_nobody_until_more_come() {
        let (mut client, server) = UnixStream::pair().expect("a pair");
        client.write_all(&[0x16]).expect("sent");
        let arrivals = Arrivals::of(server.as_fd()).expect("made");
        let (start, pause) = (Instant::now(), Duration::from_millis(100));
        arrivals.wait(Duration::from_secs(60)).expect("the first byte");
        arrivals.wait(pause).expect("nothing");
        assert!(start.elapsed() >= pause, "a byte that was there woke it again");
        client.write_all(&[0x03]).expect("sent");
        arrivals.wait(Duration::from_secs(60)).expect("the second byte");
    }
}
