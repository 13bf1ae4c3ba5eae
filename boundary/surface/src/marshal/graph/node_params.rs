//! C's parameters of nodes, as work: structs of each kind, or the one struct of all kinds. The implementation is asked what
//! only it can tell: whether a kernel can be launched so, whose memory an address is. Kinds no device here has are refused
//! by name.

use crate::arguments::launch::KernelArguments;
use crate::graph::{CopyWork, FillWork, HostWork, WordsWork, Work};
use crate::prelude::*;
use crate::process::refusals::refused;

/// A kernel with its parameters copied.
///
/// # Safety
/// The program's contract for the parameters, as [`KernelArguments::new`].
pub(super) unsafe fn kernel<D: crate::Driver>(driver: &D, params: &KernelNodeParams) -> CudaResult<Work> {
    let first = &params.first;
    let function = if first.function.is_null() { params.kernel.as_function() } else { first.function };
    let launch = Launch {
        function,
        grid: first.grid,
        block: first.block,
        shared_bytes: first.shared_bytes,
        stream: Stream::LEGACY,
        cooperative: false,
        attributes: &[],
        // SAFETY: our caller vouches for them.
        arguments: unsafe { KernelArguments::new(first.parameters as *mut _, first.extra as *mut _) }?,
    };
    driver.graph_kernel(&launch, params.context).map(Work::Kernel)
}

/// A copy with the kind of memory of each end. One of nothing is no node, as NVIDIA's driver has it.
///
/// # Safety
/// The program's contract for both ends, as [`HostRange::new`], for as long as the graph may be launched.
pub(super) unsafe fn copy<D: crate::Driver>(driver: &D, asked: &Memcpy3d, context: Context) -> CudaResult<Work> {
    // SAFETY: our caller vouches for the ends.
    let copy = unsafe { CopyBox::from_3d(asked) }?;
    if copy.is_empty() {
        return Err(CudaError::INVALID_VALUE);
    }
    let copy = driver.graph_copy(&copy, context)?;
    let asked = Memcpy3d { source_padding: 0, destination_padding: 0, ..*asked };
    Ok(Work::Copy(Box::new(CopyWork { asked, context, copy })))
}

/// A fill of memory that is there.
pub(super) fn fill<D: crate::Driver>(driver: &D, fill: &MemsetNodeParams, context: Context) -> CudaResult<Work> {
    if !matches!(fill.element, 1 | 2 | 4) || fill.width == 0 || fill.height == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    driver.graph_fill(fill, context)?;
    Ok(Work::Fill(FillWork { fill: *fill, context }))
}

/// A function of the program.
///
/// # Safety
/// The program's contract of a host function, for as long as the graph may be launched.
pub(super) unsafe fn host(asked: &HostNodeParams) -> CudaResult<Work> {
    if asked.function == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the program passed a function of this type where C declares one, to be called with `user`.
    let function = unsafe {
        let function =
            std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void)>(asked.function as *const c_void);
        HostFunction::new(function, asked.user as *mut c_void)
    };
    Ok(Work::Host(HostWork { asked: *asked, function }))
}

