//! The work of a graph's node, with all that it needs later: copied parameters, and ends of copies by kind of memory.
//! Values that an implementation has checked come in and stay as they are. The program promises that host memory and
//! functions are valid as long as the graph may be launched.

use super::condition::ConditionalWork;
use super::memory::{AllocWork, FreeWork};
use crate::arguments::copy::{CopyBox, CopyEnd, CopyPlace};
use crate::arguments::host::HostFunction;
use crate::arguments::launch::ParameterLayout;
use floe_abi::{
    BatchMemOpNodeParams, Context, Event, Function, Graph, HostNodeParams, Kernel, KernelNodeParams,
    KernelNodeParamsV1, LaunchAttribute, Memcpy3d, MemsetNodeParams, StreamMemoryOperation, graph_node_type,
    memory_type,
};
use std::sync::Arc;

/// A node's work.
#[derive(Clone, Debug)]
pub enum Work {
    /// Nothing: a point where dependencies meet.
    Empty,
    /// Runs a kernel.
    Kernel(KernelWork),
    /// Copies.
    Copy(Box<CopyWork>),
    /// Fills memory.
    Fill(FillWork),
    /// Calls a function of the program.
    Host(HostWork),
    /// Runs another graph, which belongs to the node.
    Child(Graph),
    /// Records an event.
    Record(Event),
    /// Waits for an event.
    Wait(Event),
    /// Writes words of memory and waits for them.
    Words(WordsWork),
    /// Allocates memory, whose address it has had since it was made.
    Alloc(Arc<AllocWork>),
    /// Frees memory an allocation node gave.
    Free(FreeWork),
    /// Runs none, one or the only one of its bodies, which belong to the node, as a value says.
    Conditional(Arc<ConditionalWork>),
    /// Work that only the implementation knows, which recorded it.
    Own(OwnWork),
}

/// Work of a node that only the implementation knows.
#[derive(Clone)]
pub struct OwnWork(pub Arc<dyn std::any::Any + Send + Sync>);

impl std::fmt::Debug for OwnWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnWork")
    }
}

impl Work {
    /// One of `graph_node_type`.
    pub fn kind(&self) -> u32 {
        match self {
            Self::Empty => graph_node_type::EMPTY,
            Self::Kernel(_) => graph_node_type::KERNEL,
            Self::Copy(_) => graph_node_type::MEMCPY,
            Self::Fill(_) => graph_node_type::MEMSET,
            Self::Host(_) => graph_node_type::HOST,
            Self::Child(_) => graph_node_type::GRAPH,
            Self::Record(_) => graph_node_type::EVENT_RECORD,
            Self::Wait(_) => graph_node_type::WAIT_EVENT,
            Self::Words(_) => graph_node_type::BATCH_MEM_OP,
            Self::Alloc(_) => graph_node_type::MEM_ALLOC,
            Self::Free(_) => graph_node_type::MEM_FREE,
            Self::Conditional(_) => graph_node_type::CONDITIONAL,
            // CUDA has no type for it; as with a host node, a launch comes back to this process.
            Self::Own(_) => graph_node_type::HOST,
        }
    }

    /// Whether nothing runs for it: only its place in the order matters.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Empty | Self::Alloc(_) | Self::Free(_))
    }

    /// Whether this copies or fills just what `old` does.
    pub(crate) fn is_same_move(&self, old: &Self) -> bool {
        match (self, old) {
            (Self::Copy(new), Self::Copy(old)) => new.asked == old.asked && new.context == old.context,
            (Self::Fill(new), Self::Fill(old)) => new == old,
            _ => false,
        }
    }

    /// Whether a node of an instantiated graph that does `old` may do this.
    pub(crate) fn may_replace(&self, old: &Self) -> bool {
        match (self, old) {
            (Self::Words(new), Self::Words(old)) => new.may_replace(old),
            (Self::Conditional(new), Self::Conditional(old)) => new.may_replace(old),
            (Self::Copy(new), Self::Copy(old)) => new.may_replace(old),
            (Self::Fill(new), Self::Fill(old)) => new.may_replace(old),
            _ => self.kind() == old.kind(),
        }
    }
}

/// One kernel with its parameters' values.
#[derive(Clone, Debug)]
pub struct KernelWork {
    /// The function.
    pub function: Function,
    /// The kernel of a library it comes from, which the runtime knows it by; NULL where there is none.
    pub kernel: Kernel,
    /// As the program gave it; NULL is the context that was current.
    pub context: Context,
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes per block.
    pub shared_bytes: u32,
    /// The parameters.
    pub parameters: Arc<ParameterBlock>,
    /// All attributes.
    pub attributes: Vec<LaunchAttribute>,
}

impl KernelWork {
    /// The parameters as C reads them. The addresses stay valid while the node has these parameters.
    pub fn to_params(&self) -> KernelNodeParams {
        KernelNodeParams {
            first: KernelNodeParamsV1 {
                function: self.function,
                grid: self.grid,
                block: self.block,
                shared_bytes: self.shared_bytes,
                parameters: self.parameters.addresses(),
                extra: 0,
            },
            kernel: self.kernel,
            context: self.context,
        }
    }

    /// Whether this attribute is set to something that is not 0.
    pub fn has(&self, attribute: u32) -> bool {
        self.attributes.iter().any(|other| other.id == attribute && other.value.as_u32() != 0)
    }
}

/// A kernel's parameters: one block of bytes, and the address of each for programs that ask.
#[derive(Debug)]
pub struct ParameterBlock {
    bytes: Vec<u8>,
    addresses: Vec<u64>,
}

