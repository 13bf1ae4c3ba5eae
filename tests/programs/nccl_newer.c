/* An ordinary program on the functions that came with NCCL 2.29 and later, which checks its own results. It finds the driver and
 * NCCL as programs do that are linked with neither, so it runs with any NCCL: floe's, NVIDIA's, or one of a path.
 *   nccl_newer grow FROM TO ROOT [RANK FILE]    FROM ranks become TO by an id of ROOT's; one process, or one of TO
 *   nccl_newer memory RANKS | simulate RANKS | config RANKS | windows RANKS | parameters | dump | old | ids
 *   nccl_newer ends HOW | again WHERE | aside | inherits | forgotten      on three devices the first two, else on two
 * Variables: NCCL_LIBRARY is the NCCL to open, libnccl.so.2 if it is not set, and what only floe's answers is left out with it;
 * STAND_IN has the stand-in's own values checked; JSON has results written as JSON.
 * Out: "right" (or what was found, as JSON) and 0, or what is wrong and 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void *comm_t, *stream_t;
typedef uint64_t device_ptr;
typedef int result_t;
typedef struct { char bytes[128]; } unique_id;
typedef struct { size_t size; unsigned magic, version; float time; } simulation;
/* ncclConfig_t of NCCL 2.32. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, cga, least, most;
    const char *net;
    int split_share, traffic_class;
    const char *name;
    int collnet, policy, shrink_share, nvls, per_peer, centric, graph_mode, contexts, peers, ordering, implicit, signals, eager,
        cft, nvls_mode;
} config_t;
/* ncclCollConfig_t of NCCL 2.32. */
typedef struct {
    size_t size;
    unsigned magic, version;
    void *extensions;
    int least, most, nvls, cga;
    const char *algorithms;
    int is_forced, policy;
    uint64_t tag;
    void *event;
} call_config;

#define CUDA(F) \
    F(cuInit, (unsigned)) F(cuDeviceGet, (int *, int)) F(cuDevicePrimaryCtxRetain, (void **, int)) F(cuCtxSetCurrent, (void *)) \
    F(cuMemAlloc_v2, (device_ptr *, size_t)) F(cuMemFree_v2, (device_ptr)) F(cuStreamCreate, (stream_t *, unsigned)) \
    F(cuMemcpyHtoD_v2, (device_ptr, const void *, size_t)) F(cuMemcpyDtoH_v2, (void *, device_ptr, size_t)) \
    F(cuStreamSynchronize, (stream_t)) F(cuMemGetInfo_v2, (size_t *, size_t *)) F(cuCtxSynchronize, (void))
#define NCCL(F) \
    F(ncclGetVersion, (int *)) F(ncclGetUniqueId, (unique_id *)) F(ncclCommInitRank, (comm_t *, int, unique_id, int)) \
    F(ncclCommInitRankConfig, (comm_t *, int, unique_id, int, config_t *)) F(ncclCommDestroy, (comm_t)) \
    F(ncclCommAbort, (comm_t)) F(ncclCommCount, (comm_t, int *)) F(ncclCommUserRank, (comm_t, int *)) F(ncclGroupStart, (void)) F(ncclGroupEnd, (void)) \
    F(ncclCommSplit, (comm_t, int, int, comm_t *, config_t *)) F(ncclCommGetAsyncError, (comm_t, result_t *)) \
    F(ncclAllReduce, (const void *, void *, size_t, int, int, comm_t, stream_t))
