//! The server's end of bulk connections: it greets those that join and keeps them for the test, which may have what comes
//! there read.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_transport::{Link, LinkError, Listener};
use floe_wire::*;

/// The key that joins.
pub const KEY: [u8; 16] = [3; 16];

/// For what a step may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Connections that have joined.
pub type Joined = Arc<Mutex<Vec<Link>>>;

/// Greets connections until so many have joined.
pub fn welcome(listener: &Listener, count: u32, joined: &Joined) {
    for _ in 0..count {
        let Some(mut link) = accept(listener) else { return };
        answer::<Hello, _>(&mut link, |_| greeting());
        let join = answer::<Join, _>(&mut link, |_| ());
        let join = Join::decode(&join).expect("a join");
        assert_eq!((join.session, join.key), (7, KEY.as_slice()));
        joined.lock().unwrap().push(link);
    }
}

/// The next connection; `None`: none has come for long.
pub fn accept(listener: &Listener) -> Option<Link> {
    let until = Instant::now() + LIMIT;
    while Instant::now() < until {
        if let Some((link, _)) = listener.accept().expect("accepts") {
            return Some(link);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// Ends a connection that others hold, too.
pub fn end(link: &mut Link) {
    let (ours, _theirs) = UnixStream::pair().expect("a pair");
    drop(std::mem::replace(link, Link::new(ours.into())));
}

/// Chunks as they came: the transfer, the offset, the bytes.
pub type Chunks = Vec<(u64, u64, Vec<u8>)>;

/// Reads a chunk from every connection that has one soon, and calls `each` behind each with their number so far; how many
/// bytes they have.
pub fn drain_once(joined: &Joined, seen: &mut Chunks, each: impl Fn(usize)) -> u64 {
    let mut bytes = 0;
    for link in joined.lock().unwrap().iter_mut() {
        match link.receive(Some(Instant::now() + Duration::from_millis(2))) {
            Ok(Some(frame)) => {
                let chunk = Chunk::decode(frame.payload).expect("a chunk");
                bytes += chunk.bytes.len() as u64;
                seen.push((chunk.transfer, chunk.offset, chunk.bytes.to_vec()));
                each(seen.len());
            }
            Err(LinkError::TimedOut { .. }) => {}
            other => panic!("a bulk connection brings nothing more: {other:?}"),
        }
    }
    bytes
}

/// Reads chunks until they have so many bytes, and calls `each` behind each with their number so far.
pub fn drain(joined: &Joined, bytes: u64, each: impl Fn(usize)) -> Chunks {
    let (mut seen, mut drained, until) = (Chunks::new(), 0, Instant::now() + LIMIT);
    while drained < bytes {
        assert!(Instant::now() < until, "only {drained} of {bytes} bytes come");
        drained += drain_once(joined, &mut seen, &each);
    }
    assert_eq!(drained, bytes);
    seen
}

/// Its answer to a Hello.
pub fn greeting() -> HelloReply<'static> {
    HelloReply { version: NEWEST_VERSION, server: "scripted", authenticate: false, nonce: &[] }
}

/// Answers the next frame, which is of this kind; its payload.
pub fn answer<M: Message, F: Field<'static>>(link: &mut Link, reply: impl FnOnce(&[u8]) -> F) -> Vec<u8> {
    let frame = link.receive(Some(Instant::now() + LIMIT)).expect("a frame").expect("not closed");
    assert_eq!(frame.kind, M::KIND);
    let (request, payload) = (frame.sequence, frame.payload.to_vec());
    let mut body = Vec::new();
    reply(&payload).write(&mut body);
    link.send(&Reply { request, status: 0, earlier: 0, detail: "", body: &body }).expect("sent");
    payload
}
