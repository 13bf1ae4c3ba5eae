//! The session's functions, found in floe's `libcuda.so.1` of this process.
//! In: plain data. Out: results, with the words of those that failed. It never falls back to another library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use floe_nccl::{Call, Calls, Code, Find, Made, Make, SYMBOL, Suspend, VERSION, code};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// A result of NCCL that is no success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) words: String,
}

impl Failure {
    pub(crate) fn new(code: Code, words: &str) -> Self {
        Self { code, words: words.to_owned() }
    }
}

pub(crate) type Outcome<T> = Result<T, Failure>;

/// Room for words.
const WORDS: usize = 1024;

fn calls() -> Outcome<&'static Calls> {
    static FOUND: OnceLock<Option<&'static Calls>> = OnceLock::new();
    let missing = "floe's libnccl.so.2 needs floe's libcuda.so.1 of the same release: start the program by floe run";
    FOUND.get_or_init(find).ok_or_else(|| Failure::new(code::SYSTEM_ERROR, missing))
}

fn find() -> Option<&'static Calls> {
    // SAFETY: loading runs initialisers of the libcuda that this process has or finds, as the CUDA runtime does.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL) }.ok()?;
    // SAFETY: a library that has this symbol is floe's, where it is such a function.
    let find = unsafe { library.get::<Find>(SYMBOL.to_bytes_with_nul()) }.ok().map(|find| *find)?;
    // floe's stays to the process's end.
    std::mem::forget(library);
    // SAFETY: the function takes a number and gives NULL or a table that stays.
    unsafe { find(VERSION).as_ref() }
}

fn done(calls: &Calls, code: Code) -> Outcome<()> {
    if code == code::SUCCESS {
        return Ok(());
    }
    let mut words = [0 as c_char; WORDS];
    // SAFETY: there is so much room, and what is written ends with a zero.
    let text = unsafe {
        (calls.last_error)(words.as_mut_ptr(), words.len());
        CStr::from_ptr(words.as_ptr())
    };
    Err(Failure { code, words: text.to_string_lossy().into_owned() })
}

macro_rules! wrapped {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $given:ty;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name($($argument: $type),*) -> Outcome<$given> {
            let calls = calls()?;
            let mut given = <$given>::default();
            // SAFETY: the output is our own; all else are numbers that the session looks up.
            done(calls, unsafe { (calls.$name)($($argument,)* (&raw mut given).cast()) })?;
            Ok(given)
        }
    )*};
}

wrapped! {
    /// The version of the server's NCCL.
    open() -> u32;
    /// The current device.
    device() -> c_int;
    /// A communicator's asynchronous error.
    ask(comm: u64) -> Code;
    /// An operation with a scalar, which the program has at that address.
    create_reduction(comm: u64, datatype: u32, scalar: usize, bytes: usize) -> u32;
    /// Registers memory.
    register(comm: u64, at: usize, bytes: usize) -> u64;
    /// What NCCL counts of a communicator's memory.
    memory(comm: u64, stat: u32) -> u64;
}

/// A new unique id.
pub(crate) fn unique_id() -> Outcome<[u8; floe_nccl::UNIQUE_ID_BYTES]> {
    let (calls, mut id) = (calls()?, [0; floe_nccl::UNIQUE_ID_BYTES]);
    // SAFETY: there is room for one.
    done(calls, unsafe { (calls.unique_id)(id.as_mut_ptr()) })?;
    Ok(id)
}

/// A unique id with which new ranks join those of a communicator.
pub(crate) fn grow_id(comm: u64) -> Outcome<[u8; floe_nccl::UNIQUE_ID_BYTES]> {
    let (calls, mut id) = (calls()?, [0; floe_nccl::UNIQUE_ID_BYTES]);
    // SAFETY: there is room for one.
    done(calls, unsafe { (calls.grow_id)(comm, id.as_mut_ptr()) })?;
    Ok(id)
}

/// Suspends and resumes communicators together, and waits.
pub(crate) fn suspend(list: &[Suspend]) -> Outcome<()> {
    let calls = calls()?;
    // SAFETY: there are so many.
    done(calls, unsafe { (calls.suspend)(list.as_ptr(), list.len()) })
}

