//! The TOML file with a user's or a machine's settings. Its text comes in, its keys as the user wrote them go out, or an
//! error with line and column. Values are judged by the settings, not here.

use std::path::PathBuf;

use super::{SettingsError, Source};

/// The keys of `floe.toml` that concern a client.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// `HOST:GPU`, in ordinal order.
    #[serde(default)]
    pub(super) devices: Vec<String>,
    /// Quota, as `FLOE_MEMORY`.
    pub(super) memory: Option<String>,
    /// The shared secret.
    pub(super) token: Option<String>,
    /// The file that holds it.
    pub(super) token_file: Option<String>,
    /// Whether servers are shown no token and asked for no proof of one.
    #[serde(default)]
    pub(super) no_token: bool,
    /// As `FLOE_BULK_CONNECTIONS`.
    pub(super) bulk_connections: Option<u32>,
    /// The authorities that sign servers' certificates.
    pub(super) tls_authorities: Option<PathBuf>,
    /// This client's certificate.
    pub(super) tls_certificate: Option<PathBuf>,
    /// Its key.
    pub(super) tls_key: Option<PathBuf>,
    /// Level of the log.
    pub(super) log: Option<String>,
    /// Whether statistics are printed at exit.
    pub(super) stats: Option<bool>,
    /// The daemon's own settings may stand in the same file; a client does not read them.
    #[serde(default, rename = "server")]
    _server: Option<toml::Table>,
}

/// `$XDG_CONFIG_HOME/floe`, else `~/.config/floe`; `None` without a home.
pub(super) fn configuration_folder(source: &dyn Source) -> Option<PathBuf> {
    let base = match source.variable("XDG_CONFIG_HOME").filter(|text| text.starts_with('/')) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(source.variable("HOME").filter(|text| !text.is_empty())?).join(".config"),
    };
    Some(base.join("floe"))
}

/// The first file there is; an empty one where there is none.
pub(super) fn find(source: &dyn Source) -> Result<File, SettingsError> {
    if let Some(path) = source.variable("FLOE_CONFIG").filter(|text| !text.is_empty()) {
        let text = source
            .file(path.as_ref())
            .ok_or_else(|| SettingsError::Unreadable { name: "FLOE_CONFIG", path: path.clone() })?;
        return parse(&path, &text);
    }
    let own = configuration_folder(source).map(|folder| folder.join("floe.toml"));
    for path in own.into_iter().chain([PathBuf::from("/etc/floe/floe.toml")]) {
        if let Some(text) = source.file(&path) {
            return parse(&path.display().to_string(), &text);
        }
    }
    Ok(File::default())
}

fn parse(path: &str, text: &str) -> Result<File, SettingsError> {
    floe_toml::read(text).map_err(|mistake| SettingsError::File { path: path.to_owned(), mistake })
}
