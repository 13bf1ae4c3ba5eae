//! Certificates for tests of TLS, also those of whole systems: an authority and what it has signed, as files.
//! In: names. Out: paths, which are there until the authority is dropped.

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa, KeyIdMethod, KeyPair,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
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

    /// Its list of revoked certificates as PEM: these numbers, as it was said in 2020, until that year or for long.
    #[allow(dead_code, reason = "not every test has a list")]
    pub(crate) fn revokes(&self, numbers: &[u64], is_current: bool) -> String {
        let revoked = |number: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*number),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(if is_current { 2120 } else { 2021 }, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: numbers.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}
