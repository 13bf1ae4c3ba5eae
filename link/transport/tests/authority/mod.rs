//! Certificates for tests of TLS, also those of whole systems: an authority and what it has signed, as files.
//! In: names. Out: paths, which are there until the authority is dropped.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

/// An authority in a folder.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { folder: tempfile::tempdir().unwrap(), issuer };
        std::fs::write(authority.file(), authority.issuer.pem()).unwrap();
        authority
    }

    /// Its own certificate, for those who trust it.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// A certificate for `name` and its key.
    pub(crate) fn sign(&self, name: &str) -> [PathBuf; 2] {
        self.sign_with(name, CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    /// A certificate with these parameters and its key, in files of this name.
    pub(crate) fn sign_with(&self, name: &str, parameters: CertificateParams) -> [PathBuf; 2] {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let paths = ["certificate", "key"].map(|what| self.folder.path().join(format!("{name}.{what}.pem")));
        std::fs::write(&paths[0], certificate.pem()).unwrap();
        std::fs::write(&paths[1], key.serialize_pem()).unwrap();
        paths
    }
}