#define NEWER(F) \
    F(ncclCommGetUniqueId, (comm_t, unique_id *)) F(ncclCommGrow, (comm_t, int, const unique_id *, int, comm_t *, config_t *)) \
    F(ncclCommMemStats, (comm_t, int, uint64_t *)) F(ncclCommSuspend, (comm_t, int)) F(ncclCommResume, (comm_t)) \
    F(ncclGroupSimulateEnd, (simulation *)) F(ncclParamBind, (void **, const char *)) F(ncclParamGetI64, (void *, int64_t *)) \
    F(ncclParamGetU8, (void *, uint8_t *)) F(ncclParamGetStr, (void *, const char **)) \
    F(ncclParamGet, (void *, void *, int, int *)) F(ncclParamGetParameter, (const char *, const char **, int *)) \
    F(ncclParamGetAllParameterKeys, (const char ***, int *)) \
    F(ncclCommWindowRegister, (comm_t, void *, size_t, void **, int)) F(ncclCommWindowDeregister, (comm_t, void *)) \
    F(ncclWinGetUserPtr, (comm_t, void *, void **)) \
    F(ncclSignal, (int, int, int, unsigned, comm_t, stream_t)) \
    F(ncclAllReduceConfig, (const void *, void *, size_t, int, int, comm_t, stream_t, const call_config *))
#define DECLARED(name, arguments) static int (*name) arguments;
CUDA(DECLARED) NCCL(DECLARED) NEWER(DECLARED)
static const char *(*ncclGetLastError)(comm_t);
static void (*ncclParamDumpAll)(void);

enum { FLOAT = 7, SUM = 0, MOST = 8, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };
static const size_t COUNT = 1 << 18;

typedef struct { int rank, device; void *context; stream_t stream; device_ptr send, receive; comm_t comm, grown; } Rank;
static Rank ranks[MOST];
static int here, is_json, version;
static double begun;

#define FAIL(...) do { printf(__VA_ARGS__); printf("\n"); exit(1); } while (0)
#define CU(call) do { int code_ = (call); if (code_) FAIL("line %d: %s: %d", __LINE__, #call, code_); } while (0)
#define OK(call) do { int code_ = (call); if (code_) FAIL("line %d: %s: %d: %s", __LINE__, #call, code_, ncclGetLastError(NULL)); } while (0)
#define EACH(r) for (Rank *r = ranks; r < ranks + here && (cuCtxSetCurrent(r->context), 1); r++)
#define P(address) ((void *)(uintptr_t)(address))

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static void load(void) {
    const char *path = getenv("NCCL_LIBRARY");
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *nccl = dlopen(path ? path : "libnccl.so.2", RTLD_NOW);
    if (!cuda || !nccl) FAIL("not loaded: %s", dlerror());
#define FROM_CUDA(name, arguments) if (!(name = (int (*) arguments)dlsym(cuda, #name))) FAIL("no " #name);
#define FROM_NCCL(name, arguments) if (!(name = (int (*) arguments)dlsym(nccl, #name))) FAIL("no " #name);
#define IF_THERE(name, arguments) name = (int (*) arguments)dlsym(nccl, #name);
    CUDA(FROM_CUDA) NCCL(FROM_NCCL) NEWER(IF_THERE)
    ncclParamDumpAll = (void (*)(void))dlsym(nccl, "ncclParamDumpAll");
    ncclGetLastError = (const char *(*)(comm_t))dlsym(nccl, "ncclGetLastError");
}

static void open_rank(Rank *rank, int device, int number) {
    int handle;
    rank->rank = number;
    rank->device = device;
    CU(cuDeviceGet(&handle, device));
    CU(cuDevicePrimaryCtxRetain(&rank->context, handle));
    CU(cuCtxSetCurrent(rank->context));
    CU(cuStreamCreate(&rank->stream, 1));
    CU(cuMemAlloc_v2(&rank->send, COUNT * sizeof(float)));
    CU(cuMemAlloc_v2(&rank->receive, COUNT * sizeof(float)));
}

static float value(int rank, size_t at) { return (float)((at * 7 + (size_t)rank * 13) % 101); }

