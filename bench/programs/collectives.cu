// All-reduces between two devices, with NVIDIA's NCCL as it comes: ranks in one process, then a process for each. The budget
// in milliseconds per measurement comes in as the first argument; one JSON line per measurement goes out. It checks every
// element before and behind the times, and measures nothing where there are fewer devices or no NCCL
// (`FLOE_BENCH_NCCL`: its path).
#include "timing.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <type_traits>

extern char **environ;

// What of nccl.h is used: its types, by their documented numbers.
struct UniqueId { char internal[128]; };
using Comm = struct ncclComm *;
constexpr int kFloat = 7, kSum = 0;

struct Nccl {
    int (*get_unique_id)(UniqueId *);
    int (*init_rank)(Comm *, int, UniqueId, int);
    int (*init_all)(Comm *, int, const int *);
    int (*all_reduce)(const void *, void *, size_t, int, int, Comm, cudaStream_t);
    int (*group_start)();
    int (*group_end)();
    int (*destroy)(Comm);
    const char *(*error_string)(int);
};

static Nccl nccl;

#define NCCL(call)                                                \
    do {                                                          \
        const int status = (call);                                \
        if (status != 0) fail(#call, nccl.error_string(status)); \
    } while (0)

static bool load() {
    const char *named = std::getenv("FLOE_BENCH_NCCL");
    void *library = dlopen(named != nullptr && *named != 0 ? named : "libnccl.so.2", RTLD_NOW);
    if (library == nullptr) {
        std::fprintf(stderr, "collectives: not measured: %s\n", dlerror());
        return false;
    }
    const auto find = [&](auto &function, const char *name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        if (function == nullptr) fail("dlsym", name);
    };
    find(nccl.get_unique_id, "ncclGetUniqueId");
    find(nccl.init_rank, "ncclCommInitRank");
    find(nccl.init_all, "ncclCommInitAll");
    find(nccl.all_reduce, "ncclAllReduce");
    find(nccl.group_start, "ncclGroupStart");
    find(nccl.group_end, "ncclGroupEnd");
    find(nccl.destroy, "ncclCommDestroy");
    find(nccl.error_string, "ncclGetErrorString");
    return true;
}

static bool has_two_devices() {
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    return count > 1;
}

constexpr size_t kMost = 256 << 20;
static const struct { const char *name; size_t bytes; } kSizes[] = {{"8B", 8}, {"1MB", 1 << 20}, {"256MB", kMost}};

__global__ void fill(float *values, size_t count, float value) {
    for (size_t at = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; at < count; at += gridDim.x * blockDim.x)
        values[at] = value;
}

__global__ void count_others(const float *values, size_t count, float value, unsigned *others) {
    for (size_t at = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; at < count; at += gridDim.x * blockDim.x)
        if (values[at] != value) atomicAdd(others, 1u);
}

// One rank: a device with its buffers.
struct Rank {
    int device;
    Comm comm;
    cudaStream_t stream;
    float *from, *to;
    unsigned *others;

    void prepare(int own) {
        device = own;
        CHECK(cudaSetDevice(device));
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaMalloc(&from, kMost));
        CHECK(cudaMalloc(&to, kMost));
        CHECK(cudaMalloc(&others, sizeof *others));
        fill<<<1024, 256, 0, stream>>>(from, kMost / sizeof(float), device + 1.0f);
        CHECK(cudaStreamSynchronize(stream));
    }

    void reduce(size_t bytes) { NCCL(nccl.all_reduce(from, to, bytes / sizeof(float), kFloat, kSum, comm, stream)); }

    void synchronize() { CHECK(cudaStreamSynchronize(stream)); }

    // Before: other values. Behind an all-reduce: 1 + 2 everywhere.
    void spoil() {
        CHECK(cudaSetDevice(device));
        CHECK(cudaMemsetAsync(to, 0, kMost, stream));
        CHECK(cudaMemsetAsync(others, 0, sizeof *others, stream));
    }

    void judge(size_t bytes) {
        CHECK(cudaSetDevice(device));
        count_others<<<1024, 256, 0, stream>>>(to, bytes / sizeof(float), 3.0f, others);
        unsigned wrong = 0;
        CHECK(cudaMemcpyAsync(&wrong, others, sizeof wrong, cudaMemcpyDeviceToHost, stream));
        synchronize();
        if (wrong != 0) fail("ncclAllReduce", "not every sum is right");
    }
};

