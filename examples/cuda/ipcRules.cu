// What CUDA says of handles between processes: which memory has one, what opens twice, what is refused and how, and that
// memory of a process that has freed it, or has ended, stays readable where it is open.
// No argument. Both processes check. NVIDIA's handles are of a block of 2 MiB and know no secret: without floe, freed memory of
// such a block, a forged handle and memory of a process that has ended may be opened, which this program calls wrong.
#include "check_driver.h"
#include "processes.h"
#include "ranks.h"

constexpr size_t count = 1000;

static CUdeviceptr allocation(int value, size_t values = count) {
    CUdeviceptr at = 0;
    CHECK_DRIVER(cuMemAlloc(&at, values * sizeof(int)));
    CHECK_DRIVER(cuMemsetD32(at, static_cast<unsigned>(value), values));
    return at;
}

static std::vector<int> contents(CUdeviceptr at) {
    std::vector<int> values(count);
    CHECK_DRIVER(cuMemcpyDtoH(values.data(), at, count * sizeof(int)));
    return values;
}

// Memory that has no handle.
static void refused_memory(Verdict &verdict) {
    CUipcMemHandle handle;
    int local = 0;
    says(cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(&local)), CUDA_ERROR_INVALID_VALUE,
         "a local variable has no handle", verdict);
    void *pinned = nullptr;
    CHECK_DRIVER(cuMemAllocHost(&pinned, 4096));
    says(cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(pinned)), CUDA_ERROR_INVALID_VALUE,
         "pinned memory has no handle", verdict);
    CHECK_DRIVER(cuMemFreeHost(pinned));
    CUdeviceptr managed = 0, ordered = 0;
    CHECK_DRIVER(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    says(cuIpcGetMemHandle(&handle, managed), CUDA_ERROR_INVALID_VALUE, "managed memory has no handle", verdict);
    CHECK_DRIVER(cuMemFree(managed));
    CHECK_DRIVER(cuMemAllocAsync(&ordered, 4096, nullptr));
    says(cuIpcGetMemHandle(&handle, ordered), CUDA_ERROR_INVALID_VALUE, "memory of a pool has no handle", verdict);
    CUmemPoolPtrExportData data;
    says(cuMemPoolExportPointer(&data, ordered), CUDA_ERROR_INVALID_VALUE,
         "memory of a pool that is not shared is not exported", verdict);
    CHECK_DRIVER(cuMemFreeAsync(ordered, nullptr));
    CUevent event;
    CUipcEventHandle bytes;
    CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    says(cuIpcGetEventHandle(&bytes, event), CUDA_ERROR_INVALID_HANDLE, "an event of one process has no handle", verdict);
    CHECK_DRIVER(cuEventDestroy(event));
    says(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE,
         "an event of several processes has no clock", verdict);
}