/* Sums over a communicator are those of all its ranks. */
static void reduces(const char *what, int all, size_t offset, int with_config) {
    float *bytes = malloc(COUNT * sizeof *bytes);
    call_config none = { sizeof none, 0xcafebeef, 23203, NULL, INT_MIN, INT_MIN, INT_MIN, INT_MIN, NULL, 1, INT_MIN, 7, NULL };
    EACH(r) {
        for (size_t at = 0; at < COUNT; at++) bytes[at] = value(r->rank, at);
        CU(cuMemcpyHtoD_v2(r->send, bytes, COUNT * sizeof *bytes));
    }
    OK(ncclGroupStart());
    EACH(r) {
        comm_t comm = *(comm_t *)((char *)r + offset);
        if (!comm) continue;
        if (with_config) OK(ncclAllReduceConfig(P(r->send), P(r->receive), COUNT, FLOAT, SUM, comm, r->stream, &none));
        else OK(ncclAllReduce(P(r->send), P(r->receive), COUNT, FLOAT, SUM, comm, r->stream));
    }
    OK(ncclGroupEnd());
    EACH(r) {
        result_t error = 0;
        comm_t comm = *(comm_t *)((char *)r + offset);
        if (!comm) continue;
        CU(cuStreamSynchronize(r->stream));
        OK(ncclCommGetAsyncError(comm, &error));
        if (error) FAIL("%s: rank %d has the error %d", what, r->rank, error);
        CU(cuMemcpyDtoH_v2(bytes, r->receive, COUNT * sizeof *bytes));
        for (size_t at = 0; at < COUNT; at++) {
            float sum = 0;
            for (int other = 0; other < all; other++) sum += value(other, at);
            if (bytes[at] != sum) FAIL("%s: rank %d: element %zu is %g, not %g", what, r->rank, at, bytes[at], sum);
        }
    }
    free(bytes);
}
#define REDUCES(what, all, member) reduces(what, all, offsetof(Rank, member), 0)

/* A file that another process writes in one step. */
static unique_id passed(const char *path, const char *what, unique_id *made) {
    char name[4096], temporary[4200];
    snprintf(name, sizeof name, "%s.%s", path, what);
    snprintf(temporary, sizeof temporary, "%s.new", name);
    if (made) {
        FILE *file = fopen(temporary, "wb");
        fwrite(made, sizeof *made, 1, file);
        fclose(file);
        rename(temporary, name);
        return *made;
    }
    unique_id id;
    FILE *file;
    while (!(file = fopen(name, "rb"))) usleep(1000);
    if (fread(&id, sizeof id, 1, file) != 1) FAIL("no id in %s", name);
    fclose(file);
    return id;
}

static void begin(int all) {
    unique_id id;
    /* The id is of the first rank's server, and no new rank's. */
    CU(cuCtxSetCurrent(ranks[0].context));
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    EACH(r) if (r->rank < all) OK(ncclCommInitRank(&r->comm, all, id, r->rank));
    OK(ncclGroupEnd());
}

static void is_place(comm_t comm, int rank, int all) {
    int own, many;
    OK(ncclCommUserRank(comm, &own));
    OK(ncclCommCount(comm, &many));
    if (own != rank || many != all) FAIL("rank %d of %d is %d of %d", rank, all, own, many);
}

/* Ranks grow, the old communicator still works, and goes; the new one works on. */
static void grow(int from, int to, int root, const char *path) {
    unique_id id, first;
    double started;
    if (!path) begin(from);
    else if (ranks[0].rank < from) {
        if (ranks[0].rank == 0) OK(ncclGetUniqueId(&first));
        first = passed(path, "first", ranks[0].rank == 0 ? &first : NULL);
        OK(ncclCommInitRank(&ranks[0].comm, from, first, ranks[0].rank));
    }
    REDUCES("before", from, comm);
    EACH(r) if (r->rank == root) OK(ncclCommGetUniqueId(r->comm, &id));
    if (path) id = passed(path, "grow", ranks[0].rank == root ? &id : NULL);
    started = now();
    OK(ncclGroupStart());
    EACH(r) {
        int is_new = r->rank >= from;
        OK(ncclCommGrow(r->comm, to, is_new || r->rank == root ? &id : NULL, is_new ? r->rank : -1, &r->grown, NULL));
    }
    OK(ncclGroupEnd());
    begun = now() - started;
    EACH(r) is_place(r->grown, r->rank, to);
    REDUCES("grown", to, grown);
    REDUCES("the old one beside it", from, comm);
    EACH(r) if (r->comm) OK(ncclCommDestroy(r->comm));
    EACH(r) r->comm = r->grown;
    REDUCES("grown, alone", to, comm);
}

