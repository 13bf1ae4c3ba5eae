//! Why the daemon cannot start or go on. Each message names the thing and the cause once, within its sentence (so none has a
//! source that says it again), and then says what to do.

use std::io;
use std::path::PathBuf;

use floe_settings::SettingsError;
use floe_transport::{AddressError, LinkError, TlsError, plain};

/// Why the daemon cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A setting cannot be understood, or their file cannot be read.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An address that is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An address that cannot be listened on.
    #[error("cannot listen on {address}: {}\n  another server is there, or name another address", source.reason())]
    Listen {
        /// Where.
        address: String,
        /// Why; a raw name, since the sentence has it already.
        r#source: LinkError,
    },
    /// A connection's link fails.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Nobody may use others' GPUs without being asked who they are.
    #[error(
        "refusing to listen on {0} without authentication\n  leave --no-token away, listen on a loopback address, or say --insecure"
    )]
    Insecure(String),
    /// Certificates or keys are of no use.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// TLS is demanded and there is nothing to speak it with.
    #[error(
        "clients shall speak TLS and this server has no certificate\n  name one with --tls-certificate and --tls-key"
    )]
    NoCertificate,
    /// TLS alone is demanded, and something else too.
    #[error("--tls-only and {0} are both set\n  leave one of them away, or write {0}=no")]
    TlsOnly(&'static str),
    /// The daemon cannot run as this user.
    #[error("cannot run as the user {name}: {reason}\n  useradd --system {name} makes one; --user names another")]
    User {
        /// The user.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The operator demands a sandbox this kernel does not have.
    #[error("the sandbox is required and incomplete: {0}\n  a newer kernel has it, or leave --require-sandbox away")]
    Unprotected(String),
    /// The sandbox is demanded and left away.
    #[error("the sandbox is both required and switched off\n  leave --no-sandbox or --require-sandbox away")]
    Sandbox,
    /// The token file cannot be made or read.
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
    /// Somebody else may change the token, or knows it.
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
        "the token has fewer than 32 characters ({characters}): {path}\n  remove the file, and a new one is made at the next start; clients need a copy of it"
    )]
    TokenShort {
        /// The file.
        path: PathBuf,
        /// How many it has.
        characters: usize,
    },
    /// The token file is empty.
    #[error("the token file is empty: {0}\n  remove it and a new one is made at the next start")]
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
    /// The device library could not be asked.
    #[error("no device library can be used (asked for: {library}): {reason}\n  `floe doctor` says more")]
    Probe {
        /// What was asked for.
        library: String,
        /// The worker's words.
        reason: String,
    },
    /// A GPU was named that is not there.
    #[error("no such GPU: {index}\n  there are {count}, counted from 0")]
    Gpu {
        /// What was named.
        index: u32,
        /// How many there are.
        count: usize,
    },
    /// The operating system refused something else.
    #[error("{what}: {}", plain(source))]
    System {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        r#source: io::Error,
    },
}

impl DaemonError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
