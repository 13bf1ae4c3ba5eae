//! Functions that came with NCCL 2.29 and later, found by name where the library has them.
//! In: typed calls with this process's communicators. Out: C calls; a function that the library lacks is named with its version.
//! Sizes of what NCCL gives are bounded here: they come from a library that this program was not built with.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use libloading::Library;

use super::abi::{Comm, LastError, Text, UNIQUE_ID_BYTES, UniqueId, last_words};
use super::config::{CommConfig, RawConfig};
use super::error::{NcclError, result, words_of};

/// Bytes of a parameter's value that are passed on.
pub const MOST_VALUE: usize = 64 << 10;
/// Keys of parameters that are passed on.
pub const MOST_KEYS: usize = 4096;
/// Bytes of a key.
pub const MOST_KEY: usize = 256;
/// The mark of `ncclSimInfo_t`, and its version.
const SIMULATION: (u32, u32) = (0x7468_5283, 22_800);

/// How a parameter is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterForm {
    /// Its text, by key.
    Text,
    /// Not at all: whether there is such a key.
    Key,
    /// As one of eight types of numbers, by its place in i8, i16, i32, i64, u8, u16, u32, u64.
    Number(usize),
    /// Its text, if it is one.
    Str,
    /// Its bytes.
    Bytes,
}

impl ParameterForm {
    /// The form of that number on the wire.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Text,
            1 => Self::Key,
            2..=9 => Self::Number(usize::try_from(number - 2).ok()?),
            10 => Self::Str,
            11 => Self::Bytes,
            _ => return None,
        })
    }
}

/// Bytes of a number of a type.
const WIDTHS: [usize; 8] = [1, 2, 4, 8, 1, 2, 4, 8];

/// `ncclSimInfo_t`.
#[repr(C)]
struct Simulation {
    size: usize,
    magic: u32,
    version: u32,
    time: f32,
}

type Parameter = *mut c_void;

macro_rules! functions {
    ($($name:ident: $symbol:literal = fn($($argument:ty),*);)*) => {
        #[derive(Clone, Copy, Debug)]
        struct Found {$(
            $name: Option<unsafe extern "C" fn($($argument),*) -> u32>,
        )*}

        impl Found {
            /// Those that the library has.
            fn load(library: &Library) -> Self {
                Self {$(
                    // SAFETY: nccl.h declares the function so, in every version that has it.
                    $name: unsafe { crate::driver::symbol(library, $symbol) },
                )*}
            }
        }
    };
}

functions! {
    grow_id: c"ncclCommGetUniqueId" = fn(Comm, *mut UniqueId);
    grow: c"ncclCommGrow" = fn(Comm, c_int, *const UniqueId, c_int, *mut Comm, *mut c_void);
    suspend: c"ncclCommSuspend" = fn(Comm, c_int);
    resume: c"ncclCommResume" = fn(Comm);
    memory: c"ncclCommMemStats" = fn(Comm, u32, *mut u64);
    simulate: c"ncclGroupSimulateEnd" = fn(*mut Simulation);
    parameter: c"ncclParamGetParameter" = fn(Text, *mut Text, *mut c_int);
    bind: c"ncclParamBind" = fn(*mut Parameter, Text);
    number_i8: c"ncclParamGetI8" = fn(Parameter, *mut c_void);
    number_i16: c"ncclParamGetI16" = fn(Parameter, *mut c_void);
    number_i32: c"ncclParamGetI32" = fn(Parameter, *mut c_void);
    number_i64: c"ncclParamGetI64" = fn(Parameter, *mut c_void);
    number_u8: c"ncclParamGetU8" = fn(Parameter, *mut c_void);
    number_u16: c"ncclParamGetU16" = fn(Parameter, *mut c_void);
    number_u32: c"ncclParamGetU32" = fn(Parameter, *mut c_void);
    number_u64: c"ncclParamGetU64" = fn(Parameter, *mut c_void);
    string: c"ncclParamGetStr" = fn(Parameter, *mut Text);
    bytes: c"ncclParamGet" = fn(Parameter, *mut c_void, c_int, *mut c_int);
    keys: c"ncclParamGetAllParameterKeys" = fn(*mut *const Text, *mut c_int);
}

/// How a new communicator comes about from one that grows.
#[derive(Clone, Copy, Debug)]
pub enum Growth {
    /// This process has a rank of the one that grows.
    Of(Comm),
    /// It joins with a rank of its own.
    As(i32),
}

/// What the library has of them.
///
/// Communicators passed to its methods must be ones that the library gave and that were not ended.
#[derive(Debug)]
pub struct Newer {
    found: Found,
    version: u32,
    last_error: LastError,
}