static uint64_t stat(Rank *r, int which) {
    uint64_t found = ~(uint64_t)0;
    OK(ncclCommMemStats(r->comm, which, &found));
    return found;
}

static void refused(const char *what, int code, int wanted, const char *words) {
    if (code != wanted || !strstr(ncclGetLastError(NULL), words)) FAIL("%s: %d: %s", what, code, ncclGetLastError(NULL));
}

/* What NCCL counts, before, while and after it is suspended. NVIDIA's counts no memory of cudaMalloc. */
static void memory(int all) {
    begin(all);
    REDUCES("before", all, comm);
    EACH(r) if (stat(r, 1) != 0 || stat(r, 3) != stat(r, 0) + stat(r, 2)) FAIL("memory of rank %d: %llu", r->rank, (unsigned long long)stat(r, 3));
    uint64_t value = 0;
    if (ncclCommMemStats(ranks[0].comm, 77, &value) != INVALID_ARGUMENT) FAIL("a stat of nobody's");
    for (int round = 0; round < 2; round++) {
        OK(ncclGroupStart());
        EACH(r) OK(ncclCommSuspend(r->comm, 1));
        OK(ncclGroupEnd());
        EACH(r) if (stat(r, 1) != 1) FAIL("rank %d is not suspended", r->rank);
        if (!getenv("NCCL_LIBRARY")) {
            cuCtxSetCurrent(ranks[0].context);
            refused("work of a suspended one", ncclAllReduce(P(ranks[0].send), P(ranks[0].receive), 1, FLOAT, SUM, ranks[0].comm, ranks[0].stream),
                INVALID_USAGE, "suspended");
        }
        OK(ncclGroupStart());
        EACH(r) OK(ncclCommResume(r->comm));
        OK(ncclGroupEnd());
        EACH(r) if (stat(r, 1) != 0) FAIL("rank %d is suspended", r->rank);
        REDUCES("resumed", all, comm);
    }
    if (is_json)
        EACH(r) printf("{\"test\": \"memory of a rank\", \"rank\": %d, \"suspendable\": %llu, \"persistent\": %llu, \"total\": %llu}\n", r->rank,
            (unsigned long long)stat(r, 0), (unsigned long long)stat(r, 2), (unsigned long long)stat(r, 3));
}

/* Estimates are of groups that are not done. */
static void simulate(int all) {
    begin(all);
    REDUCES("before", all, comm);
    float untouched = 42, found;
    EACH(r) CU(cuMemcpyHtoD_v2(r->receive, &untouched, sizeof untouched));
    simulation estimate = { sizeof estimate, 0x74685283, 23203, -1 };
    OK(ncclGroupStart());
    EACH(r) OK(ncclAllReduce(P(r->send), P(r->receive), COUNT, FLOAT, SUM, r->comm, r->stream));
    OK(ncclGroupSimulateEnd(&estimate));
    if (!(estimate.time > 0)) FAIL("the estimate is %g", estimate.time);
    EACH(r) {
        CU(cuCtxSynchronize());
        CU(cuMemcpyDtoH_v2(&found, r->receive, sizeof found));
        if (found != untouched) FAIL("a group that was simulated is done: %g", found);
    }
    simulation none = { sizeof none, 1, 23203, -1 };
    OK(ncclGroupStart());
    if (ncclGroupSimulateEnd(&none) != INVALID_ARGUMENT) FAIL("no mark");
    if (ncclGroupSimulateEnd(&estimate) != INVALID_USAGE) FAIL("no group");
    if (is_json) printf("{\"test\": \"estimate\", \"us\": %g}\n", estimate.time);
    REDUCES("after", all, comm);
}

static config_t initialized(void) {
    int u = INT_MIN;
    return (config_t){ sizeof(config_t), 0xcafebeef, 23203, u, u, u, u, NULL, u, u, NULL, u, u, u, u, u, u, u, u, u, u, u, u, u, u, u };
}

