//! This process's TCP connections, counted. In: what the system lists. Out: a number. It opens none.

use std::collections::BTreeSet;
use std::fs;
use std::io;

/// The system's lists of TCP sockets, by the version of IP. One may be missing.
const LISTS: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// The state of a connection that is up.
const ESTABLISHED: &str = "01";
/// Columns of the lists.
const STATE: usize = 3;
const INODE: usize = 9;

/// How many connections of this process are up.
///
/// # Errors
/// When the system does not say which files are open or which sockets there are.
pub(super) fn of_this_process() -> io::Result<u32> {
    let files = fs::read_dir("/proc/self/fd")?.filter_map(Result::ok);
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    let own: BTreeSet<String> = links.filter_map(|link| inode_of(link.to_str()?).map(str::to_owned)).collect();
    let first = fs::read_to_string(LISTS[0])?;
    let second = fs::read_to_string(LISTS[1]).unwrap_or_default();
    Ok([first, second].iter().map(|list| established(list, &own)).sum())
}

/// Which socket an open file is.
fn inode_of(link: &str) -> Option<&str> {
    link.strip_prefix("socket:[")?.strip_suffix(']')
}

/// How many of a list's connections are up and among these.
fn established(list: &str, own: &BTreeSet<String>) -> u32 {
    let is_one = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.get(STATE) == Some(&ESTABLISHED) && columns.get(INODE).is_some_and(|inode| own.contains(*inode))
    };
    u32::try_from(list.lines().filter(is_one).count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connections_of_others_and_those_that_are_not_up_do_not_count() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:39F1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0\n\
            1: 0100007F:9C40 0100007F:39F1 01 00000000:00000000 02:0000079B 00000000     0        0 12 2 0 20 4 30 10 -1\n\
            2: 0100007F:9C42 0100007F:39F1 01 00000000:00000000 02:0000079B 00000000     0        0 13 2 0 20 4 30 10 -1\n\
            3: 0100007F:9C44 0100007F:39F1 06 00000000:00000000 03:0000079B 00000000     0        0 0 3 0\n";
        let own = ["11", "12"].map(str::to_owned).into();
        assert_eq!((established(list, &own), established("", &own)), (1, 0));
    }

    #[test]
    fn a_socket_is_told_from_another_file() {
        assert_eq!(
            [inode_of("socket:[4711]"), inode_of("pipe:[4711]"), inode_of("/dev/null")],
            [Some("4711"), None, None]
        );
    }

    #[test]
    fn a_connection_of_this_process_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let _stream = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let _accepted = listener.accept().expect("accepted");
        assert!(of_this_process().expect("the system lists them") >= 2);
    }
}
