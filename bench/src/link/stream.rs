//! Bytes through connected sockets with nothing around them: the rate that the system itself reaches.
//! In: pairs of connected sockets, a number of bytes, the size of a piece. Out: seconds per transfer. A thread per end,
//! in a loop of `send` and of `recv`. Any idle connection takes the next piece, as chunks do, and the receiver puts it
//! into the next free memory. Pieces carry no offset, since handling one would be floe's work. Both memories are as
//! large as the transfer, as a copy's are, and have been touched before. The tool iperf uses one small buffer per
//! connection, which stays in a processor's cache. It may show more than a copy of large memory can reach. A timing
//! ends when the last byte has been received.

use std::collections::VecDeque;
use std::io::Error;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use floe_lock::lock;

use super::timing::time;

/// Initial content of memory: no zeros, so that its pages exist.
const UNTOUCHED: u8 = 0xa5;
/// One timing is this part of the budget, so that the threads' waking does not count.
const TIMINGS_OF_A_BUDGET: u32 = 3;
/// Transfers of one timing, at most.
const MOST_TRANSFERS: usize = 10_000;

/// The two ends of a connection: bytes go one way.
pub(super) struct Pair {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
}

/// The seconds of one transfer of `bytes` over all `pairs` together, while one follows the other without a pause.
/// The connections are shut down afterwards.
///
/// # Errors
/// When there are no threads, a connection ends, or a piece does not come out as it went in.
pub(super) fn seconds(pairs: &[Pair], bytes: usize, piece: usize, budget: Duration) -> Result<f64> {
    let piece = piece.min(bytes).max(NUMBER_BYTES);
    ensure!(bytes > 0 && bytes.is_multiple_of(piece), "{bytes} bytes are not made of pieces of {piece}");
    let source = numbered(bytes, piece);
    let mut memory = vec![UNTOUCHED; bytes + pairs.len() * piece];
    let flow = Flow::new(&source, &mut memory, piece);
    std::thread::scope(|scope| {
        let started = pairs.iter().try_for_each(|pair| flow.start(scope, pair));
        let measured = started.and_then(|()| flow.measure(budget));
        flow.end(pairs);
        measured
    })
}

/// Bytes of a piece that say which it is.
const NUMBER_BYTES: usize = size_of::<u64>();

/// Distinguishable pieces.
fn numbered(bytes: usize, piece: usize) -> Vec<u8> {
    let mut source = vec![0; bytes];
    for (number, piece) in source.chunks_exact_mut(piece).enumerate() {
        piece.fill(number.to_le_bytes()[0]);
        piece[..NUMBER_BYTES].copy_from_slice(&(number as u64).to_le_bytes());
    }
    source
}

/// Which piece a place holds.
fn number_of(place: &[u8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*place.first_chunk()?)).ok()
}

/// State that the threads share.
struct Flow<'m> {
    source: &'m [u8],
    piece: usize,
    line: Mutex<PieceQueue>,
    /// Wakes the writers.
    more: Condvar,
    places: Mutex<FreeMemory<'m>>,
    /// Wakes who measures.
    came: Condvar,
}

/// The goal of the writers, in pieces since the beginning.
#[derive(Default)]
struct PieceQueue {
    next: usize,
    until: usize,
    over: bool,
}

/// Memory that receives pieces. Every reader has one place in its hands, and there is one more for each piece.
struct FreeMemory<'m> {
    /// Those that were filled last are behind.
    free: VecDeque<&'m mut [u8]>,
    filled: usize,
    until: usize,
    failure: Option<Error>,
}

impl<'m> Flow<'m> {
    fn new(source: &'m [u8], memory: &'m mut [u8], piece: usize) -> Self {
        let free = memory.chunks_exact_mut(piece).collect();
        Self {
            source,
            piece,
            line: Mutex::default(),
            more: Condvar::new(),
            places: Mutex::new(FreeMemory { free, filled: 0, until: 0, failure: None }),
            came: Condvar::new(),
        }
    }

    fn pieces(&self) -> usize {
        self.source.len() / self.piece
    }

