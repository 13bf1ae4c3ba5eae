//! NVIDIA's NCCL as a worker drives it: communicators and their work, loaded from the library that the operator names.
//! In: typed calls with this process's addresses and streams. Out: C calls, and what NCCL says of a failure.
//! It makes no connection and no socket; `sockets` answers what NCCL asks of the system for that.

mod abi;
mod call;
mod config;
mod error;
pub mod files;
pub mod newer;
pub mod sockets;

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use floe_abi::DevicePtr;
use floe_abi::nccl::NODE;
use libloading::Library;
use libloading::os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW};

use crate::driver::{OpenError, Tried, plain_reason};
use abi::pointer;
pub use abi::{Comm, UNIQUE_ID_BYTES, UniqueId};
use call::Functions;
pub use call::{CollectiveCall, CollectiveKind, element_bytes};
pub use config::CommConfig;
use config::RawConfig;
pub use error::{NcclError, result};
pub use newer::Newer;

/// The oldest version whose configurations have the layout that is written here.
const OLDEST: u32 = 22_800;
/// A loaded NCCL.
///
/// Communicators passed to its methods must be ones it gave and that were not ended. The worker keeps this by its table.
#[derive(Debug)]
pub struct Nccl {
    functions: Functions,
    newer: Newer,
    version: u32,
    // Never unloaded: its threads run on.
    _library: ManuallyDrop<Library>,
}

impl Nccl {
    /// Loads the library of that path, with these variables in the environment, which NCCL reads as it starts.
    ///
    /// # Errors
    /// The loader's words, or that the library is too old or is floe's own.
    pub fn open(path: &Path, variables: &[(String, String)]) -> Result<Self, OpenError> {
        load(path, variables)
            .map_err(|reason| OpenError { what: "NCCL", tried: vec![Tried { path: path.to_owned(), reason }] })
    }

    /// NCCL is of this node, in place of the one that it was loaded with. It looks when it makes its first communicator, and
    /// never again.
    pub fn is_of_node(&self, name: &str) {
        // SAFETY: the variable is there since NCCL was loaded, so the list of variables stays as it is, and only this one's
        // value is another text. Its one reader is NCCL's first communicator, which the caller makes later. Other variables,
        // which NCCL's threads may read meanwhile, keep their places.
        unsafe { std::env::set_var(NODE, name) };
    }

    /// `ncclGetVersion`'s number.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What NCCL 2.29 and later has beside.
    pub fn newer(&self) -> &Newer {
        &self.newer
    }

    fn done(&self, code: u32) -> Result<(), NcclError> {
        if code == result::SUCCESS { Ok(()) } else { Err(NcclError { code, words: self.last_error() }) }
    }

    /// What NCCL says of its last failure.
    pub fn last_error(&self) -> String {
        abi::last_words(self.functions.last_error)
    }

    /// `ncclGetUniqueId`.
    ///
    /// # Errors
    /// NCCL's.
    pub fn unique_id(&self) -> Result<UniqueId, NcclError> {
        let mut id = UniqueId([0; UNIQUE_ID_BYTES]);
        // SAFETY: the output is our own.
        self.done(unsafe { (self.functions.unique_id)(&raw mut id) })?;
        Ok(id)
    }

    /// A rank of a new communicator. Waits for the others.
    ///
    /// # Errors
    /// NCCL's.
    pub fn init(
        &self,
        ids: &mut [UniqueId],
        ranks: i32,
        rank: i32,
        config: &CommConfig<'_>,
    ) -> Result<Comm, NcclError> {
        let (mut comm, mut raw) = (Comm::NONE, RawConfig::new(config, self.version)?);
        let config = raw.pointer();
        let code = match ids {
            // SAFETY: outputs and configuration are our own and outlive the call.
            [id] => unsafe { (self.functions.init)(&raw mut comm, ranks, *id, rank, config) },
            ids => {
                let Ok(count) = c_int::try_from(ids.len()) else { return Err(too_many()) };
                // SAFETY: the same, and there are as many ids.
                unsafe { (self.functions.init_scalable)(&raw mut comm, ranks, rank, count, ids.as_mut_ptr(), config) }
            }
        };
        self.done(code).map(|()| comm)
    }

