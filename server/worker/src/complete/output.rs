//! Output of kernels: fd 1 and 2 of this process are files in memory, and new bytes there go to the client.
//! In: bytes the driver wrote to fd 1 and 2. Out: `Output` frames.
//! It must be set up before the driver is initialized, and from then on nothing of the worker itself writes to these.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Mutex;

use floe_transport::{LinkError, Sender};
use floe_wire::Output as OutputMessage;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

/// Bytes of one `Output` frame.
const PIECE: usize = 64 << 10;
/// Read bytes are given back to the system in steps of this.
const GIVEN_BACK: u64 = 1 << 20;

/// The two files.
#[derive(Debug)]
pub struct Output {
    files: Mutex<Files>,
}

/// The files that both descriptors lead to, and how far each has been read.
#[derive(Debug, Default)]
struct Files {
    printed: Vec<Printed>,
    /// Kept: every answer asks for what was printed, and clearing so much costs more than reading nothing.
    piece: Vec<u8>,
}

#[derive(Debug)]
struct Printed {
    fd: u32,
    file: File,
    read: u64,
    given_back: u64,
}

impl Output {
    /// Puts files in memory in the places of fd 1 and 2.
    ///
    /// # Errors
    /// When the system gives no such file.
    pub fn capture() -> io::Result<Self> {
        let out = File::from(memfd_create("floe-output-1", MemfdFlags::CLOEXEC)?);
        let err = File::from(memfd_create("floe-output-2", MemfdFlags::CLOEXEC)?);
        rustix::stdio::dup2_stdout(&out)?;
        rustix::stdio::dup2_stderr(&err)?;
        Ok(Self::of(out, err))
    }

    fn of(out: File, err: File) -> Self {
        let printed = |fd, file| Printed { fd, file, read: 0, given_back: 0 };
        Self { files: Mutex::new(Files { printed: vec![printed(1, out), printed(2, err)], piece: vec![0; PIECE] }) }
    }

    /// Nothing is ever printed: for tests of the rest.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { files: Mutex::default() }
    }

    /// Posts what is new.
    pub(crate) fn send_new(&self, sender: &Sender) -> Result<(), LinkError> {
        let mut files = floe_lock::lock(&self.files);
        let Files { printed, piece } = &mut *files;
        for printed in printed {
            printed.each_new(piece, |fd, bytes| sender.post(&OutputMessage { fd, bytes }).map(|_| ()))?;
        }
        Ok(())
    }
}

impl Printed {
    fn each_new(
        &mut self,
        piece: &mut [u8],
        mut take: impl FnMut(u32, &[u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        // A file in memory that cannot be read has nothing to give.
        while let Ok(count) = self.file.read_at(piece, self.read) {
            if count == 0 {
                break;
            }
            self.read += count as u64;
            take(self.fd, &piece[..count])?;
        }
        self.give_back();
        Ok(())
    }

    fn give_back(&mut self) {
        if self.read - self.given_back >= GIVEN_BACK {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // When the system refuses, the memory stays in use; nothing else changes.
            if fallocate(&self.file, hole, 0, self.read).is_ok() {
                self.given_back = self.read;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_is_printed_is_taken_once_and_its_memory_given_back() {
        let mut file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        let mut printed = Printed { fd: 1, file: file.try_clone().unwrap(), read: 0, given_back: 0 };
        let mut seen = Vec::new();
        for part in [&b"one "[..], &[b'x'; 3 << 20], b" two"] {
            file.write_all(part).unwrap();
            printed
                .each_new(&mut [0; PIECE], |fd, bytes| {
                    assert_eq!(fd, 1);
                    seen.extend_from_slice(bytes);
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(seen.len(), 8 + (3 << 20));
        assert!(seen.starts_with(b"one x") && seen.ends_with(b"x two"));
        let blocks = std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
        assert!(blocks * 512 < 1 << 20, "held: {}", blocks * 512);
    }
}
