//! TLS 1.3 between client and server, by rustls: certificates identify the server, and on request the client; nobody
//! else reads along.
//! In: certificates and keys as PEM files, a link on which nothing has been sent. Out: a link whose bytes are sealed.
//! The token stays: a certificate identifies the server, and the token admits the client, unless the server asks for
//! both, or takes certificates that name users instead.

mod chains;
mod pipe;
mod tunnel;
mod users;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;
use webpki::{BorrowedCertRevocationList, CertRevocationList};

pub(crate) use pipe::Tls;
pub use tunnel::Tunnel;
pub(crate) use tunnel::tunnel;

/// The first bytes of a client that speaks TLS: a handshake record of some version 3.
pub(crate) const RECORD_HEAD: [u8; 2] = [0x16, 0x03];

/// Why certificates and keys cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or does not hold the expected items.
    #[error("{what} cannot be read from {}: {source}", .path.display())]
    File {
        /// The expected item.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause; a raw name, since the sentence has it already.
        r#source: pem::Error,
    },
    /// They do not match each other, or are for another use.
    #[error("these certificates and keys cannot be used: {0}")]
    Useless(String),
    /// Two lists of revoked certificates of one authority, of which only one would count.
    #[error("two lists of revoked certificates in {} are of one authority\n  keep its newest alone", .path.display())]
    TwoLists {
        /// The file.
        path: PathBuf,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("a TLS certificate and its key belong together, and only one of them is named")]
    Half,
}

/// The identity of this side: a chain of certificates and the key of the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The PEM file of the chain.
    pub certificate: PathBuf,
    /// The PEM file of the key.
    pub key: PathBuf,
}

impl Identity {
    /// Makes an identity from two settings: both are set, or neither.
    ///
    /// # Errors
    /// [`TlsError::Half`].
    pub fn of(certificate: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<Self>, TlsError> {
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(Self { certificate, key })),
            (None, None) => Ok(None),
            _ => Err(TlsError::Half),
        }
    }

    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(file("a private key", &self.key))?;
        Ok((certificates(&self.certificate)?, key))
    }
}

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientTls(pub(crate) Arc<ClientConfig>);

impl ClientTls {
    /// Trusts servers whose certificates the authorities in a PEM file have signed, and shows an identity where a
    /// server asks for one.
    ///
    /// # Errors
    /// [`TlsError`] naming the file.
    pub fn new(authorities: &Path, identity: Option<&Identity>) -> Result<Self, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(useless)?.with_root_certificates(roots(authorities)?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.read()?;
                builder.with_client_auth_cert(chain, key).map_err(useless)?
            }
        };
        Ok(Self(Arc::new(config)))
    }
}

/// What a server does with certificates of clients. The paths are PEM files of authorities that sign them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// It asks for none.
    #[default]
    Unasked,
    /// It lets in only clients that have one.
    Certified(PathBuf),
    /// It takes one, and reads users' names from it.
    Named(PathBuf),
}

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    identity: Identity,
    clients: Clients,
    revoked: Option<PathBuf>,
}

impl ServerTls {
    /// Shows an identity to clients; with authorities, lets in only clients whose certificates these have signed.
    ///
    /// # Errors
    /// [`TlsError`] naming the file.
    pub fn new(identity: &Identity, client_authorities: Option<&Path>) -> Result<Self, TlsError> {
        let clients = client_authorities.map_or(Clients::Unasked, |path| Clients::Certified(path.to_owned()));
        Self::with(identity.clone(), clients, None)
    }

    /// Shows an identity to clients, and takes no certificate that is on a list of revoked ones in this PEM file. A list that is
    /// out of date takes no certificate of its authority: nobody knows what is on the next one.
    ///
    /// # Errors
    /// [`TlsError`] naming the file.
    pub fn with(identity: Identity, clients: Clients, revoked: Option<PathBuf>) -> Result<Self, TlsError> {
        let lists = revoked.as_deref().map(revocations).transpose()?.unwrap_or_default();
        let signed_by = |path: &Path| {
            let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider());
            // An authority may have no list.
            let builder = builder.with_crls(lists.clone()).allow_unknown_revocation_status();
            Ok::<_, TlsError>(builder.enforce_revocation_expiration())
        };
        let verifier: Arc<dyn ClientCertVerifier> = match &clients {
            Clients::Unasked => WebPkiClientVerifier::no_client_auth(),
            Clients::Certified(path) => chains::bounded(signed_by(path)?.build().map_err(useless)?),
            Clients::Named(path) => chains::bounded(signed_by(path)?.allow_unauthenticated().build().map_err(useless)?),
        };
        let (chain, key) = identity.read()?;
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let config = builder.map_err(useless)?.with_client_cert_verifier(verifier).with_single_cert(chain, key);
        let mut config = config.map_err(useless)?;
        // TLS sessions are never resumed.
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), identity, clients, revoked })
    }

    /// The same by its files as they are now.
    ///
    /// # Errors
    /// [`TlsError`] naming the file.
    pub fn again(&self) -> Result<Self, TlsError> {
        Self::with(self.identity.clone(), self.clients.clone(), self.revoked.clone())
    }

    /// Whether certificates of clients name users.
    pub(crate) fn names_users(&self) -> bool {
        matches!(self.clients, Clients::Named(_))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn useless(error: impl std::fmt::Display) -> TlsError {
    TlsError::Useless(error.to_string())
}

fn file(what: &'static str, path: &Path) -> impl FnOnce(pem::Error) -> TlsError {
    let path = path.to_path_buf();
    move |source| TlsError::File { what, path, source }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let chain = read().map_err(file("certificates", path))?;
    if chain.is_empty() { Err(file("certificates", path)(pem::Error::NoItemsFound)) } else { Ok(chain) }
}

fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    const WHAT: &str = "lists of revoked certificates";
    let read = || CertificateRevocationListDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let lists = read().map_err(file(WHAT, path))?;
    if lists.is_empty() {
        return Err(file(WHAT, path)(pem::Error::NoItemsFound));
    }
    let mut issuers = BTreeSet::new();
    for list in &lists {
        let list = BorrowedCertRevocationList::from_der(list).map_err(useless)?;
        // Of several lists of one authority the first alone is asked.
        if !issuers.insert(CertRevocationList::from(list).issuer().to_vec()) {
            return Err(TlsError::TwoLists { path: path.to_path_buf() });
        }
    }
    Ok(lists)
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(useless)?;
    }
    Ok(roots)
}
