//! Names of users in certificates: `floe:NAME` among the URIs of the subject alternative names.
//! In: a certificate that TLS has verified. Out: the names, which nobody has looked at yet.
//! A certificate for a server, or for another purpose, has no such URI, so that it makes nobody a user.

use rustls::pki_types::CertificateDer;

/// What the URI of a user begins with.
const SCHEME: &str = "floe:";

/// The names of users in a certificate: none, one, or a mistake of its authority.
pub(super) fn users(certificate: &CertificateDer<'_>) -> Vec<String> {
    // TLS has parsed it.
    let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) else { return Vec::new() };
    let names = parsed.valid_uri_names().filter_map(|uri| uri.strip_prefix(SCHEME));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    // One that cannot be read is left out there. It is a name all the same, and nobody's.
    let written = certificate.windows(SCHEME.len()).filter(|bytes| *bytes == SCHEME.as_bytes()).count();
    if written > names.len() {
        names.push(String::new());
    }
    names
}
