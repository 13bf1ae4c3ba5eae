//! Long waits: who looks for an answer pings the server now and then, and nothing else is different.
//! Threads look on in processes of many processors, or where the environment says so: the test runs itself in such a process.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use floe_abi::{CudaError, Stream};
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

/// Pings after which the server's work is over.
const ENOUGH: usize = 3;

#[test]
fn a_long_wait_pings_until_it_is_over() {
    let own = std::env::current_exe().unwrap();
    let inner = ["--exact", "in_a_process_whose_threads_look_on", "--ignored", "--nocapture"];
    let output = Command::new(own).args(inner).env("FLOE_SPIN", "1000000").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "the test above runs it"]
fn in_a_process_whose_threads_look_on() {
    let pings = Arc::new(AtomicUsize::new(0));
    let (counted, mut waiting) = (Arc::clone(&pings), None);
    let script = move |request: &Request<'_>, sequence: u64, peer: &mut Peer| match request {
        Request::SynchronizeStream(_) => {
            waiting = Some(sequence);
            Flow::Done
        }
        Request::Ping(_) => {
            let earlier = CudaError::INVALID_VALUE.code();
            let is_first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            peer.reply_with(sequence, 0, if is_first { earlier } else { 0 }, "", &[]);
            if counted.load(Ordering::SeqCst) == ENOUGH {
                peer.reply_with(waiting.take().unwrap(), 0, 0, "", &[]);
            }
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
