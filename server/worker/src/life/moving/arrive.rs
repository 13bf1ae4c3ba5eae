//! The side of a move that a session goes to.
//! In: the move stream, the daemon's last word. Out: an ordinary session that goes on where another worker stopped; or why
//! it cannot be that. Before the daemon's word it sends nothing to the client, and reads nothing of it.
//! What comes is another worker's word, which may lie: it harms nobody but this session.

mod arrival;
mod memory;
pub(super) mod wanted;

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use floe_device::{Device, Mapped};
use floe_transport::{ArrivingLink, Reach, RingParts, SetUp};

use crate::complete::output::Output;
use crate::daemon::move_notices::{Arrival as Task, MoveOrder, MoveReport, Ordered, Said};
use crate::issue::cache::Cache;
use crate::life::ending::Ending;
use crate::life::log::Log;
use crate::life::moving::ends::MoveEnds;
use crate::life::moving::stream::{MoveStream, StreamError};
use crate::life::moving::words::{Answer, Description, LinkKind, RING_MEMORY, RING_SOCKET, Step, VERSION};
use crate::life::serve::{Built, Plan, Wiring};
use crate::life::threads::Threads;
use crate::life::watch::Use;
use crate::peer::hub::Hub;
use arrival::Arrival;
use wanted::{Refused, file};

/// Takes a session over and serves it until it ends.
pub fn arrive<D: Device>(device: Arc<D>, task: Task, mut plan: Plan, output: Output, log: Log) -> Ending {
    let Some(ends) = plan.moves.take() else { return Ending::Bug("a session arrives without orders".into()) };
    let say = |said| ends.reports.say(MoveReport { number: task.number, said });
    let watchdog = plan.watchdog.clone();
    watchdog.serves();
    watchdog.rests();
    let (threads, first) = Threads::new(watchdog.clone());
    let mut stream = match first_word(&mut plan, &threads, &ends, task.number) {
        Ok(stream) => stream,
        Err(ending) => {
            watchdog.is_over();
            return ending;
        }
    };
    let (built, link, last_transfer) = match take_over(device, &task, &mut stream, plan, (output, log), &threads) {
        Ok(taken) => taken,
        Err(why) => {
            // The other worker may be gone; the daemon hears why.
            let _ = stream.send(&Answer::Refused(why.clone()), &[]);
            say(Said::Refused(why.clone()));
            watchdog.is_over();
            return Ending::NotArrived(why);
        }
    };
    say(Said::Ready);
    if !is_it(&ends.orders, task.number) {
        watchdog.is_over();
        return Ending::NotArrived("the daemon has ended the move".into());
    }
    go_on(built, link, last_transfer, ends, (threads, first))
}

/// Takes what the daemon passes from here on, and waits for this worker's end of the move stream.
pub(super) fn first_word(
    plan: &mut Plan,
    threads: &Threads,
    ends: &MoveEnds,
    number: u64,
) -> Result<MoveStream, Ending> {
    plan.joining.take_ahead(threads)?;
    let stream = own_stream(&ends.orders, number);
    // It was passed ahead of that.
    plan.cache = plan.joining.modules().map(Cache::new).or(plan.cache.take());
    stream.map(MoveStream::over).ok_or_else(|| Ending::NotArrived("the daemon has ended the move".into()))
}

/// Waits for this worker's end of the move stream. `None`: the daemon gives none.
fn own_stream(orders: &Receiver<Ordered>, number: u64) -> Option<OwnedFd> {
    orders.iter().find(|ordered| ordered.order == MoveOrder::Arrive(number))?.stream
}

/// Waits for the daemon's word. False: the session stays where it was.
pub(super) fn is_it(orders: &Receiver<Ordered>, number: u64) -> bool {
    orders.iter().any(|Ordered { order, .. }| order == MoveOrder::Go(number))
}