/* A member that came with NCCL 2.29 gets there, is inherited, and what cannot is refused. */
static void config(int all) {
    config_t four = initialized();
    four.contexts = 4;
    unique_id id;
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    EACH(r) OK(ncclCommInitRankConfig(&r->comm, all, id, r->rank, &four));
    OK(ncclGroupEnd());
    REDUCES("configured", all, comm);
    reduces("with a configuration of the call", all, offsetof(Rank, comm), 1);
    comm_t whole[MOST];
    EACH(r) whole[r - ranks] = r->comm;
    OK(ncclGroupStart());
    EACH(r) OK(ncclCommSplit(whole[r - ranks], 0, r->rank, &r->comm, NULL));
    OK(ncclGroupEnd());
    REDUCES("split", all, comm);
    /* The stand-in's persistent memory is a MiB for each context. */
    uint64_t memory = stat(ranks, 2);
    if (getenv("STAND_IN") && memory != 4 << 20) FAIL("a split has %llu bytes", (unsigned long long)memory);
    config_t named = initialized(), later = initialized();
    named.net = "IB";
    refused("a network", ncclCommInitRankConfig(&ranks[0].comm, 1, id, 0, &named), INVALID_USAGE, "netName");
    struct { config_t known; int number, other; } newer = { later, 3, INT_MIN };
    newer.known.size = sizeof newer;
    newer.known.version = 23300;
    refused("a newer member", ncclCommInitRankConfig(&ranks[0].comm, 1, id, 0, &newer.known), INVALID_USAGE, "newer than NCCL 2.32");
    call_config some = { sizeof some, 0xcafebeef, 23203, NULL, INT_MIN, 2, INT_MIN, INT_MIN, NULL, 1, INT_MIN, 0, NULL };
    refused("a call's member", ncclAllReduceConfig(P(ranks[0].send), P(ranks[0].receive), 1, FLOAT, SUM, whole[0], ranks[0].stream, &some),
        INVALID_USAGE, "maxCTAs");
}

/* Without symmetric memory there are no windows, and collectives take the memory as any other. */
static void windows(int all) {
    begin(all);
    void *window[MOST], *pointer = &pointer;
    OK(ncclGroupStart());
    EACH(r) OK(ncclCommWindowRegister(r->comm, P(r->send), COUNT * sizeof(float), &window[r - ranks], 1));
    OK(ncclGroupEnd());
    REDUCES("with windows", all, comm);
    EACH(r) {
        if (window[r - ranks]) FAIL("a window");
        OK(ncclWinGetUserPtr(r->comm, NULL, &pointer));
        if (pointer) FAIL("a window's memory");
        OK(ncclCommWindowDeregister(r->comm, NULL));
    }
    refused("a window of nobody's", ncclCommWindowDeregister(ranks[0].comm, &pointer), INVALID_ARGUMENT, "window");
    refused("a signal", ncclSignal(0, 0, 0, 0, ranks[0].comm, ranks[0].stream), INVALID_USAGE, "over sockets it refuses them itself");
}

/* Waits until a communicator that does not block is made, and gives what became of it. */
static result_t made(comm_t comm) {
    result_t state = IN_PROGRESS;
    while (state == IN_PROGRESS) {
        OK(ncclCommGetAsyncError(comm, &state));
        usleep(1000);
    }
    return state;
}

static config_t not_blocking(void) {
    config_t config = initialized();
    config.blocking = 0;
    return config;
}

/* Two ranks begin to grow to three, and wait for the third. */
static void begin_growing(unique_id *id) {
    config_t apart = not_blocking();
    begin(2);
    cuCtxSetCurrent(ranks[0].context);
    OK(ncclCommGetUniqueId(ranks[0].comm, id));
    EACH(r) if (r->comm && ncclCommGrow(r->comm, 3, r->rank ? NULL : id, -1, &r->grown, &apart) != IN_PROGRESS) FAIL("it blocks");
}

