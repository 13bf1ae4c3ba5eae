//! Why the daemon cannot start or continue. Each message names the thing and the cause once, then says what to do. The
//! cause is within the sentence, so no error has a source that repeats it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use floe_settings::SettingsError;
use floe_transport::{AddressError, LinkError, TlsError, plain};

/// Why the daemon cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A setting's value or the settings file cannot be read.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An address that cannot be parsed.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An address that cannot be listened on.
    #[error("cannot listen on {address}: {}\n  another server is there, or name another address", source.reason())]
    Listen {
        /// The address.
        address: String,
        /// The cause. Its name is raw, so that `thiserror` does not make it a source: the sentence contains it.
        r#source: LinkError,
    },
    /// What systemd has handed over is nothing to listen on.
    #[error(
        "cannot use what systemd handed over: {what}: {reason}\n  let its socket unit name paths and TCP addresses with \
         ListenStream=, without Accept="
    )]
    Handed {
        /// The descriptor with its name, or the variable.
        what: String,
        /// Why.
        reason: &'static str,
    },
    /// The address for figures cannot be listened on.
    #[error("cannot listen on {address} for figures: {}\n  name another with --metrics", plain(source))]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// Why.
        r#source: io::Error,
    },
    /// A connection's link failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// An address that others can reach needs authentication.
    #[error(
        "refusing to listen on {0} without authentication\n  omit --no-token, listen on a loopback address, or add --insecure"
    )]
    Insecure(String),
    /// A policy says what each user may have, and without a token nobody is known.
    #[error(
        "--policy and --no-token are both set: without a token nobody that comes by TCP is known\n  omit one of them"
    )]
    PolicyWithoutToken,
    /// A file about users cannot be used.
    #[error(transparent)]
    Users(#[from] floe_users::FileError),
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// TLS is required, but there is no certificate.
    #[error("TLS is required, but this server has no certificate\n  name one with --tls-certificate and --tls-key")]
    NoCertificate,
    /// Certificates of clients either are asked for beside the token, or name users in its place.
    #[error("--tls-client-authorities and --tls-user-authorities are both set\n  omit one of them")]
    TwoAuthorities,
    /// Nobody's certificates are looked at.
    #[error(
        "--tls-revocations needs certificates of clients\n  name their authorities with --tls-user-authorities or \
         --tls-client-authorities"
    )]
    NoAuthorities,
    /// TLS is the only protection allowed, and another one is allowed too.
    #[error("--tls-only and {0} are both set\n  omit one of them, or write {0}=no")]
    TlsOnly(&'static str),
    /// The daemon cannot run as this user.
    #[error(
        "cannot run as the user {name}: {reason}\n  make the user: useradd --system {name}; or name another with --user"
    )]
    User {
        /// The user.
        name: String,
        /// The cause.
        reason: String,
    },
    /// The operator requires a sandbox that this kernel cannot provide.
    #[error("the sandbox is required and incomplete: {0}\n  a newer kernel has it, or leave --require-sandbox away")]
    Unprotected(String),
    /// The sandbox is both required and switched off.
    #[error("the sandbox is both required and switched off\n  omit --no-sandbox or --require-sandbox")]
    Sandbox,
    /// The token file can be neither made nor read.
    #[error("the token file cannot be used: {path}: {}\n  name another with --token-file", plain(source))]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        r#source: io::Error,
    },
    /// Others can read the token.
    #[error("the token file can be read by others (mode {mode:o}): {path}\n  chmod 600 {path}")]
    TokenMode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user owns the token file, and may change or know the token.
    #[error(
        "the token file belongs to another user (id {owner}): {path}\n  give it to the server's own user with chown, or name another with --token-file"
    )]
    TokenOwner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// The token can be guessed.
    #[error(
        "the token has fewer than 32 characters ({characters}): {path}\n  remove the file: the next start makes a new one, and clients need a copy of it"
    )]
    TokenShort {
        /// The file.
        path: PathBuf,
        /// The token's length.
        characters: usize,
    },
    /// The token file is empty.
    #[error("the token file is empty: {0}\n  remove it: the next start makes a new one")]
    TokenEmpty(PathBuf),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// The worker's executable does not start.
    #[error(
        "the worker does not start: {path}: {}\n  install all of floe from one build, or name it with --worker",
        plain(source)
    )]
    Worker {
        /// The executable.
        path: PathBuf,
        /// Why.
        r#source: io::Error,
    },
    /// The worker could not list the devices of the device library.
    #[error("no device library can be used (asked for: {library}): {reason}\n  run `floe doctor` for details")]
    Probe {
        /// The library that the operator asked for.
        library: String,
        /// The worker's words.
        reason: String,
    },
    /// The operator named an NCCL that is not there.
    #[error("--nccl names no file: {0}\n  name a libnccl.so.2, auto or off")]
    Nccl(String),
    /// The operator named a CUPTI that is not there.
    #[error("--cupti names no file: {0}\n  name a libcupti.so.13, auto or off")]
    Cupti(String),
    /// MPS is asked for and cannot be had.
    #[error("--mps: {0}\n  omit --mps: sessions then have slices of the GPU's time")]
    Mps(String),
    /// Workers cannot run as users of their own.
    #[error(
        "--worker-ids {ids}: {reason}\n  docs/sandbox.md says what it needs, or omit it: workers then share the server's user"
    )]
    WorkerIds {
        /// The ids, as the operator wrote them.
        ids: String,
        /// Why not.
        reason: String,
    },
    /// Users' workers cannot be limited together.
    #[error(
        "the policy limits host-memory, processors or tasks: {0}\n  docs/guide/users.md says what it needs, or leave these keys away"
    )]
    Groups(String),
    /// The launcher has ended, and all workers with it.
    #[error("the launcher of workers has ended, and all sessions with it\n  start the server again")]
    Launcher,
    /// The operator named a GPU that does not exist.
    #[error("no such GPU: {index}\n  there are {count}, counted from 0")]
    Gpu {
        /// The index named.
        index: u32,
        /// The number of GPUs.
        count: usize,
    },
    /// Another system call failed.
    #[error("{what}: {}", plain(source))]
    System {
        /// What the daemon cannot do, as a clause that begins with "cannot".
        what: &'static str,
        /// The cause.
        r#source: io::Error,
    },
}

impl DaemonError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
