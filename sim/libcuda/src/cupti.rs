//! The functions of CUPTI by which a worker asks what the device did, under names of floe's own: no program finds them in
//! place of NVIDIA's. C's calls come in; entries of `simulator::activities` go out as records in the caller's buffers.
#![allow(non_snake_case, reason = "the names are NVIDIA's, behind a prefix")]

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use floe_cupti::buffers::{Complete, Request, User, Writer, next_record};
use floe_cupti::record::{External, Kernel, Memcpy, Memset, Record as _};
use floe_cupti::{Code, VERSION, code, kind, memory_kind};

use crate::simulator::activities::{self, Activity, Entry};

/// The context of all records; there is one device memory for all.
const CONTEXT: u32 = 1;

static USER: Mutex<Option<User>> = Mutex::new(None);

fn guard(call: impl FnOnce() -> Code) -> Code {
    // What a panic leaves half done is behind locks, which later users take as they find it.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(code::UNKNOWN)
}

/// A kernel's name, which stays: there are as many as kernels.
fn name(name: &str) -> *const c_char {
    static NAMES: Mutex<Option<HashSet<&'static CStr>>> = Mutex::new(None);
    let name = CString::new(name).unwrap_or_default();
    let mut names = floe_lock::lock(&NAMES);
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name.as_c_str()) {
        return known.as_ptr();
    }
    let kept: &'static CStr = Box::leak(name.into_boxed_c_str());
    names.insert(kept);
    kept.as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn floe_cuptiGetVersion(version: *mut u32) -> Code {
    // SAFETY: the caller gives room for it.
    unsafe { version.write(VERSION) };
    code::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn floe_cuptiGetTimestamp(now: *mut u64) -> Code {
    // SAFETY: the caller gives room for it.
    unsafe { now.write(activities::now()) };
    code::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn floe_cuptiActivityRegisterCallbacks(request: Request, complete: Complete) -> Code {
    *floe_lock::lock(&USER) = Some(User { request, complete });
    code::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn floe_cuptiActivityEnable(kind: u32) -> Code {
    if activities::want(kind, true) { code::SUCCESS } else { code::INVALID_KIND }
}

#[unsafe(no_mangle)]
extern "C" fn floe_cuptiActivityDisable(kind: u32) -> Code {
    if activities::want(kind, false) { code::SUCCESS } else { code::INVALID_KIND }
}

#[unsafe(no_mangle)]
extern "C" fn floe_cuptiActivityPushExternalCorrelationId(kind: u32, id: u64) -> Code {
    if activities::push(kind, id) { code::SUCCESS } else { code::INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn floe_cuptiActivityPopExternalCorrelationId(kind: u32, id: *mut u64) -> Code {
    let Some(last) = activities::pop(kind) else { return code::QUEUE_EMPTY };
    // SAFETY: the caller gives room for it.
    unsafe { id.write(last) };
    code::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn floe_cuptiActivityGetNextRecord(buffer: *mut u8, bytes: usize, record: *mut *mut u8) -> Code {
    // SAFETY: the caller gives a buffer that it got back with so many bytes, and a record of it or NULL.
    let next = unsafe { next_record(buffer, bytes, record.read()) };
    let Some(next) = next else { return code::MAX_LIMIT_REACHED };
    // SAFETY: as above.
    unsafe { record.write(next) };
    code::SUCCESS
}

/// All work that has ended is in; work that has not is never given.
#[unsafe(no_mangle)]
extern "C" fn floe_cuptiActivityFlushAll(_: u32) -> Code {
    guard(|| {
        let Some(user) = *floe_lock::lock(&USER) else { return code::INVALID_OPERATION };
        let mut writer = Writer::new(user);
        for entry in activities::take() {
            // SAFETY: the caller's functions keep CUPTI's contract.
            unsafe { write(&mut writer, &entry) };
        }
        // SAFETY: as above.
        unsafe { writer.finish() };
        code::SUCCESS
    })
}

/// # Safety
/// As [`Writer::write`].
unsafe fn write(writer: &mut Writer, entry: &Entry) {
    let &Entry::Done { ref activity, correlation, stream, begin: start, end } = entry else {
        if let &Entry::Named { correlation, kind: external_kind, id: external } = entry {
            let kind = kind::EXTERNAL_CORRELATION;
            // SAFETY: our caller says so.
            unsafe { writer.write(&External { kind, external_kind, external, correlation, reserved: 0 }) };
        }
        return;
    };
    // SAFETY: our caller says so.
    unsafe {
        match activity {
            Activity::Kernel { .. } => {
                writer.write(&Kernel { start, end, stream, correlation, ..kernel(activity) });
            }
            &Activity::Copy { kind, ends, bytes } => {
                writer.write(&Memcpy { start, end, stream, correlation, ..copy(kind, ends, bytes) });
            }
            &Activity::Fill { value, bytes } => {
                writer.write(&Memset { start, end, stream, correlation, ..fill(value, bytes) });
            }
        }
    }
}

/// A kernel's record, without its time and place.
fn kernel(activity: &Activity) -> Kernel {
    let plain = Kernel { kind: kind::CONCURRENT_KERNEL, context: CONTEXT, ..Kernel::zeroed() };
    let Activity::Kernel { kernel, grid, block, shared: [static_shared, dynamic_shared] } = activity else {
        return plain;
    };
    Kernel {
        grid: grid.map(u32::cast_signed),
        block: block.map(u32::cast_signed),
        static_shared: static_shared.cast_signed(),
        dynamic_shared: dynamic_shared.cast_signed(),
        name: name(&kernel.name),
        ..plain
    }
}

/// A copy's record, without its time and place. Nobody waits for work of a stream.
fn copy(copy_kind: u8, [source_kind, target_kind]: [u8; 2], bytes: u64) -> Memcpy {
    Memcpy {
        kind: kind::MEMCPY,
        copy_kind,
        source_kind,
        target_kind,
        flags: 1,
        bytes,
        context: CONTEXT,
        copies: 1,
        ..Memcpy::zeroed()
    }
}

/// The same of a fill.
fn fill(value: u32, bytes: u64) -> Memset {
    let memory_kind = memory_kind::DEVICE.into();
    Memset { kind: kind::MEMSET, value, bytes, context: CONTEXT, flags: 1, memory_kind, ..Memset::zeroed() }
}
