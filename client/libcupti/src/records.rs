//! Rows of the session as CUPTI's records. In: a row, the line between the clocks. Out: the record of CUDA 13.0's layout.
//! It keeps the names of kernels, which records point to for the rest of the process; there are as many as the program has.

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char};
use std::sync::Mutex;

use floe_cupti::clock::Line;
use floe_cupti::kind;
use floe_cupti::record::{Api, External, Kernel, Memcpy, Memset, Record as _};
use floe_cupti::table::Row;

/// Bytes of all names, with what each takes beside its text. A server that says more names has them cut off.
const MOST_NAME_BYTES: usize = 64 << 20;
/// What a name takes beside its text.
const BESIDE_NAME: usize = 64;

/// Names that records point to.
#[derive(Debug, Default)]
struct Names {
    known: HashSet<&'static CStr>,
    bytes: usize,
}

/// A name that stays.
pub(crate) fn name(name: &CStr) -> *const c_char {
    static NAMES: Mutex<Option<Names>> = Mutex::new(None);
    let mut names = floe_lock::lock(&NAMES);
    let names = names.get_or_insert_default();
    if let Some(known) = names.known.get(name) {
        return known.as_ptr();
    }
    let length = name.to_bytes().len() + BESIDE_NAME;
    if names.bytes + length > MOST_NAME_BYTES {
        return c"(one name too many)".as_ptr();
    }
    names.bytes += length;
    let kept: &'static CStr = Box::leak(CString::from(name).into_boxed_c_str());
    names.known.insert(kept);
    kept.as_ptr()
}

/// A record of one of the kinds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record {
    Kernel(Kernel),
    Memcpy(Memcpy),
    Memset(Memset),
    Api(Api),
    External(External),
}

fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// What a row has, and its times in the program's clock. Contexts have numbers from 1 on, one for each device.
struct Told<'a> {
    row: &'a Row,
    start: u64,
    end: u64,
    context: u32,
}

impl Told<'_> {
    fn kernel(&self, name: *const c_char, kind: u32) -> Kernel {
        let &Self { row, start, end, context } = self;
        Kernel {
            kind,
            registers: u16::try_from(row.registers).unwrap_or(u16::MAX),
            start,
            end,
            device: row.device,
            context,
            stream: row.stream,
            grid: row.grid.map(signed),
            block: row.block.map(signed),
            static_shared: signed(row.static_shared),
            dynamic_shared: signed(row.dynamic_shared),
            local_per_thread: row.local,
            correlation: row.correlation,
            name,
            graph_node: row.node,
            graph: row.graph,
            ..Kernel::zeroed()
        }
    }

    fn copy(&self) -> Memcpy {
        let &Self { row, start, end, context } = self;
        Memcpy {
            kind: kind::MEMCPY,
            copy_kind: row.copy_kind,
            source_kind: row.source_kind,
            target_kind: row.target_kind,
            flags: row.is_async,
            bytes: row.bytes,
            start,
            end,
            device: row.device,
            context,
            stream: row.stream,
            correlation: row.correlation,
            graph_node: row.node,
            graph: row.graph,
            copies: row.copies,
            ..Memcpy::zeroed()
        }
    }

    fn fill(&self) -> Memset {
        let &Self { row, start, end, context } = self;
        Memset {
            kind: kind::MEMSET,
            value: row.value,
            bytes: row.bytes,
            start,
            end,
            device: row.device,
            context,
            stream: row.stream,
            correlation: row.correlation,
            flags: row.is_async.into(),
            memory_kind: row.target_kind.into(),
            graph_node: row.node,
            graph: row.graph,
            ..Memset::zeroed()
        }
    }

    fn call(&self) -> Api {
        let &Self { row, start, end, .. } = self;
        Api {
            kind: row.kind,
            function: row.function,
            start,
            end,
            process: std::process::id(),
            thread: row.thread,
            correlation: row.correlation,
            answer: row.answer,
        }
    }
}

impl Record {
    /// The record of a row, whose kernels are of `kernels`: CUPTI has two kinds of them. `None` for a kind that has none.
    pub(crate) fn of(row: &Row, name: *const c_char, kernels: u32, line: &Line) -> Option<Self> {
        let told = Told { row, start: line.map(row.begin), end: line.map(row.end), context: row.device + 1 };
        Some(match row.kind {
            kind::CONCURRENT_KERNEL => Self::Kernel(told.kernel(name, kernels)),
            kind::MEMCPY => Self::Memcpy(told.copy()),
            kind::MEMSET => Self::Memset(told.fill()),
            kind::DRIVER | kind::RUNTIME => Self::Api(told.call()),
            kind::EXTERNAL_CORRELATION => Self::External(External {
                kind: row.kind,
                external_kind: row.function,
                external: row.bytes,
                correlation: row.correlation,
                reserved: 0,
            }),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let first = name(c"kernel");
        assert_eq!(name(c"kernel"), first);
        assert_ne!(name(c"another"), first);
    }
}
