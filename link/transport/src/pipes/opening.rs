//! What a client says first on a connection, as far as it has come: the one place where its first bytes decide what it speaks.
//! In: a socket on which nothing has been read. Out: whether its first message is there as a whole, and whether it is sealed,
//! TLS's or a frame in the clear.
//! It takes no byte away and keeps none: a connection that says nothing costs its socket.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use floe_wire::HEADER_BYTES;
use rustix::event::{Timespec, epoll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, recv};

use crate::error::LinkError;
use crate::pipes::sealed::{FIRST_BYTES, MAGIC, first_is_of};
use crate::pipes::tls::RECORD_HEAD;
use crate::secret::Secret;

/// Bytes of the head of a TLS record.
const TLS_HEAD_BYTES: usize = 5;
/// The longest first record of TLS that is waited for as a whole: rustls' has a few hundred bytes.
const LONGEST_RECORD: usize = 4 << 10;
/// The longest payload of a first frame that is waited for as a whole: a `Hello` has some fifty bytes.
const LONGEST_PAYLOAD: usize = 1 << 10;
/// As many bytes tell how long the first message is.
const LONGEST_HEAD: usize = HEADER_BYTES;

/// How much of a client's first message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Nothing, or a part.
    Partly,
    /// All of it, or as much as tells that it will be refused.
    Whole,
    /// The client has closed, or nothing comes any more for another reason.
    Closed,
}

/// What a client speaks. As the head of a frame, what begins sealed or TLS would be a payload longer than any that comes first.
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
    /// Of a client whose first bytes are these, as far as they tell.
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
    /// Whether a client's first bytes prove that it knows the token; `None` where they are no such proof, as in TLS or in the
    /// clear, which prove it later, or one that is not known here. Bytes that were said before prove it as well: only the first frame behind them is new.
    #[must_use]
    pub fn is_proved_by(&self, first: &[u8]) -> Option<bool> {
        if Speech::of(first) == Speech::Sealed {
            first_is_of(self, &first[..first.len().min(FIRST_BYTES)])
        } else {
            None
        }
    }
}

/// Whether a connection's first message, which is there, proves another token than this, at the cost of some hashes. Then it is
/// taken away: to close a connection that holds bytes would reset it, and with it what its client is told. Else it stays.
#[must_use]
pub fn is_stranger(socket: impl AsFd, secret: &Secret) -> bool {
    let mut first = [0; FIRST_BYTES];
    let Ok((_, count)) = recv(&socket, &mut first[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) else { return false };
    if secret.is_proved_by(&first[..count]) != Some(false) {
        return false;
    }
    // One that cannot be read any more is closed, and hears nothing.
    let _ = recv(&socket, &mut first[..], RecvFlags::DONTWAIT);
    true
}

/// How many bytes of a connection have to be there before its first message can be handled, as far as the bytes that have come
/// tell: it is there where no more are needed than have come. What is too long to be a first message is not waited for.
#[must_use]
pub fn first_bytes_needed(peeked: &[u8]) -> usize {
    match Speech::of(peeked) {
        Speech::Sealed => FIRST_BYTES,
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

/// Whether a client that begins so speaks TLS: a handshake record of some version 3. The third byte is part of the version as
/// well; of a frame's length it would make one that is refused.
fn speaks_tls(first: &[u8]) -> bool {
    first.starts_with(&RECORD_HEAD) && first.get(RECORD_HEAD.len()).is_some_and(|byte| *byte != 0)
}

/// How much has come of a connection's first message. It does not wait.
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

/// Waits for a connection's first message; what it speaks. Bytes that come one by one wake it one by one, and nothing else.
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

/// What tells that more has come, where something is there already.
struct Arrivals(std::os::fd::OwnedFd);

impl Arrivals {
    fn of(socket: BorrowedFd<'_>) -> Result<Self, Errno> {
        let arrivals = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let events = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&arrivals, socket, epoll::EventData::new_u64(0), events)?;
        Ok(Self(arrivals))
    }

    fn wait(&self, time: Duration) -> Result<(), Errno> {
        // A system without fractions of a millisecond would not wait at all.
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

    use floe_wire::FrameHeader;

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
        assert_eq!(first_bytes_needed(b"floe"), FIRST_BYTES);
        const { assert!(HEADER_BYTES < FIRST_BYTES, "what may be sealed yet is waited for no longer than that") };
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
