//! Records of CUPTI, turned into activities of commands. In: filled buffers. Out: activities, one at a time.
//! CUPTI says in one record which call did something, and in another which command the call was made for. Both come in any
//! order, so all buffers are looked through for the latter first. Calls without a command are the worker's own.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{CStr, c_char};
use std::sync::Arc;

use floe_cupti::record::{External, Kernel, Memcpy, Memset};
use floe_cupti::{CUSTOM_KIND, kind};

use super::functions::Functions;
use super::store::{self, Filled};

/// Calls whose commands are known at once. Those of the oldest are forgotten first.
const MOST_CALLS: usize = 1 << 20;
/// Names of kernels that are known at once.
const MOST_NAMES: usize = 1 << 14;
/// Bytes of a name that are kept.
const NAME_BYTES: usize = 4096;

/// What the GPU did.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    /// The command that had it done; 0 where that is not known.
    pub command: u64,
    /// Its beginning, in nanoseconds of CUPTI's clock.
    pub begin: u64,
    /// Its end.
    pub end: u64,
    /// CUPTI's number of the stream.
    pub stream: u32,
    /// CUPTI's number of the executable graph; 0: none.
    pub graph: u32,
    /// CUPTI's number of the node.
    pub node: u64,
    /// What it was.
    pub work: Work,
}

/// A kind of work.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A kernel.
    Kernel {
        /// Its name, mangled.
        name: Arc<str>,
        /// Blocks.
        grid: [u32; 3],
        /// Threads of a block.
        block: [u32; 3],
        /// Registers of a thread.
        registers: u32,
        /// Bytes of static and dynamic shared memory of a block, and of local memory of a thread.
        memory: [u32; 3],
    },
    /// A copy.
    Copy {
        /// `CUpti_ActivityMemcpyKind`, and `CUpti_ActivityMemoryKind` of source and target.
        kinds: [u8; 3],
        /// Whether nobody waits for it.
        is_async: bool,
        /// Bytes.
        bytes: u64,
    },
    /// A fill.
    Fill {
        /// The value.
        value: u32,
        /// `CUpti_ActivityMemoryKind`.
        kind: u8,
        /// Whether nobody waits for it.
        is_async: bool,
        /// Bytes.
        bytes: u64,
    },
}

/// Buffers that are being read.
#[derive(Debug, Default)]
pub(super) struct Drain {
    ready: VecDeque<Filled>,
    commands: BTreeMap<u32, u64>,
    names: HashMap<usize, Arc<str>>,
    lost: u64,
}

/// At least so many activities are in a buffer that was given up.
const IN_A_BUFFER: u64 = 4096;

impl Drain {
    /// Takes the buffers that CUPTI has filled, and looks which calls were made for which commands.
    pub(super) fn take_in(&mut self, functions: &Functions) {
        self.lost += store::take_emptied() * IN_A_BUFFER;
        for mut filled in store::take() {
            while let Some(record) = following(functions, &mut filled) {
                if kind_of(record) == kind::EXTERNAL_CORRELATION {
                    self.note(read(record));
                }
            }
            filled.at = 0;
            self.ready.push_back(filled);
        }
        self.give_up(store::MOST);
    }

    /// Keeps so many buffers. Who looks for more, and takes less than there is, loses the oldest.
    fn give_up(&mut self, most: usize) {
        let too_many = self.ready.len().saturating_sub(most);
        self.ready.drain(..too_many);
        store::has_read(too_many);
        self.lost += u64::try_from(too_many).unwrap_or(u64::MAX).saturating_mul(IN_A_BUFFER);
    }

    fn note(&mut self, external: External) {
        if external.external_kind != CUSTOM_KIND {
            return;
        }
        self.commands.insert(external.correlation, external.external);
        while self.commands.len() > MOST_CALLS {
            self.commands.pop_first();
        }
    }

    /// The next activity. Work of calls without a command is the worker's own.
    pub(super) fn next(&mut self, functions: &Functions) -> Option<Activity> {
        loop {
            let filled = self.ready.front_mut()?;
            let Some(record) = following(functions, filled) else {
                self.ready.pop_front();
                store::has_read(1);
                continue;
            };
            let activity = match kind_of(record) {
                kind::KERNEL | kind::CONCURRENT_KERNEL => self.kernel(&read(record)),
                kind::MEMCPY => self.copy(&read(record)),
                kind::MEMSET => self.fill(&read(record)),
                _ => continue,
            };
            // Work that had not ended when it was asked for has no end.
            if activity.begin != 0 && activity.end >= activity.begin {
                return Some(activity);
            }
            self.lost += 1;
        }
    }

    fn command(&self, correlation: u32) -> u64 {
        self.commands.get(&correlation).copied().unwrap_or_default()
    }