/* The third rank is there: all have grown. */
static void third_comes(unique_id *id) {
    cuCtxSetCurrent(ranks[2].context);
    OK(ncclCommGrow(NULL, 3, id, 2, &ranks[2].grown, NULL));
    EACH(r) if (made(r->grown)) FAIL("rank %d did not grow: %s", r->rank, ncclGetLastError(r->grown));
    REDUCES("grown", 3, grown);
}

/* The old communicator ends while it grows: NCCL has it until then, and whoever grows finds what is left of it. */
static void ends(int aborts) {
    unique_id id;
    begin_growing(&id);
    /* Both wait for the third. */
    usleep(300000);
    EACH(r) if (r->comm) OK(aborts ? ncclCommAbort(r->comm) : ncclCommDestroy(r->comm));
    EACH(r) r->comm = NULL;
    third_comes(&id);
}

/* A new rank that was given up before it asked the others is not there for them: its GPU is another rank's, so that takes a while. */
static void again(int wrong_here) {
    unique_id id, nobodys = { "" };
    comm_t other;
    begin_growing(&id);
    OK(ncclGroupStart());
    cuCtxSetCurrent(ranks[2].context);
    OK(ncclCommGrow(NULL, 3, &id, 2, &ranks[2].grown, NULL));
    cuCtxSetCurrent(ranks[1].context);
    /* The worker refuses the id, and the session a rank that there is not. */
    OK(ncclCommInitRank(&other, 1, nobodys, wrong_here ? 5 : 0));
    if (ncclGroupEnd() == 0) FAIL("a group with a wrong communicator");
    usleep(1500000);
    third_comes(&id);
}

/* What else a group has is done also where it makes a communicator that does not block. */
static void aside(void) {
    unique_id id;
    config_t apart = not_blocking();
    float sum = 0, *bytes = malloc(COUNT * sizeof *bytes);
    begin(2);
    OK(ncclGetUniqueId(&id));
    for (size_t at = 0; at < COUNT; at++) bytes[at] = 3;
    EACH(r) CU(cuMemcpyHtoD_v2(r->send, bytes, COUNT * sizeof *bytes));
    OK(ncclGroupStart());
    EACH(r) {
        OK(ncclCommInitRankConfig(&r->grown, 2, id, r->rank, &apart));
        OK(ncclAllReduce(P(r->send), P(r->receive), COUNT, FLOAT, SUM, r->comm, r->stream));
    }
    if (ncclGroupEnd() != IN_PROGRESS) FAIL("it blocks");
    EACH(r) {
        if (made(r->grown)) FAIL("not made");
        CU(cuStreamSynchronize(r->stream));
        CU(cuMemcpyDtoH_v2(&sum, r->receive, sizeof sum));
        if (sum != 6) FAIL("rank %d: the group's sum is %g", r->rank, sum);
    }
    REDUCES("made aside", 2, grown);
}

/* Without a configuration a communicator that is made of another blocks as that does: one thread has all ranks. */
static void inherits(void) {
    unique_id id;
    config_t apart = not_blocking();
    OK(ncclGetUniqueId(&id));
    EACH(r) if (ncclCommInitRankConfig(&r->comm, 2, id, r->rank, &apart) != IN_PROGRESS) FAIL("it blocks");
    EACH(r) if (made(r->comm)) FAIL("not made");
    EACH(r) if (ncclCommSplit(r->comm, 0, r->rank, &r->grown, NULL) != IN_PROGRESS) FAIL("its child blocks");
    EACH(r) if (made(r->grown)) FAIL("not split");
    REDUCES("split", 2, grown);
}

/* A communicator that was aborted while it was made is nobody's: the other rank's work fails, and waits for nobody. */
static void forgotten(void) {
    unique_id id;
    config_t apart = not_blocking();
    OK(ncclGetUniqueId(&id));
    cuCtxSetCurrent(ranks[0].context);
    if (ncclCommInitRankConfig(&ranks[0].comm, 2, id, 0, &apart) != IN_PROGRESS) FAIL("it blocks");
    OK(ncclCommAbort(ranks[0].comm));
    Rank *r = &ranks[1];
    cuCtxSetCurrent(r->context);
    OK(ncclCommInitRank(&r->comm, 2, id, 1));
    OK(ncclAllReduce(P(r->send), P(r->receive), COUNT, FLOAT, SUM, r->comm, r->stream));
    if (cuStreamSynchronize(r->stream) == 0) FAIL("a sum without the other rank");
}

