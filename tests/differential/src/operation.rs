//! The operations that programs are lists of.
//! In: nothing. Out: types; their debug text is how a found program is shown. They never hold an address or a handle:
//! memory, streams, events and graphs are named by numbers, so an operation means the same in every run.

/// The number of a block, event, graph or instantiated graph; no number is used twice in a program.
pub(crate) type Id = u32;

/// A byte of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) block: Id,
    /// In the model's order: rows of a pitched block or an array follow each other without gaps.
    pub(crate) offset: usize,
}

/// Where a block's bytes are, and how they are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cuMemAlloc`.
    Device,
    /// `cuMemAllocPitch`.
    Pitched,
    /// `cuMemAllocAsync` on a stream, or from a pool of the program's own.
    Pool { stream: Stream, own: bool },
    /// Reserved, created, mapped and made accessible one by one.
    Virtual,
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemHostAlloc`.
    Pinned { write_combined: bool },
    /// The program's own memory.
    Pageable,
    /// An array of so many layers deep (0: of two axes), elements of `channels` times `unit` bytes.
    Array { unit: usize, channels: usize, depth: usize },
    /// The variable of a module.
    Variable,
    /// Memory that a graph allocates and frees.
    OfGraph,
}

/// A stream of a vGPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stream {
    pub(crate) vgpu: usize,
    pub(crate) which: Which,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Which {
    /// The default stream, by calls that take none.
    Default,
    /// The default stream, by its handle.
    Legacy,
    /// The thread's default stream.
    PerThread,
    Own(Id),
}

/// One end of a copy of a box: memory of which a row of a box follows another after `pitch` bytes, a plane another after
/// `height` rows. Pitched blocks and arrays have their own pitch; there it is the model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) at: Place,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// What a stream does, or a node of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    /// `rows` of `columns` elements of `unit` bytes (1, 2, 4) each.
    Fill {
        at: End,
        unit: usize,
        value: u32,
        columns: usize,
        rows: usize,
    },
    Copy {
        to: Place,
        from: Place,
        bytes: usize,
        how: Call,
    },
    /// Width in bytes, rows, planes.
    Box {
        to: End,
        from: End,
        extent: [usize; 3],
    },
    Batch {
        copies: Vec<(Place, Place, usize)>,
    },
    Kernel(Kernel),
    /// A host function that multiplies and adds, word by word.
    Function {
        at: Place,
        words: usize,
        multiply: u32,
        add: u32,
    },
    /// A word that the stream writes, of 4 or 8 bytes.
    Write {
        at: Place,
        bytes: usize,
        value: u64,
    },
    /// A word that the stream waits for, and which has this value by then.
    Wait {
        at: Place,
        bytes: usize,
        value: u64,
    },
}

/// The function that a linear copy calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// The one named after its ends: `cuMemcpyHtoD`, `cuMemcpyPeer`, …
    Named,
    /// `cuMemcpy`.
    Any,
}

/// A launch. Words are of 32 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kernel {
    Affine {
        at: Place,
        words: usize,
        multiply: u32,
        add: u32,
    },
    /// Word `i * from_step` goes to word `i * to_step`.
    Stride {
        to: Place,
        from: Place,
        words: usize,
        to_step: usize,
        from_step: usize,
    },
    /// Thread i of `threads` adds i + 1 to word `i * step % words`.
    Atomic {
        at: Place,
        words: usize,
        threads: usize,
        step: usize,
    },
    Bytes {
        at: Place,
        bytes: usize,
        flip: u8,
    },
    /// Nothing, for some time.
    Spin {
        turns: u32,
    },
    /// All texels of an array of two axes, channel by channel.
    Texture {
        to: Place,
        array: Id,
    },
    /// All elements of an array of two axes, which are words.
    Surface {
        array: Id,
        multiply: u32,
        add: u32,
    },
    /// The first words of a module's variable, by the module's own kernel.
    Own {
        variable: Id,
        words: usize,
        multiply: u32,
        add: u32,
    },
}

/// A node of a graph: it follows the node before it in its lane, and `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) what: Step,
    pub(crate) lane: usize,
    /// The index of an earlier node.
    pub(crate) after: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Work(Work),
    Allocate { block: Id, bytes: usize },
    Free { block: Id },
}

/// An operation of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A new block whose bytes are all `fill`: `rows` of `width` bytes.
    Allocate {
        block: Id,
        kind: Kind,
        vgpu: usize,
        width: usize,
        rows: usize,
        fill: u8,
    },
    /// In a stream's order where there is one.
    Free {
        block: Id,
        stream: Option<Stream>,
    },
    /// Physical memory moves to another address.
    Remap {
        block: Id,
    },
    Register {
        block: Id,
    },
    Unregister {
        block: Id,
    },
    /// Managed memory goes to its vGPU, or to the host.
    Prefetch {
        block: Id,
        to_host: bool,
        stream: Stream,
    },
    HostWrite {
        at: Place,
        bytes: usize,
        seed: u64,
    },
    HostRead {
        at: Place,
        bytes: usize,
    },
    /// The bytes come to the host by a copy of this vGPU's, and are compared.
    Read {
        at: Place,
        bytes: usize,
        vgpu: usize,
    },
    /// Another vGPU gets access to a block, or its process has it opened.
    Open {
        block: Id,
        vgpu: usize,
    },
    Close {
        block: Id,
        vgpu: usize,
    },
    Do {
        stream: Stream,
        work: Work,
    },
    CreateStream {
        stream: Stream,
        blocking: bool,
    },
    DestroyStream {
        stream: Stream,
    },
    Record {
        event: Id,
        stream: Stream,
    },
    WaitEvent {
        event: Id,
        stream: Stream,
    },
    SynchronizeEvent {
        event: Id,
        by_query: bool,
        vgpu: usize,
    },
    /// Another vGPU's process gets an event.
    OpenEvent {
        event: Id,
        vgpu: usize,
    },
    SynchronizeStream {
        stream: Stream,
        by_query: bool,
    },
    SynchronizeContext {
        vgpu: usize,
    },
    /// The stream sets a word of its own and the other stream waits for it.
    Signal {
        from: Stream,
        to: Stream,
        wide: bool,
    },
    Graph {
        graph: Id,
        vgpu: usize,
        nodes: Vec<Node>,
        captured: bool,
    },
    Instantiate {
        instance: Id,
        graph: Id,
    },
    /// The whole instance, by a graph of the same shape.
    Update {
        instance: Id,
        graph: Id,
    },
    /// A node of an instance of a graph that was built by hand.
    SetNode {
        instance: Id,
        node: usize,
        work: Work,
    },
    LaunchGraph {
        instance: Id,
        stream: Stream,
    },
    DropGraph {
        graph: Id,
    },
    DropInstance {
        instance: Id,
    },
    /// Everything of a vGPU ends.
    Reset {
        vgpu: usize,
    },
}
