//! One connection of the port, from its first byte to its end.
//! In: a socket that is ready, a function that answers requests. Out: what it waits for next, or that it is over.
//! It never waits: what is not there yet is read the next time.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use rustix::event::PollFlags;

use crate::http::{Answer, Arrived, Request, read};

/// Bytes that are read at once of what follows a request, and thrown away.
const AT_ONCE: usize = 4096;
/// The most that is thrown away: a peer that sends more did not ask for figures.
const MOST_AFTER: usize = 64 << 10;

/// A connection.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) socket: TcpStream,
    /// When it ends at the latest.
    pub(crate) until: Instant,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The head so far.
    Asks(Vec<u8>),
    /// The answer, and how much of it is sent.
    Hears(Vec<u8>, usize),
    /// It has its answer. What it still sends is read: else the system would cut the answer off.
    Leaves(usize),
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Stays,
    Over,
}

impl Visitor {
    pub(crate) fn new(socket: TcpStream, until: Instant) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, until, stage: Stage::Asks(Vec::new()) })
    }

    /// What it waits for.
    pub(crate) fn waits_for(&self) -> PollFlags {
        match self.stage {
            Stage::Asks(_) | Stage::Leaves(_) => PollFlags::IN,
            Stage::Hears(..) => PollFlags::OUT,
        }
    }

    /// Does what can be done without waiting.
    pub(crate) fn attend(&mut self, most: usize, answer: &mut dyn FnMut(&Request) -> Answer) -> Next {
        match self.go_on(most, answer) {
            Ok(next) => next,
            Err(error) if error.kind() == ErrorKind::WouldBlock || error.kind() == ErrorKind::Interrupted => {
                Next::Stays
            }
            Err(_) => Next::Over,
        }
    }

    fn go_on(&mut self, most: usize, answer: &mut dyn FnMut(&Request) -> Answer) -> io::Result<Next> {
        loop {
            match &mut self.stage {
                Stage::Asks(head) => {
                    let mut room = vec![0; most.saturating_sub(head.len())];
                    let count = self.socket.read(&mut room)?;
                    if count == 0 {
                        return Ok(Next::Over);
                    }
                    head.extend_from_slice(&room[..count]);
                    let bytes = match read(head, most) {
                        Arrived::Part => continue,
                        Arrived::Whole(request) => answer(&request).bytes(request.is_head),
                        Arrived::Wrong(answer) => answer.bytes(false),
                    };
                    self.stage = Stage::Hears(bytes, 0);
                }
                Stage::Hears(bytes, sent) => {
                    while *sent < bytes.len() {
                        match self.socket.write(&bytes[*sent..])? {
                            0 => return Ok(Next::Over),
                            count => *sent += count,
                        }
                    }
                    self.socket.shutdown(Shutdown::Write)?;
                    self.stage = Stage::Leaves(0);
                }
                Stage::Leaves(after) => {
                    let count = self.socket.read(&mut [0; AT_ONCE])?;
                    *after += count;
                    if count == 0 || *after > MOST_AFTER {
                        return Ok(Next::Over);
                    }
                }
            }
        }
    }
}