/* Ids that nobody uses are so many, and each has a thread of NCCL's. */
static void ids(void) {
    unique_id id;
    int made = 0;
    begin(1);
    while (made < 1000 && ncclGetUniqueId(&id) == 0) made++;
    for (int more = 0; more < 300; more++) refused("an id", ncclGetUniqueId(&id), 1, "more unique ids than: 256");
    if (made != 255) FAIL("%d ids", made);
    for (made = 0; made < 1000 && ncclCommGetUniqueId(ranks[0].comm, &id) == 0; made++) continue;
    for (int more = 0; more < 300; more++) refused("an id to grow", ncclCommGetUniqueId(ranks[0].comm, &id), 1, "256");
    if (made != 256) FAIL("%d ids to grow", made);
    REDUCES("after all that", 1, comm);
}

static void parameters(void) {
    const char **keys = NULL, *text = "", *again;
    int count = 0, length = -1;
    CU(cuCtxSetCurrent(ranks[0].context));
    OK(ncclParamGetAllParameterKeys(&keys, &count));
    if (count < 1) FAIL("no keys");
    char long_key[300];
    memset(long_key, 'A', sizeof long_key);
    long_key[sizeof long_key - 1] = 0;
    void *handle = NULL;
    refused("a long key", ncclParamBind(&handle, long_key), INVALID_ARGUMENT, "");
    refused("no key", ncclParamBind(&handle, "NCCL_NO_SUCH_THING"), INVALID_ARGUMENT, "");
    refused("no value", ncclParamGetParameter("NCCL_NO_SUCH_THING", &text, &length), INVALID_ARGUMENT, "");
    if (text || length) FAIL("a value of no key");
    int64_t number = 0;
    if (!getenv("NCCL_LIBRARY")) refused("a handle of nobody's", ncclParamGetI64(P(16), &number), INVALID_ARGUMENT, "handle");
    for (int at = 0; at < count; at++) {
        OK(ncclParamGetParameter(keys[at], &text, &length));
        if ((int)strlen(text) != length) FAIL("%s has %d bytes", keys[at], length);
        if (is_json) printf("{\"test\": \"parameter\", \"key\": \"%s\", \"value\": \"%s\"}\n", keys[at], text);
    }
    if (!getenv("STAND_IN")) return;
    OK(ncclParamBind(&handle, "NCCL_STAND_IN_NUMBER"));
    OK(ncclParamGetI64(handle, &number));
    if (number != -123456789012) FAIL("a number is %lld", (long long)number);
    uint8_t byte = 0;
    refused("another type", ncclParamGetU8(handle, &byte), INVALID_ARGUMENT, "type");
    refused("a number's text", ncclParamGetStr(handle, &again), INVALID_ARGUMENT, "type");
    char room[8] = "";
    OK(ncclParamGet(handle, room, sizeof room, &length));
    if (length != 8 || memcmp(room, &number, 8)) FAIL("a number's bytes");
    refused("little room", ncclParamGet(handle, room, 7, &length), INVALID_ARGUMENT, "room");
    OK(ncclParamBind(&handle, "NCCL_STAND_IN_BYTE"));
    OK(ncclParamGetU8(handle, &byte));
    if (byte != 200) FAIL("a byte is %d", byte);
    OK(ncclParamBind(&handle, "NCCL_STAND_IN_WORDS"));
    OK(ncclParamGetStr(handle, &again));
    if (strcmp(again, "words of the program")) FAIL("the program's variable is %s", again);
    if (count != 3) FAIL("%d keys", count);
}

/* NCCL writes to the standard output. */
static void dump(void) {
    CU(cuCtxSetCurrent(ranks[0].context));
    ncclParamDumpAll();
}