impl Newer {
    pub(super) fn load(library: &Library, version: u32, last_error: LastError) -> Self {
        Self { found: Found::load(library), version, last_error }
    }

    fn done(&self, code: u32) -> Result<(), NcclError> {
        if code == result::SUCCESS { Ok(()) } else { Err(NcclError { code, words: last_words(self.last_error) }) }
    }

    /// A function that a newer NCCL has.
    fn there<T>(&self, function: Option<T>, name: &str) -> Result<T, NcclError> {
        function.ok_or_else(|| NcclError {
            code: result::INVALID_USAGE,
            words: format!("the server's NCCL {} has no {name}", words_of(self.version)),
        })
    }

    /// `ncclCommGetUniqueId`: the id with which new ranks join those of a communicator.
    ///
    /// # Errors
    /// NCCL's, or that it has no such function.
    pub fn grow_id(&self, comm: Comm) -> Result<UniqueId, NcclError> {
        let grow_id = self.there(self.found.grow_id, "ncclCommGetUniqueId")?;
        let mut id = UniqueId([0; UNIQUE_ID_BYTES]);
        // SAFETY: the communicator is NCCL's, the output our own.
        self.done(unsafe { grow_id(comm, &raw mut id) })?;
        Ok(id)
    }

    /// `ncclCommGrow` to so many ranks. Waits for the others.
    ///
    /// # Errors
    /// NCCL's, or that it has no such function.
    pub fn grow(
        &self,
        growth: Growth,
        ranks: i32,
        id: Option<UniqueId>,
        config: &CommConfig<'_>,
    ) -> Result<Comm, NcclError> {
        let grow = self.there(self.found.grow, "ncclCommGrow")?;
        let (mut made, mut raw) = (Comm::NONE, RawConfig::new(config, self.version)?);
        let (comm, rank) = match growth {
            Growth::Of(comm) => (comm, -1),
            Growth::As(rank) => (Comm::NONE, rank),
        };
        let config = if comm == Comm::NONE { raw.pointer() } else { raw.pointer_or_parents() };
        let id = id.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the communicator is NCCL's or none, all else our own; NCCL copies the id before it returns.
        self.done(unsafe { grow(comm, ranks, id, rank, &raw mut made, config) })?;
        Ok(made)
    }

    /// `ncclCommSuspend`. Waits for the other ranks.
    ///
    /// # Errors
    /// NCCL's, or that it has no such function.
    pub fn suspend(&self, comm: Comm, flags: i32) -> Result<(), NcclError> {
        let suspend = self.there(self.found.suspend, "ncclCommSuspend")?;
        // SAFETY: the communicator is NCCL's.
        self.done(unsafe { suspend(comm, flags) })
    }

    /// `ncclCommResume`. Waits for the other ranks.
    ///
    /// # Errors
    /// NCCL's, or that it has no such function.
    pub fn resume(&self, comm: Comm) -> Result<(), NcclError> {
        let resume = self.there(self.found.resume, "ncclCommResume")?;
        // SAFETY: the communicator is NCCL's.
        self.done(unsafe { resume(comm) })
    }

    /// `ncclCommMemStats`.
    ///
    /// # Errors
    /// NCCL's, or that it has no such function.
    pub fn memory_of(&self, comm: Comm, stat: u32) -> Result<u64, NcclError> {
        let memory = self.there(self.found.memory, "ncclCommMemStats")?;
        let mut value = 0;
        // SAFETY: the communicator is NCCL's, the output our own.
        self.done(unsafe { memory(comm, stat, &raw mut value) })?;
        Ok(value)
    }

    /// Ends a group that was begun without doing it; NCCL's estimate of its microseconds.
    pub(super) fn simulate_end(&self) -> Result<f32, NcclError> {
        let simulate = self.there(self.found.simulate, "ncclGroupSimulateEnd")?;
        let (magic, version) = SIMULATION;
        let mut simulation = Simulation { size: size_of::<Simulation>(), magic, version, time: -1.0 };
        // SAFETY: the structure is our own and says its size.
        self.done(unsafe { simulate(&raw mut simulation) })?;
        Ok(simulation.time)
    }

    /// Whether groups can be simulated.
    ///
    /// # Errors
    /// The library has no such function.
    pub(super) fn can_simulate(&self) -> Result<(), NcclError> {
        self.there(self.found.simulate, "ncclGroupSimulateEnd").map(drop)
    }

