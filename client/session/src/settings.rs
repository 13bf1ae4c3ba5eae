//! What the user asked for: which vGPUs, with which token and quota, how much to log. The environment and the text of a
//! TOML file come in, a checked [`Settings`] goes out, or an error that names the variable or key and its value.
//! Nothing here opens a connection.

mod credentials;
mod file;
mod place;
mod visible;

use std::path::PathBuf;

use floe_transport::{Identity, MOST_CONNECTIONS, suitable_connections};

pub use credentials::Credentials;
pub use place::Place;
pub use visible::{Visible, VisibleDevice};

use crate::log::Level;

/// Variables of the CUDA driver that the worker's driver must see, since it is the one that acts on them.
const DRIVER_VARIABLES: &[&str] = &[
    "CUDA_AUTO_BOOST",
    "CUDA_BINARY_LOADER_THREAD_COUNT",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_MODULE_LOADING",
    "CUDA_SCALE_LAUNCH_QUEUES",
];

/// More threads copy no faster on any machine.
const MOST_COPY_THREADS: usize = 64;

/// What is wrong with what the user asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingsError {
    /// A variable or key whose value cannot be read.
    #[error("{name}: {reason}: {value}\n  {advice}")]
    Value {
        /// The variable, the flag, or the file's path and key.
        name: String,
        /// What it is not.
        reason: &'static str,
        /// What stood there.
        value: String,
        /// What to write instead.
        advice: &'static str,
    },
    /// A file that was named and cannot be read.
    #[error("{name} names a file that cannot be read: {path}\n  name one that is there and that this user may read")]
    Unreadable {
        /// The variable that names it.
        name: &'static str,
        /// The file.
        path: String,
    },
    /// The TOML file does not parse, or has a key nobody knows.
    #[error("{path}:{}: {mistake}", mistake.line)]
    File {
        /// The file.
        path: String,
        /// The line, and what is wrong there.
        mistake: floe_toml::Mistake,
    },
    /// `RCUDA_DEVICE_COUNT` promises a device that no variable describes.
    #[error(
        "RCUDA_DEVICE_COUNT is {count}, but a variable is not set: RCUDA_DEVICE_{missing}\n  set it to HOST[@PORT][:GPU]"
    )]
    MissingDevice {
        /// The promised number.
        count: usize,
        /// The first one missing.
        missing: usize,
    },
}

/// How the statistics are printed when the process ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Report {
    /// Not at all.
    #[default]
    None,
    /// As a table, to stderr.
    Text,
    /// As one line of JSON, to stderr.
    Json,
    /// As one line of JSON, to this file.
    JsonFile(PathBuf),
}

/// One vGPU the process wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedDevice {
    /// Server and GPU.
    pub place: Place,
    /// Quota in bytes; 0 for all there is.
    pub memory: u64,
}

/// Everything the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The vGPUs in ordinal order, before `CUDA_VISIBLE_DEVICES`.
    pub devices: Vec<WantedDevice>,
    /// Which of them the program may see.
    pub visible: Visible,
    /// What is shown to servers, and which of them are trusted.
    pub credentials: Credentials,
    /// What is logged; `None` where nobody has said so.
    pub log: Option<Level>,
    /// Whether statistics are printed at exit.
    pub report: Report,
    /// Variables the worker's driver must see, as name and value.
    pub driver: Vec<(String, String)>,
    /// The most TCP connections beside a session's own that carry its bulk data.
    pub bulk_connections: u32,
    /// Whether `CUDA_MODULE_LOADING` asks for eager loading.
    pub eager_loading: bool,
    /// Threads of one copy of pageable memory; `None` for what suits the processors.
    pub copy_threads: Option<usize>,
}

/// Where settings come from, so that tests bring their own.
pub trait Source: std::fmt::Debug {
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// A file's text; `None` where it does not exist or cannot be read.
    fn file(&self, path: &std::path::Path) -> Option<String>;
}

/// This process's environment and file system.
#[derive(Debug, Clone, Copy)]
pub struct ProcessSource;

impl Source for ProcessSource {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &std::path::Path) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }
}

