//! A session from its first command to its end: the threads and how they end.
//! In: a device whose context exists, the connection, what the session may have. Out: why the session ended.
//! It does not end the process and frees nothing on the device: that is the caller's, who ends the process.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_abi::CudaError;
use floe_transport::{Expected, Link, LinkError, Spin, Stripes, Transfers};
use floe_wire::DevicePtr;
use thiserror::Error;

use crate::cache::Cache;
use crate::completer::Completer;
use crate::device::Device;
use crate::failures::Failures;
use crate::host_functions::HostFunctions;
use crate::log::Log;
use crate::mirrors::Mirrors;
use crate::output::Output;
use crate::queue::Queue;
use crate::reader::{InputEnd, Reader};
use crate::session::{Allowance, Session, Stop};
use crate::shared::Shared;
use crate::staging::{RingBytes, Uploads};
use crate::stripes::{self, Joining, PullEnd};
use crate::window::Window;

/// How long the last word to a client that does not read may take.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What a session may have.
#[derive(Debug)]
pub struct Plan {
    /// The vGPU's ordinal in the client: it chooses the address window.
    pub ordinal: u32,
    /// Bytes of device memory; 0: all there is.
    pub memory: u64,
    /// Physical memory comes in multiples of this many bytes.
    pub granularity: u64,
    /// The most bytes of host memory it may share with its client; 0: none.
    pub shared_memory: u64,
    /// Bytes of pinned memory for its data on their way; streams that are held may make more necessary.
    pub transport_memory: u64,
    /// Where contents of modules are kept for later sessions, where they are.
    pub cache: Option<Cache>,
    /// Bytes of physical memory the session holds, kept up to date for whoever reports it.
    pub used: Arc<AtomicU64>,
    /// Where connections come from that join the session.
    pub joining: Joining,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Ending {
    /// The client closed its connection.
    #[error("the client left")]
    ClientLeft,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Link(String),
    /// The client broke the contract.
    #[error("the client broke the contract: {0}")]
    Contract(String),
    /// The device cannot serve the session.
    #[error("the device cannot serve the session: {what}: {error}")]
    Device {
        /// What was being done.
        what: String,
        /// The driver's error.
        error: CudaError,
    },
    /// The worker itself failed.
    #[error("the worker failed: {0}")]
    Bug(String),
}

impl Ending {
    /// The CUDA error the client is told; `None` when there is nobody to tell.
    #[must_use]
    pub fn told(&self) -> Option<CudaError> {
        match self {
            Self::ClientLeft | Self::Link(_) => None,
            Self::Contract(_) => Some(CudaError::INVALID_VALUE),
            Self::Device { error, .. } => Some(*error),
            Self::Bug(_) => Some(CudaError::UNKNOWN),
        }
    }
}

/// Serves a session until it ends. The client has been told why, where there is one to tell.
pub fn serve<D: Device>(device: Arc<D>, link: Link, plan: Plan, output: Output, log: Log) -> Ending {
    // The daemon's limit was for the handshake.
    let timed = link.limit_writes(None);
    let spin = Spin::of_process();
    let (sender, mut receiver) = link.split();
    let expected = Expected::default();
    receiver.set_spin(spin);
    receiver.set_expected(expected.clone());
    receiver.take_descriptors(plan.shared_memory > 0);
    let shared = Arc::new(Shared {
        device,
        sender,
        stripes: Stripes::default(),
        transfers: Transfers::new(spin),
        failures: Failures::default(),
        output,
        queue: Queue::new(spin, expected),
        log,
        mirrors: Mirrors::default(),
        descriptor: Mutex::default(),
        used: Arc::clone(&plan.used),
    });
    let ending = match (timed, reserve_window(&*shared.device, plan.ordinal)) {
        (Err(error), _) => Ending::Link(error.to_string()),
        (_, Err(ending)) => ending,
        (_, Ok(window)) => {
            let allowance = Allowance {
                window,
                quota: plan.memory,
                granularity: plan.granularity.max(1),
                shared_memory: plan.shared_memory,
                rings: RingBytes::of(plan.transport_memory),
            };
            run_threads(&shared, receiver, allowance, spin, plan.cache, plan.joining)
        }
    };
    shared.queue.close();
    shared.transfers.close();
    say_ended(&shared, &ending);
    shared.sender.close();
    shared.stripes.close();
    ending
}

/// Reserves the vGPU's window at exactly its place.
fn reserve_window<D: Device>(device: &D, ordinal: u32) -> Result<Window, Ending> {
    let Some(window) = Window::of(ordinal) else {
        return Err(Ending::Contract(format!("there is no address window for a vGPU of ordinal: {ordinal}")));
    };
    let what = || format!("reserving {:#x} bytes of device addresses at {:#x}", window.bytes, window.base);
    match device.reserve(window.bytes, floe_abi::DevicePtr(window.base)) {
        Ok(floe_abi::DevicePtr(at)) if at == window.base => Ok(window),
        Ok(floe_abi::DevicePtr(at)) => {
            let what = format!("{}: the driver offers {:?} only", what(), DevicePtr(at));
            Err(Ending::Device { what, error: CudaError::OUT_OF_MEMORY })
        }
        Err(error) => Err(Ending::Device { what: what(), error }),
    }
}

/// Runs reader, issuer and completer; the first to end says why.
fn run_threads<D: Device>(
    shared: &Arc<Shared<D>>,
    receiver: floe_transport::Receiver,
    allowance: Allowance,
    spin: Spin,
    cache: Option<Cache>,
    joining: Joining,
) -> Ending {
    let functions = Arc::new(HostFunctions::default());
    let (completer, tasks) = Completer::new(Arc::clone(shared), spin);
    let uploads = Uploads::new(allowance.rings.upload);
    let session =
        Session::new(Arc::clone(shared), tasks, Arc::clone(&functions), Arc::clone(&uploads), allowance, cache);
    let (endings, first) = mpsc::channel();
    let reader = Reader { shared: Arc::clone(shared), functions, uploads };
    let threads = [
        start("floe-read", &endings, Some(Arc::clone(&shared.device)), move || match reader.run(receiver) {
            InputEnd::Closed => Some(Ending::ClientLeft),
            InputEnd::Contract(words) => Some(Ending::Contract(words)),
            InputEnd::Link(error) => Some(link_ending(&error)),
        }),
        start("floe-issue", &endings, Some(Arc::clone(&shared.device)), move || match session.run() {
            Ok(()) => None,
            Err(Stop::Contract(words)) => Some(Ending::Contract(words)),
            Err(Stop::Link(error)) => Some(link_ending(&error)),
        }),
        start("floe-complete", &endings, Some(Arc::clone(&shared.device)), move || match completer.run() {
            Ok(()) => None,
            Err(error) => Some(link_ending(&error)),
        }),
    ];
    let joined = join_all(shared, joining, endings);
    let threads = threads.into_iter().chain([joined]);
    if let Some(error) = threads.into_iter().find_map(Result::err) {
        return Ending::Bug(format!("a thread does not start: {error}"));
    }
    first.recv().unwrap_or_else(|_| Ending::Bug("every thread is gone".into()))
}

/// Has connections that join carry bulk data, each with a thread that reads it.
fn join_all<D: Device>(
    shared: &Arc<Shared<D>>,
    joining: Joining,
    endings: mpsc::Sender<Ending>,
) -> std::io::Result<()> {
    let shared = Arc::clone(shared);
    let of_all = endings.clone();
    start::<D>("floe-join", &endings, None, move || joining.each(|link| join(&shared, link, &of_all)).err())
}

fn join<D: Device>(shared: &Arc<Shared<D>>, link: Link, endings: &mpsc::Sender<Ending>) -> Result<(), Ending> {
    // The daemon's limit was for the handshake.
    link.limit_writes(None).map_err(|error| Ending::Link(error.to_string()))?;
    let (sender, receiver) = link.halves();
    let no_thread = |error: std::io::Error| Ending::Bug(format!("a thread does not start: {error}"));
    shared.stripes.add(sender).map_err(no_thread)?;
    let shared = Arc::clone(shared);
    let read = move || match stripes::read(&shared, receiver) {
        PullEnd::Closed => Some(Ending::ClientLeft),
        PullEnd::Over => None,
        PullEnd::Contract(words) => Some(Ending::Contract(words)),
        PullEnd::Link(error) => Some(link_ending(&error)),
    };
    start::<D>("floe-bulk-read", endings, None, read).map_err(no_thread)
}

/// Starts a thread that reports why the session is over when it is the first to know, also when it panics. A thread that
/// ends because the others do knows no reason.
fn start<D: Device>(
    name: &str,
    endings: &mpsc::Sender<Ending>,
    device: Option<Arc<D>>,
    body: impl FnOnce() -> Option<Ending> + Send + 'static,
) -> std::io::Result<()> {
    let endings = endings.clone();
    let run = move || {
        if let Some(Err(error)) = device.map(|device| device.enter()) {
            return Some(Ending::Device { what: "entering the context".into(), error });
        }
        body()
    };
    std::thread::Builder::new().name(name.into()).spawn(move || {
        let ending = std::panic::catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Some(Ending::Bug(panic_words(&*panic))));
        // Another thread may have ended the session before.
        let _ = ending.map(|ending| endings.send(ending));
    })?;
    Ok(())
}

/// A client that goes away shows as a broken connection to whoever is just sending.
pub(crate) fn link_ending(error: &LinkError) -> Ending {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    match error {
        LinkError::System { source, .. } if matches!(source.kind(), BrokenPipe | ConnectionReset) => Ending::ClientLeft,
        other => Ending::Link(other.to_string()),
    }
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".into())
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
