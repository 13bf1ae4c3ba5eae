//! The events that end a process, and those that do not: the case by itself, and the thread with sockets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use super::*;

const GRACE: Duration = Duration::from_secs(100);

/// A case that serves, with a connection, and when it began.
fn serving() -> (Case, Instant) {
    let mut case = Case::new(GRACE);
    case.serves = true;
    assert!(case.goes_on(1));
    (case, Instant::now())
}

#[test]
fn a_session_with_its_connections_may_last() {
    assert_eq!(serving().0.deadline(), None);
}

#[test]
fn a_session_without_its_connections_has_its_grace_and_a_farewell() {
    let (mut case, now) = serving();
    case.breaks(now);
    case.breaks(now + GRACE);
    assert_eq!(case.deadline(), Some(now + GRACE + FAREWELL));
    case.left = true;
    assert_eq!(case.deadline(), Some(now + FAREWELL));
}

#[test]
fn new_connections_end_the_grace_and_late_ones_do_not() {
    let (mut case, now) = serving();
    case.breaks(now);
    assert!(!case.goes_on(1));
    assert!(case.deadline().is_some());
    assert!(case.goes_on(2));
    assert!(!case.goes_on(1));
    assert_eq!(case.deadline(), None);
}

#[test]
fn an_ending_that_is_known_leaves_no_more_than_a_farewell() {
    let (mut case, now) = serving();
    case.ends(now);
    case.ends(now + GRACE);
    assert!(case.goes_on(2));
    assert_eq!(case.deadline(), Some(now + FAREWELL));
}

#[test]
fn a_driver_may_take_its_time_to_start_and_not_for_ever() {
    let mut case = Case::new(Duration::ZERO);
    let began = case.broken.unwrap();
    assert_eq!(case.deadline(), Some(began + START + FAREWELL));
    case.serves = true;
    assert_eq!(case.deadline(), Some(began + FAREWELL));
}

#[test]
fn nobody_is_missed_while_a_session_rests_and_all_of_the_grace_follows() {
    let (mut case, now) = serving();
    case.rests();
    case.breaks(now);
    assert_eq!(case.deadline(), None);
    let later = now + 10 * GRACE;
    case.ends_rest(later);
    assert_eq!(case.deadline(), Some(later + GRACE + FAREWELL));
    // An ending is one all the same.
    case.rests();
    case.ends(later);
    assert_eq!(case.deadline(), Some(later + FAREWELL));
    // With its connections it lasts.
    let (mut case, now) = serving();
    case.rests();
    case.ends_rest(now);
    assert_eq!(case.deadline(), None);
}

#[test]
fn words_come_as_they_were_said() {
    for word in [Word::Connected, Word::Serves, Word::Left, Word::Over, Word::Rests, Word::GoesOn] {
        assert_eq!(Word::decode(word.encode()), word);
    }
}

/// A watchdog without grace that has two ends of a connection, the other of which is held, the daemon's end, and its bark.
fn watched() -> (Watchdog, UnixStream, OwnedFd, Receiver<()>) {
    let (daemon, pipe) = rustix::pipe::pipe().unwrap();
    let (bark, heard) = channel();
    let watchdog = Watchdog::start(Duration::ZERO, pipe, move || bark.send(()).unwrap()).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    watchdog.connected(1, theirs.as_fd());
    watchdog.serves();
    (watchdog, ours, daemon, heard)
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn it_ends_a_process_whose_client_is_gone_though_nobody_reads_the_connection() {
    let (_watchdog, client, _daemon, heard) = watched();
    assert_eq!(heard.recv_timeout(FAREWELL + Duration::from_secs(1)), Err(RecvTimeoutError::Timeout));
    // Unread bytes do not hide the end.
    std::io::Write::write_all(&mut &client, b"unread").unwrap();
    drop(client);
    heard.recv_timeout(MINUTE).unwrap();
}

#[test]
fn it_ends_a_process_that_says_it_is_over_or_whose_daemon_is_gone() {
    let (watchdog, _client, _daemon, heard) = watched();
    watchdog.is_over();
    heard.recv_timeout(MINUTE).unwrap();
    let (_watchdog, _client, daemon, heard) = watched();
    drop(daemon);
    heard.recv_timeout(MINUTE).unwrap();
}

#[test]
fn it_holds_no_connection_that_has_ended() {
    let (watchdog, mut client, _daemon, heard) = watched();
    let (next, theirs) = UnixStream::pair().unwrap();
    watchdog.connected(2, theirs.as_fd());
    drop(theirs);
    // The first was the last epoch's.
    client.set_read_timeout(Some(MINUTE)).unwrap();
    assert_eq!(std::io::Read::read(&mut client, &mut [0]).unwrap(), 0);
    drop(client);
    assert_eq!(heard.recv_timeout(FAREWELL + Duration::from_secs(1)), Err(RecvTimeoutError::Timeout));
    drop(next);
    heard.recv_timeout(MINUTE).unwrap();
}
