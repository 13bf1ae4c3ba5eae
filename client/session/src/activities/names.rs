//! Driver calls that a profiler is told of: those that have work done, wait for it, or have memory. In: names as they are
//! exported. Out: CUPTI's numbers of the call, and of the call of the runtime that makes it.

/// CUPTI's numbers of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// `CUpti_driver_api_trace_cbid`.
    pub(super) driver: u32,
    /// `CUpti_runtime_api_trace_cbid`; 0: the runtime has no such call.
    pub(super) runtime: u32,
}

/// The numbers of a function by its exported name, whatever its default stream. `None`: profilers are not told of it.
pub(super) fn numbers(name: &str) -> Option<Numbers> {
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    let at = FUNCTIONS.binary_search_by(|(known, _, _)| (*known).cmp(name)).ok()?;
    let (_, driver, runtime) = FUNCTIONS[at];
    Some(Numbers { driver, runtime })
}

/// Names, sorted, with the number of the driver's function and of the runtime's.
static FUNCTIONS: [(&str, u32, u32); 76] = [
    ("cuCtxSynchronize", 17, 165),
    ("cuCtxSynchronize_v2", 800, 165),
    ("cuEventQuery", 120, 138),
    ("cuEventRecord", 119, 135),
    ("cuEventRecordWithFlags", 587, 370),
    ("cuEventSynchronize", 121, 137),
    ("cuGraphInstantiateWithFlags", 643, 418),
    ("cuGraphLaunch", 514, 311),
    ("cuLaunchCooperativeKernel", 477, 269),
    ("cuLaunchHostFunc", 527, 284),
    ("cuLaunchKernel", 307, 211),
    ("cuLaunchKernelEx", 652, 430),
    ("cuMemAddressFree", 548, 0),
    ("cuMemAddressReserve", 547, 0),
    ("cuMemAllocAsync", 598, 373),
    ("cuMemAllocFromPoolAsync", 611, 391),
    ("cuMemAllocManaged", 371, 206),
    ("cuMemAlloc_v2", 243, 20),
    ("cuMemCreate", 549, 0),
    ("cuMemFreeAsync", 600, 375),
    ("cuMemFreeHost", 38, 26),
    ("cuMemFree_v2", 245, 22),
    ("cuMemGetInfo_v2", 242, 30),
    ("cuMemHostAlloc", 39, 27),
    ("cuMemMap", 551, 0),
    ("cuMemPrefetchAsync", 467, 252),
    ("cuMemRelease", 550, 0),
    ("cuMemSetAccess", 553, 0),
    ("cuMemUnmap", 552, 0),
    ("cuMemcpy", 305, 31),
    ("cuMemcpy2DAsync_v2", 289, 44),
    ("cuMemcpy2DUnaligned_v2", 288, 32),
    ("cuMemcpy2D_v2", 287, 32),
    ("cuMemcpy3DAsync_v2", 291, 145),
    ("cuMemcpy3DBatchAsync", 778, 484),
    ("cuMemcpy3DBatchAsync_v2", 798, 511),
    ("cuMemcpy3DPeer", 320, 162),
    ("cuMemcpy3DPeerAsync", 321, 163),
    ("cuMemcpy3D_v2", 290, 144),
    ("cuMemcpyAsync", 306, 41),
    ("cuMemcpyAtoA_v2", 286, 0),
    ("cuMemcpyAtoD_v2", 284, 35),
    ("cuMemcpyAtoHAsync_v2", 283, 0),
    ("cuMemcpyAtoH_v2", 282, 35),
    ("cuMemcpyBatchAsync", 776, 482),
    ("cuMemcpyBatchAsync_v2", 796, 509),
    ("cuMemcpyDtoA_v2", 285, 33),
    ("cuMemcpyDtoDAsync_v2", 281, 41),
    ("cuMemcpyDtoD_v2", 280, 31),
    ("cuMemcpyDtoHAsync_v2", 279, 41),
    ("cuMemcpyDtoH_v2", 278, 31),
    ("cuMemcpyHtoAAsync_v2", 293, 0),
    ("cuMemcpyHtoA_v2", 292, 33),
    ("cuMemcpyHtoDAsync_v2", 277, 41),
    ("cuMemcpyHtoD_v2", 276, 31),
    ("cuMemcpyPeer", 318, 160),
    ("cuMemcpyPeerAsync", 319, 161),
    ("cuMemsetD16Async", 218, 51),
    ("cuMemsetD16_v2", 250, 49),
    ("cuMemsetD2D16Async", 224, 52),
    ("cuMemsetD2D16_v2", 253, 50),
    ("cuMemsetD2D32Async", 226, 52),
    ("cuMemsetD2D32_v2", 254, 50),
    ("cuMemsetD2D8Async", 222, 52),
    ("cuMemsetD2D8_v2", 252, 50),
    ("cuMemsetD32Async", 220, 51),
    ("cuMemsetD32_v2", 251, 49),
    ("cuMemsetD8Async", 216, 51),
    ("cuMemsetD8_v2", 249, 49),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 451, 251),
    ("cuStreamBeginCapture_v2", 539, 315),
    ("cuStreamEndCapture", 497, 319),
    ("cuStreamIsCapturing", 499, 317),
    ("cuStreamQuery", 125, 132),
    ("cuStreamSynchronize", 126, 131),
    ("cuStreamWaitEvent", 295, 147),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_every_default_stream_and_others_are_not() {
        assert!(FUNCTIONS.is_sorted_by_key(|(name, _, _)| *name));
        let launch = Some(Numbers { driver: 307, runtime: 211 });
        assert_eq!([numbers("cuLaunchKernel"), numbers("cuLaunchKernel_ptsz")], [launch; 2]);
        assert_eq!(numbers("cuMemcpyHtoD_v2_ptds"), Some(Numbers { driver: 276, runtime: 31 }));
        assert_eq!(numbers("cuDeviceGet"), None);
    }
}
