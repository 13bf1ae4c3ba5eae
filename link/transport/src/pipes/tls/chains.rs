//! Chains of certificates that strangers show: how long they may be. In: a chain. Out: what the verifier behind says of it, if it
//! is short. To find a way from a certificate to an authority, that one tries every order of certificates that may have signed
//! each other: ten of one name cost it a sixth of a second.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme};

/// Certificates between a client's and its authority's. Two are common.
const MOST_BETWEEN: usize = 4;

/// A chain that is too long to be looked at.
#[derive(Debug, thiserror::Error)]
#[error("more than {MOST_BETWEEN} certificates between it and its authority: {0}")]
struct TooLong(usize);

/// A verifier behind the limit.
#[derive(Debug)]
struct Bounded(Arc<dyn ClientCertVerifier>);

/// Puts the limit in front of a verifier.
pub(super) fn bounded(verifier: Arc<dyn ClientCertVerifier>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(Bounded(verifier))
}

impl ClientCertVerifier for Bounded {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if intermediates.len() > MOST_BETWEEN {
            let why = OtherError(Arc::new(TooLong(intermediates.len())));
            return Err(Error::InvalidCertificate(CertificateError::Other(why)));
        }
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