impl Settings {
    /// Whether the driver is to compile the PTX of images that hold machine code too.
    pub(crate) fn compiles_everything(&self) -> bool {
        let forces = |name: &str| matches!(name, "CUDA_FORCE_JIT" | "CUDA_FORCE_PTX_JIT");
        self.driver.iter().any(|(name, value)| forces(name) && value != "0")
    }

    /// Reads the settings: environment first, then the TOML file (`FLOE_CONFIG`, else `~/.config/floe/floe.toml`, else
    /// `/etc/floe/floe.toml`).
    ///
    /// # Errors
    /// Where something is set and cannot be understood; nothing set is not an error and gives no devices.
    pub fn read(source: &dyn Source) -> Result<Self, SettingsError> {
        let file = file::find(source)?;
        let variable = |name: &str| source.variable(name).filter(|text| !text.trim().is_empty());
        let quota = match variable("FLOE_MEMORY") {
            Some(text) => parse_quotas("FLOE_MEMORY", &text)?,
            None => match &file.memory {
                Some(text) => parse_quotas("memory", text)?,
                None => Vec::new(),
            },
        };
        let places = wanted_places(source, &file)?;
        let devices = places
            .into_iter()
            .enumerate()
            .map(|(ordinal, place)| WantedDevice {
                place,
                memory: quota.get(ordinal).or(quota.last()).copied().unwrap_or_default(),
            })
            .collect();
        let log = match variable("FLOE_LOG").or_else(|| file.log.clone()) {
            Some(text) => Some(Level::parse(&text).ok_or_else(|| SettingsError::Value {
                name: "FLOE_LOG".into(),
                reason: "not a level",
                value: text,
                advice: "write error, warn, info or debug",
            })?),
            None => None,
        };
        let report = match (variable("FLOE_STATS"), file.stats) {
            (Some(text), _) => parse_report(&text),
            (None, Some(true)) => Report::Text,
            (None, _) => Report::None,
        };
        let copy_threads = match variable("FLOE_COPY_THREADS") {
            Some(text) => Some(parse_threads(&text)?),
            None => None,
        };
        Ok(Self {
            devices,
            // An empty CUDA_VISIBLE_DEVICES means "none", so emptiness is not filtered out here.
            visible: Visible::parse(source.variable("CUDA_VISIBLE_DEVICES").as_deref()),
            credentials: credentials(source, &file)?,
            log,
            report,
            bulk_connections: bulk_connections(variable("FLOE_BULK_CONNECTIONS"), file.bulk_connections)?,
            driver: DRIVER_VARIABLES
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), source.variable(name)?)))
                .collect(),
            eager_loading: variable("CUDA_MODULE_LOADING").is_some_and(|mode| mode.eq_ignore_ascii_case("EAGER")),
            copy_threads,
        })
    }
}

fn wanted_places(source: &dyn Source, file: &file::File) -> Result<Vec<Place>, SettingsError> {
    if let Some(text) = source.variable("FLOE_DEVICES") {
        return parse_places("FLOE_DEVICES", text.split(','));
    }
    if let Some(text) = source.variable("RCUDA_DEVICE_COUNT") {
        return rcuda_places(source, &text);
    }
    parse_places("devices", file.devices.iter().map(String::as_str))
}

fn parse_places<'a>(name: &str, texts: impl Iterator<Item = &'a str>) -> Result<Vec<Place>, SettingsError> {
    texts.map(str::trim).filter(|text| !text.is_empty()).map(|text| Place::parse(name, text)).collect()
}

fn rcuda_places(source: &dyn Source, count: &str) -> Result<Vec<Place>, SettingsError> {
    let count: usize = count.trim().parse().ok().filter(|count| *count <= 64).ok_or_else(|| SettingsError::Value {
        name: "RCUDA_DEVICE_COUNT".into(),
        reason: "not a number of devices",
        value: count.to_owned(),
        advice: "write a number of at most 64",
    })?;
    (0..count)
        .map(|index| {
            let name = format!("RCUDA_DEVICE_{index}");
            let text = source.variable(&name).ok_or(SettingsError::MissingDevice { count, missing: index })?;
            // rCUDA writes a port with an at sign: host@port:gpu.
            Place::parse(&name, &text.trim().replacen('@', ":", 1))
        })
        .collect()
}

