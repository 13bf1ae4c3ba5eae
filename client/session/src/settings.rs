//! The user's settings: which vGPUs, with which token and quota, how much to log. Flags, environment and TOML file come
//! in; a checked [`Settings`] goes out, or an error that names the flag, variable or key and its value.
//! Nothing here opens a connection.

mod credentials;
mod visible;

use std::path::{Path, PathBuf};
use std::time::Duration;

use floe_settings::{CLIENT, ClientSettings, DRIVER_VARIABLES, Given, Origin};
use floe_transport::Identity;

pub use credentials::Credentials;
pub use floe_settings::{Class, GpuAddress, Level, Nccl, ProcessSource, Report, SettingsError, Source};
pub use visible::{Visible, VisibleDevice};

/// A flag by its setting's name, and its text.
pub type Flag = (&'static str, String);

/// One vGPU the process wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedDevice {
    /// Server and GPU.
    pub place: GpuAddress,
    /// Quota in bytes; 0 for all there is.
    pub memory: u64,
    /// Thousandths of the GPU's time; 0: what others' shares leave.
    pub share: u32,
    /// How many vGPUs of the same GPU the user named before it.
    pub twin: u32,
}

impl WantedDevice {
    /// The number of its slot on the PCI bus, of which the GPU's own number is given. Programs tell devices apart by their PCI
    /// address, so vGPUs of one GPU have slots of their own, far from each other and from the GPU's neighbours. Every process
    /// with the same settings gets the same ones.
    pub fn pci_slot(&self, own: u32) -> u32 {
        /// A bus has 32 slots.
        const BITS: u32 = 5;
        let distance = self.twin.reverse_bits() >> (u32::BITS - BITS);
        (own ^ distance) % (1 << BITS)
    }
}

/// Everything the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The vGPUs in ordinal order, before `CUDA_VISIBLE_DEVICES`.
    pub devices: Vec<WantedDevice>,
    /// Which of them the program may see.
    pub visible: Visible,
    /// The proofs that servers see, and the servers that are trusted.
    pub credentials: Credentials,
    /// The level of the log; `None` if the user has set none.
    pub log: Option<Level>,
    /// Whether statistics are printed at exit.
    pub report: Report,
    /// Variables the worker's driver must see, as name and value.
    pub driver: Vec<(String, String)>,
    /// Variables of the driver that are set and that no worker gets: each with the reason.
    pub refused: Vec<(&'static str, &'static str)>,
    /// The most TCP connections beside a session's own that carry its bulk data; `None` for what suits the processors and the way.
    pub bulk_connections: Option<u32>,
    /// Whether `CUDA_MODULE_LOADING` asks for eager loading.
    pub eager_loading: bool,
    /// Where NCCL runs.
    pub nccl: Nccl,
    /// What the ranks of its job have in common.
    pub job: Option<String>,
    /// Whether the program keeps its own CUPTI.
    pub own_cupti: bool,
    /// Whether synchronizations may return at once.
    pub far: bool,
    /// The file of the program's trace.
    pub trace_file: Option<PathBuf>,
    /// The weight of its vGPUs among the user's; 0: they take turns with the user's others.
    pub weight: u32,
    /// The priority class of its vGPUs.
    pub class: Class,
    /// The longest life of its vGPUs; zero: no limit.
    pub time: Duration,
    /// The longest wait for room for a quota.
    pub wait: Duration,
    /// Threads of one copy of pageable memory; `None` for what suits the processors.
    pub copy_threads: Option<usize>,
}

impl Settings {
    /// Whether the driver is to compile the PTX of images that hold machine code too.
    pub(crate) fn compiles_everything(&self) -> bool {
        let forces = |name: &str| matches!(name, "CUDA_FORCE_JIT" | "CUDA_FORCE_PTX_JIT");
        self.driver.iter().any(|(name, value)| forces(name) && value != "0")
    }

    /// Reads environment and TOML file.
    ///
    /// # Errors
    /// A setting that cannot be understood. No setting at all is no error and gives no devices.
    pub fn read(source: &dyn Source) -> Result<Self, SettingsError> {
        Self::with_flags(&[], source)
    }

    /// The same with flags, which win over both.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn with_flags(flags: &[Flag], source: &dyn Source) -> Result<Self, SettingsError> {
        let given = Given::gather(&CLIENT, flags, source)?;
        let values = ClientSettings::read(&given)?;
        let driver = |name: &str| source.variable(name);
        let known = DRIVER_VARIABLES.iter();
        Ok(Self {
            devices: devices(&given, &values, source)?,
            // An empty CUDA_VISIBLE_DEVICES means "none", so emptiness is not filtered out here.
            visible: Visible::parse(source.variable("CUDA_VISIBLE_DEVICES").as_deref()),
            credentials: credentials(&given, &values, source)?,
            log: values.log,
            report: values.stats,
            driver: known
                .clone()
                .filter(|variable| variable.refusal.is_none())
                .filter_map(|variable| Some((variable.name.to_owned(), driver(variable.name)?)))
                .collect(),
            refused: known
                .filter_map(|variable| driver(variable.name).and(Some((variable.name, variable.refusal?))))
                .collect(),
            bulk_connections: values.bulk_connections,
            eager_loading: driver("CUDA_MODULE_LOADING").is_some_and(|mode| mode.trim().eq_ignore_ascii_case("EAGER")),
            nccl: values.nccl,
            job: values.job.clone(),
            own_cupti: values.own_cupti,
            far: values.far,
            trace_file: values.trace_file.clone(),
            weight: values.weight.unwrap_or_default(),
            class: values.class,
            time: values.time.unwrap_or_default(),
            wait: values.wait,
            copy_threads: values.copy_threads.map(|threads| threads as usize),
        })
    }
}

