//! What daemon and launcher say to each other.
//! In: bytes. Out: a request that may be obeyed, or why it may not; words about one process. The launcher believes no
//! byte: a request names an id of the range and variables, and nothing else.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::ids::Ids;

/// The most bytes of a request: a worker's task and a few dozen short variables.
pub const MOST_BYTES: usize = 64 << 10;
/// The most variables of a request.
const MOST_VARIABLES: usize = 256;
/// The launcher's first message, once it has no other rights than it needs.
pub const READY: &str = "ready";

/// A worker to be started. Its standard input, output and error come along as descriptors, and behind them the socket on
/// which [`Word`]s about it go to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its user and group.
    pub id: u32,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// Why a request is not obeyed, or cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotARequest {
    /// It is too long.
    #[error("a request of {0} bytes, of {MOST_BYTES} at most")]
    Long(usize),
    /// It ends before its id does.
    #[error("a request without an id")]
    Short,
    /// The id is not one of the range.
    #[error("id {0} is not one of {1}")]
    Id(u32, Ids),
    /// Its environment is none, or is too large.
    #[error("an environment that is none")]
    Environment,
}

impl Request {
    /// The request as a message.
    ///
    /// # Errors
    /// [`NotARequest`] where [`Request::decode`] would refuse it.
    pub fn encode(&self) -> Result<Vec<u8>, NotARequest> {
        let mut bytes = self.id.to_le_bytes().to_vec();
        for (name, value) in &self.environment {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            if name.is_empty() || name.contains(&b'=') || [name, value].concat().contains(&0) {
                return Err(NotARequest::Environment);
            }
            bytes.extend([name, b"=", value, b"\0"].concat());
        }
        if self.environment.len() > MOST_VARIABLES {
            return Err(NotARequest::Environment);
        }
        if bytes.len() > MOST_BYTES { Err(NotARequest::Long(bytes.len())) } else { Ok(bytes) }
    }

    /// The request of a message, if it names one of these ids.
    ///
    /// # Errors
    /// [`NotARequest`].
    pub fn decode(bytes: &[u8], ids: Ids) -> Result<Self, NotARequest> {
        if bytes.len() > MOST_BYTES {
            return Err(NotARequest::Long(bytes.len()));
        }
        let (id, mut rest) = bytes.split_first_chunk().ok_or(NotARequest::Short)?;
        let id = u32::from_le_bytes(*id);
        if !ids.contains(id) {
            return Err(NotARequest::Id(id, ids));
        }
        let mut environment = Vec::new();
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == 0).ok_or(NotARequest::Environment)?;
            let (variable, behind) = (&rest[..end], &rest[end + 1..]);
            let equals = variable.iter().position(|byte| *byte == b'=').filter(|at| *at != 0);
            let equals = equals.ok_or(NotARequest::Environment)?;
            let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            environment.push((text(&variable[..equals]), text(&variable[equals + 1..])));
            if environment.len() > MOST_VARIABLES {
                return Err(NotARequest::Environment);
            }
            rest = behind;
        }
        Ok(Self { id, environment })
    }
}

/// A word about one process, on its own socket. The daemon's end of that socket is the process's life: when it closes, or
/// says anything, the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It runs under this id. A pidfd comes along.
    Started(i32),
    /// It does not run, by this error of the system's.
    NotStarted(i32),
    /// It has ended with this status, as `wait` has it.
    Ended(i32),
}

impl Word {
    /// Bytes of every word.
    pub const BYTES: usize = 5;

    /// The word as a message.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let (kind, number) = match self {
            Self::Started(process) => (1, process),
            Self::NotStarted(error) => (2, error),
            Self::Ended(status) => (3, status),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    /// The word of a message.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [kind, number @ ..] = <[u8; Self::BYTES]>::try_from(bytes).ok()?;
        let number = i32::from_le_bytes(number);
        match kind {
            1 => Some(Self::Started(number)),
            2 => Some(Self::NotStarted(number)),
            3 => Some(Self::Ended(number)),
            _ => None,
        }
    }
}
