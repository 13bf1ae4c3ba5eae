//! The servers of a command: those of `--on`, else of the settings. Lists have this machine's daemon beside those of the settings,
//! other commands where the settings name none.
//! In: names. Out: their answers. It connects for a few questions at a time and keeps no connection.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use floe_nvml::Reading;
use floe_session::settings::{Credentials, ProcessSource, Settings};
use floe_session::{ConnectError, Inquiry};
use floe_wire::{Call, ListGpus, ListSessions, ReadTelemetry, printable};
use rustix::fs::{Access, access};
use serde::Serialize;

/// A GPU that a server offers.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GpuRow {
    /// The name that the user gave.
    pub(crate) server: String,
    pub(crate) index: u32,
    pub(crate) name: String,
    /// `nvidia` or `cpu`.
    pub(crate) kind: String,
    /// `GPU-…` as NVIDIA writes it.
    pub(crate) uuid: String,
    /// `9.0`
    pub(crate) compute_capability: String,
    /// `13.0`
    pub(crate) driver: String,
    /// Bytes.
    pub(crate) memory: u64,
    /// Bytes not in any session's blocks.
    pub(crate) free: u64,
    /// Bytes of the largest quota that a session could be guaranteed now.
    pub(crate) guarantee: u64,
    /// Thousandths of its time that nobody was promised.
    pub(crate) share: u32,
    pub(crate) sessions: u32,
}

/// A session of a server.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SessionRow {
    /// The name that the user gave.
    pub(crate) server: String,
    pub(crate) session: u64,
    pub(crate) gpu: u32,
    /// Host and address of the client.
    pub(crate) client: String,
    /// The program's process id on its host.
    pub(crate) pid: u32,
    pub(crate) program: String,
    /// Quota in bytes; 0 for all there is. JSON keeps its first name.
    #[serde(rename = "memory")]
    pub(crate) quota: u64,
    /// Bytes in blocks.
    pub(crate) used: u64,
    /// Seconds since the attach.
    pub(crate) seconds: u64,
    /// The worker's process id on the server.
    pub(crate) worker: u32,
    /// `tcp`, `unix` or `shm`.
    pub(crate) transport: String,
    /// Whether the quota is a guarantee; else the session takes what is left.
    pub(crate) guaranteed: bool,
    /// The user's name on the server; empty where it knows none.
    pub(crate) user: String,
    /// Thousandths of the GPU's time that it gets whenever it has work; 0: what others' shares leave.
    pub(crate) share: u32,
    /// Its weight among its user's sessions; 0: none of its own.
    pub(crate) weight: u32,
    /// Its priority class: `batch` or `latency`.
    pub(crate) class: &'static str,
    /// Milliseconds for which it had the GPU while turns were taken.
    pub(crate) gpu_ms: u64,
    /// Milliseconds for which turns were taken on its GPU.
    pub(crate) of_ms: u64,
    /// How often it got another worker.
    pub(crate) moves: u32,
    /// Bytes that its link has carried from the client.
    pub(crate) received: u64,
    /// Bytes that its link has carried to the client.
    pub(crate) sent: u64,
    /// Requests that were answered.
    pub(crate) waits: u64,
    /// The moment of these three, in milliseconds after the attach.
    pub(crate) counted_ms: u64,
    /// What `floe top` has found between two looks.
    #[serde(skip)]
    pub(crate) rate: Option<Rate>,
}

/// What a session's link carries in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Bytes from the client.
    pub(crate) received: u64,
    /// Bytes to the client.
    pub(crate) sent: u64,
    /// Requests that are answered.
    pub(crate) waits: u64,
}

impl SessionRow {
    /// The part of the time for which it had the GPU while turns were taken; 0 where none were.
    #[allow(clippy::cast_precision_loss, reason = "a part of a whole")]
    pub(crate) fn gpu_time(&self) -> f64 {
        if self.of_ms == 0 { 0.0 } else { self.gpu_ms as f64 / self.of_ms as f64 }
    }

