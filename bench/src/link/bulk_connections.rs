//! The number of this process's bulk connections. In: names of the process's threads. Out: a number. It opens no
//! connection. Counting sockets would not do: a session also has a main connection and one for acknowledgements.

use std::fs;
use std::io;

/// The thread that writes on a bulk connection, as [`floe_transport::Stripes`] names it: one for each that is up.
const WRITER: &str = "floe-bulk-send";

/// The number of open bulk connections.
///
/// # Errors
/// When the system does not list the threads.
pub(super) fn of_this_process() -> io::Result<u32> {
    let threads = fs::read_dir("/proc/self/task")?.filter_map(Result::ok);
    // One that has ended meanwhile has no name any more.
    let names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    Ok(u32::try_from(names.filter(|name| name.trim_end() == WRITER).count()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use floe_transport::{Link, Stripes};

    use super::*;

    #[test]
    fn bulk_connections_count_while_they_are_up_and_other_connections_do_not() {
        let (stripes, mut ends) = (Stripes::default(), Vec::new());
        let mut link = || {
            let (socket, end) = UnixStream::pair().expect("a pair of sockets");
            ends.push(end);
            Link::new(socket.into()).halves()
        };
        let _own = link();
        assert_eq!(of_this_process().expect("the system lists them"), 0);
        for _ in 0..3 {
            stripes.add(link().0).expect("a thread");
        }
        becomes(3);
        stripes.close();
        becomes(0);
    }

    /// A thread has its name, and is gone, a moment later.
    fn becomes(count: u32) {
        let begun = Instant::now();
        while of_this_process().expect("the system lists them") != count {
            assert!(begun.elapsed() < Duration::from_secs(300), "there are not {count}");
            std::thread::yield_now();
        }
    }
}
