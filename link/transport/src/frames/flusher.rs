//! The flusher: a thread that sends posted frames a moment later, in batches, and borrowed buffers at once. A poster
//! itself writes the first frame after a quiet time, and within a machine the first one after a reply. Writing more
//! would cost posters too much: a program that launches every 20 µs would write every second launch itself.
//! In: queued frames. Out: bytes in the pipe.
//! It parks when nothing has been posted for a while, and ends with the link.

use std::sync::Arc;
use std::time::Duration;

use crate::frames::outgoing::State;
use crate::frames::writing::Shared;
use crate::spin::{Spin, sleep_precisely};

/// How long a batch gathers while frames keep coming.
const GATHER: Duration = Duration::from_micros(30);
/// Rounds without a frame after which the next poster writes its frame itself, within a machine.
const QUIET_ROUNDS: u32 = 3;
/// Rounds without a frame after which the flusher parks.
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
    // A network socket takes several times as long per frame: a poster writes there only when the flusher is parked.
    let is_cheap = shared.is_local();
    let (mut idle, mut seen) = (0, 0);
    loop {
        let mut outgoing = shared.outgoing();
        if outgoing.state != State::Open {
            return;
        }
        if outgoing.sent() != seen {
            // No matter which thread wrote them.
            (idle, seen) = (0, outgoing.sent());
        }
        if outgoing.is_empty() {
            outgoing.is_quiet |= is_cheap && idle >= QUIET_ROUNDS;
        } else {
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
            outgoing = floe_lock::wait(&shared.posted, outgoing);
        }
        idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use floe_wire::MemoryInfo;

    use super::*;
    use crate::frames::sender::Sender;
    use crate::pipes::noting::Noting;
    use crate::pipes::pipe::Reach;

    #[test]
    fn the_poster_writes_the_first_frame_after_a_reply_and_few_of_a_stream_of_frames() {
        const FRAMES: usize = 1_000;
        let pipe = Noting::new(Reach::Machine, Ok(()));
        let sender = Sender::new(Arc::<Noting>::clone(&pipe), 0);
        sender.start_flusher();
        let first = |_: &u32| {
            sender.send(&MemoryInfo {}, |_| ()).expect("it is open");
            let before = pipe.own();
            sender.post(&MemoryInfo {}).expect("it is open");
            pipe.own() > before
        };
        // The flusher may be polling just then.
        let firsts = (0..20).filter(first).count();
        assert!(firsts > 10, "of 20 frames behind answers the thread that posted them wrote: {firsts}");
        let before = pipe.own();
        // Longer than a batch gathers: such a gap once made every post a first one. Imprecise sleeps are longer.
        let gap = if Spin::of_process().is_on() { 2 * GATHER } else { 5 * GATHER };
        let mut next = Instant::now();
        for _ in 0..FRAMES {
            next += gap;
            while Instant::now() < next {
                std::hint::spin_loop();
            }
            sender.post(&MemoryInfo {}).expect("it is open");
        }
        let few = pipe.own() - before;
        assert!(few < FRAMES / 2, "of {FRAMES} frames the thread that posted them wrote: {few}");
    }
}
