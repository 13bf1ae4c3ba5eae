//! Long waits: who looks for an answer pings the server now and then, and nothing else is different: no query asks again.
//! Threads look on in processes of many processors, or where the environment says so: the test runs itself in such a process.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use floe_abi::{CudaError, Stream, event_flags};
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

/// Pings after which the server's work is over.
const ENOUGH: usize = 3;

#[test]
fn a_long_wait_pings_until_it_is_over() {
    run_where_threads_look_on("inner_wait");
}

#[test]
fn a_ping_that_is_answered_behind_a_query_does_not_have_it_ask_again() {
    run_where_threads_look_on("inner_queries");
}

fn run_where_threads_look_on(test: &str) {
    let own = std::env::current_exe().unwrap();
    let inner = ["--exact", test, "--ignored", "--nocapture"];
    let output = Command::new(own).args(inner).env("FLOE_SPIN", "1000000").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "a test above runs it"]
fn inner_wait() {
    let pings = Arc::new(AtomicUsize::new(0));
    let (counted, mut waiting) = (Arc::clone(&pings), None);
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::SynchronizeStream(_) => {
            waiting = Some(sequence);
            Flow::Done
        }
        Request::Ping(_) => {
            // On a slow machine other waits ping, too.
            let count = waiting.map_or(0, |_| counted.fetch_add(1, Ordering::SeqCst) + 1);
            if count == ENOUGH {
                // First, so that no other ping leaves in between.
                peer.reply_with(waiting.unwrap(), 0, 0, "", &[]);
            }
            let earlier = if count == 1 { CudaError::INVALID_VALUE.code() } else { 0 };
            peer.reply_with(sequence, 0, earlier, "", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    };
    let server = Server::start(Options { shows_pings: true, script: Some(Box::new(script)), ..Options::default() });
    let client = client(&server);
    let at = client.mem_alloc(64).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 64).unwrap();
    // Without pings it would never end. What a ping's answer says of an earlier failure is told as if the wait's own said it.
    assert_eq!(client.stream_synchronize(Stream::LEGACY), Err(CudaError::INVALID_VALUE));
    assert_eq!(pings.load(Ordering::SeqCst), ENOUGH, "one at a time, and none behind the answer");
    client.memset_d8(Stream::LEGACY, at, 0, 64).unwrap();
}

#[test]
#[ignore = "a test above runs it"]
fn inner_queries() {
    let mut asked = None;
    // Answers a query when it is pinged meanwhile, and the ping behind it, as over a link that takes milliseconds.
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::QueryEvent(_) => {
            asked = Some(sequence);
            Flow::Done
        }
        Request::Ping(_) => {
            if let Some(asked) = asked.take() {
                peer.reply_with(asked, CudaError::NOT_READY.code(), 0, "", &[]);
            }
            peer.reply_with(sequence, 0, 0, "", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    };
    let server = Server::start(Options { shows_pings: true, script: Some(Box::new(script)), ..Options::default() });
    let client = client(&server);
    let event = client.event_create(event_flags::DEFAULT).unwrap();
    let at = client.mem_alloc(64).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 64).unwrap();
    client.event_record(event, Stream::LEGACY).unwrap();
    let until = Instant::now() + Duration::from_millis(50);
    while Instant::now() < until {
        assert_eq!(client.event_query(event), Err(CudaError::NOT_READY));
    }
    assert_eq!(server.count("QueryEvent"), 1);
}
