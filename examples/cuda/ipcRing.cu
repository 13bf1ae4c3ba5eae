// A ring all-reduce between processes: each adds into its right neighbour's memory by a kernel, over handles of
// cudaIpcGetMemHandle, and then passes the sums round. GPUs are shared out over the processes.
// Arguments: values per process (30000), processes (3). Every process checks all sums.
#include "check.h"
#include "processes.h"

// What a neighbour must know of a process.
struct Invitation {
    cudaIpcMemHandle_t memory;
    size_t offset;
};

__global__ void add_into(int *there, const int *here, size_t count) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < count) there[i] += here[i];
}

__global__ void copy_into(int *there, const int *here, size_t count) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < count) there[i] = here[i];
}

static int value_of(int rank, size_t index) { return static_cast<int>(index % 1009) * (rank + 1) - rank; }

static int ring(Processes &all, size_t wanted) {
    const int right = (all.rank + 1) % all.count, left = (all.rank + all.count - 1) % all.count;
    const size_t part = (wanted + static_cast<size_t>(all.count) - 1) / static_cast<size_t>(all.count);
    const size_t count = part * static_cast<size_t>(all.count);
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(all.rank % devices));

    // Something of its own comes first, so that the allocation does not begin its block.
    int *before = device_alloc<int>(100);
    std::vector<int> values(count), sums(count, 0);
    for (size_t i = 0; i < count; ++i) {
        values[i] = value_of(all.rank, i);
        for (int rank = 0; rank < all.count; ++rank) sums[i] += value_of(rank, i);
    }
    int *mine = device_copy(values);
    all.step();

    Invitation invitation = {};
    CHECK(cudaIpcGetMemHandle(&invitation.memory, mine));
    all.step();
    all.send(left, invitation);
    const Invitation theirs = all.receive<Invitation>(right);
    void *opened = nullptr;
    CHECK(all.of_other(right, cudaIpcOpenMemHandle(&opened, theirs.memory, cudaIpcMemLazyEnablePeerAccess)));
    int *const next = static_cast<int *>(opened);
    all.step();
    all.meet();

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int turn = 0; turn < 2 * (all.count - 1); ++turn) {
        const bool adds = turn < all.count - 1;
        const int which = (all.rank - turn + 2 * all.count) % all.count;
        const size_t from = static_cast<size_t>(which) * part;
        if (adds) add_into<<<blocks_for(part, 256), 256, 0, stream>>>(next + from, mine + from, part);
        else copy_into<<<blocks_for(part, 256), 256, 0, stream>>>(next + from, mine + from, part);
        CHECK_LAUNCH();
        CHECK(cudaStreamSynchronize(stream));
        all.step();
        all.send(right, 't');
        all.receive<char>(left);
    }

    Verdict verdict;
    verdict.equal("sums", host_copy(mine, count).data(), sums.data(), count);
    // Copies of opened memory, in both directions of the copy.
    verdict.equal("the neighbour's sums", host_copy(next, count).data(), sums.data(), count);
    all.meet();
    CHECK(cudaIpcCloseMemHandle(opened));
    all.step();
    all.meet();
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(mine));
    CHECK(cudaFree(before));
    all.step();
    return verdict.failures == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    const size_t count = size_argument(argc, argv, 1, 30000);
    const int processes = static_cast<int>(size_argument(argc, argv, 2, 3));
    if (processes < 2 || processes > most_processes) return 2;
    return run_processes(processes, [&](Processes &all) { return ring(all, count); });
}