impl ParameterBlock {
    /// The block a launch was packed into by this layout.
    pub fn new(bytes: Vec<u8>, layout: &[ParameterLayout]) -> Self {
        let start = bytes.as_ptr() as u64;
        let addresses = layout.iter().map(|parameter| start + parameter.offset as u64).collect();
        Self { bytes, addresses }
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Address of the array of addresses; 0 where there are no parameters.
    fn addresses(&self) -> u64 {
        if self.addresses.is_empty() { 0 } else { self.addresses.as_ptr() as u64 }
    }
}

/// One copy.
#[derive(Clone, Debug)]
pub struct CopyWork {
    /// As the program gave it.
    pub asked: Memcpy3d,
    /// As the program gave it.
    pub context: Context,
    /// The copy, with the kind of memory of both ends.
    pub copy: CopyBox,
}

/// One fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillWork {
    /// The range and the value.
    pub fill: MemsetNodeParams,
    /// As the program gave it.
    pub context: Context,
}

/// Operations on words of memory, one after the other.
#[derive(Clone, Debug)]
pub struct WordsWork {
    /// As the program gave them.
    pub operations: Arc<[StreamMemoryOperation]>,
    /// As the program gave it.
    pub context: Context,
}

/// A function of the program, called at every launch.
#[derive(Clone, Copy, Debug)]
pub struct HostWork {
    /// As the program gave it.
    pub asked: HostNodeParams,
    /// The function and its argument.
    pub function: HostFunction,
}

impl CopyWork {
    /// A copy a stream was asked for, as a node's.
    pub fn new(copy: CopyBox, context: Context) -> Self {
        let (source, destination) = (PlaceParams::of(&copy.source.place), PlaceParams::of(&copy.destination.place));
        let rows = |end: &CopyEnd| match end.place {
            CopyPlace::Array(..) => 0,
            _ => end.slice.checked_div(end.pitch).unwrap_or(copy.height),
        };
        let asked = Memcpy3d {
            source_x_bytes: source.at[0],
            source_y: source.at[1],
            source_z: source.at[2],
            source_memory_type: source.memory_type,
            source_host: source.host,
            source_device: source.device,
            source_array: source.array,
            source_pitch: copy.source.pitch,
            source_height: rows(&copy.source),
            destination_x_bytes: destination.at[0],
            destination_y: destination.at[1],
            destination_z: destination.at[2],
            destination_memory_type: destination.memory_type,
            destination_host: destination.host,
            destination_device: destination.device,
            destination_array: destination.array,
            destination_pitch: copy.destination.pitch,
            destination_height: rows(&copy.destination),
            width_bytes: copy.width,
            height: copy.height,
            depth: copy.depth,
            ..Memcpy3d::default()
        };
        Self { asked, context, copy }
    }

    /// Whether a node of an instantiated graph that copies `old` may copy this. Of more than a row only what is the same may, by
    /// the same kinds of memory, as an H200's driver has it.
    fn may_replace(&self, old: &Self) -> bool {
        let is_row = |copy: &Memcpy3d| copy.height <= 1 && copy.depth <= 1;
        let kinds = |copy: &Memcpy3d| (copy.source_memory_type, copy.destination_memory_type);
        let are_rows = is_row(&self.asked) && is_row(&old.asked) && !self.copy.names_array() && !old.copy.names_array();
        self.asked == old.asked || are_rows && kinds(&self.asked) == kinds(&old.asked)
    }
}

/// The place of an end, as C has it: what does not say where it is is 0.
#[derive(Clone, Copy, Default)]
struct PlaceParams {
    memory_type: u32,
    host: u64,
    device: u64,
    array: u64,
    /// Bytes, rows and slices into an array.
    at: [usize; 3],
}

impl PlaceParams {
    fn of(place: &CopyPlace) -> Self {
        let none = Self::default();
        match *place {
            CopyPlace::Host(range) => Self { memory_type: memory_type::HOST, host: range.pointer().0, ..none },
            CopyPlace::Device(address, _) => Self { memory_type: memory_type::DEVICE, device: address.0, ..none },
            CopyPlace::Unified(range) => Self { memory_type: memory_type::UNIFIED, device: range.device().0, ..none },
            CopyPlace::Array(array, at) => Self { memory_type: memory_type::ARRAY, array: array.0, at, ..none },
        }
    }
}

impl FillWork {
    /// A fill a stream was asked for, as a node's.
    pub fn new(fill: MemsetNodeParams, context: Context) -> Self {
        Self { fill, context }
    }

    /// The same for a fill: of more than a row the size stays.
    fn may_replace(&self, old: &Self) -> bool {
        let size = |work: &Self| (work.fill.pitch, work.fill.element, work.fill.width, work.fill.height);
        self.fill.height <= 1 && old.fill.height <= 1 || size(self) == size(old)
    }
}

impl WordsWork {
    /// Operations a stream was asked for, as a node's.
    pub fn new(operations: &[StreamMemoryOperation], context: Context) -> Self {
        Self { operations: operations.into(), context }
    }

    /// The parameters as C reads them. The address stays valid while the node has these operations.
    pub(crate) fn to_params(&self) -> BatchMemOpNodeParams {
        BatchMemOpNodeParams {
            context: self.context,
            count: u32::try_from(self.operations.len()).unwrap_or(u32::MAX),
            operations: self.operations.as_ptr() as u64,
            flags: 0,
        }
    }

    /// Whether only words, values and comparisons are others.
    fn may_replace(&self, old: &Self) -> bool {
        let pairs = self.operations.iter().zip(&*old.operations);
        self.context == old.context
            && self.operations.len() == old.operations.len()
            && pairs.into_iter().all(|(new, old)| new.may_replace(old))
    }
}

impl HostWork {
    /// A function a stream was asked to call, as a node's.
    pub fn new(function: HostFunction) -> Self {
        Self { asked: HostNodeParams { function: function.address(), user: function.user() }, function }
    }
}
