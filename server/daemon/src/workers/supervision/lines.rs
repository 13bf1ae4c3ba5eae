//! Lines that another process writes to a pipe.
//! In: the pipe, and the most bytes of a line. Out: each complete line; longer lines are cut.
//! It never holds more than one line and never waits, whoever else reads the pipe.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, ioctl_fionbio, read};

/// Bytes of one read.
const CHUNK: usize = 4 << 10;

/// A pipe whose lines are read.
#[derive(Debug)]
pub(crate) struct Lines {
    pipe: OwnedFd,
    /// The most bytes of a line.
    most: usize,
    /// The bytes of the next line so far.
    line: Vec<u8>,
    /// Whether the line is longer than what is kept.
    is_cut: bool,
}

/// A line, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether it was cut.
    pub(crate) is_cut: bool,
}

impl Lines {
    pub(crate) fn of(pipe: OwnedFd, most: usize) -> Self {
        // A writer can open its pipe for reading, and take back what it wrote after the caller's poll. Pipes do not
        // refuse this.
        let _ = ioctl_fionbio(&pipe, true);
        Self { pipe, most, line: Vec::new(), is_cut: false }
    }

    /// Reads once, if there is something, and passes on complete lines. Returns false at the end of the pipe.
    pub(crate) fn read(&mut self, mut see: impl FnMut(Line<'_>)) -> bool {
        let mut chunk = [0; CHUNK];
        let bytes = match read(&self.pipe, &mut chunk) {
            Ok(0) => {
                self.end_line(&mut see);
                return false;
            }
            Ok(count) => &chunk[..count],
            Err(Errno::INTR | Errno::AGAIN) => return true,
            Err(_) => return false,
        };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let kept = text.len().min(self.most - self.line.len());
            self.line.extend_from_slice(&text[..kept]);
            self.is_cut |= kept < text.len();
            if ends {
                see(Line { bytes: &self.line, is_cut: self.is_cut });
                self.begin_line();
            }
        }
        true
    }

    /// The last line may have no end.
    fn end_line(&mut self, see: &mut impl FnMut(Line<'_>)) {
        if !self.line.is_empty() {
            see(Line { bytes: &self.line, is_cut: self.is_cut });
            self.begin_line();
        }
    }

    fn begin_line(&mut self) {
        self.line.clear();
        self.is_cut = false;
    }
}

impl AsFd for Lines {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// All lines of what is written in these parts.
    fn lines(parts: &[&[u8]], most: usize) -> Vec<(Vec<u8>, bool)> {
        let (mut ours, theirs) = UnixStream::pair().expect("made");
        let mut lines = Lines::of(theirs.into(), most);
        let mut seen = Vec::new();
        for part in parts {
            ours.write_all(part).expect("written");
            assert!(lines.read(|line| seen.push((line.bytes.to_vec(), line.is_cut))));
        }
        drop(ours);
        assert!(!lines.read(|line| seen.push((line.bytes.to_vec(), line.is_cut))));
        seen
    }

    #[test]
    fn lines_come_whole_however_they_are_written() {
        let whole = |text: &[u8]| (text.to_vec(), false);
        assert_eq!(
            lines(&[b"one\ntw", b"o", b"\n\nlast"], 9),
            [whole(b"one"), whole(b"two"), whole(b""), whole(b"last")]
        );
    }

    #[test]
    fn bytes_that_their_writer_took_back_are_not_waited_for() {
        let (pipe, theirs) = rustix::pipe::pipe().expect("made");
        let mut taken = File::open(format!("/proc/self/fd/{}", theirs.as_raw_fd())).expect("its writer may read it");
        let mut lines = Lines::of(pipe, 10);
        File::from(theirs.try_clone().expect("a descriptor")).write_all(b"x").expect("written");
        taken.read_exact(&mut [0]).expect("read");
        let (read, is_read) = channel();
        std::thread::spawn(move || read.send(lines.read(|line| panic!("no line has ended: {line:?}"))));
        assert_eq!(is_read.recv_timeout(Duration::from_secs(120)), Ok(true), "it waits for its writer");
    }

    #[test]
    fn of_a_line_without_end_no_more_is_kept_than_a_line_may_have() {
        let long = [b'x'; CHUNK];
        let (mut ours, theirs) = UnixStream::pair().expect("made");
        let mut lines = Lines::of(theirs.into(), 10);
        for _ in 0..100 {
            ours.write_all(&long).expect("written");
            assert!(lines.read(|line| panic!("no line has ended: {line:?}")));
            assert!(lines.line.capacity() < 100);
        }
        ours.write_all(b"\nnext\n").expect("written");
        let mut seen = Vec::new();
        assert!(lines.read(|line| seen.push((line.bytes.len(), line.is_cut))));
        assert_eq!(seen, [(10, true), (4, false)]);
    }
}