static void attributes(CUdeviceptr at, bool capable, Verdict &verdict) {
    int is_capable = -1;
    CHECK_DRIVER(cuPointerGetAttribute(&is_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at));
    verdict.expect(is_capable == (capable ? 1 : 0), "a pointer says whether it has a handle");
    unsigned kind = 0;
    CHECK_DRIVER(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    verdict.expect(kind == CU_MEMORYTYPE_DEVICE, "opened memory is the device's");
}

// What the owner passes on: the handle of an allocation that it keeps, of one that it frees before the other opens it,
// and of one that it frees while the other has it open. Also an event that was recorded before it was exported.
struct Passed {
    CUipcMemHandle kept, freed, leaving, large;
    CUipcEventHandle event;
};

static int owner(Processes &all) {
    Verdict verdict;
    begin(0);
    refused_memory(verdict);
    // The large one has a block of its own, which goes when it is freed.
    const size_t much = 40 << 20;
    CUdeviceptr kept = allocation(7), freed = allocation(8), leaving = allocation(9), large = allocation(5, much / 4);
    Passed passed;
    CUipcMemHandle again;
    CHECK_DRIVER(cuIpcGetMemHandle(&passed.kept, kept + 100));
    CHECK_DRIVER(cuIpcGetMemHandle(&again, kept));
    verdict.expect(std::memcmp(&again, &passed.kept, sizeof(again)) == 0, "an allocation has one handle");
    CHECK_DRIVER(cuIpcGetMemHandle(&passed.freed, freed));
    CHECK_DRIVER(cuIpcGetMemHandle(&passed.leaving, leaving));
    CHECK_DRIVER(cuIpcGetMemHandle(&passed.large, large));
    CHECK_DRIVER(cuMemFree(freed));
    attributes(kept, true, verdict);
    CUdeviceptr own = 0;
    says(cuIpcOpenMemHandle(&own, passed.kept, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT,
         "a process does not open its own memory", verdict);
    CUevent event;
    CUstream stream;
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CHECK_DRIVER(cuMemsetD32Async(kept, 70, count, stream));
    CHECK_DRIVER(cuEventRecord(event, stream));
    CHECK_DRIVER(cuIpcGetEventHandle(&passed.event, event));
    CUevent own_event;
    says(cuIpcOpenEventHandle(&own_event, passed.event), CUDA_ERROR_INVALID_CONTEXT,
         "a process does not open its own event", verdict);
    all.step();
    all.send(1, passed);
    all.receive<char>(1);
    all.step();
    CHECK_DRIVER(cuMemFree(leaving));
    CHECK_DRIVER(cuMemFree(large));
    all.step();
    all.send(1, 'f');
    all.receive<char>(1);
    // The other has recorded the event behind its own work.
    CHECK_DRIVER(cuEventSynchronize(event));
    verdict.expect(cuEventQuery(event) == CUDA_SUCCESS, "an event that the other recorded is complete");
    verdict.equal("what the other wrote", contents(kept).data(), std::vector<int>(count, 71).data(), count);
    float milliseconds = 0;
    says(cuEventElapsedTime(&milliseconds, event, event), CUDA_ERROR_INVALID_HANDLE, "such events have no time", verdict);
    CHECK_DRIVER(cuEventDestroy(event));
    all.step();
    // Ends without a word, its memory still open in the other.
    return verdict.failures == 0 ? 0 : 1;
}

static int opener(Processes &all) {
    Verdict verdict;
    begin(1);
    const Passed passed = all.receive<Passed>(0);
    CUdeviceptr kept = 0, again = 0, leaving = 0, large = 0, none = 0;
    CHECK_DRIVER(all.of_other(0, cuIpcOpenMemHandle(&kept, passed.kept, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
    CHECK_DRIVER(all.of_other(0, cuIpcOpenMemHandle(&again, passed.kept, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
    verdict.expect(kept == again, "what is opened twice has one address");
    CHECK_DRIVER(all.of_other(0, cuIpcOpenMemHandle(&leaving, passed.leaving, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
    CHECK_DRIVER(all.of_other(0, cuIpcOpenMemHandle(&large, passed.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
    all.step();
    says(cuIpcOpenMemHandle(&none, passed.freed, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE,
         "freed memory is not opened", verdict);
    CUipcMemHandle garbage;
    std::memset(&garbage, 0x5a, sizeof(garbage));
    says(cuIpcOpenMemHandle(&none, garbage, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_VALUE,
         "garbage is no handle", verdict);
    CUipcMemHandle forged = passed.kept;
    reinterpret_cast<unsigned char *>(&forged)[25] ^= 1;
    says(cuIpcOpenMemHandle(&none, forged, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE,
         "a handle with another secret opens nothing", verdict);
    says(cuIpcOpenMemHandle(&none, passed.kept, 8), CUDA_ERROR_INVALID_VALUE, "there is one flag", verdict);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CHECK_DRIVER(cuMemGetAddressRange(&base, &bytes, kept + 40));
    verdict.expect(base == kept && bytes == count * sizeof(int), "opened memory is the allocation");
    attributes(kept, false, verdict);
    CUipcMemHandle further;
    says(cuIpcGetMemHandle(&further, kept), CUDA_ERROR_INVALID_VALUE, "opened memory is not passed on", verdict);
    says(cuMemFree(kept), CUDA_ERROR_INVALID_VALUE, "opened memory is closed, not freed", verdict);

    CUevent event, forged_event;
    CHECK_DRIVER(all.of_other(0, cuIpcOpenEventHandle(&event, passed.event)));
    CUipcEventHandle no_event;
    std::memcpy(&no_event, &passed.kept, sizeof(no_event));
    says(cuIpcOpenEventHandle(&forged_event, no_event), CUDA_ERROR_MAP_FAILED, "memory is no event", verdict);
    CUstream stream;
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    // What was recorded before the event was exported counts.
    CHECK_DRIVER(all.of_other(0, cuStreamWaitEvent(stream, event, 0)));
    std::vector<int> seen(count);
    CHECK_DRIVER(cuMemcpyDtoHAsync(seen.data(), kept, count * sizeof(int), stream));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    verdict.equal("behind the owner's event", seen.data(), std::vector<int>(count, 70).data(), count);
    all.step();
    all.send(0, 'o');
    all.receive<char>(0);

    // The owner has freed these.
    verdict.equal("memory that was freed", contents(leaving).data(), std::vector<int>(count, 9).data(), count);
    verdict.equal("a block that was freed", contents(large).data(), std::vector<int>(count, 5).data(), count);
    CHECK_DRIVER(cuMemsetD32Async(kept, 71, count, stream));
    CHECK_DRIVER(all.of_other(0, cuEventRecord(event, stream)));
    all.step();
    all.send(0, 'r');
    char byte = 0;
    const ssize_t end = recv(all.sockets[0], &byte, 1, 0);
    verdict.expect(end <= 0, "the owner has ended");
    // Its memory has not.
    verdict.equal("the ended owner's memory", contents(kept).data(), std::vector<int>(count, 71).data(), count);
    CHECK_DRIVER(cuIpcCloseMemHandle(kept));
    CHECK_DRIVER(cuMemsetD32(kept, 1, count));
    CHECK_DRIVER(cuIpcCloseMemHandle(kept));
    says(cuIpcCloseMemHandle(kept), CUDA_ERROR_INVALID_VALUE, "memory is closed as often as it was opened", verdict);
    says(cuMemsetD32(kept, 1, count), CUDA_ERROR_INVALID_VALUE, "closed memory is not there", verdict);
    CHECK_DRIVER(cuIpcCloseMemHandle(leaving));
    CHECK_DRIVER(cuIpcCloseMemHandle(large));
    // Its end reaches this process by a socket, and whoever keeps its memory perhaps a little later.
    CUresult opened = CUDA_SUCCESS;
    for (int tries = 0; tries < 1000 && opened == CUDA_SUCCESS; ++tries) {
        opened = cuIpcOpenMemHandle(&none, passed.kept, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (opened == CUDA_SUCCESS) CHECK_DRIVER(cuIpcCloseMemHandle(none));
        if (opened == CUDA_SUCCESS) usleep(10000);
    }
    says(opened, CUDA_ERROR_INVALID_HANDLE, "memory of a process that has ended is not opened", verdict);
    CHECK_DRIVER(cuEventDestroy(event));
    CHECK_DRIVER(cuStreamDestroy(stream));
    all.step();
    return verdict.failures == 0 ? 0 : 1;
}

int main() {
    return run_processes(2, [](Processes &all) { return all.rank == 0 ? owner(all) : opener(all); });
}
