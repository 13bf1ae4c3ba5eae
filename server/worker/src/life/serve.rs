//! A session from its first command to its end: the threads and how they end.
//! In: a device whose context exists, the connection, what the session may have. Out: why the session ended.
//! It frees nothing on the device and does not end the process: the caller does.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_abi::CudaError;
use floe_device::cupti::Cupti;
use floe_device::{Device, Mapped};
use floe_transport::{Channels, Expected, Link, LinkError, Sender, SetUp, Spin, Stripes, Transfers};
use floe_wire::DevicePtr;

use super::carried::Carried;
use super::ending::{Ending, link_ending};
use super::exports::{Exports, share, start_exports};
use super::joining;
use super::joining::{Joining, Reception};
use super::log::Log;
use super::parking::Parking;
use super::recording::Recording;
use super::shared::Shared;
use super::threads::Threads;
use super::turns::Turns;
use super::watch;
use super::watch::{Resumption, Use};
use super::watchdog::Watchdog;
use crate::complete::completer::{Completer, Releaser};
use crate::complete::failures::Failures;
use crate::complete::output::Output;
use crate::complete::printing::Printing;
use crate::daemon::end_notices::EndOrder;
use crate::daemon::turn_notices::TurnEnds;
use crate::issue::cache::Cache;
use crate::issue::host_functions::HostFunctions;
use crate::issue::issuer::{Allowance, Issuer, Stop};
use crate::issue::stands::Stands;
use crate::issue::turn::Turn;
use crate::life::moving::ends::MoveEnds;
use crate::life::moving::leave::Leaving;
use crate::memory::budget::Budget;
use crate::memory::ledger::{Grants, Ledger};
use crate::memory::mirrors::Mirrors;
use crate::memory::transfer_buffers::{BufferBytes, Uploads};
use crate::memory::window::{Window, Windows};
use crate::peer::collective::Collectives;
use crate::peer::ends::PeerEnds;
use crate::peer::hub::Hub;
use crate::peer::link::table::Links;
use crate::wire_in::queue::Queue;
use crate::wire_in::reader::Reader;
use crate::wire_in::rest::Rest;

/// The longest time for the last message to a client that does not read.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The limits and connections of a session.
pub struct Plan {
    /// The vGPU's ordinal in the client: it chooses the address window.
    pub ordinal: u32,
    /// Bytes of device memory; 0: all there is.
    pub memory: u64,
    /// Physical memory comes in multiples of this many bytes.
    pub granularity: u64,
    /// Bytes of host memory its worker may have; 0: all there is.
    pub host_memory: u64,
    /// The way to ask the daemon for device memory, if the daemon shares that out.
    pub grants: Option<Box<dyn Grants>>,
    /// The most bytes of host memory it may share with its client; 0: none.
    pub shared_memory: u64,
    /// The most bytes of host memory it may mirror.
    pub mirrored_memory: u64,
    /// Bytes of pinned memory for its data on their way; streams that are held may make more necessary.
    pub transport_memory: u64,
    /// Whether the device's library says things of its own, which go to the program as what kernels print does.
    pub device_speaks: bool,
    /// The cache of modules for later sessions, if there is one.
    pub cache: Option<Cache>,
    /// Bytes of physical memory the session holds, kept up to date for the reports.
    pub used: Arc<AtomicU64>,
    /// What its link carries, for the reports.
    pub carried: Arc<Carried>,
    /// The source of connections that join the session.
    pub joining: Joining,
    /// Its ways to the daemon for what it shares with other sessions; `None`: nothing.
    pub peers: Option<PeerEnds>,
    /// The server's NCCL, if it has one.
    pub nccl: Option<PathBuf>,
    /// Whether the daemon says which node of NCCL's the worker is of.
    pub nodes: bool,
    /// The server's CUPTI, loaded, or why it was not; `None`: none.
    pub cupti: Option<Result<Arc<Cupti>, String>>,
    /// Its ways to the daemon for moves; `None`: it stays.
    pub moves: Option<MoveEnds>,
    /// Its ways to the daemon for its turns on the GPU; `None`: it submits as it likes.
    pub turns: Option<TurnEnds>,
    /// The daemon's order to end; `None`: there is none.
    pub end: Option<Receiver<EndOrder>>,
    /// Borders at which it stands until it has moved.
    pub stands: Stands,
    /// Its grace period; `None`: it ends with any of its connections.
    pub resumption: Option<Resumption>,
    /// The longest time without a command; `None`: no limit.
    pub idle: Option<Duration>,
    /// Ends the process when the session's own threads do not.
    pub watchdog: Watchdog,
}

