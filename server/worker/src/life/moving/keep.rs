//! A session that waits in host memory, without a GPU: suspended.
//! In: the steps of the worker that it leaves; later the daemon's order to resume it. Out: the same steps to the worker that it
//! goes to. Until then the program stands at its next wait. No device is here, and nothing of the client is read.

mod kept;
mod resume;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_device::Mapped;

use crate::daemon::move_notices::{Arrival, MoveReport, Said};
use crate::life::ending::Ending;
use crate::life::exports::{share, start_files};
use crate::life::log::Log;
use crate::life::moving::arrive::wanted::{Refused, file};
use crate::life::moving::arrive::{described, first_word, is_it};
use crate::life::moving::ends::MoveEnds;
use crate::life::moving::leave::partner::Partner;
use crate::life::moving::leave::sides::next_leave;
use crate::life::moving::stream::MoveStream;
use crate::life::moving::words::{Answer, RING_SOCKET, Step};
use crate::life::serve::Plan;
use crate::life::threads::Threads;
use crate::life::watch::end_when_ordered;
use crate::memory::budget::Budget;
use crate::peer::hub::Hub;
use kept::Kept;
use resume::Resume;
use waiting::Waiting;

/// Keeps a session until it is resumed or its client has left.
pub fn keep<M: Mapped + 'static>(task: Arrival, mut plan: Plan, log: &Log) -> Ending {
    let Some(ends) = plan.moves.take() else { return Ending::Bug("a session arrives without orders".into()) };
    let watchdog = plan.watchdog.clone();
    watchdog.serves();
    watchdog.rests();
    let (threads, first) = Threads::new(watchdog.clone());
    let keeping = Keeping::<M>::begin(task, &mut plan, &ends, &threads);
    let started = keeping.and_then(|keeping| {
        plan.used.store(keeping.kept.bytes(), Ordering::Relaxed);
        keeping.start(plan, ends, &threads, log.clone())
    });
    let ending = threads.await_ending(&first, started);
    watchdog.is_over();
    ending
}

/// A session that is kept here.
struct Keeping<M> {
    kept: Kept,
    hub: Arc<Hub<M>>,
}

impl<M: Mapped + 'static> Keeping<M> {
    /// Takes the session over.
    fn begin(task: Arrival, plan: &mut Plan, ends: &MoveEnds, threads: &Threads) -> Result<Self, Ending> {
        let say = |said| ends.reports.say(MoveReport { number: task.number, said });
        let mut stream = first_word(plan, threads, ends, task.number)?;
        let beside = plan.peers.as_ref().map_or_else(Arc::default, |ends| Arc::clone(&ends.beside));
        let (hub, exports) = share(plan.peers.take(), &beside, &Budget::default());
        let hub = Arc::new(hub);
        exports.map_or(Ok(()), |exports| start_files(&hub, threads, exports))?;
        let kept = match take_over(&mut stream, plan, &hub, task.keeps.unwrap_or(0)) {
            Ok(kept) => kept,
            Err(why) => {
                // The other worker may be gone; the daemon hears why.
                let _ = stream.send(&Answer::Refused(why.clone()), &[]);
                say(Said::Refused(why.clone()));
                return Err(Ending::NotArrived(why));
            }
        };
        say(Said::Ready);
        if !is_it(&ends.orders, task.number) {
            return Err(Ending::NotArrived("the daemon has ended the move".into()));
        }
        hub.becomes(ends.session);
        Ok(Self { kept, hub })
    }

    /// Starts the threads: one holds the client's connections, one takes the daemon's orders.
    fn start(self, plan: Plan, ends: MoveEnds, threads: &Threads, log: Log) -> Result<(), Ending> {
        let rings = self.kept.files.get(&RING_SOCKET).map(std::os::fd::OwnedFd::try_clone).transpose();
        let rings = rings.map_err(|error| Ending::Bug(format!("the socket of the rings: {error}")))?;
        let waiting = Arc::new(Waiting::new(plan.resumption, rings));
        let told = Arc::clone(&waiting);
        end_when_ordered(plan.end, threads, move |order| told.tell(&order.words))?;
        let (holding, passed) = (Arc::clone(&waiting), plan.joining.passed);
        threads.start("floe-hold", move || {
            let passed = passed.as_ref()?;
            holding.hold(passed).then_some(Ending::ClientLeft)
        })?;
        threads.start("floe-leave", move || self.take_orders(&ends, &waiting, &log))
    }

    /// Takes orders until there are none any more, or the session has gone.
    fn take_orders(&self, ends: &MoveEnds, waiting: &Waiting, log: &Log) -> Option<Ending> {
        while let Some((daemon, stream)) = next_leave(ends) {
            let resume = Resume { kept: &self.kept, hub: &self.hub, daemon: &daemon, waiting, number: ends.session };
            let mut partner = Partner::new(stream, &daemon);
            match resume.go(&mut partner) {
                Ok(()) => return Some(Ending::Moved),
                Err(off) => {
                    log.line(format_args!("move {}: the session stays suspended: {off}", daemon.order.number));
                    daemon.say(Said::GaveUp(off.to_string()));
                    partner.leave();
                }
            }
        }
        None
    }
}

/// Everything that is said before the source is frozen.
fn take_over<M: Mapped>(stream: &mut MoveStream, plan: &Plan, hub: &Hub<M>, room: u64) -> Result<Kept, Refused> {
    let description = described(stream, plan)?;
    let mut file = |number| file(hub, &description, number);
    let mut kept = Kept::new(description.clone(), room);
    kept.take_link(&mut file)?;
    stream.send(&Answer::Done, &[]).map_err(|error| error.to_string())?;
    loop {
        let (step, bytes) = stream.receive_word::<Step>(None).map_err(|error| error.to_string())?;
        let is_last = matches!(step, Step::Frozen(_));
        let answer = match step {
            // Most of a session: they go where they stay.
            Step::Bytes(piece) => {
                stream.receive_into(kept.place(piece, bytes)?).map_err(|error| error.to_string())?;
                Answer::Done
            }
            step => {
                let body = stream.receive_body(bytes).map_err(|error| error.to_string())?;
                kept.step(step, body, &mut file)?
            }
        };
        stream.send(&answer, &[]).map_err(|error| error.to_string())?;
        if is_last {
            return Ok(kept);
        }
    }
}