    /// What the session asked for of the GPU's time, and what it had while turns were taken.
    pub(crate) fn share(&self) -> String {
        let mut words = Vec::new();
        if self.share != 0 {
            words.push(floe_size::percent(self.share));
        }
        if self.weight != 0 {
            words.push(format!("weight {}", self.weight));
        }
        if self.class != "batch" {
            words.push(self.class.to_owned());
        }
        let thousandths = self.gpu_ms.saturating_mul(1000).checked_div(self.of_ms);
        if let Some(had) = thousandths.and_then(|had| u32::try_from(had).ok()) {
            words.push(format!("had {}", floe_size::percent(had)));
        }
        if words.is_empty() { "-".to_owned() } else { words.join(", ") }
    }
}

/// The settings of environment and TOML file.
pub(crate) fn settings() -> Result<Settings> {
    Ok(Settings::read(&ProcessSource)?)
}

/// The most servers that are asked at once: each takes a thread and a descriptor, of which most users may have 1024.
const AT_ONCE: usize = 256;
/// Sessions of one server that are shown. A server may claim as many as a frame holds.
pub(crate) const MOST_SESSIONS: usize = 4096;
/// GPUs of one server that are shown.
pub(crate) const MOST_GPUS: usize = 256;
/// The default address of this machine's daemon.
const THIS_MACHINE: &str = "tcp://127.0.0.1";

/// The servers of a command that lists.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) names: Vec<String>,
    /// Whether the first one is this machine's daemon, which nobody has named, and which need not be there.
    is_own_first: bool,
}

impl Listed {
    /// This machine's daemon, where it may be, before those that somebody has named.
    fn of(own: Option<String>, mut names: Vec<String>) -> Self {
        let own = own.filter(|own| !names.contains(own));
        let is_own_first = own.is_some() || names.is_empty();
        if is_own_first {
            names.insert(0, own.unwrap_or_else(|| THIS_MACHINE.to_owned()));
        }
        Self { names, is_own_first }
    }

    /// Whether nobody has named a server.
    pub(crate) fn is_own_only(&self) -> bool {
        self.is_own_first && self.names.len() == 1
    }

    /// Whether the list is of others, too, and this one is the daemon that nobody has named.
    fn is_beside_others(&self, index: usize) -> bool {
        self.is_own_first && index == 0 && self.names.len() > 1
    }
}

/// All servers that this user has: those of `--on`, else this machine's daemon and those of the settings.
pub(crate) fn all(on: &[String]) -> Result<Listed> {
    let own = if on.is_empty() { socket_of_this_machine() } else { None };
    Ok(Listed::of(own, named_by_user(on)?))
}

/// The one server of a command that changes something there: the named one, else that of the settings, else this machine's
/// daemon by its Unix socket, where that is.
pub(crate) fn one(on: Option<&str>) -> Result<String> {
    if let Some(server) = on {
        return Ok(server.to_owned());
    }
    match &*named_by_user(&[])? {
        [] => Ok(of_this_machine()),
        [server] => Ok(server.clone()),
        several => anyhow::bail!("which server\n  name it with --on: {}", several.join(", ")),
    }
}

/// This machine's daemon: by its Unix socket, where this process may use one, else by its TCP address.
pub(crate) fn of_this_machine() -> String {
    socket_of_this_machine().unwrap_or_else(|| THIS_MACHINE.to_owned())
}

/// The daemon's socket where it makes one by itself, for this user or for all, if this process may connect to it.
pub(crate) fn socket_of_this_machine() -> Option<String> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(std::path::PathBuf::from);
    let folders = runtime.into_iter().chain(["/run".into()]);
    let socket =
        folders.map(|folder| folder.join("floe/floed.sock")).find(|socket| access(socket, Access::WRITE_OK).is_ok())?;
    Some(format!("unix://{}", socket.display()))
}

/// The servers that flags or settings name.
pub(crate) fn named_by_user(on: &[String]) -> Result<Vec<String>> {
    if !on.is_empty() {
        return Ok(on.to_vec());
    }
    let mut servers = Vec::new();
    for device in settings()?.devices {
        if !servers.contains(&device.place.server) {
            servers.push(device.place.server);
        }
    }
    Ok(servers)
}

