/* Modules, libraries, linking, functions, launches, occupancy. */
#include "probe.h"

#include <unistd.h>

/* An option of the compiler with a value that it can have, where any will do. */
static void *value_of(uint64_t option) {
    static char log[256];
    switch (option) {
    case CU_JIT_INFO_LOG_BUFFER:
    case CU_JIT_ERROR_LOG_BUFFER: return log;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: return 0;
    case CU_JIT_TARGET: return (void *)(uintptr_t)CU_TARGET_COMPUTE_90;
    case CU_JIT_OPTIMIZATION_LEVEL: return (void *)4;
    case CU_JIT_MAX_REGISTERS: return (void *)64;
    case CU_JIT_THREADS_PER_BLOCK: return (void *)128;
    default: return (void *)1;
    }
}

PROBE(cuModuleLoadDataEx, options) {
    CUmodule made;
    CUjit_option option = (CUjit_option)value;
    void *wish = value_of(value);
    CUresult code = cuModuleLoadDataEx(&made, program_text, 1, &option, &wish);
    if (!code) MUST(cuModuleUnload(made));
    return code;
}

PROBE(cuLibraryLoadData, jitOptions) {
    CUlibrary made;
    CUjit_option option = (CUjit_option)value;
    void *wish = value_of(value);
    CUresult code = cuLibraryLoadData(&made, program_text, &option, &wish, 1, 0, 0, 0);
    if (!code) MUST(cuLibraryUnload(made));
    return code;
}

PROBE(cuLibraryLoadData, libraryOptions) {
    CUlibrary made;
    CUlibraryOption option = (CUlibraryOption)value;
    void *wish = (void *)1;
    CUresult code = cuLibraryLoadData(&made, program_text, 0, 0, 0, &option, &wish, 1);
    if (!code) MUST(cuLibraryUnload(made));
    return code;
}

/* The text as a file. */
static const char *program_file(void) {
    static char path[] = "/tmp/values-XXXXXX";
    static int made;
    if (!made) {
        int file = mkstemp(path);
        made = file >= 0 && write(file, program_text, strlen(program_text) + 1) > 0 && !close(file);
    }
    return path;
}
__attribute__((destructor)) static void remove_file(void) { unlink(program_file()); }

PROBE(cuLibraryLoadFromFile, jitOptions) {
    CUlibrary made;
    CUjit_option option = (CUjit_option)value;
    void *wish = value_of(value);
    CUresult code = cuLibraryLoadFromFile(&made, program_file(), &option, &wish, 1, 0, 0, 0);
    if (!code) MUST(cuLibraryUnload(made));
    return code;
}

PROBE(cuLibraryLoadFromFile, libraryOptions) {
    CUlibrary made;
    CUlibraryOption option = (CUlibraryOption)value;
    void *wish = (void *)1;
    CUresult code = cuLibraryLoadFromFile(&made, program_file(), 0, 0, 0, &option, &wish, 1);
    if (!code) MUST(cuLibraryUnload(made));
    return code;
}

static CUresult added_file(CUjitInputType kind, unsigned count, CUjit_option *options, void **wishes) {
    CUlinkState state;
    MUST(cuLinkCreate_v2(0, 0, 0, &state));
    CUresult code = cuLinkAddFile_v2(state, kind, program_file(), count, options, wishes);
    MUST(cuLinkDestroy(state));
    return code;
}

PROBE(cuLinkAddFile_v2, type) { return added_file((CUjitInputType)value, 0, 0, 0); }

PROBE(cuLinkAddFile_v2, options) {
    CUjit_option option = (CUjit_option)value;
    void *wish = value_of(value);
    return added_file(CU_JIT_INPUT_PTX, 1, &option, &wish);
}

/* What is asked of the link is refused at its end at the latest. */
PROBE(cuLinkComplete, options) {
    CUlinkState state;
    CUjit_option option = (CUjit_option)value;
    void *wish = value_of(value), *image;
    size_t bytes;
    CUresult code = cuLinkCreate_v2(1, &option, &wish, &state);
    if (code) return code;
    MUST(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)program_text, strlen(program_text) + 1, "text", 0, 0, 0));
    code = cuLinkComplete(state, &image, &bytes);
    MUST(cuLinkDestroy(state));
    return code;
}

PROBE(cuLinkCreate_v2, options) {
    CUlinkState made;
    CUjit_option option = (CUjit_option)value;
    void *wish = value_of(value);
    CUresult code = cuLinkCreate_v2(1, &option, &wish, &made);
    if (!code) MUST(cuLinkDestroy(made));
    return code;
}

static CUresult added(CUjitInputType kind, unsigned count, CUjit_option *options, void **wishes) {
    CUlinkState state;
    MUST(cuLinkCreate_v2(0, 0, 0, &state));
    CUresult code = cuLinkAddData_v2(state, kind, (void *)program_text, strlen(program_text) + 1, "text", count, options, wishes);
    MUST(cuLinkDestroy(state));
    return code;
}

PROBE(cuLinkAddData_v2, type) { return added((CUjitInputType)value, 0, 0, 0); }

PROBE(cuLinkAddData_v2, options) {
    CUjit_option option = (CUjit_option)value;
    void *wish = value_of(value);
    return added(CU_JIT_INPUT_PTX, 1, &option, &wish);
}

PROBE(cuFuncGetAttribute, attrib) {
    int got;
    return cuFuncGetAttribute(&got, (CUfunction_attribute)value, bench.function);
}