    /// `ncclCommSplit`; `None`: the rank is of no color.
    ///
    /// # Errors
    /// NCCL's.
    pub fn split(&self, comm: Comm, color: i32, key: i32, config: &CommConfig<'_>) -> Result<Option<Comm>, NcclError> {
        let (mut child, mut raw) = (Comm::NONE, RawConfig::new(config, self.version)?);
        // SAFETY: the communicator is NCCL's, the rest our own.
        self.done(unsafe { (self.functions.split)(comm, color, key, &raw mut child, raw.pointer_or_parents()) })?;
        Ok((child != Comm::NONE).then_some(child))
    }

    /// `ncclCommShrink`.
    ///
    /// # Errors
    /// NCCL's.
    pub fn shrink(
        &self,
        comm: Comm,
        excluded: &mut [i32],
        flags: i32,
        config: &CommConfig<'_>,
    ) -> Result<Option<Comm>, NcclError> {
        let Ok(count) = c_int::try_from(excluded.len()) else { return Err(too_many()) };
        let (mut child, mut raw) = (Comm::NONE, RawConfig::new(config, self.version)?);
        let (list, config) = (excluded.as_mut_ptr(), raw.pointer_or_parents());
        // SAFETY: the communicator is NCCL's, the list has as many entries, the rest is our own.
        self.done(unsafe { (self.functions.shrink)(comm, list, count, &raw mut child, config, flags) })?;
        Ok((child != Comm::NONE).then_some(child))
    }

    /// The rank and the number of ranks.
    ///
    /// # Errors
    /// NCCL's.
    pub fn rank_of(&self, comm: Comm) -> Result<(i32, i32), NcclError> {
        let (mut rank, mut ranks) = (0, 0);
        // SAFETY: the communicator is NCCL's, the outputs our own.
        self.done(unsafe { (self.functions.rank)(comm, &raw mut rank) })?;
        // SAFETY: the same.
        self.done(unsafe { (self.functions.ranks)(comm, &raw mut ranks) })?;
        Ok((rank, ranks))
    }

    /// The asynchronous error of a communicator; `SUCCESS` where there is none.
    pub fn async_error(&self, comm: Comm) -> u32 {
        let mut error = 0;
        // SAFETY: the communicator is NCCL's, the output our own.
        let code = unsafe { (self.functions.async_error)(comm, &raw mut error) };
        if code == result::SUCCESS { error } else { code }
    }

    /// `ncclCommFinalize`.
    ///
    /// # Errors
    /// NCCL's.
    pub fn finalize(&self, comm: Comm) -> Result<(), NcclError> {
        // SAFETY: the communicator is NCCL's.
        self.done(unsafe { (self.functions.finalize)(comm) })
    }

    /// `ncclCommDestroy`: the communicator is gone.
    ///
    /// # Errors
    /// NCCL's.
    pub fn destroy(&self, comm: Comm) -> Result<(), NcclError> {
        // SAFETY: the communicator is NCCL's and is not used again.
        self.done(unsafe { (self.functions.destroy)(comm) })
    }

    /// `ncclCommAbort`: the communicator is gone, and its work ends.
    ///
    /// # Errors
    /// NCCL's.
    pub fn abort(&self, comm: Comm) -> Result<(), NcclError> {
        // SAFETY: the communicator is NCCL's and is not used again.
        self.done(unsafe { (self.functions.abort)(comm) })
    }

    /// `ncclCommRevoke`: its work ends, and it may be destroyed or shrunk.
    ///
    /// # Errors
    /// NCCL's.
    pub fn revoke(&self, comm: Comm) -> Result<(), NcclError> {
        // SAFETY: the communicator is NCCL's; 0 is the only flag there is.
        self.done(unsafe { (self.functions.revoke)(comm, 0) })
    }

    /// `ncclRedOpCreatePreMulSum` with a scalar of this process.
    ///
    /// # Errors
    /// NCCL's.
    pub fn create_reduction(&self, comm: Comm, datatype: u32, scalar: &mut [u8; 8]) -> Result<u32, NcclError> {
        let mut operation = 0;
        let value = scalar.as_mut_ptr().cast();
        // SAFETY: no type of NCCL is longer than eight bytes, and NCCL reads the scalar before it returns (residence 1).
        self.done(unsafe { (self.functions.create_reduction)(&raw mut operation, value, datatype, 1, comm) })?;
        Ok(operation)
    }

    /// The same with a scalar in the device's memory, which kernels read.
    ///
    /// # Errors
    /// NCCL's.
    pub fn create_reduction_at(&self, comm: Comm, datatype: u32, scalar: DevicePtr) -> Result<u32, NcclError> {
        let (mut operation, at) = (0, pointer(scalar));
        // SAFETY: only kernels follow the address (residence 0).
        self.done(unsafe { (self.functions.create_reduction)(&raw mut operation, at, datatype, 0, comm) })?;
        Ok(operation)
    }

