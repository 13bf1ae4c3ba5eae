//! CUPTI's functions, found by name. In: a loaded library. Out: C calls, and what they answer. It keeps nothing.

use std::ffi::c_void;

use floe_cupti::buffers::{Complete, Request};
use floe_cupti::{FLUSH_FORCED, code};
use libloading::Library;

use super::error::{CuptiError, done};
use super::store;

type OfKind = unsafe extern "C" fn(kind: u32) -> u32;

/// The functions that a worker calls.
#[derive(Debug)]
pub(super) struct Functions {
    version: unsafe extern "C" fn(version: *mut u32) -> u32,
    register: unsafe extern "C" fn(request: Request, complete: Complete) -> u32,
    enable: OfKind,
    disable: OfKind,
    flush: OfKind,
    next: unsafe extern "C" fn(buffer: *mut u8, bytes: usize, record: *mut *mut c_void) -> u32,
    push: unsafe extern "C" fn(kind: u32, id: u64) -> u32,
    pop: unsafe extern "C" fn(kind: u32, id: *mut u64) -> u32,
    now: unsafe extern "C" fn(now: *mut u64) -> u32,
    /// The CPU device's has no attributes.
    set: Option<unsafe extern "C" fn(attribute: u32, bytes: *mut usize, value: *mut c_void) -> u32>,
}

/// `CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED`, a byte.
const BUFFERS_ARE_PINNED: u32 = 8;

fn find<T: Copy>(library: &Library, prefix: &str, name: &'static str) -> Result<T, &'static str> {
    // SAFETY: the field's type is that of NVIDIA's function of this name; the CPU device's has it, too.
    let found = unsafe { library.get::<T>(format!("{prefix}{name}").as_bytes()) };
    found.map(|found| *found).map_err(|_| name)
}

impl Functions {
    /// The name of the first that is missing, where one is.
    pub(super) fn load(library: &Library, prefix: &str) -> Result<Self, &'static str> {
        Ok(Self {
            version: find(library, prefix, "cuptiGetVersion")?,
            register: find(library, prefix, "cuptiActivityRegisterCallbacks")?,
            enable: find(library, prefix, "cuptiActivityEnable")?,
            disable: find(library, prefix, "cuptiActivityDisable")?,
            flush: find(library, prefix, "cuptiActivityFlushAll")?,
            next: find(library, prefix, "cuptiActivityGetNextRecord")?,
            push: find(library, prefix, "cuptiActivityPushExternalCorrelationId")?,
            pop: find(library, prefix, "cuptiActivityPopExternalCorrelationId")?,
            now: find(library, prefix, "cuptiGetTimestamp")?,
            set: find(library, prefix, "cuptiActivitySetAttribute").ok(),
        })
    }

    pub(super) fn version(&self) -> Result<u32, CuptiError> {
        let mut version = 0;
        // SAFETY: the output is our own.
        done("cuptiGetVersion", unsafe { (self.version)(&raw mut version) }).map(|()| version)
    }

    /// Has CUPTI keep what GPUs write in host memory: device memory is the session's, and its quota knows nothing of CUPTI.
    pub(super) fn keep_out_of_device_memory(&self) {
        let (mut bytes, mut value) = (size_of::<u8>(), 1_u8);
        if let Some(set) = self.set {
            // SAFETY: the value is our own and has so many bytes. Devices in confidential mode refuse it, and go on without.
            unsafe { set(BUFFERS_ARE_PINNED, &raw mut bytes, (&raw mut value).cast()) };
        }
    }

    /// Has records come to the store.
    pub(super) fn register(&self) -> Result<(), CuptiError> {
        // SAFETY: both functions keep CUPTI's contract and never unwind.
        done("cuptiActivityRegisterCallbacks", unsafe { (self.register)(store::request, store::complete) })
    }

    pub(super) fn enable(&self, kind: u32) -> Result<(), CuptiError> {
        // SAFETY: a number.
        done("cuptiActivityEnable", unsafe { (self.enable)(kind) })
    }

    pub(super) fn disable(&self, kind: u32) -> Result<(), CuptiError> {
        // SAFETY: a number.
        done("cuptiActivityDisable", unsafe { (self.disable)(kind) })
    }

    pub(super) fn flush(&self, forced: bool) -> Result<(), CuptiError> {
        // SAFETY: a number.
        done("cuptiActivityFlushAll", unsafe { (self.flush)(if forced { FLUSH_FORCED } else { 0 }) })
    }

    /// The record behind one of a buffer, at its address; the first for 0.
    ///
    /// # Safety
    /// The buffer is one that CUPTI filled with so many bytes, and the record 0 or what this gave for it.
    pub(super) unsafe fn next(&self, buffer: *mut u8, bytes: usize, record: usize) -> Option<*const u8> {
        let mut at: *mut c_void = std::ptr::with_exposed_provenance_mut(record);
        // SAFETY: our caller says so, and the output is our own.
        let code = unsafe { (self.next)(buffer, bytes, &raw mut at) };
        (code == code::SUCCESS && !at.is_null()).then_some(at.cast_const().cast())
    }

    pub(super) fn push(&self, kind: u32, id: u64) {
        // SAFETY: numbers. A failure costs the link to the command only.
        unsafe { (self.push)(kind, id) };
    }

    pub(super) fn pop(&self, kind: u32) {
        let mut id = 0;
        // SAFETY: a number, and the output is our own.
        unsafe { (self.pop)(kind, &raw mut id) };
    }

    pub(super) fn now(&self) -> Result<u64, CuptiError> {
        let mut now = 0;
        // SAFETY: the output is our own.
        done("cuptiGetTimestamp", unsafe { (self.now)(&raw mut now) }).map(|()| now)
    }
}