    /// Two threads for a connection.
    fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, pair: &'scope Pair) -> Result<()> {
        // Here, not in the thread: a thread that starts late still has the place that is not to be filled meanwhile.
        let place = self.exchange(None);
        let thread = || Builder::new().name("floe-raw".into());
        thread().spawn_scoped(scope, || self.keep(self.write(&pair.from))).context("no thread that writes")?;
        thread().spawn_scoped(scope, || self.keep(self.read(&pair.to, place))).context("no thread that reads")?;
        Ok(())
    }

    /// Ends all threads.
    fn end(&self, pairs: &[Pair]) {
        lock(&self.line).over = true;
        self.more.notify_all();
        for end in pairs.iter().flat_map(|pair| [&pair.from, &pair.to]) {
            // One that is not connected any more is as closed as it gets.
            let _ = shutdown(end, Shutdown::Both);
        }
    }

    fn measure(&self, budget: Duration) -> Result<f64> {
        let once = self.transfer(1)?;
        self.check()?;
        let times = times_within(budget / TIMINGS_OF_A_BUDGET, once);
        #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
        Ok(time(budget, || self.transfer(times).map(drop))? / times as f64)
    }

    /// Everything, this often; how long it took.
    fn transfer(&self, times: usize) -> Result<Duration> {
        let (begun, pieces) = (Instant::now(), times * self.pieces());
        lock(&self.places).until += pieces;
        lock(&self.line).until += pieces;
        self.more.notify_all();
        let mut places = lock(&self.places);
        while places.failure.is_none() && places.filled < places.until {
            places = floe_lock::wait(&self.came, places);
        }
        match places.failure.take() {
            None => Ok(begun.elapsed()),
            Some(failure) => Err(failure).context("a connection that was measured ended"),
        }
    }

    /// Whether every piece came once, as it was. Only after one transfer: every place that nobody holds was filled by it.
    fn check(&self) -> Result<()> {
        let places = lock(&self.places);
        let mut seen = vec![false; self.pieces()];
        for place in &places.free {
            let number = number_of(place).filter(|number| *number < seen.len());
            let is_one = number.is_some_and(|number| **place == *self.at(number) && !seen[number]);
            ensure!(is_one, "a socket gave other bytes than it was given");
            number.into_iter().for_each(|number| seen[number] = true);
        }
        ensure!(seen.iter().all(|seen| *seen), "a socket kept bytes it was given");
        Ok(())
    }

    fn at(&self, number: usize) -> &'m [u8] {
        &self.source[number * self.piece..][..self.piece]
    }

    /// The next piece to be written, when there is one; `None`: it is over.
    fn next(&self) -> Option<&'m [u8]> {
        let mut line = lock(&self.line);
        while !line.over && line.next == line.until {
            line = floe_lock::wait(&self.more, line);
        }
        let number = line.next % self.pieces();
        line.next += 1;
        (!line.over).then(|| self.at(number))
    }

    /// Another place for one that has been filled.
    fn exchange(&self, filled: Option<&'m mut [u8]>) -> &'m mut [u8] {
        let mut places = lock(&self.places);
        if let Some(place) = filled {
            places.free.push_back(place);
            places.filled += 1;
            if places.filled == places.until {
                self.came.notify_one();
            }
        }
        places.free.pop_front().expect("there are more places than readers")
    }

    fn write(&self, socket: &OwnedFd) -> Result<(), Errno> {
        while let Some(mut bytes) = self.next() {
            while !bytes.is_empty() {
                match send(socket, bytes, SendFlags::NOSIGNAL) {
                    Ok(count) => bytes = &bytes[count..],
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn read(&self, socket: &OwnedFd, mut place: &'m mut [u8]) -> Result<(), Errno> {
        loop {
            let mut done = 0;
            while done < place.len() {
                match recv(socket, &mut place[done..], RecvFlags::empty()) {
                    Ok((_, 0)) => return Err(Errno::PIPE),
                    Ok((_, count)) => done += count,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            place = self.exchange(Some(place));
        }
    }

    /// A thread that ended early ends the measurement; when it is over, nobody asks.
    fn keep(&self, ended: Result<(), Errno>) {
        if let Err(error) = ended {
            lock(&self.places).failure = Some(error.into());
            self.came.notify_one();
        }
    }
}

/// The number of repetitions that fit into a time, one at least.
fn times_within(time: Duration, once: Duration) -> usize {
    let times = time.as_nanos() / once.as_nanos().max(1);
    usize::try_from(times).unwrap_or(MOST_TRANSFERS).clamp(1, MOST_TRANSFERS)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> Pair {
        let (from, to) = UnixStream::pair().expect("a pair of sockets");
        Pair { from: from.into(), to: to.into() }
    }

    #[test]
    fn every_piece_arrives_over_one_connection_and_over_more_than_there_are_pieces() {
        for (connections, bytes) in [(1, 64), (3, 640), (5, 32)] {
            let pairs: Vec<Pair> = (0..connections).map(|_| pair()).collect();
            let seconds = seconds(&pairs, bytes, 16, Duration::ZERO).expect("nothing fails");
            assert!(seconds > 0.0, "{connections} connections");
        }
    }

    #[test]
    fn a_connection_that_ends_ends_the_measurement() {
        let pairs = [pair()];
        shutdown(&pairs[0].to, Shutdown::Both).expect("shut down");
        let error = seconds(&pairs, 1 << 20, 1 << 10, Duration::ZERO).expect_err("it has ended");
        assert!(error.to_string().contains("ended"), "{error:#}");
    }

    #[test]
    fn a_piece_that_came_twice_or_as_another_is_seen() {
        let source = numbered(64, 16);
        let check = |memory: &[u8]| Flow::new(&source, &mut memory.to_vec(), 16).check();
        assert!(check(&source).is_ok());
        let [mut twice, mut other] = [source.clone(), source.clone()];
        twice.copy_within(..16, 16);
        other[63] += 1;
        assert!(check(&twice).is_err() && check(&other).is_err() && check(&[UNTOUCHED; 64]).is_err());
    }

    #[test]
    fn sizes_that_are_not_made_of_pieces_are_refused() {
        assert!(seconds(&[pair()], 100, 64, Duration::ZERO).is_err());
    }

    #[test]
    fn a_timing_has_as_many_transfers_as_fill_it() {
        let milliseconds = Duration::from_millis;
        assert_eq!(times_within(milliseconds(10), milliseconds(3)), 3);
        assert_eq!(times_within(milliseconds(10), milliseconds(300)), 1);
        assert_eq!(times_within(milliseconds(10), Duration::ZERO), MOST_TRANSFERS);
    }
}