    /// A parameter's value.
    ///
    /// # Errors
    /// NCCL's, or that it has no such function.
    pub fn parameter(&self, key: &str, form: ParameterForm) -> Result<Vec<u8>, NcclError> {
        let no_key = |_| NcclError { code: result::INVALID_ARGUMENT, words: "a key with a zero in it".to_owned() };
        let key = CString::new(key).map_err(no_key)?;
        if form == ParameterForm::Text {
            return self.parameter_by_key(&key);
        }
        let parameter = self.bound(&key)?;
        match form {
            ParameterForm::Number(place) => self.number(parameter, place),
            ParameterForm::Str => {
                let string = self.there(self.found.string, "ncclParamGetStr")?;
                let mut text: Text = std::ptr::null();
                // SAFETY: the parameter is NCCL's, the output our own.
                self.done(unsafe { string(parameter, &raw mut text) })?;
                // SAFETY: NCCL's text stays until this thread's next such call.
                Ok(unsafe { bytes_of(text) })
            }
            ParameterForm::Bytes => {
                let read = self.there(self.found.bytes, "ncclParamGet")?;
                let (mut room, mut length) = (vec![0; MOST_VALUE], 0);
                let most = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
                // SAFETY: the parameter is NCCL's, and there is as much room.
                self.done(unsafe { read(parameter, room.as_mut_ptr().cast(), most, &raw mut length) })?;
                room.truncate(usize::try_from(length).unwrap_or_default());
                Ok(room)
            }
            ParameterForm::Key | ParameterForm::Text => Ok(Vec::new()),
        }
    }

    fn parameter_by_key(&self, key: &CStr) -> Result<Vec<u8>, NcclError> {
        let parameter = self.there(self.found.parameter, "ncclParamGetParameter")?;
        let (mut text, mut length): (Text, _) = (std::ptr::null(), 0);
        // SAFETY: the key ends, the outputs are our own.
        self.done(unsafe { parameter(key.as_ptr(), &raw mut text, &raw mut length) })?;
        // SAFETY: NCCL's text stays until this thread's next such call.
        Ok(unsafe { bytes_of(text) })
    }

    fn bound(&self, key: &CStr) -> Result<Parameter, NcclError> {
        let bind = self.there(self.found.bind, "ncclParamBind")?;
        let mut parameter: Parameter = std::ptr::null_mut();
        // SAFETY: the key ends, the output is our own.
        self.done(unsafe { bind(&raw mut parameter, key.as_ptr()) })?;
        Ok(parameter)
    }

    fn number(&self, parameter: Parameter, place: usize) -> Result<Vec<u8>, NcclError> {
        let all = &self.found;
        let signed = [all.number_i8, all.number_i16, all.number_i32, all.number_i64];
        let unsigned = [all.number_u8, all.number_u16, all.number_u32, all.number_u64];
        let found = signed.into_iter().chain(unsigned).nth(place).flatten();
        let read = self.there(found, "function for such a parameter")?;
        let mut room = [0; 8];
        // SAFETY: the parameter is NCCL's, and no number of a parameter is longer than eight bytes.
        self.done(unsafe { read(parameter, room.as_mut_ptr().cast()) })?;
        let width = WIDTHS.get(place).copied().unwrap_or_default();
        Ok(room.into_iter().take(width).collect())
    }

    /// The keys of all parameters.
    ///
    /// # Errors
    /// NCCL's, or that it has no such function.
    pub fn parameter_keys(&self) -> Result<Vec<String>, NcclError> {
        let keys = self.there(self.found.keys, "ncclParamGetAllParameterKeys")?;
        let (mut table, mut length): (*const Text, _) = (std::ptr::null(), 0);
        // SAFETY: the outputs are our own.
        self.done(unsafe { keys(&raw mut table, &raw mut length) })?;
        let count = usize::try_from(length).unwrap_or_default().min(MOST_KEYS);
        if table.is_null() || count == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: NCCL's table has so many texts, and stays until this thread's next such call.
        let texts = unsafe { std::slice::from_raw_parts(table, count) };
        // SAFETY: each ends, and stays as long.
        Ok(texts
            .iter()
            .map(|text| unsafe { bytes_of(*text) })
            .map(|key| String::from_utf8_lossy(&key).into())
            .collect())
    }
}

/// # Safety
/// `text` is NULL or ends, and stays until this returns.
unsafe fn bytes_of(text: *const c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: our caller says so.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    bytes.iter().copied().take(MOST_VALUE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_the_wires_numbers() {
        assert_eq!(ParameterForm::of(0), Some(ParameterForm::Text));
        assert_eq!(ParameterForm::of(5), Some(ParameterForm::Number(3)));
        assert_eq!((WIDTHS[3], ParameterForm::of(12)), (8, None));
    }

    #[test]
    fn a_simulation_has_nccls_layout() {
        assert_eq!((size_of::<Simulation>(), std::mem::offset_of!(Simulation, time)), (24, 16));
    }
}