/// Operations on words that are there.
///
/// # Safety
/// The array is the program's, of so many operations, or NULL.
pub(super) unsafe fn words<D: crate::Driver>(driver: &D, asked: &BatchMemOpNodeParams) -> CudaResult<Work> {
    let count = asked.count as usize;
    if asked.flags != 0 || asked.context.is_null() || count > MOST_STREAM_MEMORY_OPERATIONS {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: our caller vouches for the array.
    let operations = unsafe { c::slice(asked.operations as *const StreamMemoryOperation, count) }?;
    driver.graph_words(operations, asked.context)?;
    Ok(Work::Words(WordsWork::new(operations, asked.context)))
}

/// A node of any kind but a child graph, which is no work of its own.
///
/// # Safety
/// That of the kind's function above.
pub(super) unsafe fn any<D: crate::Driver>(driver: &D, params: &GraphNodeParams) -> CudaResult<Work> {
    use graph_node_type as kind;
    check_reserved(params)?;
    match params.kind {
        kind::EMPTY => Ok(Work::Empty),
        // SAFETY: our caller vouches for a kernel node.
        kind::KERNEL => unsafe { kernel(driver, &part(params)) },
        kind::MEMCPY => {
            let copied: MemcpyNodeParams = part(params);
            if (copied.flags, copied.reserved) != (0, 0) {
                return Err(CudaError::INVALID_VALUE);
            }
            // SAFETY: our caller vouches for a copy node.
            unsafe { copy(driver, &copied.copy, copied.context) }
        }
        kind::MEMSET => {
            let (filled, context): (MemsetNodeParams, Context) = (part(params), Context(params.words[CONTEXT_WORD]));
            fill(driver, &filled, context)
        }
        // SAFETY: our caller vouches for a host node.
        kind::HOST => unsafe { host(&part(params)) },
        kind::EVENT_RECORD => event(driver, part::<EventNodeParams>(params).event).map(Work::Record),
        kind::WAIT_EVENT => event(driver, part::<EventNodeParams>(params).event).map(Work::Wait),
        // SAFETY: our caller vouches for the operations.
        kind::BATCH_MEM_OP => unsafe { words(driver, &part(params)) },
        // They are added by functions of their own, and what they do is never changed.
        kind::MEM_ALLOC | kind::MEM_FREE => Err(CudaError::NOT_SUPPORTED),
        // A node of its own kind is added by a function of its own, and stays as it is.
        kind::CONDITIONAL => Err(CudaError::NOT_SUPPORTED),
        kind::EXT_SEMAS_SIGNAL | kind::EXT_SEMAS_WAIT => {
            refused(format_args!("graph nodes of this kind are not supported, CUgraphNodeType: {}", params.kind));
            Err(CudaError::NOT_SUPPORTED)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Members that must be zero, until they mean something that would be missed here.
///
/// # Errors
/// INVALID_VALUE where one is not.
pub(super) fn check_reserved(params: &GraphNodeParams) -> CudaResult<()> {
    if (params.reserved0, params.reserved2) == ([0; 3], 0) { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

/// The word of [`GraphNodeParams`] in which a fill has its context: behind the six of [`MemsetNodeParams`], two of them
/// halves.
const CONTEXT_WORD: usize = size_of::<MemsetNodeParams>() / 8;

/// An event of the implementation's.
pub(super) fn event<D: crate::Driver>(driver: &D, event: Event) -> CudaResult<Event> {
    driver.graph_event(event).map(|()| event)
}

/// Structs that a [`GraphNodeParams`] may hold: plain numbers, no longer than it.
pub(super) trait Part: Copy {}
impl Part for KernelNodeParams {}
impl Part for MemcpyNodeParams {}
impl Part for MemsetNodeParams {}
impl Part for HostNodeParams {}
impl Part for ChildGraphNodeParams {}
impl Part for EventNodeParams {}
impl Part for MemAllocNodeParams {}
impl Part for MemFreeNodeParams {}
impl Part for BatchMemOpNodeParams {}
impl Part for ConditionalNodeParams {}

/// The struct of one kind.
pub(super) fn part<T: Part>(params: &GraphNodeParams) -> T {
    const { assert!(size_of::<T>() <= size_of::<[u64; 29]>() && align_of::<T>() <= align_of::<u64>()) };
    // SAFETY: a part is plain numbers, of which every value is one, and no longer than the words.
    unsafe { params.words.as_ptr().cast::<T>().read() }
}

/// Writes the struct of one kind into the struct of all kinds, for C to read.
pub(super) fn put_part<T: Part>(params: &mut GraphNodeParams, value: T) {
    const { assert!(size_of::<T>() <= size_of::<[u64; 29]>() && align_of::<T>() <= align_of::<u64>()) };
    // SAFETY: a part is plain numbers, no longer than the words.
    unsafe { params.words.as_mut_ptr().cast::<T>().write(value) }
}
