//! Structs about contexts, laid out as the C header lays them out: what `cuCtxCreate_v3` and `cuCtxCreate_v4` are given.
//! Checked against the bindings when this crate compiles. Numbers and pointers a program passed stay what they are: nothing
//! here follows or judges them.

use std::ffi::c_void;

use crate::memory::same_layout;

/// `CUexecAffinityParam`: a part of the GPU that a context is to run on.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ExecAffinityParam {
    /// `CUexecAffinityType`: 0 for a number of multiprocessors.
    pub kind: u32,
    /// That number.
    pub multiprocessors: u32,
}

/// `CUctxCigParam`: the graphics work that a context shares the GPU with.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CigParam {
    /// One of [`crate::cig_data`].
    pub kind: u32,
    /// The value, as the kind defines it.
    pub data: *mut c_void,
}

/// `CUctxCreateParams`: what `cuCtxCreate` takes since CUDA 13. All zero asks for a plain context.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextCreateParams {
    /// The parts of the GPU; read only where the count says so.
    pub affinity: *mut ExecAffinityParam,
    /// Their number.
    pub affinity_count: i32,
    /// The graphics work; NULL for none.
    pub cig: *mut CigParam,
}

same_layout!(ExecAffinityParam, CUexecAffinityParam_st, { kind: type_, multiprocessors: param });
same_layout!(CigParam, CUctxCigParam_st, { kind: sharedDataType, data: sharedData });
same_layout!(ContextCreateParams, CUctxCreateParams_st, {
    affinity: execAffinityParams, affinity_count: numExecAffinityParams, cig: cigParams,
});