/* What the server's NCCL does not have is named, with its version. */
static void old(void) {
    unique_id id = { "" };
    comm_t other;
    uint64_t value;
    void *handle;
    const char **keys, *text;
    int length;
    config_t four = initialized();
    begin(1);
    comm_t comm = ranks[0].comm;
    refused("an id", ncclCommGetUniqueId(comm, &id), INVALID_USAGE, "2.28.9 has no ncclCommGetUniqueId");
    refused("growing", ncclCommGrow(comm, 2, NULL, -1, &other, NULL), INVALID_USAGE, "2.28.9 has no ncclCommGrow");
    refused("memory", ncclCommMemStats(comm, 0, &value), INVALID_USAGE, "2.28.9 has no ncclCommMemStats");
    refused("suspending", ncclCommSuspend(comm, 1), INVALID_USAGE, "2.28.9 has no ncclCommSuspend");
    refused("resuming", ncclCommResume(comm), INVALID_USAGE, "2.28.9 has no ncclCommResume");
    refused("a parameter", ncclParamBind(&handle, "NCCL_DEBUG"), INVALID_USAGE, "2.28.9 has no ncclParamBind");
    refused("a text", ncclParamGetParameter("NCCL_DEBUG", &text, &length), INVALID_USAGE, "2.28.9 has no ncclParamGetParameter");
    refused("keys", ncclParamGetAllParameterKeys(&keys, &length), INVALID_USAGE, "2.28.9 has no ncclParamGetAllParameterKeys");
    four.contexts = 4;
    OK(ncclGetUniqueId(&id));
    refused("a member", ncclCommInitRankConfig(&other, 1, id, 0, &four), INVALID_USAGE, "2.28.9 has no numRmaCtx");
    REDUCES("after all that", 1, comm);
}

/* Devices of a mode that has its own number of them, or these. */
static int devices_of(const char *mode, int others) {
    static const struct { const char *mode; int devices; } OWN[] = {
        { "ends", 3 }, { "again", 3 }, { "aside", 2 }, { "inherits", 2 }, { "forgotten", 2 },
    };
    for (size_t at = 0; at < sizeof OWN / sizeof *OWN; at++)
        if (!strcmp(mode, OWN[at].mode)) return OWN[at].devices;
    return others;
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "", *path = count > 6 ? words[6] : NULL;
    int many = count > 2 ? atoi(words[2]) : 1, is_grow = !strcmp(mode, "grow"), to = is_grow && count > 4 ? atoi(words[3]) : many;
    here = path ? 1 : devices_of(mode, to);
    is_json = getenv("JSON") != NULL;
    load();
    CU(cuInit(0));
    OK(ncclGetVersion(&version));
    for (int at = 0; at < here; at++) open_rank(&ranks[at], at, path ? atoi(words[5]) : at);
    double started = now();
    if (is_grow) grow(many, to, atoi(words[4]), path);
    else if (!strcmp(mode, "memory")) memory(many);
    else if (!strcmp(mode, "simulate")) simulate(many);
    else if (!strcmp(mode, "config")) config(many);
    else if (!strcmp(mode, "windows")) windows(many);
    else if (!strcmp(mode, "parameters")) parameters();
    else if (!strcmp(mode, "dump")) dump();
    else if (!strcmp(mode, "old")) old();
    else if (!strcmp(mode, "ends")) ends(!strcmp(words[2], "abort"));
    else if (!strcmp(mode, "ids")) ids();
    else if (!strcmp(mode, "again")) again(!strcmp(words[2], "here"));
    else if (!strcmp(mode, "aside")) aside();
    else if (!strcmp(mode, "inherits")) inherits();
    else if (!strcmp(mode, "forgotten")) forgotten();
    else FAIL("no such mode: %s", mode);
    if (is_json)
        printf("{\"test\": \"%s\", \"version\": %d, \"ranks\": %d, \"here\": %d, \"grow_ms\": %.1f, \"ms\": %.1f, \"right\": true}\n", mode, version, to,
            here, begun, now() - started);
    else printf("right\n");
    return 0;
}