/// The session is this worker's from here on.
fn go_on<D: Device>(
    mut built: Built<D>,
    link: SetUp,
    last_transfer: u64,
    ends: MoveEnds,
    (threads, first): (Threads, Receiver<Ending>),
) -> Ending {
    let shared = Arc::clone(&built.shared);
    shared.hub.becomes(ends.session);
    shared.transfers.begin_behind(last_transfer);
    shared.client.has_frame(link.receiver.received());
    shared.client.has_acknowledgements();
    threads.watchdog().goes_on();
    link.begin();
    let watchdog = threads.watchdog().clone();
    built.may_leave(ends);
    built.issuer.stands.arrive();
    let SetUp { sender: _sender, receiver, channels, bulk } = link;
    let ending = built.run(receiver, bulk, channels, (threads, first));
    watchdog.is_over();
    crate::life::serve::end_session(shared, &ending);
    ending
}

/// Everything that is said before the source is frozen.
fn take_over<D: Device>(
    device: Arc<D>,
    task: &Task,
    stream: &mut MoveStream,
    mut plan: Plan,
    (output, log): (Output, Log),
    threads: &Threads,
) -> Result<(Built<D>, SetUp, u64), Refused> {
    let mut wiring = Wiring::of(&mut plan);
    wiring.take_notices(threads).map_err(|ending| ending.to_string())?;
    let hub = Arc::clone(&wiring.hub);
    let description = described(stream, &plan)?;
    let grace = plan.resumption.as_ref().map(|resumption| resumption.grace);
    let link = arriving_link(&hub, &description, grace, threads)?;
    device.enter().map_err(|error| format!("entering the context: {error}"))?;
    let shared = wiring.share(device, link.sender(), &plan, output, log, Use::default());
    let built = Built::of(&shared, plan, wiring).map_err(|ending| ending.to_string())?;
    stream.send(&Answer::Done, &[]).map_err(|error| error.to_string())?;
    let mut arrival = Arrival::new(built, description, task.same_gpu, link);
    loop {
        let (step, body) = stream.receive::<Step>(None).map_err(|error| error.to_string())?;
        let is_last = matches!(step, Step::Frozen(_));
        let answer = arrival.step(step, &body)?;
        stream.send(&answer, &[]).map_err(|error| error.to_string())?;
        if is_last {
            return arrival.whole();
        }
    }
}

/// The first word, which has to fit what this worker was started for.
pub(super) fn described(stream: &mut MoveStream, plan: &Plan) -> Result<Description, Refused> {
    let (step, _) = stream.receive::<Step>(None).map_err(|error: StreamError| error.to_string())?;
    let Step::Describe(description) = step else { return Err("the other worker does not say what it has".into()) };
    let Description { version, ordinal, granularity, .. } = description;
    if version != VERSION {
        return Err(format!("the workers' words for moves are of versions {version} and {VERSION}"));
    }
    if (ordinal, granularity) != (plan.ordinal, plan.granularity.max(1)) {
        return Err(format!("vGPU {ordinal} of granularity {granularity} is another one"));
    }
    Ok(description)
}

/// The link as it will be.
fn arriving_link<M: Mapped>(
    hub: &Hub<M>,
    description: &Description,
    grace: Option<Duration>,
    threads: &Threads,
) -> Result<ArrivingLink, Refused> {
    let (bytes, offered) = match description.link {
        LinkKind::Connections { local } => {
            let grace = grace.ok_or("this worker waits for no client")?;
            return Ok(ArrivingLink::of_channels(grace, if local { Reach::Machine } else { Reach::Network }));
        }
        LinkKind::Rings { bytes, offered } => (bytes, offered),
    };
    let (memory, socket) = (file(hub, description, RING_MEMORY)?, file(hub, description, RING_SOCKET)?);
    // No other connection is made for rings.
    threads.watchdog().continues_on(socket.as_fd());
    ArrivingLink::of_rings(RingParts { memory, bytes, offered, socket }).map_err(|error| error.to_string())
}
