//! NVIDIA's NCCL in the same process: some of its functions call others by name, and floe's have the name first. What such a
//! library calls must be its own, or one that a program opened by a path gets ids and communicators of floe's.
//! In: the address that called, a function's name. Out: the caller's own function. Callers of any other kind have none.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::Mutex;

use libc::{RTLD_NODELETE, RTLD_NOLOAD};
use libloading::os::unix::{Library, RTLD_LAZY};

/// Exports `$name`, which jumps to the caller's own function of that name where it has one, else to `$own`, with the same
/// arguments either way. C passes NCCL's in registers and on the stack; none has floats.
macro_rules! exported {
    ($name:ident, $own:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            static NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
            ::core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "sub rsp, 8",
                "mov rdi, [rsp + 56]",
                "mov rsi, [rip + {name}]",
                "call {find}",
                "add rsp, 8",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "test rax, rax",
                "jz {own}",
                "jmp rax",
                name = sym NAME,
                find = sym $crate::callers::own_function,
                own = sym $own,
            )
        }
    };
}
pub(crate) use exported;

/// The address of the function of this name in the caller's library, if that is an NCCL; else 0.
///
/// # Safety
/// `name` ends with a zero and stays.
pub(crate) unsafe extern "C" fn own_function(caller: usize, name: *const c_char) -> usize {
    static FOUND: Mutex<Option<HashMap<(usize, usize), usize>>> = Mutex::new(None);
    let key = (caller, name.addr());
    if let Some(found) = floe_lock::lock(&FOUND).as_ref().and_then(|found| found.get(&key).copied()) {
        return found;
    }
    // SAFETY: our caller says so.
    let found = find(caller, unsafe { CStr::from_ptr(name) }).unwrap_or(0);
    floe_lock::lock(&FOUND).get_or_insert_default().insert(key, found);
    found
}

/// A library of the process: where it begins, and its file.
struct Object {
    base: usize,
    file: &'static CStr,
}

/// The library that has this address.
fn object(address: usize) -> Option<Object> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: any address may be asked for, and there is room for the answer.
    let is_found = unsafe { libc::dladdr(std::ptr::without_provenance(address), &raw mut found) } != 0;
    if !is_found || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's text ends, and stays as long as the library, which is running the call that brought us here.
    let file = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(Object { base: found.dli_fbase.addr(), file })
}

fn find(caller: usize, name: &CStr) -> Option<usize> {
    let library = object(caller)?;
    let file = library.file.to_str().ok()?;
    if !file.rsplit('/').next()?.starts_with("libnccl") {
        return None;
    }
    // It stays from now on: another library at its place would be taken for it.
    let flags = RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE;
    // SAFETY: it is loaded already, so nothing of it runs.
    let opened = unsafe { Library::open(Some(file), flags) }.ok()?;
    // SAFETY: the symbol is used as an address only.
    let function = unsafe { opened.get::<*const ()>(name.to_bytes_with_nul()) }.ok()?.addr();
    // Of another library it would be one that this one needs.
    (object(function)?.base == library.base).then_some(function)
}
