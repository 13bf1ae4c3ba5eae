//! The thread that sends what was posted a moment after it was posted, together with what came in that moment, and what is
//! lent as soon as it is posted. What is posted after a quiet moment has been sent by who posted it.
//! In: what stands in line. Out: bytes in the pipe.
//! It sleeps until it is woken when nothing has been posted for a while, and ends with the link.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::outgoing::State;
use crate::sender::Shared;
use crate::spin::{Spin, sleep_precisely};

/// How long frames gather while they keep coming.
const GATHER: Duration = Duration::from_micros(30);
/// Rounds without a frame after which the flusher sleeps until it is woken.
const IDLE_ROUNDS: u32 = 20;

/// Starts the thread; whether it runs.
pub(crate) fn start(shared: &Arc<Shared>) -> bool {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("floe-flush".into()).spawn(move || run(&shared)).is_ok()
}

fn run(shared: &Shared) {
    if Spin::of_process().is_on() {
        sleep_precisely();
    }
    // A network's socket takes several times as long for a frame: who posts writes there only what would wait for a wake.
    let is_cheap = shared.is_local();
    let mut idle = 0;
    loop {
        let mut outgoing = shared.outgoing();
        if outgoing.state != State::Open {
            return;
        }
        outgoing.is_quiet = is_cheap && outgoing.is_empty();
        if !outgoing.is_empty() {
            idle = 0;
            drop(outgoing);
            if shared.flush().is_err() {
                return;
            }
            outgoing = shared.outgoing();
        }
        if idle < IDLE_ROUNDS {
            idle += 1;
            if !outgoing.holds_lent() {
                drop(shared.posted.wait_timeout(outgoing, GATHER));
            }
            continue;
        }
        (outgoing.flusher_sleeps, outgoing.is_quiet) = (true, true);
        while outgoing.flusher_sleeps && outgoing.state == State::Open {
            outgoing = shared.posted.wait(outgoing).unwrap_or_else(PoisonError::into_inner);
        }
        idle = 0;
    }
}