static void one_process() {
    section = "one_process";
    if (!load() || !has_two_devices()) return done();
    Comm comms[2];
    const int devices[2] = {0, 1};
    NCCL(nccl.init_all(comms, 2, devices));
    Rank ranks[2];
    for (int index = 0; index < 2; ++index) {
        ranks[index].prepare(index);
        ranks[index].comm = comms[index];
    }
    for (const auto &size : kSizes) {
        const auto work = [&] {
            NCCL(nccl.group_start());
            for (Rank &rank : ranks) rank.reduce(size.bytes);
            NCCL(nccl.group_end());
            for (Rank &rank : ranks) rank.synchronize();
        };
        for (Rank &rank : ranks) rank.spoil();
        work();
        for (Rank &rank : ranks) rank.judge(size.bytes);
        measure((std::string("reduce.one.") + size.name).c_str(), 1, work, idle, size.bytes);
        for (Rank &rank : ranks) rank.judge(size.bytes);
    }
    for (Rank &rank : ranks) NCCL(nccl.destroy(rank.comm));
    done();
}

// What the two processes share: rank 0 says what is next, both do it.
struct Board {
    UniqueId id;
    std::atomic<uint32_t> turn;
    // The turn that rank 1 is through with.
    std::atomic<uint32_t> done;
    std::atomic<uint64_t> bytes;
    enum : uint32_t { kReduce, kSpoil, kJudge, kLeave };
    std::atomic<uint32_t> what;
};

static void follow(Rank &rank, uint32_t what, size_t bytes) {
    switch (what) {
    case Board::kReduce:
        rank.reduce(bytes);
        return rank.synchronize();
    case Board::kSpoil:
        rank.spoil();
        return rank.synchronize();
    case Board::kJudge: return rank.judge(bytes);
    }
}

static Board *board_of(int file) {
    void *at = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) fail("mmap", std::strerror(errno));
    return static_cast<Board *>(at);
}

// The process of rank 1.
static int second_rank(int file) {
    section = "two_processes";
    Board *board = board_of(file);
    if (!load()) return 1;
    Rank rank;
    rank.prepare(1);
    while (board->turn.load() == 0) usleep(100);
    NCCL(nccl.init_rank(&rank.comm, 2, board->id, 1));
    for (uint32_t seen = 1;; ++seen) {
        while (board->turn.load(std::memory_order_acquire) == seen) {}
        const uint32_t what = board->what.load();
        if (what == Board::kLeave) break;
        follow(rank, what, board->bytes.load());
        board->done.store(seen + 1, std::memory_order_release);
    }
    NCCL(nccl.destroy(rank.comm));
    return 0;
}

static void two_processes() {
    section = "two_processes";
    if (!load() || !has_two_devices()) return done();
    const int file = memfd_create("collectives", 0);
    if (file < 0 || ftruncate(file, sizeof(Board)) != 0) fail("memfd_create", std::strerror(errno));
    Board *board = board_of(file);
    const std::string number = std::to_string(file);
    const char *arguments[] = {"collectives", "--second", number.c_str(), nullptr};
    pid_t second;
    if (posix_spawn(&second, "/proc/self/exe", nullptr, nullptr, const_cast<char **>(arguments), environ) != 0)
        fail("posix_spawn", "the second rank");
    Rank rank;
    rank.prepare(0);
    NCCL(nccl.get_unique_id(&board->id));
    board->turn.store(1);
    NCCL(nccl.init_rank(&rank.comm, 2, board->id, 0));
    const auto both = [&](uint32_t what, size_t bytes) {
        board->what.store(what);
        board->bytes.store(bytes);
        const uint32_t turn = board->turn.fetch_add(1, std::memory_order_release) + 1;
        if (what != Board::kLeave) follow(rank, what, bytes);
        // An all-reduce is over when the other rank has begun it; nothing else says so.
        while (what < Board::kLeave && what != Board::kReduce && board->done.load(std::memory_order_acquire) != turn) {}
    };
    for (const auto &size : kSizes) {
        both(Board::kSpoil, size.bytes);
        both(Board::kReduce, size.bytes);
        both(Board::kJudge, size.bytes);
        measure((std::string("reduce.two.") + size.name).c_str(), 1, [&] { both(Board::kReduce, size.bytes); }, idle,
                size.bytes);
        both(Board::kJudge, size.bytes);
    }
    both(Board::kLeave, 0);
    NCCL(nccl.destroy(rank.comm));
    int status = 0;
    if (waitpid(second, &status, 0) != second || status != 0) fail("the second rank", "did not end well");
    done();
}

int main(int argc, char **argv) {
    if (argc == 3 && std::strcmp(argv[1], "--second") == 0) return second_rank(std::atoi(argv[2]));
    const Section sections[] = {{"one_process", one_process}, {"two_processes", two_processes}};
    return run_sections("collectives", sections, argc, argv);
}
