//! In: output of kernels, from the machine's threads. Out: the same bytes on file descriptor 1, when the program
//! synchronizes, as CUDA does it.
//! Bounded like CUDA's own buffer: when it is full the oldest lines are lost, never the newest.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

struct Lines {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    limit: usize,
}

/// The printf buffer of a context.
pub(crate) struct Output {
    lines: Mutex<Lines>,
    /// Held from taking lines until they are written: who synchronizes meanwhile returns behind that.
    writing: Mutex<()>,
}

impl Output {
    /// A buffer of at most `limit` bytes (`CU_LIMIT_PRINTF_FIFO_SIZE`).
    pub(crate) fn new(limit: usize) -> Self {
        Self { lines: Mutex::new(Lines { lines: VecDeque::new(), bytes: 0, limit }), writing: Mutex::new(()) }
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        floe_lock::lock(&self.lines).limit = limit;
    }

    /// Takes what one `printf` wrote.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut lines = floe_lock::lock(&self.lines);
        lines.bytes += bytes.len();
        lines.lines.push_back(bytes.to_vec());
        while lines.bytes > lines.limit && lines.lines.len() > 1 {
            if let Some(oldest) = lines.lines.pop_front() {
                lines.bytes -= oldest.len();
            }
        }
    }

    fn take(&self) -> Vec<u8> {
        let mut lines = floe_lock::lock(&self.lines);
        lines.bytes = 0;
        lines.lines.drain(..).flatten().collect()
    }

    /// Writes everything to file descriptor 1, whatever stands behind it now.
    pub(crate) fn drain(&self) {
        // SAFETY: descriptor 1 is the program's standard output, which it may have replaced or closed. Writes to a closed
        // one fail, and the borrow does not outlive this call.
        self.drain_to(unsafe { BorrowedFd::borrow_raw(1) });
    }

    fn drain_to(&self, descriptor: BorrowedFd<'_>) {
        let _writing = floe_lock::lock(&self.writing);
        write_all(descriptor, &self.take());
    }
}

/// Writes the text of a failed `assert` to file descriptor 2, as CUDA does.
pub(crate) fn write_error(bytes: &[u8]) {
    // SAFETY: as in `drain`, for the program's standard error.
    write_all(unsafe { BorrowedFd::borrow_raw(2) }, bytes);
}

fn write_all(descriptor: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(descriptor, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => std::thread::yield_now(),
            // Nobody reads the program's output any more: as with CUDA, the lines are lost.
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_in_order_once() {
        let output = Output::new(100);
        output.push(b"one\n");
        output.push(b"two\n");
        assert_eq!(output.take(), b"one\ntwo\n");
        assert!(output.take().is_empty());
    }

    #[test]
    fn full_buffer_loses_the_oldest_line() {
        let output = Output::new(8);
        output.push(b"one\n");
        output.push(b"two\n");
        output.push(b"three\n");
        assert_eq!(output.take(), b"three\n");
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_kept_alone() {
        let output = Output::new(2);
        output.push(b"long\n");
        assert_eq!(output.take(), b"long\n");
    }

    /// Two threads synchronize: neither returns before what was printed is written, whichever of them writes it.
    #[test]
    fn nobody_returns_while_another_thread_still_writes() {
        use std::io::{Read as _, Write as _};
        use std::os::fd::AsFd as _;
        use std::time::Duration;
        let (mut reader, mut writer) = std::os::unix::net::UnixStream::pair().expect("a pair");
        // It is full from here on.
        writer.set_nonblocking(true).expect("set");
        let mut held = 0;
        while let Ok(count) = writer.write(&[b'x'; 4096]) {
            held += count;
        }
        let output = Output::new(100);
        output.push(b"line\n");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| output.drain_to(writer.as_fd()));
            while floe_lock::lock(&output.lines).bytes != 0 {
                std::thread::yield_now();
            }
            let second = scope.spawn(|| output.drain_to(writer.as_fd()));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!first.is_finished() && !second.is_finished(), "the line is not written");
            reader.read_exact(&mut vec![0; held]).expect("read");
        });
        let mut line = [0; 5];
        reader.read_exact(&mut line).expect("read");
        assert_eq!(&line, b"line\n");
    }
}
