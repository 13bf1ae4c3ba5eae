/* Memory: host memory, physical memory, pools, managed memory, pointers, shared memory of processes. */
#include "probe.h"

#include <sys/mman.h>
#include <unistd.h>

PROBE(cuMemHostAlloc, Flags) {
    void *made;
    CUresult code = cuMemHostAlloc(&made, 4096, (unsigned)value);
    if (!code) MUST(cuMemFreeHost(made));
    return code;
}

PROBE(cuMemHostRegister_v2, Flags) {
    void *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUresult code = cuMemHostRegister_v2(pages, 8192, (unsigned)value);
    if (!code) MUST(cuMemHostUnregister(pages));
    munmap(pages, 8192);
    return code;
}

PROBE(cuMemHostGetDevicePointer_v2, Flags) {
    CUdeviceptr got;
    return cuMemHostGetDevicePointer_v2(&got, bench.host, (unsigned)value);
}

PROBE(cuMemAllocManaged, flags) {
    CUdeviceptr made;
    CUresult code = cuMemAllocManaged(&made, 4096, (unsigned)value);
    if (!code) MUST(cuMemFree_v2(made));
    return code;
}

PROBE(cuMemAddressReserve, flags) {
    CUdeviceptr made;
    CUresult code = cuMemAddressReserve(&made, 2 << 20, 0, 0, value);
    if (!code) MUST(cuMemAddressFree(made, 2 << 20));
    return code;
}

