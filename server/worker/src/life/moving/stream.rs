//! The move stream: a socket between the worker that a session leaves and the one that it goes to.
//! In: words and bytes. Out: the same at the other end, or that the other end is gone, late, or does not keep to the form.
//! It understands no word, and takes no more memory than has come.
//!
//! The two workers may be of different versions, so words are named values (JSON), as everything that processes of a server
//! tell each other is; what is large goes behind them as plain bytes.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The most bytes of a word: lists of a session's blocks and objects are in it.
const MOST_WORD: usize = 64 << 20;
/// The most bytes behind a word.
pub(crate) const MOST_BODY: usize = 1 << 30;
/// The lengths of word and body, ahead of both.
const HEADER: usize = 16;

/// Why the move stream is of no use any more.
#[derive(Debug, Error)]
pub(crate) enum StreamError {
    /// The other end is gone.
    #[error("the other worker is gone")]
    Gone,
    /// The other end says nothing.
    #[error("the other worker says nothing within {0:?}")]
    Late(Duration),
    /// The other end does not keep to the form.
    #[error("the other worker says what cannot be: {0}")]
    Nonsense(String),
    /// The system refuses.
    #[error("the stream to the other worker: {0}")]
    System(io::Error),
}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => Self::Gone,
            _ => Self::System(error),
        }
    }
}

/// One end.
#[derive(Debug)]
pub(crate) struct MoveStream {
    socket: UnixStream,
    /// How long it waits for bytes.
    patience: Option<Duration>,
}

impl MoveStream {
    /// Over the end that the daemon gave.
    pub(crate) fn over(socket: OwnedFd) -> Self {
        Self { socket: socket.into(), patience: None }
    }

    /// Sends a word, and bytes behind it.
    pub(crate) fn send(&mut self, word: &impl Serialize, body: &[&[u8]]) -> Result<(), StreamError> {
        let word = serde_json::to_vec(word).map_err(|error| StreamError::Nonsense(error.to_string()))?;
        let bytes: usize = body.iter().map(|part| part.len()).sum();
        if word.len() > MOST_WORD || bytes > MOST_BODY {
            return Err(StreamError::Nonsense(format!("a word of {} bytes with: {bytes}", word.len())));
        }
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&(word.len() as u64).to_le_bytes());
        header[8..].copy_from_slice(&(bytes as u64).to_le_bytes());
        self.socket.write_all(&header)?;
        self.socket.write_all(&word)?;
        body.iter().try_for_each(|part| self.socket.write_all(part))?;
        Ok(())
    }

    /// Waits for a word with its bytes, for so long if at all. The time is that of a silence: what comes slowly is waited for.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<(T, Vec<u8>), StreamError> {
        let (word, bytes) = self.receive_word(patience)?;
        Ok((word, self.receive_body(bytes)?))
    }

    /// The answer to a word that was sent, or not: who refuses may say so and leave before it has read everything.
    pub(crate) fn answer<T: DeserializeOwned>(
        &mut self,
        sent: Result<(), StreamError>,
        patience: Option<Duration>,
    ) -> Result<(T, Vec<u8>), StreamError> {
        match sent {
            Ok(()) => self.receive(patience),
            Err(StreamError::Gone) => self.receive(patience).map_err(|_| StreamError::Gone),
            Err(error) => Err(error),
        }
    }

    /// Waits for a word without its bytes: how many follow it.
    pub(crate) fn receive_word<T: DeserializeOwned>(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<(T, usize), StreamError> {
        self.patience = patience;
        self.socket.set_read_timeout(patience)?;
        let mut header = [0; HEADER];
        self.receive_into(&mut header)?;
        let [word, bytes] = lengths(&header)?;
        let word = self.receive_body(word)?;
        let word = serde_json::from_slice(&word).map_err(|error| StreamError::Nonsense(error.to_string()))?;
        Ok((word, bytes))
    }

    /// The bytes behind a word. Memory is taken as they come, and no more of it is kept.
    pub(crate) fn receive_body(&mut self, bytes: usize) -> Result<Vec<u8>, StreamError> {
        let mut taken = Vec::new();
        let read = (&self.socket).take(bytes as u64).read_to_end(&mut taken);
        match read.map_err(|error| self.late(error))? {
            read if read == bytes => {
                taken.shrink_to_fit();
                Ok(taken)
            }
            _ => Err(StreamError::Gone),
        }
    }

    /// The same into their place.
    pub(crate) fn receive_into(&mut self, place: &mut [u8]) -> Result<(), StreamError> {
        (&self.socket).read_exact(place).map_err(|error| self.late(error))
    }

    /// Waits until the other end is gone, for so long at most. What it still says is not heard.
    pub(crate) fn await_end(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut unheard = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.socket.set_read_timeout(Some(left)).is_err() {
                return;
            }
            if let Ok(0) | Err(_) = (&self.socket).read(&mut unheard) {
                return;
            }
        }
    }

    fn late(&self, error: io::Error) -> StreamError {
        match (error.kind(), self.patience) {
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, Some(patience)) => StreamError::Late(patience),
            _ => error.into(),
        }
    }
}