/// Whether there is no server at the address, as opposed to one that refuses or fails.
pub(crate) fn is_nobody(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ConnectError::Unreachable { .. }))
}

fn ask<M: Call>(server: &str, credentials: &Credentials, message: &M) -> Result<Vec<u8>> {
    Ok(Inquiry::open(server, credentials)?.ask(message)?)
}

/// Asks all servers at once, so that none waits for another, and shows one that is reached by several names by the first. A
/// server that does not answer is named on stderr and makes the exit code 1. One that nobody has named does not, beside others: it
/// may be absent without a word. Of one with more rows than `most` the rest is counted on stderr.
pub(crate) fn each<M: Call + Sync, R>(
    servers: &Listed,
    message: &M,
    (rows_of, most): (RowsOf<R>, usize),
) -> Result<(Vec<R>, ExitCode)> {
    let (mut rows, mut seen) = (Vec::new(), BTreeSet::new());
    let mut code = ExitCode::SUCCESS;
    let answers = answers(&servers.names, message)?;
    for (index, (server, answer)) in servers.names.iter().zip(answers).enumerate() {
        let mut is_new = |identity: Identity| identity.is_none_or(|identity| seen.insert(identity));
        let shown = answer.map(|(identity, body)| is_new(identity).then_some(body));
        match shown.and_then(|body| body.map_or_else(|| Ok(Vec::new()), |body| rows_of(server, &body))) {
            Ok(answer) => {
                if answer.len() > most {
                    eprintln!("floe: {server}: rows that are not shown: {}", answer.len() - most);
                }
                rows.extend(answer.into_iter().take(most));
            }
            Err(error) if servers.is_beside_others(index) && is_nobody(&error) => {}
            Err(error) => {
                eprintln!("floe: {error:#}");
                if !servers.is_beside_others(index) {
                    code = ExitCode::FAILURE;
                }
            }
        }
    }
    Ok((rows, code))
}

/// What tells a server from every other, by whatever address it is reached; `None` where it has not proved it.
pub(crate) type Identity = Option<[u8; 32]>;
/// A server's identity, and its reply. A single one is not asked who it is.
type Answer = Result<(Identity, Vec<u8>)>;

/// The answers of these servers, in their order.
fn answers<M: Call + Sync>(servers: &[String], message: &M) -> Result<Vec<Answer>> {
    let credentials = &settings()?.credentials;
    if let [server] = servers {
        return Ok(vec![ask(server, credentials, message).map(|body| (None, body))]);
    }
    Ok(each_by_many(servers, |server| ask_with_identity(server, credentials, message)))
}

