//! Look-up: names to functions, 16-byte names to hidden tables. Both are answered here, before and after `cuInit`.

use crate::Driver;
use crate::expansion::Symbols;
use crate::export_tables;
use crate::look_up::{self, Found};
use crate::prelude::*;
use crate::process::trace;

/// `cuGetProcAddress` with a status. Without such a function the answer is NULL, the status says why, and the call
/// succeeds, as with driver 580. A caller that asks for no status gets the error instead. The empty name, which the
/// runtime asks for to learn whether this works at all, is a success in any case.
///
/// # Errors
/// INVALID_VALUE for missing pointers and unknown flags, NOT_FOUND where there is no such function and no status.
///
/// # Safety
/// The program's contract of the function of this name.
#[allow(non_snake_case, reason = "the name is C's")]
pub unsafe fn cuGetProcAddress_v2<D: Driver>(
    _driver: &'static D,
    symbols: &'static Symbols,
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut u32,
) -> CudaResult<()> {
    c::present(function)?;
    // SAFETY: the program's text.
    let name = unsafe { c::text(symbol) }?;
    if !look_up::flags_are_known(flags) {
        return Err(CudaError::INVALID_VALUE);
    }
    let found = name.to_str().map_or(Found::Nothing, |name| look_up::find(symbols, name, version, flags));
    let address = if let Found::Function(address) = found { address } else { std::ptr::null_mut() };
    if address.is_null() && !name.is_empty() {
        trace::not_found(&name.to_string_lossy(), version);
    }
    // SAFETY: NULL or the program's variables.
    unsafe {
        c::put(function, address);
        c::put(status, found.status());
    }
    if !status.is_null() || name.is_empty() || !address.is_null() { Ok(()) } else { Err(CudaError::NOT_FOUND) }
}

/// `cuGetProcAddress` without a status.
///
/// # Errors
/// As [`cuGetProcAddress_v2`].
///
/// # Safety
/// As [`cuGetProcAddress_v2`].
#[allow(non_snake_case, reason = "the name is C's")]
pub unsafe fn cuGetProcAddress<D: Driver>(
    driver: &'static D,
    symbols: &'static Symbols,
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> CudaResult<()> {
    // SAFETY: as the program passed it.
    unsafe { cuGetProcAddress_v2(driver, symbols, symbol, function, version, flags, std::ptr::null_mut()) }
}

/// `cuGetExportTable`.
///
/// # Errors
/// INVALID_VALUE for a table floe does not give; `*table` is NULL then.
///
/// # Safety
/// The program's contract of the function of this name.
#[allow(non_snake_case, reason = "the name is C's")]
pub unsafe fn cuGetExportTable<D: Driver>(
    driver: &'static D,
    _symbols: &'static Symbols,
    table: *mut *const c_void,
    id: *const Uuid,
) -> CudaResult<()> {
    c::present(table)?;
    // SAFETY: the program's variable.
    let found = export_tables::find(driver, unsafe { c::reference(id) }?);
    // SAFETY: the program's variable.
    unsafe { c::put(table, found.unwrap_or(std::ptr::null())) };
    found.map(|_| ()).ok_or(CudaError::INVALID_VALUE)
}