/// The lengths of word and body.
fn lengths(header: &[u8; HEADER]) -> Result<[usize; 2], StreamError> {
    let both = u128::from_le_bytes(*header);
    let of = |bits: u128, most: usize| {
        let bytes = usize::try_from(bits & u128::from(u64::MAX)).ok().filter(|bytes| *bytes <= most);
        bytes.ok_or_else(|| StreamError::Nonsense(format!("lengths: {both:#x}")))
    };
    Ok([of(both, MOST_WORD)?, of(both >> 64, MOST_BODY)?])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use serde::Deserialize;

    use super::*;

    const SOON: Option<Duration> = Some(Duration::from_millis(20));

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Word {
        Copy { bytes: u64 },
        Over,
    }

    fn ends() -> (MoveStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (MoveStream::over(ours.into()), theirs)
    }

    #[test]
    fn words_come_in_order_with_their_bytes() {
        let (mut ours, theirs) = ends();
        let mut theirs = MoveStream::over(theirs.into());
        let large = vec![7; (3 << 20) + 1];
        let sent = large.clone();
        let sending = std::thread::spawn(move || {
            theirs.send(&Word::Copy { bytes: 5 }, &[b"ab", b"c"]).unwrap();
            theirs.send(&Word::Over, &[&sent]).unwrap();
            theirs.send(&Word::Over, &[]).unwrap();
        });
        assert_eq!(ours.receive(None).unwrap(), (Word::Copy { bytes: 5 }, b"abc".to_vec()));
        let (word, received) = ours.receive::<Word>(None).unwrap();
        assert!(
            word == Word::Over && received == large && received.capacity() == large.len(),
            "who keeps it has no more"
        );
        assert_eq!(ours.receive(None).unwrap(), (Word::Over, Vec::new()));
        sending.join().unwrap();
        assert!(matches!(ours.receive::<Word>(None), Err(StreamError::Gone)));
    }

    #[test]
    fn what_is_said_before_a_word_was_read_is_heard() {
        let (mut ours, theirs) = ends();
        let refusing = std::thread::spawn(move || {
            let mut theirs = MoveStream::over(theirs.into());
            theirs.receive_word::<Word>(None).unwrap();
            theirs.send(&Word::Over, &[b"why"]).unwrap();
        });
        let sent = ours.send(&Word::Copy { bytes: 1 }, &[&vec![0; 64 << 20]]);
        assert!(matches!(sent, Err(StreamError::Gone)));
        refusing.join().unwrap();
        assert_eq!(ours.answer(sent, SOON).unwrap(), (Word::Over, b"why".to_vec()));
        let sent = ours.send(&Word::Over, &[]);
        assert!(matches!(ours.answer::<Word>(sent, SOON), Err(StreamError::Gone)));
    }

    #[test]
    fn the_other_end_is_awaited_whatever_it_says_and_not_for_ever() {
        let (mut ours, mut theirs) = ends();
        theirs.write_all(&[7; 9000]).unwrap();
        let begun = Instant::now();
        ours.await_end(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        let leaving = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            theirs.write_all(&[7]).unwrap();
        });
        ours.await_end(Duration::from_secs(300));
        assert_eq!((&ours.socket).read(&mut [0]).unwrap(), 0, "it is gone, and nothing of it is left to hear");
        leaving.join().unwrap();
    }

    #[test]
    fn silence_is_late_and_half_a_word_is_too() {
        let (mut ours, mut theirs) = ends();
        assert!(matches!(ours.receive::<Word>(SOON), Err(StreamError::Late(_))));
        theirs.write_all(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'{']).unwrap();
        assert!(matches!(ours.receive::<Word>(SOON), Err(StreamError::Late(_))));
    }

    #[test]
    fn lengths_that_lie_take_no_memory_and_nonsense_is_said_to_be() {
        for header in [[u64::MAX, 0], [4, u64::MAX], [MOST_WORD as u64 + 1, 0], [0, MOST_BODY as u64 + 1]] {
            let (mut ours, mut theirs) = ends();
            theirs.write_all(&header.map(u64::to_le_bytes).concat()).unwrap();
            assert!(matches!(ours.receive::<Word>(SOON), Err(StreamError::Nonsense(_))), "{header:?}");
        }
        let (mut ours, mut theirs) = ends();
        theirs.write_all(&[6, MOST_BODY as u64].map(u64::to_le_bytes).concat()).unwrap();
        theirs.write_all(b"\"Over\"").unwrap();
        let taken = allocation_counter::measure(|| {
            assert!(matches!(ours.receive::<Word>(SOON), Err(StreamError::Late(_))));
        });
        assert!(taken.bytes_max < 4 << 20, "{taken:?}");
        let (mut ours, mut theirs) = ends();
        theirs.write_all(&[2_u64, 0].map(u64::to_le_bytes).concat()).unwrap();
        theirs.write_all(b"\xff{").unwrap();
        assert!(matches!(ours.receive::<Word>(SOON), Err(StreamError::Nonsense(_))));
    }
}
