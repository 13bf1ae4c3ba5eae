//! Two ends of TLS over pipes of this process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::*;
use crate::pipes::socket::Socket;

fn record(bytes: u16) -> Vec<u8> {
    let [high, low] = bytes.to_be_bytes();
    let mut record = vec![23, 3, 3, high, low];
    record.extend((0..bytes).map(|index| index.to_le_bytes()[0]));
    record
}

fn ahead(by_record: bool) -> Ahead {
    Ahead { bytes: vec![0; READ_AHEAD], start: 0, end: 0, by_record }
}

#[test]
fn by_record_nothing_is_read_behind_the_record_at_hand() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let rest = ours.try_clone().unwrap();
    let (under, mut ahead) = (Socket::new(Arc::new(ours.into())), ahead(true));
    for bytes in [0, 1, 300, u16::MAX] {
        theirs.write_all(&record(bytes)).unwrap();
        theirs.write_all(b"next").unwrap();
        assert!(matches!(ahead.fill(&under), Ok(Taken::Some)));
        assert_eq!(ahead.bytes[ahead.start..ahead.end], record(bytes));
        ahead.start = ahead.end;
        let mut next = [0; 4];
        (&rest).read_exact(&mut next).unwrap();
        assert_eq!(&next, b"next");
    }
}

#[test]
fn a_record_that_comes_byte_by_byte_is_not_opened_before_it_is_whole() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (under, mut ahead) = (Socket::new(Arc::new(ours.into())), ahead(true));
    let record = record(20);
    for byte in &record[..24] {
        theirs.write_all(&[*byte]).unwrap();
        assert!(matches!(ahead.fill(&under), Ok(Taken::Nothing)));
        assert!(!ahead.is_ready() && !ahead.is_empty());
    }
    theirs.write_all(&record[24..]).unwrap();
    assert!(matches!(ahead.fill(&under), Ok(Taken::Some)));
    assert_eq!(ahead.bytes[..ahead.end], record);
}

#[test]
fn a_part_of_a_record_is_kept_when_more_may_be_read() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (under, mut ahead) = (Socket::new(Arc::new(ours.into())), ahead(true));
    let two = [record(9), record(5)].concat();
    theirs.write_all(&two[..7]).unwrap();
    assert!(matches!(ahead.fill(&under), Ok(Taken::Nothing)));
    ahead.by_record = false;
    assert!(ahead.is_ready());
    ahead.start = ahead.end;
    theirs.write_all(&two[7..]).unwrap();
    assert!(matches!(ahead.fill(&under), Ok(Taken::Some)));
    assert_eq!(ahead.bytes[ahead.start..ahead.end], two[7..]);
}

#[test]
fn a_peer_that_ends_inside_a_record_has_ended() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (under, mut ahead) = (Socket::new(Arc::new(ours.into())), ahead(true));
    theirs.write_all(&record(20)[..12]).unwrap();
    drop(theirs);
    assert!(matches!(ahead.fill(&under), Ok(Taken::Closed)));
}
