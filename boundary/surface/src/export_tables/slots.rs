//! The functions in the hidden tables, each named by what callers get from it. Their arguments come in as observed,
//! plain answers go out. They ask the implementation through its ordinary methods and remember nothing but what the
//! context-local storage keeps.

use super::context_storage::{self, Destructor};
use super::integrity::{self, DeviceIdentity, Process};
use crate::Driver;
use crate::marshal::module::image_at;
use crate::prelude::*;
use crate::process;
use std::sync::OnceLock;

/// This library, as its slots see it: the implementation, and the addresses that the integrity check covers.
pub(super) struct Library {
    pub(super) driver: &'static dyn Driver,
    pub(super) runtime_table: u64,
    pub(super) check_table: u64,
    pub(super) check: u64,
}

/// Set before any table is handed out.
static LIBRARY: OnceLock<Library> = OnceLock::new();

/// Gives the slots their library, once.
pub(super) fn begin(library: impl FnOnce() -> Library) {
    LIBRARY.get_or_init(library);
}

fn library() -> Result<&'static Library, CudaError> {
    LIBRARY.get().ok_or(CudaError::NOT_INITIALIZED)
}

/// Runs a slot that needs `cuInit`.
fn guard(name: &'static str, call: impl FnMut(&'static dyn Driver) -> CudaResult<()>) -> CuResult {
    match library() {
        Ok(library) => process::guard(library.driver, name, call),
        Err(error) => error.into(),
    }
}

/// Runs a slot that does not need `cuInit`.
fn guard_always(name: &'static str, call: impl FnMut(&'static dyn Driver) -> CudaResult<()>) -> CuResult {
    match library() {
        Ok(library) => process::guard_always(library.driver, name, call),
        Err(error) => error.into(),
    }
}

/// Visits one function of a module: the caller's value, the function, a word nobody reads.
type Visitor = unsafe extern "C" fn(*mut c_void, Function, u64);

/// Loads a module from nvcc's wrapper.
pub(super) unsafe extern "C" fn load_wrapper(module: *mut Module, wrapper: *const c_void) -> CuResult {
    guard("the runtime's module load", |driver| {
        c::present(module)?;
        // SAFETY: the runtime passes the wrapper nvcc made.
        let image = unsafe { image_at(wrapper) }?;
        let loaded = driver.module_load_data(&image, &mut JitOptions::none())?;
        // SAFETY: the runtime's variable.
        unsafe { c::put(module, loaded) };
        Ok(())
    })
}

/// As [`load_wrapper`], with options that only old runtimes set and that change no result.
pub(super) unsafe extern "C" fn load_wrapper_with_options(
    module: *mut Module,
    wrapper: *const c_void,
    _options: *mut c_void,
    _values: *mut c_void,
    _count: u32,
) -> CuResult {
    // SAFETY: as the runtime passed it.
    unsafe { load_wrapper(module, wrapper) }
}

/// As [`load_wrapper_with_options`], from the container itself.
pub(super) unsafe extern "C" fn load_container(
    container: *const c_void,
    module: *mut Module,
    _options: *mut c_void,
    _values: *mut c_void,
    _count: u32,
) -> CuResult {
    // SAFETY: as the runtime passed it; containers are a form of image too.
    unsafe { load_wrapper(module, container) }
}

/// The device's primary context, neither retained nor made active.
pub(super) unsafe extern "C" fn primary_context(context: *mut Context, device: Device) -> CuResult {
    guard("the runtime's primary context", |driver| {
        c::present(context)?;
        let answer = driver.primary_context(device)?;
        // SAFETY: the runtime's variable.
        unsafe { c::put(context, answer) };
        Ok(())
    })
}

/// There is nothing to load.
pub(super) extern "C" fn load_compilers() -> CuResult {
    CuResult::SUCCESS
}

/// Does nothing.
pub(super) extern "C" fn nothing(_: usize) {}

/// Answers 0, which is success where a code is expected.
pub(super) extern "C" fn zero() -> u32 {
    0
}

