//! The worker's own words: lines on the standard error it was started with.
//! In: sentences. Out: lines that begin with the session's number.
//! It never writes to fd 1 or 2, which belong to the kernels' output.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The target of the worker's own lines; threads share it by cloning.
#[derive(Clone, Debug)]
pub struct Log {
    file: Option<Arc<Target>>,
    session: u64,
}

#[derive(Debug)]
struct Target {
    file: File,
    lines: AtomicU32,
}

/// Lines of one session: a client that fails for ever must not fill the operator's disk.
const LINES: u32 = 1000;
/// Bytes of one line: compilers' words may be long.
const LINE_BYTES: usize = 8 << 10;

/// One entry of the log.
fn entry(session: u64, words: &str) -> String {
    format!("floe-worker: session {session}: {}\n", one_entry(words))
}

/// Words as they may stand in a log behind who says them. They may quote a client, or come from a worker that was taken
/// over. So nothing in them looks like another entry or moves a cursor, and they are short.
#[must_use]
pub fn one_entry(words: &str) -> String {
    let mut line = String::new();
    for character in words.trim_end().chars() {
        if line.len() >= LINE_BYTES {
            line.push_str(" …");
            break;
        }
        match character {
            '\n' => line.push_str("\n    "),
            '\t' => line.push(' '),
            other if other.is_control() => line.push(char::REPLACEMENT_CHARACTER),
            other => line.push(other),
        }
    }
    line
}

impl Log {
    /// The standard error of this moment.
    ///
    /// # Errors
    /// When it cannot be duplicated.
    pub fn to_standard_error(session: u64) -> io::Result<Self> {
        let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Ok(Self { file: Some(Arc::new(Target { file, lines: AtomicU32::new(0) })), session })
    }

    /// Nowhere: for tests.
    #[must_use]
    pub fn nowhere() -> Self {
        Self { file: None, session: 0 }
    }

    /// Writes one line.
    pub fn line(&self, words: fmt::Arguments<'_>) {
        let Some(target) = &self.file else { return };
        let line = match target.lines.fetch_add(1, Ordering::Relaxed) {
            0..LINES => entry(self.session, &words.to_string()),
            LINES => entry(self.session, "it has said enough; no more of it is written here"),
            _ => return target.lines.store(LINES + 1, Ordering::Relaxed),
        };
        // There is nowhere left to complain to.
        let _ = (&target.file).write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn words_of_a_client_cannot_look_like_another_entry() {
        let line = entry(3, "bad name: \u{1b}[2Jx\nfloed: session 4 ended\n");
        assert_eq!(line, "floe-worker: session 3: bad name: \u{fffd}[2Jx\n    floed: session 4 ended\n");
        assert!(entry(3, &"x".repeat(1 << 20)).len() < LINE_BYTES + 40);
    }

    #[test]
    fn a_session_fills_no_disk() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(ours));
        let log = Log { file: Some(Arc::new(Target { file, lines: AtomicU32::new(0) })), session: 1 };
        let reader = std::thread::spawn(move || {
            let mut all = String::new();
            theirs.read_to_string(&mut all).unwrap();
            all
        });
        for _ in 0..LINES * 2 {
            log.line(format_args!("failed"));
        }
        drop(log);
        let all = reader.join().unwrap();
        assert_eq!(all.lines().count(), LINES as usize + 1);
        assert!(all.lines().last().unwrap().ends_with("no more of it is written here"));
    }
}