    /// `ncclRedOpDestroy`.
    ///
    /// # Errors
    /// NCCL's.
    pub fn destroy_reduction(&self, comm: Comm, operation: u32) -> Result<(), NcclError> {
        // SAFETY: the communicator is NCCL's, which checks the number.
        self.done(unsafe { (self.functions.destroy_reduction)(operation, comm) })
    }

    /// `ncclCommRegister`; the handle is NCCL's.
    ///
    /// # Errors
    /// NCCL's.
    pub fn register(&self, comm: Comm, at: DevicePtr, bytes: usize) -> Result<usize, NcclError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the communicator is NCCL's, the memory the session's, the output our own.
        self.done(unsafe { (self.functions.register)(comm, pointer(at), bytes, &raw mut handle) })?;
        Ok(handle.expose_provenance())
    }

    /// `ncclCommDeregister` of a handle that `register` gave.
    ///
    /// # Errors
    /// NCCL's.
    pub fn deregister(&self, comm: Comm, handle: usize) -> Result<(), NcclError> {
        // SAFETY: communicator and handle are NCCL's.
        self.done(unsafe { (self.functions.deregister)(comm, std::ptr::with_exposed_provenance_mut(handle)) })
    }

    /// The calls of a group, on their streams.
    ///
    /// # Errors
    /// NCCL's first.
    pub fn group(&self, calls: &[CollectiveCall]) -> Result<(), NcclError> {
        self.in_group(calls, || {
            // SAFETY: it takes nothing.
            self.done(unsafe { (self.functions.group_end)() })
        })
    }

    /// NCCL's estimate of the microseconds of a group, which is not done.
    ///
    /// # Errors
    /// NCCL's first.
    pub fn simulate(&self, calls: &[CollectiveCall]) -> Result<f32, NcclError> {
        self.newer.can_simulate()?;
        self.in_group(calls, || self.newer.simulate_end())
    }

    /// Begins a group, makes the calls, and ends it in any case.
    fn in_group<T>(
        &self,
        calls: &[CollectiveCall],
        end: impl FnOnce() -> Result<T, NcclError>,
    ) -> Result<T, NcclError> {
        // SAFETY: it takes nothing.
        self.done(unsafe { (self.functions.group_start)() })?;
        let failed = calls.iter().map(|call| self.done(self.functions.call(call))).find(Result::is_err);
        let ended = end();
        match failed {
            Some(Err(error)) => Err(error),
            _ => ended,
        }
    }
}

fn too_many() -> NcclError {
    NcclError { code: result::INVALID_ARGUMENT, words: "a list is too long".to_owned() }
}

fn load(path: &Path, variables: &[(String, String)]) -> Result<Nccl, String> {
    for (name, value) in variables {
        // SAFETY: the worker's own code neither reads nor writes variables from here on. The C library locks its own
        // readers out while it adds one, and these names are read by NCCL alone, which is not loaded yet.
        unsafe { std::env::set_var(name, value) };
    }
    // SAFETY: loading runs the library's initialisers: those of the NCCL that the operator named.
    let library = unsafe { UnixLibrary::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library: Library = library.map_err(|error| plain_reason(&error))?.into();
    if crate::driver::has(&library, crate::driver::CLIENT_MARKER) {
        return Err("is floe's client library, not NVIDIA's".to_owned());
    }
    let functions =
        Functions::load(&library).map_err(|name| format!("is no NCCL of 2.28 or newer: it lacks {name}"))?;
    let mut version = 0;
    // SAFETY: the output is our own.
    let code = unsafe { (functions.version)(&raw mut version) };
    let version = u32::try_from(version).unwrap_or_default();
    if code != result::SUCCESS || version < OLDEST {
        return Err(format!("is NCCL {version}, and floe drives 2.28 and newer"));
    }
    Ok(Nccl {
        functions,
        newer: Newer::load(&library, version, functions.last_error),
        version,
        _library: ManuallyDrop::new(library),
    })
}

/// Places where NCCL may be installed, best first.
const PLACES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
    "/usr/lib64/libnccl.so.2",
    "/usr/local/nvidia/lib64/libnccl.so.2",
    "/usr/local/cuda/lib64/libnccl.so.2",
];

/// The first installed NCCL.
#[must_use]
pub fn installed() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|place| place.is_file())
}