/// NCCL's estimate of the microseconds of a group's calls.
pub(crate) fn simulate(list: &[Call]) -> Outcome<f32> {
    let (calls, mut time) = (calls()?, 0.0);
    // SAFETY: there are so many, and the output is our own.
    done(calls, unsafe { (calls.simulate)(list.as_ptr(), list.len(), &raw mut time) })?;
    Ok(time)
}

/// Appends bytes to the list that a call is to fill.
unsafe extern "C" fn append(to: *mut c_void, bytes: *const u8, count: usize) {
    // SAFETY: the session passes on what `parameter` and `parameter_keys` gave it, on their own thread.
    let to = unsafe { &mut *to.cast::<Vec<Vec<u8>>>() };
    // SAFETY: there are so many bytes.
    to.push(if count == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(bytes, count) }.to_vec() });
}

/// A parameter of the server's NCCL, in one of the forms of [`floe_nccl::form`].
pub(crate) fn parameter(key: &CStr, form: u32) -> Outcome<Vec<u8>> {
    let (calls, mut read) = (calls()?, Vec::<Vec<u8>>::new());
    // SAFETY: the key ends; `append` gets the list that it expects, which outlives the call.
    done(calls, unsafe { (calls.parameter)(key.as_ptr(), form, append, (&raw mut read).cast()) })?;
    Ok(read.pop().unwrap_or_default())
}

/// The keys of all parameters.
pub(crate) fn parameter_keys() -> Outcome<Vec<Vec<u8>>> {
    let (calls, mut read) = (calls()?, Vec::<Vec<u8>>::new());
    // SAFETY: as above.
    done(calls, unsafe { (calls.parameter_keys)(append, (&raw mut read).cast()) })?;
    Ok(read)
}

/// Makes communicators together, and waits. Their lists outlive the call.
pub(crate) fn make(makes: &[Make]) -> Outcome<Vec<Made>> {
    let (calls, mut made) = (calls()?, vec![Made::default(); makes.len()]);
    // SAFETY: there are so many, and room for as many.
    done(calls, unsafe { (calls.make)(makes.as_ptr(), makes.len(), made.as_mut_ptr()) })?;
    Ok(made)
}

/// The calls of a group.
pub(crate) fn group(list: &[Call]) -> Outcome<()> {
    let calls = calls()?;
    // SAFETY: there are so many.
    done(calls, unsafe { (calls.group)(list.as_ptr(), list.len()) })
}

/// Ends a communicator.
pub(crate) fn end(comm: u64, how: u32) -> Outcome<()> {
    let calls = calls()?;
    // SAFETY: numbers only.
    done(calls, unsafe { (calls.end)(comm, how) })
}

/// Destroys an operation.
pub(crate) fn destroy_reduction(comm: u64, operation: u32) -> Outcome<()> {
    let calls = calls()?;
    // SAFETY: numbers only.
    done(calls, unsafe { (calls.destroy_reduction)(comm, operation) })
}

/// Undoes a registration.
pub(crate) fn deregister(comm: u64, handle: u64) -> Outcome<()> {
    let calls = calls()?;
    // SAFETY: numbers only.
    done(calls, unsafe { (calls.deregister)(comm, handle) })
}

/// Device memory of the current context.
pub(crate) fn allocate(bytes: usize) -> Outcome<usize> {
    let (calls, mut at) = (calls()?, 0);
    // SAFETY: the output is our own.
    done(calls, unsafe { (calls.allocate)(&raw mut at, bytes) })?;
    Ok(at)
}

/// Frees it.
pub(crate) fn free(at: usize) -> Outcome<()> {
    let calls = calls()?;
    // SAFETY: numbers only.
    done(calls, unsafe { (calls.free)(at) })
}

/// Has the log name a function that is not there.
pub(crate) fn refused(name: &CStr) {
    if let Ok(calls) = calls() {
        // SAFETY: the name is our own and ends.
        unsafe { (calls.refused)(name.as_ptr()) };
    }
}