/// Answers that this is not supported, without a message: callers ask to learn just that.
pub(super) extern "C" fn not_supported() -> CuResult {
    CudaError::NOT_SUPPORTED.into()
}

/// The calling thread's current context.
pub(super) unsafe extern "C" fn current_context(context: *mut Context) -> CuResult {
    guard("the tools' current context", |driver| {
        let answer = driver.ctx_get_current()?;
        // SAFETY: NULL or the caller's variable.
        unsafe { c::put(context, answer) };
        Ok(())
    })
}

/// A buffer a tool would write which callbacks it wants to; zero says none. Callers only read it. The size counts
/// entries, not bytes. With 1,024 bytes the runtime reads past the end for its later functions, and then calls back
/// into missing tools. 16 bytes per entry is more than any runtime seen reads.
static RUNTIME_CALLBACKS: [u64; 2 * RUNTIME_CALLBACK_COUNT] = [0; 2 * RUNTIME_CALLBACK_COUNT];
const RUNTIME_CALLBACK_COUNT: usize = 0x400;
/// As above, for another kind of callback.
static OTHER_CALLBACKS: [u64; 2 * OTHER_CALLBACK_COUNT] = [0; 2 * OTHER_CALLBACK_COUNT];
const OTHER_CALLBACK_COUNT: usize = 14;

/// Hands out the first buffer.
pub(super) unsafe extern "C" fn runtime_callbacks(buffer: *mut *const u64, size: *mut usize) {
    // SAFETY: NULL or the caller's variables.
    unsafe {
        c::put(buffer, RUNTIME_CALLBACKS.as_ptr());
        c::put(size, RUNTIME_CALLBACK_COUNT);
    }
}

/// Hands out the second buffer.
pub(super) unsafe extern "C" fn other_callbacks(buffer: *mut *const u64, size: *mut usize) {
    // SAFETY: NULL or the caller's variables.
    unsafe {
        c::put(buffer, OTHER_CALLBACKS.as_ptr());
        c::put(size, OTHER_CALLBACK_COUNT);
    }
}

/// The context a storage call means: NULL and −1 are the current one.
fn storage_context(driver: &dyn Driver, context: Context) -> CudaResult<Context> {
    if context.0 != 0 && context.0 != u64::MAX {
        return Ok(context);
    }
    let current = driver.ctx_get_current()?;
    if current.is_null() { Err(CudaError::INVALID_CONTEXT) } else { Ok(current) }
}

/// Keeps a value for a context.
pub(super) unsafe extern "C" fn storage_put(
    context: Context,
    key: u64,
    value: u64,
    destructor: Option<Destructor>,
) -> CuResult {
    guard("context storage", |driver| {
        context_storage::put(storage_context(driver, context)?, key, value, destructor);
        Ok(())
    })
}

/// Forgets a value of a context.
pub(super) unsafe extern "C" fn storage_delete(context: Context, key: u64) -> CuResult {
    guard("context storage", |driver| context_storage::delete(storage_context(driver, context)?, key))
}

/// A value of a context; INVALID_HANDLE where there is none.
pub(super) unsafe extern "C" fn storage_get(value: *mut u64, context: Context, key: u64) -> CuResult {
    guard("context storage", |driver| {
        c::present(value)?;
        let answer = context_storage::get(storage_context(driver, context)?, key)?;
        // SAFETY: the caller's variable.
        unsafe { c::put(value, answer) };
        Ok(())
    })
}

/// The value the runtime compares with its own.
pub(super) unsafe extern "C" fn check_integrity(version: u32, seconds: u64, result: *mut [u8; 16]) -> CuResult {
    guard_always("the integrity check", |driver| {
        c::present(result)?;
        let answer = integrity::answer(version, seconds, &this_process(driver)?, &devices(driver)?);
        // SAFETY: the caller's variable.
        unsafe { c::put(result, answer) };
        Ok(())
    })
}