/// How a session's host memory is divided.
struct HostMemory {
    /// For the line of commands while a stream is held.
    line: usize,
    /// For everything the session keeps, the transfer buffers among it.
    budget: Budget,
}

impl HostMemory {
    /// A quarter for the line, up to a gigabyte; of what is left a part for this process and the driver; 0: no limit.
    fn of(all: u64) -> Self {
        /// More than a line ever needed to have.
        const LINE: u64 = 1 << 30;
        /// Host memory that an H100's driver takes for its context and for compiling, as far as seen.
        const DRIVER: u64 = 512 << 20;
        let line = if all == 0 { LINE } else { LINE.min(all / 4) };
        let budget = if all == 0 { Budget::default() } else { Budget::new(all - line - DRIVER.min(all / 4)) };
        Self { line: usize::try_from(line).unwrap_or(usize::MAX), budget }
    }
}

/// What another worker's link was and is to be here.
#[derive(Debug)]
pub struct Continued {
    /// The link.
    pub link: SetUp,
    /// The transfer that the client announced last.
    pub last_transfer: u64,
}

/// Serves a session until it ends. A client that is still there has been sent the reason.
pub fn serve<D: Device>(device: Arc<D>, link: Link, plan: Plan, output: Output, log: Log) -> Ending {
    // The daemon's limit was for the handshake.
    let timed = link.limit_writes(None);
    let (link, channels) = resumable(link, plan.resumption.as_ref());
    let (sender, receiver) = link.split();
    let client = Use::default();
    let begun = Begun { sender, receiver, bulk: Vec::new(), last_transfer: 0, channels, client, timed };
    serve_begun(device, begun, plan, output, log)
}

/// Serves a session that another worker has served until now. Its client is waited for, or is at the other end of the
/// rings.
pub fn serve_from<D: Device>(device: Arc<D>, from: Continued, plan: Plan, output: Output, log: Log) -> Ending {
    let Continued { link, last_transfer } = from;
    link.begin();
    let SetUp { sender, receiver, channels, bulk } = link;
    let client = Use::behind(receiver.received());
    let begun = Begun { sender, receiver, bulk, last_transfer, channels, client, timed: Ok(()) };
    serve_begun(device, begun, plan, output, log)
}

/// A link that is to be served, from wherever it is.
struct Begun {
    sender: Sender,
    receiver: floe_transport::Receiver,
    bulk: Vec<BulkEnds>,
    last_transfer: u64,
    channels: Option<Channels>,
    client: Use,
    /// What came of taking the daemon's limit off it.
    timed: Result<(), LinkError>,
}

/// A bulk connection of another worker's: its channel and its two directions.
pub(crate) type BulkEnds = (u32, Sender, floe_transport::Receiver);

fn serve_begun<D: Device>(device: Arc<D>, begun: Begun, mut plan: Plan, output: Output, log: Log) -> Ending {
    let Begun { sender, receiver, bulk, last_transfer, channels, client, timed } = begun;
    // Held to the end: a reader without a connection asks the channels whether the session continues.
    let _channels = channels.clone();
    let watchdog = plan.watchdog.clone();
    watchdog.serves();
    let wiring = Wiring::of(&mut plan);
    let shared = wiring.share(device, sender, &plan, output, log, client);
    shared.transfers.begin_behind(last_transfer);
    let (threads, first) = Threads::new(watchdog.clone());
    let built = timed.map_err(|error| Ending::Link(error.to_string())).and_then(|()| Built::of(&shared, plan, wiring));
    let ending = match built {
        Ok(built) => built.run(receiver, bulk, channels, (threads, first)),
        Err(ending) => ending,
    };
    watchdog.is_over();
    end_session(shared, &ending);
    ending
}

/// What a session's threads have in common beside the device.
pub(crate) struct Wiring<M> {
    spin: Spin,
    expected: Expected,
    buffers: BufferBytes,
    host: HostMemory,
    beside: Arc<AtomicU64>,
    pub(crate) hub: Arc<Hub<M>>,
    pub(crate) exports: Option<Exports>,
}

