//! The other worker of a move, as the one that the session leaves asks it.
//! In: steps with their bytes. Out: its answers; or why there is none. It decides no step.

use std::ops::Deref;
use std::time::Duration;

use super::off::Off;
use super::sides::Daemon;
use crate::life::moving::stream::{MoveStream, StreamError};
use crate::life::moving::words::{Answer, Piece, Step};

/// The longest silence of the target while the program runs: it may have to start, and to compile all modules.
pub(in crate::life::moving) const RUNNING: Duration = Duration::from_secs(300);

/// The longest time for the daemon to end the other worker of a move that was given up.
const FAREWELL: Duration = Duration::from_secs(1);

/// Bytes of blocks that are sent at a time.
const SENT: u64 = 4 << 20;

/// The other worker.
pub(in crate::life::moving) struct Partner<'a> {
    stream: MoveStream,
    daemon: &'a Daemon<'a>,
    /// How long it may be silent.
    pub(in crate::life::moving) patience: Duration,
}

impl<'a> Partner<'a> {
    /// At the other end of this stream.
    pub(in crate::life::moving) fn new(stream: MoveStream, daemon: &'a Daemon<'a>) -> Self {
        Self { stream, daemon, patience: RUNNING }
    }

    /// The move is given up, and the daemon was told why. The other worker is left when the daemon has ended it: it has no
    /// reason of its own to tell.
    pub(in crate::life::moving) fn leave(mut self) {
        self.stream.await_end(FAREWELL);
    }

    /// Sends a step that is done, or not.
    pub(in crate::life::moving) fn demand_done(&mut self, step: &Step, body: &[&[u8]]) -> Result<(), Off> {
        match self.ask(step, body)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends the contents of libraries that it lacks, of these.
    pub(in crate::life::moving) fn send_code<C: Deref<Target = [u8]>>(
        &mut self,
        code: &[([u8; 32], C)],
    ) -> Result<(), Off> {
        if code.is_empty() {
            return Ok(());
        }
        let all = code.iter().map(|(hash, content)| (*hash, content.len() as u64)).collect();
        match self.ask(&Step::Code(all), &[])? {
            Answer::Done => Ok(()),
            Answer::Lacks(lacking) => lacking.into_iter().try_for_each(|index| match code.get(index) {
                Some((hash, content)) => self.demand_done(&Step::CodeBytes(*hash), &[content]),
                None => Err(unexpected(&Answer::Lacks(vec![index]))),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends the pieces of blocks that it asks for (block, offset, bytes), as `read` gives them, and tells how many bytes were
    /// sent so far. Returns all of them.
    pub(in crate::life::moving) fn send_pieces<B: Deref<Target = [u8]>>(
        &mut self,
        pieces: &[(u64, u64, u64)],
        mut read: impl FnMut(u64, u64, u64) -> Result<B, Off>,
        mut tell: impl FnMut(u64) -> Result<(), Off>,
    ) -> Result<u64, Off> {
        let mut sent = 0;
        for &(block, offset, bytes) in pieces {
            for start in (0..bytes).step_by(usize::try_from(SENT).unwrap_or(usize::MAX)) {
                let (offset, count) = (offset.saturating_add(start), (bytes - start).min(SENT));
                let piece = read(block, offset, count)?;
                self.demand_done(&Step::Bytes(Piece { block, offset }), &[&piece])?;
                sent += count;
                tell(sent)?;
            }
        }
        Ok(sent)
    }

    pub(in crate::life::moving) fn ask(&mut self, step: &Step, body: &[&[u8]]) -> Result<Answer, Off> {
        self.ask_beside(step, body, || ()).0
    }

    /// Asks, and does something while the other worker does what it is asked. Both come to an end.
    pub(in crate::life::moving) fn ask_beside<T>(
        &mut self,
        step: &Step,
        body: &[&[u8]],
        beside: impl FnOnce() -> T,
    ) -> (Result<Answer, Off>, T) {
        let sent = self.stream.send(step, body);
        let done = beside();
        (self.answer(sent), done)
    }

    fn answer(&mut self, sent: Result<(), StreamError>) -> Result<Answer, Off> {
        match self.stream.answer(sent, Some(self.patience)) {
            Ok((Answer::Refused(why), _)) => Err(Off::Ended(format!("the other worker: {why}"))),
            Ok((answer, _)) => Ok(answer),
            Err(error) => {
                // The daemon may have ended the other worker.
                self.daemon.demand_on()?;
                Err(error.into())
            }
        }
    }
}

/// It has answered another question.
pub(in crate::life::moving) fn unexpected(answer: &Answer) -> Off {
    Off::Ended(format!("the other worker answers another question: {answer:?}"))
}
