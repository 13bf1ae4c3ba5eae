/* Devices, contexts, streams, events, words of memory, lookup. */
#include "probe.h"

PROBE(cuInit, Flags) { return cuInit((unsigned)value); }

static CUresult dropped(CUresult code, CUcontext made) {
    if (!code) MUST(cuCtxDestroy_v2(made));
    MUST(cuCtxSetCurrent(bench.context));
    return code;
}

PROBE(cuCtxCreate_v2, flags) {
    CUcontext made;
    CUresult code = cuCtxCreate_v2(&made, (unsigned)value, bench.device);
    return dropped(code, made);
}

PROBE(cuCtxCreate_v3, flags) {
    CUcontext made;
    CUresult code = cuCtxCreate_v3(&made, 0, 0, (unsigned)value, bench.device);
    return dropped(code, made);
}

PROBE(cuCtxCreate_v3, numParams) {
    CUcontext made;
    CUexecAffinityParam affinity = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = 2};
    CUresult code = cuCtxCreate_v3(&made, &affinity, (int)value, 0, bench.device);
    return dropped(code, made);
}

static const struct member affinities[] = {MEMBER(CUexecAffinityParam, type), MEMBER(CUexecAffinityParam, param)};
static void fill_affinity(CUexecAffinityParam *it) { it->param.smCount.val = 2; }
STRUCT(cuCtxCreate_v3, paramsArray, CUexecAffinityParam, affinities, fill_affinity) {
    CUcontext made;
    CUresult code = cuCtxCreate_v3(&made, it, 1, 0, bench.device);
    return dropped(code, made);
}

PROBE(cuCtxCreate_v4, flags) {
    CUcontext made;
    CUresult code = cuCtxCreate_v4(&made, 0, (unsigned)value, bench.device);
    return dropped(code, made);
}

static CUexecAffinityParam one_affinity = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = 2};
static const struct member creations[] = {MEMBER(CUctxCreateParams, numExecAffinityParams)};
static void fill_creation(CUctxCreateParams *it) { it->execAffinityParams = &one_affinity; }
STRUCT(cuCtxCreate_v4, ctxCreateParams, CUctxCreateParams, creations, fill_creation) {
    CUcontext made;
    CUresult code = cuCtxCreate_v4(&made, it, 0, bench.device);
    return dropped(code, made);
}

static const struct member shared_graphics[] = {MEMBER(CUctxCigParam, sharedDataType)};
static void fill_graphics(CUctxCigParam *it) { it->sharedData = it; }
STRUCT(cuCtxCreate_v4, cigParams, CUctxCigParam, shared_graphics, fill_graphics) {
    CUcontext made;
    CUctxCreateParams params = {.cigParams = it};
    CUresult code = cuCtxCreate_v4(&made, &params, 0, bench.device);
    return dropped(code, made);
}

PROBE(cuCtxSetFlags, flags) {
    CUresult code = cuCtxSetFlags((unsigned)value);
    MUST(cuCtxSetFlags(0));
    return code;
}

PROBE(cuDevicePrimaryCtxSetFlags_v2, flags) {
    CUresult code = cuDevicePrimaryCtxSetFlags_v2(bench.device, (unsigned)value);
    MUST(cuDevicePrimaryCtxSetFlags_v2(bench.device, 0));
    return code;
}

PROBE(cuCtxEnablePeerAccess, Flags) {
    CUcontext peer;
    MUST(cuDevicePrimaryCtxRetain(&peer, bench.peer));
    CUresult code = cuCtxEnablePeerAccess(peer, (unsigned)value);
    if (!code) MUST(cuCtxDisablePeerAccess(peer));
    MUST(cuDevicePrimaryCtxRelease_v2(bench.peer));
    return code;
}

PROBE(cuCtxGetLimit, limit) {
    size_t got;
    return cuCtxGetLimit(&got, (CUlimit)value);
}

/* The limit's own value: no test changes what others have. */
PROBE(cuCtxSetLimit, limit) {
    size_t own = 0;
    cuCtxGetLimit(&own, (CUlimit)value);
    return cuCtxSetLimit((CUlimit)value, own);
}

