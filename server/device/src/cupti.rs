//! CUPTI as a worker drives it: it records what the GPU does. NVIDIA's, or the CPU device's own.
//! In: what is to be recorded, and the numbers of the commands that issue it. Out: activities, each with the number of its
//! command. CUPTI gives its records in buffers, which lie here, in a bounded number, until they are taken.
//! It opens no connection and knows no session.

mod drain;
mod error;
mod functions;
mod store;

use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use floe_cupti::{CUSTOM_KIND, kind};
use libloading::Library;
use libloading::os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW};

pub use drain::{Activity, Work};
pub use error::CuptiError;

use crate::driver::{OpenError, Tried, plain_reason};
use drain::Drain;
use functions::Functions;
pub use store::MOST_BYTES;

/// The oldest version whose records begin as those that are read here: CUDA 12.0's.
const OLDEST: u32 = 18;

/// What is recorded, as bits.
pub mod wanted {
    /// Kernels.
    pub const KERNELS: u32 = 1;
    /// Copies.
    pub const COPIES: u32 = 2;
    /// Fills.
    pub const FILLS: u32 = 4;
    /// All there is.
    pub const ALL: u32 = KERNELS | COPIES | FILLS;
}

const KINDS: [(u32, u32); 3] =
    [(wanted::KERNELS, kind::CONCURRENT_KERNEL), (wanted::COPIES, kind::MEMCPY), (wanted::FILLS, kind::MEMSET)];

/// What links work to its command: CUPTI names the command ahead of each record of a call, so calls are recorded, too.
const LINKS: [u32; 2] = [kind::DRIVER, kind::EXTERNAL_CORRELATION];

/// A loaded CUPTI. There is one in a process.
#[derive(Debug)]
pub struct Cupti {
    functions: Functions,
    version: u32,
    /// Whether records come to the store. CUPTI begins with this, and costs every launch something from then on.
    registered: Mutex<bool>,
    recorded: AtomicU32,
    drain: Mutex<Drain>,
    // Never unloaded: its threads run on.
    _library: ManuallyDrop<Library>,
}

impl Cupti {
    /// Loads the CUPTI of the device library itself, where it has one as the CPU device does, else that of `path`.
    ///
    /// # Errors
    /// The loader's words, or that the library is too old or none.
    pub fn open(device_library: &Path, path: &Path) -> Result<Self, OpenError> {
        if let Ok(found) = load(device_library, "floe_") {
            return Ok(found);
        }
        load(path, "")
            .map_err(|reason| OpenError { what: "CUPTI", tried: vec![Tried { path: path.to_owned(), reason }] })
    }

    /// `cuptiGetVersion`'s number.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Records the work of later commands: of these bits of [`wanted`], and no other.
    ///
    /// # Errors
    /// CUPTI's. What could be started is.
    pub fn record(&self, wanted: u32) -> Result<(), CuptiError> {
        let mut registered = floe_lock::lock(&self.registered);
        if !*registered {
            self.functions.keep_out_of_device_memory();
            self.functions.register()?;
            *registered = true;
        }
        let before = self.recorded.swap(wanted, Ordering::Relaxed);
        for (bit, kind) in KINDS {
            match (before & bit != 0, wanted & bit != 0) {
                (false, true) => self.functions.enable(kind)?,
                (true, false) => self.functions.disable(kind)?,
                _ => {}
            }
        }
        match (before != 0, wanted != 0) {
            (false, true) => LINKS.into_iter().try_for_each(|kind| self.functions.enable(kind)),
            (true, false) => LINKS.into_iter().try_for_each(|kind| self.functions.disable(kind)),
            _ => Ok(()),
        }
    }

    /// The calls of this thread belong to this command, until `end_command`.
    pub fn begin_command(&self, command: u64) {
        self.functions.push(CUSTOM_KIND, command);
    }

    /// They do not any more.
    pub fn end_command(&self) {
        self.functions.pop(CUSTOM_KIND);
    }

    /// CUPTI's clock, in nanoseconds.
    ///
    /// # Errors
    /// CUPTI's.
    pub fn now(&self) -> Result<u64, CuptiError> {
        self.functions.now()
    }

    fn drain(&self) -> MutexGuard<'_, Drain> {
        floe_lock::lock(&self.drain)
    }

    /// Looks for what has ended; forced, also for what has not.
    ///
    /// # Errors
    /// CUPTI's.
    pub fn flush(&self, forced: bool) -> Result<(), CuptiError> {
        let flushed = self.functions.flush(forced);
        self.drain().take_in(&self.functions);
        flushed
    }

    /// The next activity of those that `flush` has found.
    pub fn next(&self) -> Option<Activity> {
        self.drain().next(&self.functions)
    }

    /// Activities that found no room so far.
    pub fn lost(&self) -> u64 {
        self.drain().lost()
    }

    /// Forgets all that was recorded.
    pub fn forget(&self) {
        self.drain().clear();
    }
}

fn load(path: &Path, prefix: &str) -> Result<Cupti, String> {
    // SAFETY: loading runs the library's initialisers: those of the driver that is loaded already, or of the CUPTI that the
    // operator named.
    let library = unsafe { UnixLibrary::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library: Library = library.map_err(|error| plain_reason(&error))?.into();
    if crate::driver::has(&library, crate::driver::CLIENT_MARKER) {
        return Err("is floe's client library, not NVIDIA's".to_owned());
    }
    let functions = Functions::load(&library, prefix).map_err(|name| format!("is no CUPTI: it lacks {name}"))?;
    let version = functions.version().map_err(|error| error.to_string())?;
    if version < OLDEST {
        return Err(format!("is of version {version} of CUPTI, and floe drives {OLDEST} (CUDA 12.0) and newer"));
    }
    let (registered, recorded, drain) = (Mutex::new(false), AtomicU32::new(0), Mutex::default());
    Ok(Cupti { functions, version, registered, recorded, drain, _library: ManuallyDrop::new(library) })
}

/// Places where CUPTI may be installed, best first.
const PLACES: [&str; 6] = [
    "/usr/local/cuda/lib64/libcupti.so.13",
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13",
    "/usr/lib/x86_64-linux-gnu/libcupti.so.13",
    "/usr/lib64/libcupti.so.13",
    "/usr/local/cuda/lib64/libcupti.so.12",
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.12",
];

/// The first installed CUPTI.
#[must_use]
pub fn installed() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|place| place.is_file())
}