impl<M: Mapped> Wiring<M> {
    /// As the plan says, whose ways to other sessions are taken out.
    pub(crate) fn of(plan: &mut Plan) -> Self {
        let (buffers, host) = (BufferBytes::of(plan.transport_memory), HostMemory::of(plan.host_memory));
        let beside = plan.peers.as_ref().map_or_else(Arc::default, |ends| Arc::clone(&ends.beside));
        let (hub, exports) = share(plan.peers.take(), &beside, &host.budget);
        let (spin, expected) = (Spin::of_process(), Expected::default());
        Self { spin, expected, buffers, host, beside, hub: Arc::new(hub), exports }
    }

    /// Takes the daemon's notices from here on.
    pub(crate) fn take_notices(&mut self, threads: &Threads) -> Result<(), Ending>
    where
        M: 'static,
    {
        let hub = Arc::clone(&self.hub);
        self.exports.as_mut().map_or(Ok(()), |exports| exports.take_notices(&hub, threads))
    }

    /// What the threads share.
    pub(crate) fn share<D: Device<Mapped = M>>(
        &self,
        device: Arc<D>,
        sender: Sender,
        plan: &Plan,
        output: Output,
        log: Log,
        client: Use,
    ) -> Arc<Shared<D>> {
        sender.count(plan.carried.link());
        Arc::new(Shared {
            device,
            sender,
            stripes: Stripes::new(self.spin),
            transfers: Transfers::new(self.spin),
            failures: Failures::default(),
            output,
            printing: Printing::new(plan.device_speaks),
            queue: Queue::new(self.buffers.commands, self.host.line, self.spin, self.expected.clone()),
            log,
            mirrors: Mirrors::new(plan.mirrored_memory, &self.host.budget),
            descriptor: Mutex::default(),
            hub: Arc::clone(&self.hub),
            links: Links::new(&self.host.budget),
            collectives: Collectives::new(plan.nccl.clone(), plan.nodes, self.hub.session(), &self.host.budget),
            recording: Recording::new(plan.cupti.clone(), &self.host.budget),
            turn: Turn::default(),
            client: Arc::new(client),
            carried: Arc::clone(&plan.carried),
        })
    }
}

/// A session whose threads do not run yet.
pub(crate) struct Built<D: Device> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) issuer: Issuer<D>,
    completer: Completer<D>,
    releaser: Releaser<D>,
    reader: Reader<D>,
    plan: Plan,
    wiring: Wiring<D::Mapped>,
    /// What a move has left behind, to be let go while the session runs and before it moves again.
    leftover: Option<Box<dyn FnOnce() + Send>>,
}

impl<D: Device> Built<D> {
    /// It may leave this worker, too.
    pub(crate) fn may_leave(&mut self, ends: MoveEnds) {
        self.plan.moves = Some(ends);
    }

    /// Does this beside the session's threads.
    pub(crate) fn do_beside(&mut self, leftover: impl FnOnce() + Send + 'static) {
        self.leftover = Some(Box::new(leftover));
    }

    /// Reserves the window, and makes what the threads own.
    pub(crate) fn of(shared: &Arc<Shared<D>>, mut plan: Plan, wiring: Wiring<D::Mapped>) -> Result<Self, Ending> {
        let window = reserve_window(&*shared.device, plan.ordinal)?;
        let asked = |error| Ending::Device { what: "asking what the device takes".into(), error };
        let costs = shared.device.costs().map_err(asked)?;
        let ledger = Ledger::new(plan.memory, costs, Arc::clone(&plan.used), plan.grants.take());
        let allowance = Allowance {
            windows: Windows::new(window),
            ledger: ledger.beside(Arc::clone(&wiring.beside)),
            budget: wiring.host.budget.clone(),
            granularity: plan.granularity.max(1),
            shared_memory: plan.shared_memory,
            buffers: wiring.buffers,
        };
        let functions = Arc::new(HostFunctions::default());
        let (completer, releaser, tasks) = Completer::new(Arc::clone(shared), wiring.spin);
        let uploads = Uploads::new(allowance.buffers.upload, &allowance.budget);
        let (cache, shared) = (plan.cache.take(), Arc::clone(shared));
        let own = (Arc::clone(&functions), Arc::clone(&uploads));
        let mut issuer = Issuer::new(Arc::clone(&shared), tasks, own.0, own.1, allowance, cache, wiring.spin);
        issuer.stands = std::mem::take(&mut plan.stands);
        let reader = Reader { shared: Arc::clone(&shared), functions, uploads };
        Ok(Self { shared, issuer, completer, releaser, reader, plan, wiring, leftover: None })
    }