PROBE(cuKernelGetAttribute, attrib) {
    int got;
    return cuKernelGetAttribute(&got, (CUfunction_attribute)value, bench.kernel, bench.device);
}

PROBE(cuFuncSetAttribute, attrib) { return cuFuncSetAttribute(bench.function, (CUfunction_attribute)value, 0); }

PROBE(cuKernelSetAttribute, attrib) {
    return cuKernelSetAttribute((CUfunction_attribute)value, 0, bench.kernel, bench.device);
}

PROBE(cuFuncSetAttribute, policy) {
    return cuFuncSetAttribute(bench.function, CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, (int)value);
}

PROBE(cuFuncSetCacheConfig, config) { return cuFuncSetCacheConfig(bench.function, (CUfunc_cache)value); }

PROBE(cuKernelSetCacheConfig, config) {
    return cuKernelSetCacheConfig(bench.kernel, (CUfunc_cache)value, bench.device);
}

PROBE(cuFuncSetSharedMemConfig, config) { return cuFuncSetSharedMemConfig(bench.function, (CUsharedconfig)value); }

static void *parameters[1];
static void *place;

/* Of a wait as short as can be: the kernel writes one word. */
static CUlaunchConfig a_launch(CUlaunchAttribute *attribute) {
    place = (void *)(uintptr_t)bench.buffer;
    parameters[0] = &place;
    CUlaunchConfig it = {.gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
    it.hStream = bench.stream;
    it.attrs = attribute;
    it.numAttrs = attribute ? 1 : 0;
    return it;
}

/* An attribute with a value that it can have. */
static CUlaunchAttribute an_attribute(uint64_t id) {
    static CUevent event;
    if (!event) MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUlaunchAttribute it = {.id = (CUlaunchAttributeID)id};
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: it.value.syncPolicy = CU_SYNC_POLICY_AUTO; break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        it.value.clusterDim.x = it.value.clusterDim.y = it.value.clusterDim.z = 1;
        break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: it.value.programmaticEvent.event = event; break;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: it.value.launchCompletionEvent.event = event; break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: it.value.memSyncDomainMap.remote = 1; break;
    default: break;
    }
    return it;
}

static CUresult launched(CUlaunchAttribute attribute) {
    CUlaunchConfig it = a_launch(&attribute);
    CUresult code = cuLaunchKernelEx(&it, bench.function, parameters, 0);
    MUST(cuStreamSynchronize(bench.stream));
    return code;
}

PROBE(cuLaunchKernelEx, attribute) { return launched(an_attribute(value)); }

/* Values of attributes. */
#define ATTRIBUTE(name, id_, member)                         \
    PROBE(cuLaunchKernelEx, name) {                          \
        CUlaunchAttribute it = an_attribute(id_);            \
        memcpy(&it.value.member, &value, sizeof it.value.member); \
        return launched(it);                                 \
    }
ATTRIBUTE(cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperative)
ATTRIBUTE(clusterSchedulingPolicyPreference, CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
          clusterSchedulingPolicyPreference)
ATTRIBUTE(syncPolicy, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, syncPolicy)
ATTRIBUTE(memSyncDomain, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, memSyncDomain)
ATTRIBUTE(programmaticStreamSerializationAllowed, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
          programmaticStreamSerializationAllowed)
ATTRIBUTE(programmaticEvent_flags, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, programmaticEvent.flags)
ATTRIBUTE(programmaticEvent_triggerAtBlockStart, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, programmaticEvent.triggerAtBlockStart)
ATTRIBUTE(launchCompletionEvent_flags, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, launchCompletionEvent.flags)
ATTRIBUTE(deviceUpdatable, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, deviceUpdatableKernelNode.deviceUpdatable)
ATTRIBUTE(sharedMemCarveout, CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, sharedMemCarveout)
ATTRIBUTE(nvlinkUtilCentricScheduling, CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, nvlinkUtilCentricScheduling)
ATTRIBUTE(priority, CU_LAUNCH_ATTRIBUTE_PRIORITY, priority)

static const struct member windows[] = {MEMBER(CUaccessPolicyWindow, hitProp), MEMBER(CUaccessPolicyWindow, missProp)};
static void fill_window(CUaccessPolicyWindow *it) {
    it->base_ptr = (void *)(uintptr_t)bench.buffer;
    it->num_bytes = 4096;
    it->hitRatio = 1;
    it->hitProp = CU_ACCESS_PROPERTY_STREAMING;
}
STRUCT(cuLaunchKernelEx, accessPolicyWindow, CUaccessPolicyWindow, windows, fill_window) {
    CUlaunchAttribute attribute = an_attribute(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
    attribute.value.accessPolicyWindow = *it;
    return launched(attribute);
}

PROBE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, flags) {
    int got;
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&got, bench.function, 32, 0, (unsigned)value);
}

PROBE(cuOccupancyMaxPotentialBlockSizeWithFlags, flags) {
    int grid, block;
    return cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, bench.function, 0, 0, 0, (unsigned)value);
}

PROBE(cuOccupancyMaxActiveClusters, attribute) {
    int got;
    CUlaunchAttribute attribute = an_attribute(value);
    CUlaunchConfig it = a_launch(&attribute);
    return cuOccupancyMaxActiveClusters(&got, bench.function, &it);
}

PROBE(cuOccupancyMaxPotentialClusterSize, attribute) {
    int got;
    CUlaunchAttribute attribute = an_attribute(value);
    CUlaunchConfig it = a_launch(&attribute);
    return cuOccupancyMaxPotentialClusterSize(&got, bench.function, &it);
}
