//! Who makes a call: found by the library that exports the calls, since it takes a look at the stack. Plain values.

/// The caller of a driver call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Whether it is NVIDIA's CUDA runtime, in a library of its own.
    pub is_runtime: bool,
    /// The thread, as CUPTI names it: the lower half of its `pthread_t`.
    pub thread: u32,
}