static const struct member properties[] = {
    MEMBER(CUmemAllocationProp, type),
    MEMBER(CUmemAllocationProp, requestedHandleTypes),
    MEMBER(CUmemAllocationProp, location.type),
    MEMBER(CUmemAllocationProp, location.id),
    MEMBER(CUmemAllocationProp, win32HandleMetaData),
    MEMBER(CUmemAllocationProp, allocFlags.compressionType),
    MEMBER(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable),
    MEMBER(CUmemAllocationProp, allocFlags.usage),
    ELEMENTS(CUmemAllocationProp, allocFlags.reserved),
};
static void fill_properties(CUmemAllocationProp *it) {
    it->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    it->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
}
STRUCT(cuMemCreate, prop, CUmemAllocationProp, properties, fill_properties) {
    CUmemGenericAllocationHandle made;
    CUresult code = cuMemCreate(&made, 2 << 20, it, 0);
    if (!code) MUST(cuMemRelease(made));
    return code;
}
STRUCT(cuMemGetAllocationGranularity, prop, CUmemAllocationProp, properties, fill_properties) {
    size_t got;
    return cuMemGetAllocationGranularity(&got, it, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}

PROBE(cuMemCreate, flags) {
    CUmemGenericAllocationHandle made;
    CUmemAllocationProp it = {0};
    fill_properties(&it);
    CUresult code = cuMemCreate(&made, 2 << 20, &it, value);
    if (!code) MUST(cuMemRelease(made));
    return code;
}

PROBE(cuMemGetAllocationGranularity, option) {
    size_t got;
    CUmemAllocationProp it = {0};
    fill_properties(&it);
    return cuMemGetAllocationGranularity(&got, &it, (CUmemAllocationGranularity_flags)value);
}

/* Memory that is mapped: its handle and its place. */
static CUmemGenericAllocationHandle mapped(CUdeviceptr *place) {
    static CUmemGenericAllocationHandle made;
    static CUdeviceptr at;
    if (!at) {
        CUmemAllocationProp it = {0};
        fill_properties(&it);
        it.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        MUST(cuMemCreate(&made, 2 << 20, &it, 0));
        MUST(cuMemAddressReserve(&at, 2 << 20, 0, 0, 0));
        MUST(cuMemMap(at, 2 << 20, 0, made, 0));
    }
    *place = at;
    return made;
}

PROBE(cuMemMap, flags) {
    CUdeviceptr place, other;
    CUmemGenericAllocationHandle memory = mapped(&place);
    MUST(cuMemAddressReserve(&other, 2 << 20, 0, 0, 0));
    CUresult code = cuMemMap(other, 2 << 20, 0, memory, value);
    if (!code) MUST(cuMemUnmap(other, 2 << 20));
    MUST(cuMemAddressFree(other, 2 << 20));
    return code;
}

static const struct member accesses[] = {MEMBER(CUmemAccessDesc, location.type), MEMBER(CUmemAccessDesc, location.id),
                                         MEMBER(CUmemAccessDesc, flags)};
static void fill_access(CUmemAccessDesc *it) {
    it->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    it->flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}
STRUCT(cuMemSetAccess, desc, CUmemAccessDesc, accesses, fill_access) {
    CUdeviceptr place;
    mapped(&place);
    return cuMemSetAccess(place, 2 << 20, it, 1);
}
STRUCT(cuMemPoolSetAccess, map, CUmemAccessDesc, accesses, fill_access) { return cuMemPoolSetAccess(bench.pool, it, 1); }

static const struct member locations[] = {MEMBER(CUmemLocation, type), MEMBER(CUmemLocation, id)};
static void fill_location(CUmemLocation *it) { it->type = CU_MEM_LOCATION_TYPE_DEVICE; }
STRUCT(cuMemGetAccess, location, CUmemLocation, locations, fill_location) {
    CUdeviceptr place;
    unsigned long long got;
    mapped(&place);
    return cuMemGetAccess(&got, it, place);
}
STRUCT(cuMemPoolGetAccess, location, CUmemLocation, locations, fill_location) {
    CUmemAccess_flags got;
    return cuMemPoolGetAccess(&got, bench.pool, it);
}
STRUCT(cuMemGetDefaultMemPool, location, CUmemLocation, locations, fill_location) {
    CUmemoryPool got;
    return cuMemGetDefaultMemPool(&got, it, CU_MEM_ALLOCATION_TYPE_PINNED);
}
STRUCT(cuMemGetMemPool, location, CUmemLocation, locations, fill_location) {
    CUmemoryPool got;
    return cuMemGetMemPool(&got, it, CU_MEM_ALLOCATION_TYPE_PINNED);
}
STRUCT(cuMemSetMemPool, location, CUmemLocation, locations, fill_location) {
    return cuMemSetMemPool(it, CU_MEM_ALLOCATION_TYPE_PINNED, bench.pool);
}
STRUCT(cuMemAdvise_v2, location, CUmemLocation, locations, fill_location) {
    CUresult code = cuMemAdvise_v2(bench.managed, 4 << 20, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, *it);
    MUST(cuMemAdvise_v2(bench.managed, 4 << 20, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, *it));
    return code;
}
STRUCT(cuMemPrefetchAsync_v2, location, CUmemLocation, locations, fill_location) {
    return cuMemPrefetchAsync_v2(bench.managed, 4096, *it, 0, bench.stream);
}

PROBE(cuMemPrefetchAsync_v2, flags) {
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    return cuMemPrefetchAsync_v2(bench.managed, 4096, host, (unsigned)value, bench.stream);
}

PROBE(cuMemAdvise, advice) { return cuMemAdvise(bench.managed, 4 << 20, (CUmem_advise)value, CU_DEVICE_CPU); }

PROBE(cuMemAdvise_v2, advice) {
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    return cuMemAdvise_v2(bench.managed, 4 << 20, (CUmem_advise)value, host);
}

PROBE(cuMemRangeGetAttribute, attribute) {
    int got;
    return cuMemRangeGetAttribute(&got, sizeof got, (CUmem_range_attribute)value, bench.managed, 4 << 20);
}

PROBE(cuMemRangeGetAttributes, attributes) {
    int got;
    void *place = &got;
    size_t size = sizeof got;
    CUmem_range_attribute attribute = (CUmem_range_attribute)value;
    return cuMemRangeGetAttributes(&place, &size, &attribute, 1, bench.managed, 4 << 20);
}

static CUmemLocation here(void) { return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = bench.device}; }

PROBE(cuMemGetDefaultMemPool, type) {
    CUmemoryPool got;
    CUmemLocation location = here();
    return cuMemGetDefaultMemPool(&got, &location, (CUmemAllocationType)value);
}

PROBE(cuMemGetMemPool, type) {
    CUmemoryPool got;
    CUmemLocation location = here();
    return cuMemGetMemPool(&got, &location, (CUmemAllocationType)value);
}

PROBE(cuMemSetMemPool, type) {
    CUmemLocation location = here();
    return cuMemSetMemPool(&location, (CUmemAllocationType)value, bench.pool);
}

static const struct member pools[] = {
    MEMBER(CUmemPoolProps, allocType),   MEMBER(CUmemPoolProps, handleTypes), MEMBER(CUmemPoolProps, location.type),
    MEMBER(CUmemPoolProps, location.id), MEMBER(CUmemPoolProps, win32SecurityAttributes),
    MEMBER(CUmemPoolProps, maxSize),     MEMBER(CUmemPoolProps, usage),       ELEMENTS(CUmemPoolProps, reserved),
};
static void fill_pool(CUmemPoolProps *it) {
    it->allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    it->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
}
STRUCT(cuMemPoolCreate, poolProps, CUmemPoolProps, pools, fill_pool) {
    CUmemoryPool made;
    CUresult code = cuMemPoolCreate(&made, it);
    if (!code) MUST(cuMemPoolDestroy(made));
    return code;
}

