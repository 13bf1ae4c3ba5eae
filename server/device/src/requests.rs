//! Requests of a worker to its device, and the answers, as plain values.
//! In and out: handles, numbers, contents of modules; of host memory an offset, never an address.
//! Nothing here calls a driver.

use floe_abi::{
    Array, CudaError, DevicePtr, Graph, GraphNode, LaunchAttribute, Library, Module, ResourceDescriptor,
    ResourceViewDescriptor, StreamMemoryOperation, TextureDescriptor,
};

use crate::{Content, GraphKernel};

/// Which kind of bytes an image is; numbers as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// Fat binaries: the main one and those it was prelinked with.
    FatBinary,
    /// One ELF image.
    Cubin,
    /// One PTX text.
    Ptx,
}

/// An image to load: complete contents.
#[derive(Debug)]
pub struct Image {
    /// The kind of the contents.
    pub kind: ImageKind,
    /// Content 0 is the main one.
    pub contents: Vec<Content>,
}

/// How an image is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loading {
    /// At once, as a module, so that the load reports what is wrong with the image. Or as a library, whose kernels the
    /// driver may compile when they are asked for.
    pub at_once: bool,
    /// Compiler options by number, with plain values.
    pub options: Vec<(i32, u64)>,
    /// The most bytes of a log.
    pub log_bytes: usize,
}

/// Loaded code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Loaded when needed.
    Library(Library),
    /// Loaded at once.
    Module(Module),
}

/// Code that did not load, with what the compiler said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadFailure {
    /// Why.
    pub error: CudaError,
    /// The compiler's log; may be empty.
    pub log: String,
}

/// A question about clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterQuestion {
    /// The number on the device at once.
    MostActive,
    /// The blocks of the largest.
    LargestSize,
}

/// Rows of the device: `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Where they are.
    pub place: RowsPlace,
    /// Bytes of a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

/// Where rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsPlace {
    /// In memory: the first byte, and the bytes from one row to the next.
    Memory(DevicePtr, u64),
    /// In an array.
    Array(ArrayPlace),
}

/// A place in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayPlace {
    /// Which.
    pub array: Array,
    /// Whether it has slices or layers.
    pub deep: bool,
    /// A byte of a row, a row, a slice.
    pub at: [u64; 3],
}

/// The memory or array that a texture reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextureRequest<'a> {
    /// With the array's handle, where it is one.
    pub resource: &'a ResourceDescriptor,
    /// How it is read.
    pub description: &'a TextureDescriptor,
    /// Which part of it.
    pub view: Option<&'a ResourceViewDescriptor>,
}

/// All that is said of a texture reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextureReferenceRequest<'a> {
    /// With the array's handle, where it is one; without any, reads are 0.
    pub resource: Option<&'a ResourceDescriptor>,
    /// `CUarray_format` of memory's elements.
    pub format: u32,
    /// Channels of memory's elements.
    pub channels: u32,
    /// How it is read.
    pub description: &'a TextureDescriptor,
}

/// Elements to be set to one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Bytes of an element: 1, 2 or 4.
    pub element: u32,
    /// The value; the low `element` bytes count.
    pub value: u32,
    /// Elements of a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
}

/// The work of a node of a graph.
#[derive(Clone, Copy, Debug)]
pub enum NodeWork<'a> {
    /// Nothing.
    Empty,
    /// Launches a kernel, with attributes.
    Kernel(GraphKernel<'a>, &'a [LaunchAttribute]),
    /// Copies within the device.
    Copy(NodeCopy),
    /// Sets memory.
    Fill(DevicePtr, Pattern),
    /// Writes words of memory and waits for them.
    Words(&'a [StreamMemoryOperation]),
}

/// A node that runs one of its bodies as a value says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditional {
    /// The handle of the value.
    pub handle: u64,
    /// One of `graph_conditional_type`.
    pub kind: u32,
    /// Number of bodies.
    pub size: u32,
}

/// A conditional node and its bodies, which go with its graph.
pub type NodeBodies = (GraphNode, Vec<Graph>);

/// A copy of a graph: a box, whose slices are whole numbers of pitches.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "as in the message")]
pub struct NodeCopy {
    pub to: DevicePtr,
    pub to_pitch: u64,
    pub to_slice: u64,
    pub from: DevicePtr,
    pub from_pitch: u64,
    pub from_slice: u64,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

/// A dependency on an earlier node of a graph.
#[derive(Clone, Copy, Debug)]
pub struct NodeEdge {
    /// The earlier node.
    pub from: GraphNode,
    /// Which moment of it is waited for.
    pub port: u8,
    /// One of `graph_dependency_type`.
    pub kind: u8,
}

impl NodeEdge {
    /// Whether all of the node is waited for.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.port == 0 && self.kind == 0
    }
}

/// In which pages memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// Small ones, which suit memory whose pages sockets are given: several threads that give parts of one page at once hold up
    /// each other.
    Small,
    /// Large ones, which suit memory that is copied to.
    Large,
}

/// One end of a copy.
#[derive(Debug)]
pub enum End<'a, P> {
    /// What the driver takes the address for.
    Device(DevicePtr),
    /// Host memory shared with the client, from an offset on.
    Host(&'a P, usize),
}

impl<P> Clone for End<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for End<'_, P> {}

/// One end of a copy of rows a device does by itself.
#[derive(Debug)]
pub enum RowsEnd<'a, P> {
    /// Memory, and the bytes from one row to the next.
    Memory(End<'a, P>, u64),
    /// In an array.
    Array(ArrayPlace),
}

/// The device's facts of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFacts {
    /// Offset and size of each parameter; `None` where the driver cannot say.
    pub parameters: Option<Vec<(u32, u32)>>,
    /// Function attributes by number.
    pub attributes: Vec<(i32, i32)>,
}

/// Which setting of a kernel is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelSetting {
    /// A function attribute by number.
    Attribute(i32),
    /// The preferred cache split.
    CacheConfig,
    /// The preferred bank width; devices of today ignore it.
    SharedMemoryConfig,
}

/// A global variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its address.
    pub at: DevicePtr,
    /// Its size.
    pub bytes: u64,
    /// Whether it is managed memory.
    pub is_managed: bool,
}

/// Memory that the device's driver takes by itself, as measured (docs/facts/device-memory.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Threads the device holds at once: each has a stack, and room for the largest frame.
    pub resident_threads: u64,
    /// Bytes of a stream.
    pub stream: u64,
    /// Bytes of a node of an instantiated graph.
    pub node: u64,
    /// Bytes of a context beside the first.
    pub context: u64,
    /// Values of the limits a context begins with; their memory is the context's own.
    pub defaults: Limits,
}

/// Values of a context's limits that stand for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of stack per thread.
    pub stack: u64,
    /// Bytes of what kernels print into.
    pub printing: u64,
    /// Bytes of what kernels allocate from.
    pub heap: u64,
}