    /// Runs reader, issuer and completer; the first to end says why.
    pub(crate) fn run(
        self,
        mut receiver: floe_transport::Receiver,
        bulk: Vec<BulkEnds>,
        channels: Option<Channels>,
        (threads, first): (Threads, Receiver<Ending>),
    ) -> Ending {
        let Self { shared, issuer, completer, releaser, reader, plan, wiring, mut leftover } = self;
        receiver.count(shared.carried.link());
        receiver.set_spin(wiring.spin);
        receiver.set_expected(wiring.expected);
        receiver.take_descriptors(plan.shared_memory > 0);
        let (errands, rest) = (issuer.errands(), Rest::of(&receiver));
        let parking =
            Parking::new(Arc::clone(&shared), channels.clone(), Arc::clone(&rest), threads.watchdog().clone());
        #[cfg(test)]
        crate::tests::moving::begins(&parking, &shared.device);
        let (ordinal, of_moves) = (plan.ordinal, parking.clone());
        let resumption = channels.zip(plan.resumption);
        let joins = Joins { joining: plan.joining, resumption, idle: plan.idle, exports: wiring.exports, bulk };
        let (moves, turns, end) = (plan.moves, plan.turns, plan.end);
        let leaves = Arc::clone(&errands);
        let start_leaving = || {
            let Some(ends) = moves else { return Ok(()) };
            let leaving = Leaving { shared: Arc::clone(&shared), errands: leaves, parking: of_moves, ends, ordinal };
            threads.start_on(&shared.device, "floe-leave", move || {
                // Ahead of the next move, which needs the same addresses.
                if let Some(leftover) = leftover.take() {
                    leftover();
                }
                leaving.run()
            })
        };
        let keep_turns = || {
            let Some(ends) = turns else { return Ok(()) };
            let mut turns = Turns::new(Arc::clone(&shared), Arc::clone(&errands), ends);
            threads.start_on(&shared.device, "floe-turn", move || {
                turns.run();
                None
            })
        };
        let started = start_own((&shared, &threads), (issuer, completer, releaser), (rest, receiver, reader))
            .and_then(|()| watch::end_when_ordered(end, &threads, |_| ()))
            .and_then(|()| keep_turns())
            .and_then(|()| start_leaving())
            .and_then(|()| joins.start(&shared, &threads, parking));
        let ending = threads.await_ending(&first, started);
        errands.close();
        ending
    }
}

/// Starts the threads that every session has.
fn start_own<D: Device>(
    (shared, threads): (&Arc<Shared<D>>, &Threads),
    (mut issuer, mut completer, mut releaser): (Issuer<D>, Completer<D>, Releaser<D>),
    (rest, receiver, reader): (Arc<Rest>, floe_transport::Receiver, Reader<D>),
) -> Result<(), Ending> {
    let (device, mut receiver) = (&shared.device, Some(receiver));
    threads
        .start_on(device, "floe-read", move || rest.run(receiver.take()?, |receiver| reader.run(receiver)).ending())?;
    threads.start_on(device, "floe-issue", move || match issuer.run() {
        Ok(()) => None,
        Err(Stop::ProtocolViolation(words)) => Some(Ending::ProtocolViolation(words)),
        Err(Stop::Link(error)) => Some(link_ending(&error)),
    })?;
    threads.start_on(device, "floe-complete", move || completer.run().err().map(|error| link_ending(&error)))?;
    threads.start_on(device, "floe-release", move || {
        releaser.run();
        None
    })
}

/// Ends the connections, when the client knows why.
pub(crate) fn end_session<D: Device>(shared: Arc<Shared<D>>, ending: &Ending) {
    if *ending == Ending::Moved {
        // Its connections are another worker's.
        return std::mem::forget(shared);
    }
    close_inputs(&shared);
    say_ended(&shared, ending);
    shared.sender.close();
    shared.stripes.close();
    // The process's end frees its device memory: the driver could wait for work that never ends before it frees it.
    std::mem::forget(shared);
}