PROBE(cuMemPoolGetAttribute, attr) {
    cuuint64_t got;
    return cuMemPoolGetAttribute(bench.pool, (CUmemPool_attribute)value, &got);
}

PROBE(cuMemPoolSetAttribute, attr) {
    cuuint64_t zero = 0;
    return cuMemPoolSetAttribute(bench.pool, (CUmemPool_attribute)value, &zero);
}

/* What is exported: a descriptor is closed again. */
static CUresult exported(CUresult code, uint64_t kind, const int *place) {
    if (!code && kind == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) close(*place);
    return code;
}

PROBE(cuMemExportToShareableHandle, handleType) {
    CUdeviceptr at;
    int place[16];
    return exported(cuMemExportToShareableHandle(place, mapped(&at), (CUmemAllocationHandleType)value, 0), value, place);
}

PROBE(cuMemExportToShareableHandle, flags) {
    CUdeviceptr at;
    int place[16];
    CUmemAllocationHandleType kind = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return exported(cuMemExportToShareableHandle(place, mapped(&at), kind, value), kind, place);
}

PROBE(cuMemImportFromShareableHandle, shHandleType) {
    CUdeviceptr at;
    int place;
    CUmemGenericAllocationHandle got;
    MUST(cuMemExportToShareableHandle(&place, mapped(&at), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    /* Fabric handles are 64 bytes of memory; a descriptor is the pointer's number. */
    static char fabric[64];
    void *handle = value == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? (void *)(intptr_t)place : fabric;
    CUresult code = cuMemImportFromShareableHandle(&got, handle, (CUmemAllocationHandleType)value);
    if (!code) MUST(cuMemRelease(got));
    close(place);
    return code;
}

static CUmemoryPool shared_pool(void) {
    static CUmemoryPool made;
    if (!made) {
        CUmemPoolProps it = {0};
        fill_pool(&it);
        it.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        MUST(cuMemPoolCreate(&made, &it));
    }
    return made;
}

PROBE(cuMemPoolExportToShareableHandle, handleType) {
    int place[16];
    CUmemAllocationHandleType kind = (CUmemAllocationHandleType)value;
    return exported(cuMemPoolExportToShareableHandle(place, shared_pool(), kind, 0), value, place);
}

PROBE(cuMemPoolExportToShareableHandle, flags) {
    int place[16];
    CUmemAllocationHandleType kind = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return exported(cuMemPoolExportToShareableHandle(place, shared_pool(), kind, value), kind, place);
}

/* The handle is a descriptor of something else, so that a kind or flags that are taken end with another error. */
PROBE(cuMemPoolImportFromShareableHandle, handleType) {
    CUmemoryPool got;
    static char fabric[64];
    void *handle = value == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? (void *)(intptr_t)1 : fabric;
    return cuMemPoolImportFromShareableHandle(&got, handle, (CUmemAllocationHandleType)value, 0);
}

PROBE(cuMemPoolImportFromShareableHandle, flags) {
    CUmemoryPool got;
    CUmemAllocationHandleType kind = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    int place;
    MUST(cuMemPoolExportToShareableHandle(&place, shared_pool(), kind, 0));
    CUresult code = cuMemPoolImportFromShareableHandle(&got, (void *)(intptr_t)place, kind, value);
    if (!code) MUST(cuMemPoolDestroy(got));
    close(place);
    return code;
}

/* A handle of this process: the only error that is not about the flags is INVALID_CONTEXT. */
PROBE(cuIpcOpenMemHandle_v2, Flags) {
    CUipcMemHandle handle;
    CUdeviceptr got;
    MUST(cuIpcGetMemHandle(&handle, bench.buffer));
    CUresult code = cuIpcOpenMemHandle_v2(&got, handle, (unsigned)value);
    if (!code) MUST(cuIpcCloseMemHandle(got));
    return code;
}

PROBE(cuPointerGetAttribute, attribute) {
    cuuint64_t got[8];
    return cuPointerGetAttribute(got, (CUpointer_attribute)value, bench.buffer);
}

PROBE(cuPointerGetAttributes, attributes) {
    cuuint64_t got[8];
    void *place = got;
    CUpointer_attribute attribute = (CUpointer_attribute)value;
    return cuPointerGetAttributes(1, &attribute, &place, bench.buffer);
}

PROBE(cuPointerSetAttribute, attribute) {
    cuuint64_t zero = 0;
    return cuPointerSetAttribute(&zero, (CUpointer_attribute)value, bench.buffer);
}