/// What `asks` says of each, in their order. At most [`AT_ONCE`] are asked at once, and fewer where the system has no more threads.
pub(crate) fn each_by_many<A: Send>(servers: &[String], asks: impl Fn(&str) -> A + Sync) -> Vec<A> {
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let ask_what_is_left = || {
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, servers.get(index)?)));
        while let Some((index, server)) = take() {
            let answer = asks(server);
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((index, answer));
        }
    };
    thread::scope(|scope| {
        // This thread asks, too, and alone if there is no other.
        for _ in 1..servers.len().min(AT_ONCE) {
            if thread::Builder::new().name("ask".into()).spawn_scoped(scope, ask_what_is_left).is_err() {
                break;
            }
        }
        ask_what_is_left();
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// What reads a server's reply.
type RowsOf<R> = fn(&str, &[u8]) -> Result<Vec<R>>;

fn ask_with_identity<M: Call>(server: &str, credentials: &Credentials, message: &M) -> Answer {
    let (identity, inquiry) = Inquiry::open(server, credentials)?.identify()?;
    Ok((identity, inquiry.ask(message)?))
}

/// The GPUs of a server.
pub(crate) fn gpus_of(server: &str) -> Result<Vec<GpuRow>> {
    Ok(offer_of(server, &settings()?.credentials)?.gpus)
}

/// Two GPUs of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) gpu: u32,
    pub(crate) peer: u32,
    /// Whether kernels of the first reach memory of the second.
    pub(crate) is_reached: bool,
}

/// The pairs of these GPUs of a server.
pub(crate) fn pairs_of(server: &str, gpus: &[GpuRow]) -> Result<Vec<Pair>> {
    let gpus = gpus.iter().map(|gpu| gpu.index).collect();
    let body = ask(server, &settings()?.credentials, &ReadTelemetry { host: "", gpus, slow: false, lasting: true })?;
    let reply =
        ReadTelemetry::decode_reply(&body).with_context(|| format!("{server} does not speak floe's protocol"))?;
    let mut pairs = Vec::new();
    for gpu in &reply.gpus {
        pairs.extend(gpu.peers.iter().map(|peer| Pair {
            gpu: gpu.index,
            peer: peer.index,
            // NVML_P2P_STATUS_OK.
            is_reached: peer.readings.iter().any(|it| it.number == Reading::PeerRead.number() && it.value == 0),
        }));
    }
    Ok(pairs)
}

/// What a server has for programs.
pub(crate) struct Offer {
    pub(crate) gpus: Vec<GpuRow>,
    /// Whether its workers have NCCL to load.
    pub(crate) nccl: bool,
}

/// The offer of a server that gets these credentials.
pub(crate) fn offer_of(server: &str, credentials: &Credentials) -> Result<Offer> {
    offer(server, &ask(server, credentials, &ListGpus {})?)
}

/// The rows of a reply to `ListGpus`.
pub(crate) fn gpu_rows(server: &str, body: &[u8]) -> Result<Vec<GpuRow>> {
    Ok(offer(server, body)?.gpus)
}

fn offer(server: &str, body: &[u8]) -> Result<Offer> {
    let reply = ListGpus::decode_reply(body).with_context(|| format!("{server} does not speak floe's protocol"))?;
    let row = |gpu: floe_wire::Gpu<'_>| GpuRow {
        server: server.to_owned(),
        index: gpu.index,
        name: printable(gpu.name),
        kind: printable(gpu.kind),
        uuid: uuid_text(gpu.uuid),
        compute_capability: format!("{}.{}", gpu.compute_major, gpu.compute_minor),
        driver: format!("{}.{}", gpu.driver / 1000, gpu.driver % 1000 / 10),
        memory: gpu.memory,
        free: gpu.free,
        guarantee: gpu.guarantee,
        share: gpu.share,
        sessions: gpu.sessions,
    };
    let nccl = reply.nccl;
    Ok(Offer { gpus: reply.gpus.into_iter().map(row).collect(), nccl })
}

/// The sessions of a server.
pub(crate) fn sessions_of(server: &str) -> Result<Vec<SessionRow>> {
    session_rows(server, &ask(server, &settings()?.credentials, &ListSessions {})?)
}

/// The rows of a reply to `ListSessions`.
pub(crate) fn session_rows(server: &str, body: &[u8]) -> Result<Vec<SessionRow>> {
    let reply = ListSessions::decode_reply(body).with_context(|| format!("{server} does not speak floe's protocol"))?;
    let row = |session: floe_wire::SessionRow<'_>| SessionRow {
        server: server.to_owned(),
        session: session.session,
        gpu: session.gpu,
        client: printable(session.client),
        pid: session.pid,
        program: printable(session.program),
        quota: session.memory,
        used: session.used,
        seconds: session.seconds,
        worker: session.worker,
        transport: printable(session.transport),
        guaranteed: session.guaranteed,
        user: printable(session.user),
        share: session.share,
        weight: session.weight,
        class: if session.class == 0 { "batch" } else { "latency" },
        gpu_ms: session.gpu_ms,
        of_ms: session.of_ms,
        moves: session.moves,
        received: session.received,
        sent: session.sent,
        waits: session.waits,
        counted_ms: session.counted_ms,
        rate: None,
    };
    Ok(reply.sessions.into_iter().map(row).collect())
}

