//! The server's end of bulk connections: it greets those that join and keeps them for the test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_transport::{Link, Listener};
use floe_wire::*;

/// The key that joins.
pub const KEY: [u8; 16] = [3; 16];

/// Connections that have joined.
pub type Joined = Arc<Mutex<Vec<Link>>>;

/// Greets connections until so many have joined.
pub fn welcome(listener: &Listener, count: u32, joined: &Joined) {
    for _ in 0..count {
        let mut link = accept(listener);
        answer::<Hello, _>(&mut link, |_| greeting());
        let join = answer::<Join, _>(&mut link, |_| ());
        let join = Join::decode(&join).expect("a join");
        assert_eq!((join.session, join.key), (7, KEY.as_slice()));
        joined.lock().unwrap().push(link);
    }
}

/// The next connection.
pub fn accept(listener: &Listener) -> Link {
    loop {
        if let Some((link, _)) = listener.accept().expect("accepts") {
            return link;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What it says to a Hello.
pub fn greeting() -> HelloReply<'static> {
    HelloReply { version: NEWEST_VERSION, server: "scripted", authenticate: false, nonce: &[] }
}

/// Answers the next frame, which is of this kind; its payload.
pub fn answer<M: Message, F: Field<'static>>(link: &mut Link, reply: impl FnOnce(&[u8]) -> F) -> Vec<u8> {
    let frame = link.receive(None).expect("a frame").expect("not closed");
    assert_eq!(frame.kind, M::KIND);
    let (request, payload) = (frame.sequence, frame.payload.to_vec());
    let mut body = Vec::new();
    reply(&payload).write(&mut body);
    link.send(&Reply { request, status: 0, earlier: 0, detail: "", body: &body }).expect("sent");
    payload
}
