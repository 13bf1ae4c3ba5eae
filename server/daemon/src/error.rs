//! Why the daemon cannot start or go on. Each message names the thing and says what to do.

use std::io;
use std::path::PathBuf;

use floe_transport::{AddressError, LinkError, TlsError};

/// Why the daemon cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The TOML file cannot be read.
    #[error("cannot read the configuration: {path}: {reason}")]
    Configuration {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A size that is none.
    #[error("not a number of bytes (K, M, G, T allowed): {0}")]
    Bytes(String),
    /// A time that is none.
    #[error("not a number of seconds: {0}")]
    Seconds(f64),
    /// An address that is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An address that cannot be listened on.
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
    /// The token file cannot be made or read.
    #[error("the token file cannot be used: {path}: {source}")]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others can read the token.
    #[error("the token file can be read by others (mode {mode:o}): {path}\n  chmod 600 {path}")]
    TokenMode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The token file is empty.
    #[error("the token file is empty: {0}\n  remove it and a new one is made at the next start")]
    TokenEmpty(PathBuf),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// The worker's executable does not start.
    #[error("the worker does not start: {path}: {source}")]
    Worker {
        /// The executable.
        path: PathBuf,
        /// Why.
        source: io::Error,
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
    #[error("no such GPU: {index}; there are {count}")]
    Gpu {
        /// What was named.
        index: u32,
        /// How many there are.
        count: usize,
    },
    /// The operating system refused something else.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl DaemonError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