PROBE(cuCtxSetCacheConfig, config) {
    CUresult code = cuCtxSetCacheConfig((CUfunc_cache)value);
    MUST(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
    return code;
}

PROBE(cuCtxSetSharedMemConfig, config) {
    CUresult code = cuCtxSetSharedMemConfig((CUsharedconfig)value);
    MUST(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
    return code;
}

PROBE(cuDeviceGetAttribute, attrib) {
    int got;
    return cuDeviceGetAttribute(&got, (CUdevice_attribute)value, bench.device);
}

PROBE(cuDeviceGetP2PAttribute, attrib) {
    int got;
    return cuDeviceGetP2PAttribute(&got, (CUdevice_P2PAttribute)value, bench.device, bench.peer);
}

PROBE(cuDeviceGetGraphMemAttribute, attr) {
    cuuint64_t got;
    return cuDeviceGetGraphMemAttribute(bench.device, (CUgraphMem_attribute)value, &got);
}

PROBE(cuDeviceSetGraphMemAttribute, attr) {
    cuuint64_t zero = 0;
    return cuDeviceSetGraphMemAttribute(bench.device, (CUgraphMem_attribute)value, &zero);
}

PROBE(cuEventCreate, Flags) {
    CUevent made;
    CUresult code = cuEventCreate(&made, (unsigned)value);
    if (!code) MUST(cuEventDestroy_v2(made));
    return code;
}

PROBE(cuEventRecordWithFlags, flags) { return cuEventRecordWithFlags(bench.event, bench.stream, (unsigned)value); }

PROBE(cuStreamWaitEvent, Flags) { return cuStreamWaitEvent(bench.stream, bench.event, (unsigned)value); }

PROBE(cuStreamCreate, Flags) {
    CUstream made;
    CUresult code = cuStreamCreate(&made, (unsigned)value);
    if (!code) MUST(cuStreamDestroy_v2(made));
    return code;
}

PROBE(cuStreamCreateWithPriority, flags) {
    CUstream made;
    CUresult code = cuStreamCreateWithPriority(&made, (unsigned)value, 0);
    if (!code) MUST(cuStreamDestroy_v2(made));
    return code;
}

static void CUDA_CB nothing(CUstream stream, CUresult status, void *user) { (void)stream, (void)status, (void)user; }
PROBE(cuStreamAddCallback, flags) {
    CUresult code = cuStreamAddCallback(bench.stream, nothing, 0, (unsigned)value);
    MUST(cuStreamSynchronize(bench.stream));
    return code;
}

PROBE(cuStreamAttachMemAsync, flags) {
    CUresult code = cuStreamAttachMemAsync(bench.stream, bench.managed, 0, (unsigned)value);
    MUST(cuStreamAttachMemAsync(bench.stream, bench.managed, 0, CU_MEM_ATTACH_GLOBAL));
    MUST(cuStreamSynchronize(bench.stream));
    return code;
}

static CUstreamAttrValue attribute_of(uint64_t id) {
    CUstreamAttrValue it = {0};
    if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) it.syncPolicy = CU_SYNC_POLICY_AUTO;
    if (id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) it.memSyncDomainMap.remote = 1;
    return it;
}

PROBE(cuStreamSetAttribute, attr) {
    CUstream made;
    MUST(cuStreamCreate(&made, 0));
    CUstreamAttrValue it = attribute_of(value);
    CUresult code = cuStreamSetAttribute(made, (CUstreamAttrID)value, &it);
    MUST(cuStreamDestroy_v2(made));
    return code;
}

PROBE(cuStreamGetAttribute, attr) {
    CUstreamAttrValue got;
    return cuStreamGetAttribute(bench.stream, (CUstreamAttrID)value, &got);
}

static CUresult set_attribute(CUstreamAttrID id, const CUstreamAttrValue *it) {
    CUstream made;
    MUST(cuStreamCreate(&made, 0));
    CUresult code = cuStreamSetAttribute(made, id, it);
    MUST(cuStreamDestroy_v2(made));
    return code;
}

PROBE(cuStreamSetAttribute, syncPolicy) {
    CUstreamAttrValue it = {.syncPolicy = (CUsynchronizationPolicy)value};
    return set_attribute(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &it);
}

PROBE(cuStreamSetAttribute, memSyncDomain) {
    CUstreamAttrValue it = {.memSyncDomain = (CUlaunchMemSyncDomain)value};
    return set_attribute(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &it);
}

static const struct member windows[] = {MEMBER(CUaccessPolicyWindow, hitProp), MEMBER(CUaccessPolicyWindow, missProp)};
static void fill_window(CUaccessPolicyWindow *it) {
    it->base_ptr = (void *)bench.buffer;
    it->num_bytes = 4096;
    it->hitRatio = 1;
    it->hitProp = CU_ACCESS_PROPERTY_STREAMING;
}
STRUCT(cuStreamSetAttribute, accessPolicyWindow, CUaccessPolicyWindow, windows, fill_window) {
    CUstreamAttrValue value = {.accessPolicyWindow = *it};
    return set_attribute(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value);
}

/* Waits are for what stands there already: 0. */
#define WORDS(bits, type)                                                                                        \
    PROBE(cuStreamWriteValue##bits##_v2, flags) {                                                                \
        return cuStreamWriteValue##bits##_v2(bench.stream, bench.buffer + 64, (type)0, (unsigned)value);         \
    }                                                                                                            \
    PROBE(cuStreamWaitValue##bits##_v2, flags) {                                                                 \
        /* NOR asks for a zero bit of either. */                                                                 \
        type wanted = (value & 3) == CU_STREAM_WAIT_VALUE_AND ? (type)-1 : 0;                                    \
        MUST(cuMemsetD32_v2(bench.buffer + 64, wanted ? 1 : 0, 2));                                              \
        CUresult code = cuStreamWaitValue##bits##_v2(bench.stream, bench.buffer + 64, wanted, (unsigned)value);  \
        MUST(cuStreamSynchronize(bench.stream));                                                                 \
        MUST(cuMemsetD32_v2(bench.buffer + 64, 0, 2));                                                           \
        return code;                                                                                             \
    }
WORDS(32, cuuint32_t)
WORDS(64, cuuint64_t)

static CUstreamBatchMemOpParams a_write(void) {
    CUstreamBatchMemOpParams it = {0};
    it.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    it.writeValue.address = bench.buffer + 64;
    return it;
}

PROBE(cuStreamBatchMemOp_v2, flags) {
    CUstreamBatchMemOpParams it = a_write();
    return cuStreamBatchMemOp_v2(bench.stream, 1, &it, (unsigned)value);
}

PROBE(cuStreamBatchMemOp_v2, count) {
    static CUstreamBatchMemOpParams all[300];
    for (size_t i = 0; i < COUNT(all); ++i) all[i] = a_write();
    return cuStreamBatchMemOp_v2(bench.stream, (unsigned)value, all, 0);
}

static const struct member word_operations[] = {MEMBER(CUstreamBatchMemOpParams, operation),
                                                MEMBER(CUstreamBatchMemOpParams, writeValue.flags),
                                                MEMBER(CUstreamBatchMemOpParams, writeValue.alias)};
static void fill_write(CUstreamBatchMemOpParams *it) { *it = a_write(); }
STRUCT(cuStreamBatchMemOp_v2, paramArray, CUstreamBatchMemOpParams, word_operations, fill_write) {
    /* A barrier and a flush have their flags where others have half of an address. */
    if (it->operation == CU_STREAM_MEM_OP_BARRIER || it->operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
        it->memoryBarrier.flags = 0;
    return cuStreamBatchMemOp_v2(bench.stream, 1, it, 0);
}

PROBE(cuStreamBatchMemOp_v2, waitValue_flags) {
    CUstreamBatchMemOpParams it = a_write();
    it.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    it.waitValue.flags = (unsigned)value;
    it.waitValue.value = (value & 3) == CU_STREAM_WAIT_VALUE_AND ? ~0u : 0;
    MUST(cuMemsetD32_v2(bench.buffer + 64, it.waitValue.value ? 1 : 0, 2));
    CUresult code = cuStreamBatchMemOp_v2(bench.stream, 1, &it, 0);
    MUST(cuStreamSynchronize(bench.stream));
    MUST(cuMemsetD32_v2(bench.buffer + 64, 0, 2));
    return code;
}

PROBE(cuStreamBatchMemOp_v2, flushRemoteWrites_flags) {
    CUstreamBatchMemOpParams it = {.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES};
    it.flushRemoteWrites.flags = (unsigned)value;
    return cuStreamBatchMemOp_v2(bench.stream, 1, &it, 0);
}

PROBE(cuStreamBatchMemOp_v2, memoryBarrier_flags) {
    CUstreamBatchMemOpParams it = {.operation = CU_STREAM_MEM_OP_BARRIER};
    it.memoryBarrier.flags = (unsigned)value;
    return cuStreamBatchMemOp_v2(bench.stream, 1, &it, 0);
}

static CUresult ended(CUresult code) {
    CUgraph graph = 0;
    if (!code) MUST(cuStreamEndCapture(bench.stream, &graph));
    if (graph) MUST(cuGraphDestroy(graph));
    return code;
}

PROBE(cuStreamBeginCapture_v2, mode) { return ended(cuStreamBeginCapture_v2(bench.stream, (CUstreamCaptureMode)value)); }

PROBE(cuStreamBeginCaptureToGraph, mode) {
    CUgraph graph;
    MUST(cuGraphCreate(&graph, 0));
    CUresult code = cuStreamBeginCaptureToGraph(bench.stream, graph, 0, 0, 0, (CUstreamCaptureMode)value);
    if (code) MUST(cuGraphDestroy(graph));
    return ended(code);
}

PROBE(cuThreadExchangeStreamCaptureMode, mode) {
    CUstreamCaptureMode mode = (CUstreamCaptureMode)value;
    CUresult code = cuThreadExchangeStreamCaptureMode(&mode);
    if (!code) MUST(cuThreadExchangeStreamCaptureMode(&mode));
    return code;
}

PROBE(cuStreamUpdateCaptureDependencies, flags) {
    MUST(cuStreamBeginCapture_v2(bench.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUresult code = cuStreamUpdateCaptureDependencies(bench.stream, 0, 0, (unsigned)value);
    ended(CUDA_SUCCESS);
    return code;
}

PROBE(cuStreamUpdateCaptureDependencies_v2, flags) {
    MUST(cuStreamBeginCapture_v2(bench.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUresult code = cuStreamUpdateCaptureDependencies_v2(bench.stream, 0, 0, 0, (unsigned)value);
    ended(CUDA_SUCCESS);
    return code;
}

PROBE(cuGetProcAddress, flags) {
    void *found;
    return cuGetProcAddress("cuMemAlloc", &found, 12000, value);
}

PROBE(cuGetProcAddress_v2, flags) {
    void *found;
    return cuGetProcAddress_v2("cuMemAlloc", &found, 12000, value, 0);
}
