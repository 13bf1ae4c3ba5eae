//! The client's proofs and trust: the token, and certificates for servers reached by TLS. Paths and texts come in from
//! the settings; what a connection needs goes out, read when it is needed.

use std::path::PathBuf;

use floe_transport::{Address, ClientTls, Identity, Secret, TlsError};

/// The token and the files for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The token: what is sent to `tcp://` addresses is sealed by it, and a server reached by TCP has to know it. `None`:
    /// nothing is shown, and nothing asked.
    pub token: Option<String>,
    /// The file it is from, where it is from one.
    pub token_file: Option<PathBuf>,
    /// PEM file of the authorities that sign servers' certificates.
    pub authorities: Option<PathBuf>,
    /// This client's certificate, for servers that ask for one.
    pub identity: Option<Identity>,
}

impl Credentials {
    /// The secret that seals and proves connections, if there is a token.
    #[must_use]
    pub fn secret(&self) -> Option<Secret> {
        self.token.as_deref().map(Secret::of)
    }

    /// Whether a connection to this address is sealed.
    #[must_use]
    pub fn seals(&self, address: &Address) -> bool {
        match address {
            Address::Tls { .. } => true,
            Address::Tcp { .. } => self.token.is_some(),
            Address::Clear { .. } | Address::Unix(..) => false,
        }
    }

    /// The TLS settings of a connection to this address; `None` if it is of another kind, or no certificate is trusted.
    ///
    /// # Errors
    /// [`TlsError`] naming a file that will not do.
    pub fn tls(&self, address: &Address) -> Result<Option<ClientTls>, TlsError> {
        let (Some(authorities), Address::Tls { .. }) = (&self.authorities, address) else { return Ok(None) };
        ClientTls::new(authorities, self.identity.as_ref()).map(Some)
    }
}