/// What a server says of itself at one time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    pub(crate) gpus: Vec<GpuRow>,
    pub(crate) sessions: Vec<SessionRow>,
    pub(crate) loads: Vec<Load>,
    pub(crate) identity: Identity,
}

/// How busy a GPU is; `None` where its server cannot read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// The GPU's index on its server.
    pub(crate) gpu: u32,
    /// Percent of the time during which a kernel ran.
    pub(crate) utilization: Option<u64>,
    /// Degrees Celsius.
    pub(crate) temperature: Option<u64>,
    /// Milliwatts.
    pub(crate) power: Option<u64>,
}

/// Asks a server for its GPUs, its sessions and its GPUs' readings, on one connection.
pub(crate) fn look(server: &str, credentials: &Credentials) -> Result<Look> {
    let (identity, inquiry) = Inquiry::open(server, credentials)?.identify()?;
    let (gpus, inquiry) = inquiry.ask_first(&ListGpus {})?;
    let (sessions, inquiry) = inquiry.ask_first(&ListSessions {})?;
    let readings = inquiry.ask(&ReadTelemetry { host: "", gpus: Vec::new(), slow: false, lasting: false })?;
    let readings =
        ReadTelemetry::decode_reply(&readings).with_context(|| format!("{server} does not speak floe's protocol"))?;
    let load = |gpu: &floe_wire::GpuTelemetry<'_>| {
        let reading = |wanted: Reading| gpu.readings.iter().find(|it| it.number == wanted.number()).map(|it| it.value);
        Load {
            gpu: gpu.index,
            utilization: reading(Reading::GpuUtilization),
            temperature: reading(Reading::Temperature),
            power: reading(Reading::Power),
        }
    };
    Ok(Look {
        gpus: gpu_rows(server, &gpus)?,
        sessions: session_rows(server, &sessions)?,
        loads: readings.gpus.iter().map(load).collect(),
        identity,
    })
}

fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::from("GPU-");
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Bytes as text: in GiB from one GiB on, else in MiB.
pub(crate) fn size(bytes: u64) -> String {
    const MIB: f64 = (1_u32 << 20) as f64;
    #[allow(clippy::cast_precision_loss, reason = "a size with one decimal")]
    let mib = bytes as f64 / MIB;
    if mib >= 1024.0 { format!("{:.1} GiB", mib / 1024.0) } else { format!("{mib:.0} MiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_this_machines_daemon_before_the_named_ones_and_each_name_once() {
        let of = |own: Option<&str>, names: &[&str]| {
            let listed = Listed::of(own.map(str::to_owned), names.iter().map(|name| (*name).to_owned()).collect());
            (listed.names.join(" "), listed.is_own_only(), listed.is_beside_others(0))
        };
        assert_eq!(of(Some("unix:///s"), &["a", "b"]), ("unix:///s a b".to_owned(), false, true));
        assert_eq!(of(Some("unix:///s"), &["a", "unix:///s"]), ("a unix:///s".to_owned(), false, false));
        assert_eq!(of(None, &["a"]), ("a".to_owned(), false, false));
        assert_eq!(of(Some("unix:///s"), &[]), ("unix:///s".to_owned(), true, false));
        assert_eq!(of(None, &[]), (THIS_MACHINE.to_owned(), true, false));
    }

    #[test]
    fn many_servers_are_asked_by_few_threads_and_answer_in_their_order() {
        let servers: Vec<String> = (0..10_000).map(|number: u32| number.to_string()).collect();
        let threads = Mutex::new(BTreeSet::new());
        let asked = each_by_many(&servers, |server| {
            threads.lock().expect("whole").insert(format!("{:?}", thread::current().id()));
            server.to_owned()
        });
        let count = threads.into_inner().expect("whole").len();
        assert!(asked == servers && count <= AT_ONCE, "{count} threads");
    }

    #[test]
    fn a_uuid_is_written_as_nvidia_writes_it() {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(uuid_text(&bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!((size(141 << 30), size(5 << 20), size(0)), ("141.0 GiB".into(), "5 MiB".into(), "0 MiB".into()));
    }
}