    fn kernel(&mut self, kernel: &Kernel) -> Activity {
        let work = Work::Kernel {
            name: self.name(kernel.name),
            grid: kernel.grid.map(i32::cast_unsigned),
            block: kernel.block.map(i32::cast_unsigned),
            registers: kernel.registers.into(),
            memory: [
                kernel.static_shared.cast_unsigned(),
                kernel.dynamic_shared.cast_unsigned(),
                kernel.local_per_thread,
            ],
        };
        Activity {
            command: self.command(kernel.correlation),
            begin: kernel.start,
            end: kernel.end,
            stream: kernel.stream,
            graph: kernel.graph,
            node: kernel.graph_node,
            work,
        }
    }

    fn copy(&self, copy: &Memcpy) -> Activity {
        let kinds = [copy.copy_kind, copy.source_kind, copy.target_kind];
        Activity {
            command: self.command(copy.correlation),
            begin: copy.start,
            end: copy.end,
            stream: copy.stream,
            graph: copy.graph,
            node: copy.graph_node,
            work: Work::Copy { kinds, is_async: copy.flags & 1 != 0, bytes: copy.bytes },
        }
    }

    fn fill(&self, fill: &Memset) -> Activity {
        let kind = u8::try_from(fill.memory_kind).unwrap_or_default();
        Activity {
            command: self.command(fill.correlation),
            begin: fill.start,
            end: fill.end,
            stream: fill.stream,
            graph: fill.graph,
            node: fill.graph_node,
            work: Work::Fill { value: fill.value, kind, is_async: fill.flags & 1 != 0, bytes: fill.bytes },
        }
    }

    /// A kernel's name, which CUPTI has at one address for all its records.
    fn name(&mut self, at: *const c_char) -> Arc<str> {
        if at.is_null() {
            return Arc::from("");
        }
        // SAFETY: a kernel's record has NULL or a text of CUPTI's, which ends with a zero and stays.
        let text = unsafe { CStr::from_ptr(at) }.to_string_lossy();
        let end = (0..=NAME_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let text = &text[..end];
        // An address may get another name when a module goes.
        if let Some(known) = self.names.get(&at.addr()).filter(|known| ***known == *text) {
            return Arc::clone(known);
        }
        if self.names.len() >= MOST_NAMES {
            self.names.clear();
        }
        let name: Arc<str> = Arc::from(text);
        self.names.insert(at.addr(), Arc::clone(&name));
        name
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn clear(&mut self) {
        let unread = self.ready.len() + store::take().len();
        store::has_read(unread);
        let lost = self.lost;
        *self = Self { lost, ..Self::default() };
    }
}

/// The record behind the one that was read last.
fn following(functions: &Functions, filled: &mut Filled) -> Option<*const u8> {
    let buffer = filled.memory.as_mut_ptr().cast();
    // SAFETY: CUPTI filled this buffer with so many bytes, and `at` is what it gave.
    let record = unsafe { functions.next(buffer, filled.bytes, filled.at) }?;
    filled.at = record.expose_provenance();
    Some(record)
}

fn kind_of(record: *const u8) -> u32 {
    // SAFETY: every record of CUPTI begins with its kind.
    unsafe { record.cast::<u32>().read_unaligned() }
}

/// The record as a value. Fields that an older CUPTI does not have are not read by anybody, and lie within the buffer or
/// behind it.
fn read<R: Prefix>(record: *const u8) -> R {
    let mut value = R::zeroed();
    // SAFETY: a record of this kind has at least so many bytes in every version since the oldest, and the value has room.
    unsafe { std::ptr::copy_nonoverlapping(record, (&raw mut value).cast(), R::BYTES) };
    value
}

/// The bytes of a record that every version since CUDA 12.0 has.
trait Prefix: floe_cupti::record::Record {
    const BYTES: usize;
}

impl Prefix for Kernel {
    const BYTES: usize = std::mem::offset_of!(Kernel, most_cluster);
}

impl Prefix for Memcpy {
    const BYTES: usize = std::mem::offset_of!(Memcpy, channel);
}

impl Prefix for Memset {
    const BYTES: usize = std::mem::offset_of!(Memset, channel);
}

impl Prefix for External {
    const BYTES: usize = size_of::<External>();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_less_than_there_is_has_a_bounded_number_of_buffers() {
        let mut drain = Drain::default();
        drain.ready.extend((0..5).map(|at| Filled { memory: Box::default(), bytes: 8, at }));
        drain.give_up(3);
        let left: Vec<usize> = drain.ready.iter().map(|filled| filled.at).collect();
        assert_eq!((left, drain.lost()), (vec![2, 3, 4], 2 * IN_A_BUFFER));
        drain.give_up(3);
        assert_eq!(drain.ready.len(), 3);
    }
}