#[allow(clippy::cast_possible_truncation, reason = "the low half of the thread's number is what is compared")]
fn this_process(driver: &dyn Driver) -> CudaResult<Process> {
    // SAFETY: takes nothing and cannot fail.
    let thread = unsafe { libc::pthread_self() } as u64;
    let library = library()?;
    Ok(Process {
        driver_version: driver.driver_get_version()?.cast_unsigned(),
        process: std::process::id(),
        thread: thread as u32,
        runtime_table: library.runtime_table,
        check_table: library.check_table,
        check: library.check,
    })
}

fn devices(driver: &dyn Driver) -> CudaResult<Vec<DeviceIdentity>> {
    (0..driver.device_get_count()?)
        .map(|ordinal| {
            let device = driver.device_get(ordinal)?;
            Ok(DeviceIdentity {
                uuid: driver.device_get_uuid(device)?.bytes,
                pci_domain: driver.device_get_attribute(device_attribute::PCI_DOMAIN_ID, device)?,
                pci_bus: driver.device_get_attribute(device_attribute::PCI_BUS_ID, device)?,
                pci_device: driver.device_get_attribute(device_attribute::PCI_DEVICE_ID, device)?,
            })
        })
        .collect()
}

/// A context is an ordinary one: flag 0. The third argument stays as it is.
pub(super) unsafe extern "C" fn context_flag(
    _context: Context,
    flag: *mut u32,
    _inner: *mut *const c_void,
) -> CuResult {
    // SAFETY: NULL or the caller's variable.
    unsafe { c::put(flag, 0) };
    CuResult::SUCCESS
}

/// A context's number, from 1. NULL is no context, also where one is current, and has 0: threads without one ask so.
#[allow(clippy::cast_possible_truncation, reason = "numbers count contexts of one process")]
pub(super) unsafe extern "C" fn context_number(context: Context, number: *mut u32) -> CuResult {
    guard("the context's number", |driver| {
        let answer = if context == Context::NULL { 0 } else { driver.ctx_get_id(context)? };
        // SAFETY: NULL or the caller's variable.
        unsafe { c::put(number, answer as u32) };
        Ok(())
    })
}

/// A stream's internal object: here the stream itself, the default one under its own number.
pub(super) unsafe extern "C" fn stream_object(_context: Context, stream: Stream, object: *mut u64) -> CuResult {
    guard("the stream's object", |_| {
        c::present(object)?;
        if stream.0 == u64::MAX {
            return Err(CudaError::INVALID_HANDLE);
        }
        // SAFETY: the caller's variable.
        unsafe { c::put(object, stream.or(Stream::LEGACY).0) };
        Ok(())
    })
}

/// A stream's number, by the object [`stream_object`] gave.
#[allow(clippy::cast_possible_truncation, reason = "numbers count streams of one process")]
pub(super) unsafe extern "C" fn stream_number(_context: Context, object: u64, number: *mut u32) -> CuResult {
    guard("the stream's number", |driver| {
        c::present(number)?;
        let answer = driver.stream_get_id(Stream(object).or(Stream::LEGACY))?;
        // SAFETY: the caller's variable.
        unsafe { c::put(number, answer as u32) };
        Ok(())
    })
}

/// Calls `visit` with every function of a module. 1 says that it went well; anything else is a failure to cuFFT.
pub(super) unsafe extern "C" fn visit_functions(
    _context: Context,
    module: Module,
    visit: Option<Visitor>,
    user: *mut c_void,
) -> u32 {
    let done = guard("the module's functions", |driver| {
        let visit = visit.ok_or(CudaError::INVALID_VALUE)?;
        let mut functions = vec![Function::NULL; driver.module_get_function_count(module)? as usize];
        driver.module_enumerate_functions(&mut functions, module)?;
        for function in functions {
            // SAFETY: the caller passed a visitor and the value it wants with it.
            unsafe { visit(user, function, 0) };
        }
        Ok(())
    });
    u32::from(done == CuResult::SUCCESS)
}