fn credentials(source: &dyn Source, file: &file::File) -> Result<Credentials, SettingsError> {
    let path = |variable: &str, in_file: &Option<PathBuf>| {
        let named = source.variable(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
        named.or_else(|| in_file.clone())
    };
    let certificate = path("FLOE_TLS_CERTIFICATE", &file.tls_certificate);
    let key = path("FLOE_TLS_KEY", &file.tls_key);
    let half = |_| SettingsError::Value {
        name: "FLOE_TLS_CERTIFICATE and FLOE_TLS_KEY".into(),
        reason: "only one of the two is set",
        value: if source.variable("FLOE_TLS_KEY").is_some() { "the key" } else { "the certificate" }.into(),
        advice: "name the certificate and its key together",
    };
    let no_token = source.variable("FLOE_NO_TOKEN").map_or(file.no_token, |text| is_yes(&text));
    let token = if no_token { None } else { token(source, file.token.clone(), file.token_file.clone())? };
    Ok(Credentials {
        // An empty one would prove nothing.
        token: token.filter(|token| !token.is_empty()),
        authorities: path("FLOE_TLS_AUTHORITIES", &file.tls_authorities),
        identity: Identity::of(certificate, key).map_err(half)?,
    })
}

fn token(
    source: &dyn Source,
    in_file: Option<String>,
    file_named: Option<String>,
) -> Result<Option<String>, SettingsError> {
    if let Some(token) = source.variable("FLOE_TOKEN") {
        return Ok(Some(token.trim().to_owned()));
    }
    for (name, path) in [("FLOE_TOKEN_FILE", source.variable("FLOE_TOKEN_FILE")), ("token_file", file_named)] {
        if let Some(path) = path {
            let text = source.file(path.as_ref()).ok_or(SettingsError::Unreadable { name, path })?;
            return Ok(Some(text.trim().to_owned()));
        }
    }
    if in_file.is_some() {
        return Ok(in_file);
    }
    let own = file::configuration_folder(source).map(|folder| folder.join("token"));
    Ok(own.and_then(|path| source.file(&path)).map(|text| text.trim().to_owned()))
}

/// Whether a variable that is a switch is on; the daemon's flags read theirs alike.
fn is_yes(text: &str) -> bool {
    !["", "0", "n", "no", "f", "false", "off"].contains(&text.trim().to_ascii_lowercase().as_str())
}

/// More than there may be are refused.
fn bulk_connections(variable: Option<String>, in_file: Option<u32>) -> Result<u32, SettingsError> {
    let wrong = |value| SettingsError::Value {
        name: "FLOE_BULK_CONNECTIONS".into(),
        reason: "not a number of connections",
        value,
        advice: "write a number of at most 8",
    };
    let wanted = match variable {
        Some(text) => Some(text.trim().parse().map_err(|_| wrong(text))?),
        None => in_file,
    };
    match wanted {
        Some(count) if count > MOST_CONNECTIONS => Err(wrong(count.to_string())),
        wanted => Ok(wanted.unwrap_or_else(suitable_connections)),
    }
}

fn parse_report(text: &str) -> Report {
    match text.trim() {
        "0" | "no" | "off" | "false" => Report::None,
        "json" => Report::Json,
        other => match other.strip_prefix("json:") {
            Some(path) => Report::JsonFile(path.into()),
            None => Report::Text,
        },
    }
}

fn parse_threads(text: &str) -> Result<usize, SettingsError> {
    let number = text.trim().parse().ok().filter(|threads| (1..=MOST_COPY_THREADS).contains(threads));
    number.ok_or_else(|| SettingsError::Value {
        name: "FLOE_COPY_THREADS".into(),
        reason: "not a number of threads",
        value: text.to_owned(),
        advice: "write a number from 1 to 64",
    })
}

fn parse_quotas(name: &str, text: &str) -> Result<Vec<u64>, SettingsError> {
    text.split(',')
        .map(|part| {
            floe_size::bytes(part).ok_or_else(|| SettingsError::Value {
                name: name.to_owned(),
                reason: "not a size",
                value: part.trim().to_owned(),
                advice: "write it as 8G, 512M or a number of bytes",
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