/// The vGPUs with their quotas and shares: the last one repeats.
fn devices(given: &Given, values: &ClientSettings, source: &dyn Source) -> Result<Vec<WantedDevice>, SettingsError> {
    let is_in_file = matches!(given.get("devices"), None | Some((Origin::File { .. }, _)));
    let places = match source.variable("RCUDA_DEVICE_COUNT").filter(|_| is_in_file) {
        Some(count) => rcuda_places(source, &count)?,
        None => values.devices.clone().unwrap_or_default(),
    };
    let quotas = values.memory.as_deref().unwrap_or_default();
    let quota = |ordinal: usize| quotas.get(ordinal).or(quotas.last()).copied().unwrap_or_default();
    let shares = values.share.as_deref().unwrap_or_default();
    let mut devices: Vec<WantedDevice> = Vec::new();
    for (ordinal, place) in places.into_iter().enumerate() {
        let twins = devices.iter().filter(|device| device.place == place).count();
        devices.push(WantedDevice {
            place,
            memory: quota(ordinal),
            share: shares.get(ordinal).or(shares.last()).copied().unwrap_or_default(),
            twin: u32::try_from(twins).unwrap_or(u32::MAX),
        });
    }
    Ok(devices)
}

fn rcuda_places(source: &dyn Source, count: &str) -> Result<Vec<GpuAddress>, SettingsError> {
    let count: usize = count.trim().parse().ok().filter(|count| *count <= 64).ok_or_else(|| SettingsError::Value {
        name: "RCUDA_DEVICE_COUNT".into(),
        reason: "not a number of devices".into(),
        value: count.to_owned(),
        advice: "write a number of at most 64".into(),
    })?;
    (0..count)
        .map(|index| {
            let name = format!("RCUDA_DEVICE_{index}");
            let text = source.variable(&name).ok_or(SettingsError::MissingDevice { count, missing: index })?;
            // rCUDA writes a port with an at sign: host@port:gpu.
            GpuAddress::parse(&name, &text.trim().replacen('@', ":", 1))
        })
        .collect()
}

fn credentials(given: &Given, values: &ClientSettings, source: &dyn Source) -> Result<Credentials, SettingsError> {
    let half = |_| SettingsError::Value {
        name: "tls-certificate and tls-key".into(),
        reason: "only one of the two is set".into(),
        value: if values.tls_key.is_some() { "the key" } else { "the certificate" }.into(),
        advice: "name the certificate and its key together".into(),
    };
    // A variable wins over the file, also where that says that there is none.
    let is_variable = |name| matches!(given.get(name), Some((Origin::Variable(_), _)));
    let wins = !is_variable("no_token") && (is_variable("token") || is_variable("token_file"));
    let (token, token_file) = if values.no_token && !wins { (None, None) } else { token(given, values, source)? };
    Ok(Credentials {
        // An empty one would prove nothing.
        token: token.filter(|token| !token.is_empty()),
        token_file,
        authorities: values.tls_authorities.clone(),
        identity: Identity::of(values.tls_certificate.clone(), values.tls_key.clone()).map_err(half)?,
    })
}

/// The token, and the file it is from. A variable wins over the file of settings; there, a named file wins over a token.
fn token(
    given: &Given,
    values: &ClientSettings,
    source: &dyn Source,
) -> Result<(Option<String>, Option<PathBuf>), SettingsError> {
    let is_variable = matches!(given.get("token"), Some((Origin::Variable(_), _)));
    match (&values.token, &values.token_file, given.get("token_file")) {
        (Some(token), _, _) if is_variable => Ok((Some(token.clone()), None)),
        (_, Some(path), Some((origin, _))) => of_file(&origin.to_string(), path, source),
        (Some(token), ..) => Ok((Some(token.clone()), None)),
        (None, ..) => {
            let path = floe_settings::token_file(source);
            match source.file(&path) {
                Err(error) if is_absent(&path, &error) => Ok((None, None)),
                _ => of_file("token", &path, source),
            }
        }
    }
}

/// Whether a program goes without the token that nobody named. `/etc/floe` holds a server's, which may be closed.
fn is_absent(path: &Path, error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match error.kind() {
        NotFound | NotADirectory => true,
        PermissionDenied => path.starts_with("/etc"),
        _ => false,
    }
}

fn of_file(name: &str, path: &Path, source: &dyn Source) -> Result<(Option<String>, Option<PathBuf>), SettingsError> {
    let text = source.file(path).map_err(|error| SettingsError::unreadable(name, path, &error))?;
    Ok((Some(text.trim().to_owned()), Some(path.to_path_buf())))
}

#[cfg(test)]
mod tests;