/// Nothing more comes from the client or from other servers.
fn close_inputs<D: Device>(shared: &Shared<D>) {
    shared.turn.tell(None);
    drop(shared.links.end_all("the session is over"));
    shared.queue.close();
    shared.transfers.close();
}

/// Has a link that is to outlive its connections resumed by the worker; the link to use, and what resumes it.
fn resumable(link: Link, resumption: Option<&Resumption>) -> (Link, Option<Channels>) {
    let Some(resumption) = resumption else { return (link, None) };
    let (channels, link) = Channels::take_over(link, resumption.grace);
    channels.hear_goodbye();
    (link, Some(channels))
}

/// Reserves the vGPU's window at exactly its place.
fn reserve_window<D: Device>(device: &D, ordinal: u32) -> Result<Window, Ending> {
    let Some(window) = Window::of(ordinal) else {
        return Err(Ending::ProtocolViolation(format!("there is no address window for a vGPU of ordinal: {ordinal}")));
    };
    let what = || format!("reserving {:#x} bytes of device addresses at {:#x}", window.bytes, window.base);
    match device.reserve(window.bytes, DevicePtr(window.base)) {
        Ok(DevicePtr(at)) if at == window.base => Ok(window),
        Ok(at) => {
            let what = format!("{}: the driver offers {at:?} only", what());
            Err(Ending::Device { what, error: CudaError::OUT_OF_MEMORY })
        }
        Err(error) => Err(Ending::Device { what: what(), error }),
    }
}

/// The purpose of further connections.
struct Joins {
    joining: Joining,
    resumption: Option<(Channels, Resumption)>,
    idle: Option<Duration>,
    exports: Option<Exports>,
    /// Bulk connections of another worker's.
    bulk: Vec<BulkEnds>,
}

impl Joins {
    /// Takes those that join, and watches them where the session outlives them.
    fn start<D: Device>(self, shared: &Arc<Shared<D>>, threads: &Threads, parking: Parking<D>) -> Result<(), Ending> {
        if let Some(exports) = self.exports {
            start_exports(shared, threads, exports)?;
        }
        if let Some(limit) = self.idle {
            let used = Arc::clone(&shared.client);
            threads.start("floe-idle", move || Some(watch::until_idle(&used, limit)))?;
        }
        let Some((channels, resumption)) = self.resumption else {
            return joining::take_all(shared, self.joining, threads);
        };
        let (watched, log, broken) = (channels.clone(), shared.log.clone(), resumption.broken);
        let (used, watchdog) = (Arc::clone(&shared.client), threads.watchdog().clone());
        threads.start("floe-watch", move || {
            let ending = watch::until_given_up(&watched, &used, &broken, &log);
            watchdog.client_left();
            ending
        })?;
        let asking = channels.clone();
        threads.start("floe-heartbeat", move || {
            // A client that does not answer may be stopped. If its machine is gone, the kernel ends the connection.
            while asking.await_doubt().is_some() {}
            None
        })?;
        if let Some(client) = resumption.client {
            let watched = channels.clone();
            threads.start("floe-client", move || watch::until_gone(&client, &watched))?;
        }
        let shared = Arc::clone(shared);
        let reception = Reception::new(shared, channels, resumption.bulk_connections, threads.clone(), parking);
        for (channel, sender, receiver) in self.bulk {
            reception.carry(channel, (sender, receiver))?;
        }
        reception.take_all(self.joining)
    }
}

/// Tells the client, unless it does not listen.
fn say_ended<D: Device>(shared: &Arc<Shared<D>>, ending: &Ending) {
    let Some(error) = ending.told() else { return };
    let (said, hear) = mpsc::channel();
    let (shared, words) = (Arc::clone(shared), ending.to_string());
    let spawned = std::thread::Builder::new().spawn(move || {
        // The link may be over; the daemon still hears why.
        let _ = shared.output.send_new(&shared.sender);
        let _ = shared.ended(error.code(), &words);
        let _ = said.send(());
    });
    if spawned.is_ok() {
        let _ = hear.recv_timeout(LAST_WORD);
    }
}
