// Handles of device memory between processes: physical memory of cuMemCreate passed on by a socket, taken by pidfd_getfd,
// and inherited; and a pool with its allocations. The same by fabric handles, where memory can be made for them. What is no
// such handle is refused.
// No argument. Both processes check.
#include "check_driver.h"
#include "processes.h"
#include "ranks.h"

#include <string>

#include <sys/syscall.h>

constexpr size_t count = 5000;

static CUdevice begin_sharing(int rank) {
    const CUdevice device = begin(rank);
    int by_descriptor = 0, pools = 0, events = 0;
    CHECK_DRIVER(cuDeviceGetAttribute(
        &by_descriptor, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
    CHECK_DRIVER(cuDeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, device));
    CHECK_DRIVER(cuDeviceGetAttribute(&events, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, device));
    if (by_descriptor != 1 || (pools & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0 || events != 1) {
        std::printf("the device says that it does not share: %d %d %d\n", by_descriptor, pools, events);
        std::exit(1);
    }
    return device;
}

static CUmemAllocationProp properties_of(CUdevice device) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return properties;
}

static size_t granularity_of(CUdevice device) {
    const CUmemAllocationProp properties = properties_of(device);
    size_t bytes = 0;
    CHECK_DRIVER(cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return bytes;
}

// Physical memory at an address of this process's own.
struct Mapped {
    CUdeviceptr at = 0;
    size_t bytes;

    Mapped(CUmemGenericAllocationHandle handle, CUdevice device, size_t size) : bytes(size) {
        CHECK_DRIVER(cuMemAddressReserve(&at, bytes, 0, 0, 0));
        CHECK_DRIVER(cuMemMap(at, bytes, 0, handle, 0));
        CUmemAccessDesc access = {};
        access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.location.id = device;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CHECK_DRIVER(cuMemSetAccess(at, bytes, &access, 1));
    }

    void release() {
        CHECK_DRIVER(cuMemUnmap(at, bytes));
        CHECK_DRIVER(cuMemAddressFree(at, bytes));
    }
};

static std::vector<int> contents(CUdeviceptr at) {
    std::vector<int> values(count);
    CHECK_DRIVER(cuMemcpyDtoH(values.data(), at, count * sizeof(int)));
    return values;
}

// What the owner says of what it passes on.
struct Passed {
    pid_t process;
    int descriptor;
    CUmemPoolPtrExportData pointer;
    bool has_fabric;
    CUmemFabricHandle fabric, pool;
};

static void *as_handle(int descriptor) { return reinterpret_cast<void *>(static_cast<uintptr_t>(descriptor)); }

// A process that has inherited the descriptor: started anew, because CUDA is not used after a fork.
static pid_t start_heir(int descriptor) {
    std::fflush(stdout);
    // A copy that is not closed at the start of another program.
    const int inherited = dup(descriptor);
    const std::string number = std::to_string(inherited);
    const pid_t heir = fork();
    if (heir == 0) {
        execl("/proc/self/exe", "shareable", "heir", number.c_str(), nullptr);
        _exit(127);
    }
    close(inherited);
    return heir;
}

static int heir_of(int descriptor) {
    Verdict verdict;
    const CUdevice device = begin_sharing(1);
    CUmemGenericAllocationHandle handle;
    CHECK_DRIVER(cuMemImportFromShareableHandle(&handle, as_handle(descriptor), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    Mapped mapped(handle, device, granularity_of(device));
    verdict.equal("inherited memory", contents(mapped.at).data(), std::vector<int>(count, 11).data(), count);
    CUmemAllocationProp about = {};
    CHECK_DRIVER(cuMemGetAllocationPropertiesFromHandle(&about, handle));
    verdict.expect(about.type == CU_MEM_ALLOCATION_TYPE_PINNED && about.location.type == CU_MEM_LOCATION_TYPE_DEVICE,
                   "imported memory is a device's");
    unsigned kind = 0;
    CHECK_DRIVER(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mapped.at));
    int legacy = -1;
    CHECK_DRIVER(cuPointerGetAttribute(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, mapped.at));
    verdict.expect(kind == CU_MEMORYTYPE_DEVICE && legacy == 0, "its pointer is a device's, which has no handle");
    mapped.release();
    CHECK_DRIVER(cuMemRelease(handle));
    return verdict.failures == 0 ? 0 : 1;
}

// Memory and a pool that were made for fabric handles. NVIDIA's driver makes none for a process that has no channel of its
// service for them, whatever the device says.
struct Fabric {
    CUmemGenericAllocationHandle handle = 0;
    CUmemoryPool pool = nullptr;

    Fabric(CUdevice device, size_t bytes, Passed &passed, Verdict &verdict) {
        int says_so = 0;
        CHECK_DRIVER(cuDeviceGetAttribute(&says_so, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, device));
        CUmemAllocationProp properties = properties_of(device);
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
        const CUresult made = cuMemCreate(&handle, bytes, &properties, 0);
        verdict.expect(says_so ? made == CUDA_SUCCESS || made == CUDA_ERROR_NOT_PERMITTED : made != CUDA_SUCCESS,
                       "the device says whether it has fabric handles");
        passed.has_fabric = made == CUDA_SUCCESS;
        if (!passed.has_fabric) return;
        const CUmemAllocationHandleType kind = CU_MEM_HANDLE_TYPE_FABRIC;
        CUmemFabricHandle again;
        CHECK_DRIVER(cuMemExportToShareableHandle(&passed.fabric, handle, kind, 0));
        CHECK_DRIVER(cuMemExportToShareableHandle(&again, handle, kind, 0));
        verdict.expect(std::memcmp(&passed.fabric, &again, sizeof(again)) == 0, "memory has one fabric handle");
        int none = -1;
        says(cuMemExportToShareableHandle(&none, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
             CUDA_ERROR_INVALID_VALUE, "it was not made for descriptors", verdict);
        CUmemGenericAllocationHandle own;
        CHECK_DRIVER(cuMemImportFromShareableHandle(&own, &passed.fabric, kind));
        Mapped mapped(own, device, bytes);
        CHECK_DRIVER(cuMemsetD32(mapped.at, 21, count));
        CHECK_DRIVER(cuCtxSynchronize());
        mapped.release();
        CHECK_DRIVER(cuMemRelease(own));

        CUmemPoolProps about = {};
        about.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        about.handleTypes = kind;
        about.location = properties.location;
        CHECK_DRIVER(cuMemPoolCreate(&pool, &about));
        CHECK_DRIVER(cuMemPoolExportToShareableHandle(&passed.pool, pool, kind, 0));
        says(cuMemPoolExportToShareableHandle(&none, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
             CUDA_ERROR_INVALID_VALUE, "the pool was not made for descriptors", verdict);
    }

    void check_written_and_release(CUdevice device, size_t bytes, Verdict &verdict) const {
        if (pool == nullptr) return;
        Mapped mapped(handle, device, bytes);
        verdict.equal("what it wrote by a fabric handle", contents(mapped.at).data(),
                      std::vector<int>(count, 22).data(), count);
        mapped.release();
        CHECK_DRIVER(cuMemPoolDestroy(pool));
        CHECK_DRIVER(cuMemRelease(handle));
    }
};

// What the other process does with them. At the end it has written 22.
static void import_by_fabric(Processes &all, CUdevice device, size_t bytes, Passed passed, Verdict &verdict) {
    const CUmemAllocationHandleType kind = CU_MEM_HANDLE_TYPE_FABRIC;
    CUmemGenericAllocationHandle handle, none;
    const CUresult imported = cuMemImportFromShareableHandle(&handle, &passed.fabric, kind);
    // Of a process that is gone the handle is none any more, which has another code than a descriptor's.
    CHECK_DRIVER(all.of_other(0, imported == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_INVALID_HANDLE : imported));
    Mapped mapped(handle, device, bytes);
    verdict.equal("memory by a fabric handle", contents(mapped.at).data(), std::vector<int>(count, 21).data(), count);
    says(cuMemExportToShareableHandle(&passed.pool, handle, kind, 0), CUDA_ERROR_INVALID_VALUE,
         "imported memory is not exported", verdict);
    CHECK_DRIVER(cuMemsetD32(mapped.at, 22, count));
    CHECK_DRIVER(cuCtxSynchronize());
    mapped.release();
    CHECK_DRIVER(cuMemRelease(handle));
    CUmemoryPool pool;
    CHECK_DRIVER(cuMemPoolImportFromShareableHandle(&pool, &passed.pool, kind, 0));
    CHECK_DRIVER(cuMemPoolDestroy(pool));
    std::memset(&passed.fabric, 7, sizeof(passed.fabric));
    says(cuMemImportFromShareableHandle(&none, &passed.fabric, kind), CUDA_ERROR_NOT_SUPPORTED,
         "garbage is no fabric handle", verdict);
}

static int owner(Processes &all) {
    Verdict verdict;
    const CUdevice device = begin_sharing(0);
    const size_t bytes = granularity_of(device);
    CUmemAllocationProp properties = properties_of(device);
    CUmemGenericAllocationHandle handle, own;
    CHECK_DRIVER(cuMemCreate(&handle, bytes, &properties, 0));
    Mapped mapped(handle, device, bytes);
    CHECK_DRIVER(cuMemsetD32(mapped.at, 11, count));
    int descriptor = -1;
    CHECK_DRIVER(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    verdict.expect(descriptor >= 0, "exported memory is a descriptor");
    all.step();

    // Memory that was not made for it, and other kinds of handles.
    CUmemGenericAllocationHandle unshared;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    CHECK_DRIVER(cuMemCreate(&unshared, bytes, &properties, 0));
    int none = -1;
    says(cuMemExportToShareableHandle(&none, unshared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
         CUDA_ERROR_INVALID_VALUE, "memory that was not made to be shared is not exported", verdict);
    CHECK_DRIVER(cuMemRelease(unshared));
    Passed passed = {getpid(), descriptor, {}, false, {}, {}};
    says(cuMemExportToShareableHandle(&passed.fabric, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0), CUDA_ERROR_INVALID_VALUE,
         "it was not made for fabric handles", verdict);
    const Fabric by_fabric(device, bytes, passed, verdict);

    // In its own process the descriptor is the same memory.
    CHECK_DRIVER(cuMemImportFromShareableHandle(&own, as_handle(descriptor), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    Mapped twice(own, device, bytes);
    verdict.equal("its own descriptor", contents(twice.at).data(), std::vector<int>(count, 11).data(), count);
    twice.release();
    CHECK_DRIVER(cuMemRelease(own));

    CUmemPoolProps about = {};
    about.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    about.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    about.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    about.location.id = device;
    CUmemoryPool pool;
    CHECK_DRIVER(cuMemPoolCreate(&pool, &about));
    int pool_descriptor = -1;
    CHECK_DRIVER(cuMemPoolExportToShareableHandle(&pool_descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CUmemoryPool plain;
    CHECK_DRIVER(cuDeviceGetDefaultMemPool(&plain, device));
    says(cuMemPoolExportToShareableHandle(&none, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
         CUDA_ERROR_INVALID_VALUE, "a pool that was not made to be shared is not exported", verdict);
    CUdeviceptr given = 0;
    CHECK_DRIVER(cuMemAllocFromPoolAsync(&given, count * sizeof(int), pool, nullptr));
    CHECK_DRIVER(cuMemsetD32Async(given, 12, count, nullptr));
    CHECK_DRIVER(cuCtxSynchronize());
    CHECK_DRIVER(cuMemPoolExportPointer(&passed.pointer, given));
    all.step();

    const int heir = start_heir(descriptor);
    int status = -1;
    verdict.expect(heir > 0 && waitpid(heir, &status, 0) == heir && status == 0, "an inherited descriptor is the memory");

    all.send_descriptor(1, descriptor);
    all.send_descriptor(1, pool_descriptor);
    all.send(1, passed);
    all.receive<char>(1);
    all.step();
    verdict.equal("what the other wrote", contents(mapped.at).data(), std::vector<int>(count, 13).data(), count);
    verdict.equal("what it wrote in the pool's", contents(given).data(), std::vector<int>(count, 14).data(), count);
    CHECK_DRIVER(cuMemFreeAsync(given, nullptr));
    CHECK_DRIVER(cuCtxSynchronize());
    CHECK_DRIVER(cuMemPoolDestroy(pool));
    mapped.release();
    CHECK_DRIVER(cuMemRelease(handle));
    by_fabric.check_written_and_release(device, bytes, verdict);
    all.step();
    all.send(1, 'e');
    all.receive<char>(1);
    close(descriptor);
    close(pool_descriptor);
    return verdict.failures == 0 ? 0 : 1;
}

static int importer(Processes &all) {
    Verdict verdict;
    const CUdevice device = begin_sharing(1);
    const size_t bytes = granularity_of(device);
    const int descriptor = all.receive_descriptor(0), pool_descriptor = all.receive_descriptor(0);
    const Passed passed = all.receive<Passed>(0);
    CUmemGenericAllocationHandle handle, taken, none;
    CHECK_DRIVER(all.of_other(
        0, cuMemImportFromShareableHandle(&handle, as_handle(descriptor), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
    Mapped mapped(handle, device, bytes);
    verdict.equal("memory by a socket", contents(mapped.at).data(), std::vector<int>(count, 11).data(), count);
    all.step();

    // By the owner's number of it, as PyTorch does it. Not every system lets a process do that.
    const int process = static_cast<int>(syscall(SYS_pidfd_open, passed.process, 0));
    const int got = process < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_getfd, process, passed.descriptor, 0));
    if (got >= 0) {
        CHECK_DRIVER(all.of_other(
            0, cuMemImportFromShareableHandle(&taken, as_handle(got), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
        close(got);
        Mapped again(taken, device, bytes);
        verdict.equal("memory by pidfd_getfd", contents(again.at).data(), std::vector<int>(count, 11).data(), count);
        again.release();
        CHECK_DRIVER(cuMemRelease(taken));
    }
    if (process >= 0) close(process);

    // What is no descriptor of memory.
    int ends[2];
    if (pipe(ends) != 0) return 1;
    const CUmemAllocationHandleType kind = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    says(cuMemImportFromShareableHandle(&none, as_handle(ends[0]), kind), CUDA_ERROR_UNKNOWN,
         "a pipe is no memory", verdict);
    close(ends[0]);
    close(ends[1]);
    says(cuMemImportFromShareableHandle(&none, as_handle(ends[0]), kind), CUDA_ERROR_UNKNOWN,
         "a closed descriptor is no memory", verdict);
    says(cuMemImportFromShareableHandle(&none, as_handle(pool_descriptor), kind), CUDA_ERROR_NOT_SUPPORTED,
         "a pool is no memory", verdict);
    if (passed.has_fabric) {
        import_by_fabric(all, device, bytes, passed, verdict);
    } else {
        CUmemFabricHandle fabric = {};
        says(cuMemImportFromShareableHandle(&none, &fabric, CU_MEM_HANDLE_TYPE_FABRIC), CUDA_ERROR_NOT_SUPPORTED,
             "garbage is no fabric handle", verdict);
    }
    all.step();

    CUmemoryPool pool;
    says(cuMemPoolImportFromShareableHandle(&pool, as_handle(descriptor), kind, 0), CUDA_ERROR_NOT_SUPPORTED,
         "memory is no pool", verdict);
    CHECK_DRIVER(cuMemPoolImportFromShareableHandle(&pool, as_handle(pool_descriptor), kind, 0));
    // The pool may be another device's.
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_DRIVER(cuMemPoolSetAccess(pool, &access, 1));
    CUdeviceptr given = 0, not_given = 0;
    says(cuMemAllocFromPoolAsync(&not_given, 4096, pool, nullptr), CUDA_ERROR_INVALID_VALUE,
         "nothing is allocated from another's pool", verdict);
    CUmemPoolPtrExportData data = passed.pointer;
    CHECK_DRIVER(all.of_other(0, cuMemPoolImportPointer(&given, pool, &data)));
    verdict.equal("memory of a pool", contents(given).data(), std::vector<int>(count, 12).data(), count);
    std::memset(&data, 1, sizeof(data));
    says(cuMemPoolImportPointer(&not_given, pool, &data), CUDA_ERROR_INVALID_VALUE, "garbage is no allocation", verdict);
    says(cuIpcCloseMemHandle(given), CUDA_ERROR_INVALID_VALUE, "memory of a pool is freed, not closed", verdict);
    all.step();

    CHECK_DRIVER(cuMemsetD32(mapped.at, 13, count));
    CHECK_DRIVER(cuMemsetD32Async(given, 14, count, nullptr));
    CHECK_DRIVER(cuMemFreeAsync(given, nullptr));
    CHECK_DRIVER(cuCtxSynchronize());
    says(cuMemFree(given), CUDA_ERROR_INVALID_VALUE, "it is freed once", verdict);
    CHECK_DRIVER(cuMemPoolDestroy(pool));
    all.send(0, 'w');
    all.receive<char>(0);
    // The owner has released it.
    verdict.equal("memory that was released", contents(mapped.at).data(), std::vector<int>(count, 13).data(), count);
    // NVIDIA's descriptors keep the memory that nobody else has; floe's do not, and say so.
    const CUresult late = cuMemImportFromShareableHandle(&none, as_handle(descriptor), kind);
    verdict.expect(late == CUDA_SUCCESS || late == CUDA_ERROR_INVALID_HANDLE, "released memory is there or is not");
    if (late == CUDA_SUCCESS) CHECK_DRIVER(cuMemRelease(none));
    mapped.release();
    CHECK_DRIVER(cuMemRelease(handle));
    close(descriptor);
    close(pool_descriptor);
    all.step();
    all.send(0, 'e');
    return verdict.failures == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 3 && std::strcmp(argv[1], "heir") == 0) return heir_of(std::atoi(argv[2]));
    return run_processes(2, [](Processes &all) { return all.rank == 0 ? owner(all) : importer(all); });
}
