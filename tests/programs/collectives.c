/* An ordinary program on NCCL and the driver API that checks its own results: every collective, messages between ranks, groups,
 * splits; as one process with a rank for each device, or as one rank of several processes that share a file.
 *   collectives together RANKS | collectives rank RANK RANKS FILE | collectives wrong | collectives left RANK FILE
 * Out: "right" and 0, or what is wrong and 1. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Comm *comm_t;
typedef struct { char bytes[128]; } unique_id;
typedef void *stream_t;
typedef uint64_t device_ptr;
typedef int result_t;

int cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(device_ptr *, size_t), cuMemFree_v2(device_ptr), cuMemcpyHtoD_v2(device_ptr, const void *, size_t);
int cuMemcpyDtoH_v2(void *, device_ptr, size_t), cuStreamCreate(stream_t *, unsigned), cuStreamSynchronize(stream_t);
int cuMemsetD32Async(device_ptr, unsigned, size_t, stream_t), cuCtxSynchronize(void);
int cuStreamBeginCapture_v2(stream_t, int), cuStreamEndCapture(stream_t, void **);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long), cuGraphLaunch(void *, stream_t);
int cuGraphExecDestroy(void *), cuGraphDestroy(void *), cuMemAllocManaged(device_ptr *, size_t, unsigned);
result_t ncclGetVersion(int *), ncclGetUniqueId(unique_id *), ncclCommInitRank(comm_t *, int, unique_id, int);
result_t ncclCommInitAll(comm_t *, int, const int *), ncclCommDestroy(comm_t), ncclCommAbort(comm_t);
result_t ncclCommFinalize(comm_t), ncclCommCount(comm_t, int *), ncclCommUserRank(comm_t, int *), ncclCommCuDevice(comm_t, int *);
result_t ncclCommGetAsyncError(comm_t, result_t *), ncclCommSplit(comm_t, int, int, comm_t *, void *);
result_t ncclCommRegister(comm_t, void *, size_t, void **), ncclCommDeregister(comm_t, void *);
result_t ncclMemAlloc(void **, size_t), ncclMemFree(void *), ncclGroupStart(void), ncclGroupEnd(void);
result_t ncclAllReduce(const void *, void *, size_t, int, int, comm_t, stream_t);
result_t ncclReduce(const void *, void *, size_t, int, int, int, comm_t, stream_t);
result_t ncclBroadcast(const void *, void *, size_t, int, int, comm_t, stream_t);
result_t ncclBcast(void *, size_t, int, int, comm_t, stream_t);
result_t ncclAllGather(const void *, void *, size_t, int, comm_t, stream_t);
result_t ncclReduceScatter(const void *, void *, size_t, int, int, comm_t, stream_t);
result_t ncclAlltoAll(const void *, void *, size_t, int, comm_t, stream_t);
result_t ncclGather(const void *, void *, size_t, int, int, comm_t, stream_t);
result_t ncclScatter(const void *, void *, size_t, int, int, comm_t, stream_t);
result_t ncclSend(const void *, size_t, int, int, comm_t, stream_t), ncclRecv(void *, size_t, int, int, comm_t, stream_t);
result_t ncclRedOpCreatePreMulSum(int *, void *, int, int, comm_t), ncclRedOpDestroy(int, comm_t);
result_t ncclDevCommCreate(void);
result_t pncclAllReduce(const void *, void *, size_t, int, int, comm_t, stream_t);
const char *ncclGetLastError(comm_t), *ncclGetErrorString(result_t);

enum { INT = 2, FLOAT = 7, SUM = 0, MOST = 8 };
static const size_t SIZES[] = { 2, 1000, 1 << 18 };

typedef struct {
    int rank;
    void *context;
    stream_t stream;
    device_ptr send, receive;
    comm_t comm;
} Rank;

static Rank ranks[MOST];
static int here, all;
static size_t room;

#define CU(call) do { int code_ = (call); if (code_) { printf("line %d: %s: %d\n", __LINE__, #call, code_); exit(1); } } while (0)
#define NCCL(call) do { int code_ = (call); if (code_) { printf("line %d: %s: %d: %s\n", __LINE__, #call, code_, ncclGetLastError(NULL)); exit(1); } } while (0)
#define EACH(r) for (Rank *r = ranks; r < ranks + here && (cuCtxSetCurrent(r->context), 1); r++)

static void open_rank(Rank *rank, int device, int number) {
    int handle;
    rank->rank = number;
    CU(cuDeviceGet(&handle, device));
    CU(cuDevicePrimaryCtxRetain(&rank->context, handle));
    CU(cuCtxSetCurrent(rank->context));
    CU(cuStreamCreate(&rank->stream, 1));
    CU(cuMemAlloc_v2(&rank->send, room));
    void *receive;
    NCCL(ncclMemAlloc(&receive, room));
    rank->receive = (device_ptr)(uintptr_t)receive;
}

/* Element `at` of what `rank` sends; small, so that sums of floats are exact. */
static float value(int rank, size_t at) { return (float)((at * 7 + (size_t)rank * 13) % 101); }

static void fill(Rank *rank, size_t count) {
    float *bytes = malloc(count * sizeof *bytes);
    for (size_t at = 0; at < count; at++) bytes[at] = value(rank->rank, at);
    CU(cuMemcpyHtoD_v2(rank->send, bytes, count * sizeof *bytes));
    CU(cuMemsetD32Async(rank->receive, 0, room / 4, rank->stream));
    free(bytes);
}

/* What element `at` must be after a collective. */
typedef float (*Expected)(const Rank *, size_t count, size_t at);
static float sum(const Rank *rank, size_t count, size_t at) {
    (void)rank; (void)count;
    float total = 0;
    for (int other = 0; other < all; other++) total += value(other, at);
    return total;
}
static float half_sum(const Rank *rank, size_t count, size_t at) { return sum(rank, count, at) / 2; }
static float last_ones(const Rank *rank, size_t count, size_t at) { (void)rank; (void)count; return value(all - 1, at); }
static float gathered(const Rank *rank, size_t count, size_t at) { (void)rank; return value((int)(at / count), at % count); }
static float own_part_of_sum(const Rank *rank, size_t count, size_t at) { return sum(rank, count, (size_t)rank->rank * count + at); }
static float own_parts(const Rank *rank, size_t count, size_t at) { return value((int)(at / count), (size_t)rank->rank * count + at % count); }
static float last_ones_part(const Rank *rank, size_t count, size_t at) { (void)count; return value(all - 1, (size_t)rank->rank * count + at); }
static float before(const Rank *rank, size_t count, size_t at) { (void)count; return value((rank->rank + all - 1) % all, at); }

static void check(const char *what, size_t count, size_t expected, int rank_or_all, Expected value_of) {
    EACH(r) {
        CU(cuStreamSynchronize(r->stream));
        if (rank_or_all >= 0 && r->rank != rank_or_all) continue;
        float *bytes = malloc(expected * sizeof *bytes);
        CU(cuMemcpyDtoH_v2(bytes, r->receive, expected * sizeof *bytes));
        for (size_t at = 0; at < expected; at++)
            if (bytes[at] != value_of(r, count, at)) {
                printf("%s of %zu, rank %d: element %zu is %g, not %g\n", what, count, r->rank, at, bytes[at], value_of(r, count, at));
                exit(1);
            }
        free(bytes);
    }
}

#define P(address) ((void *)(uintptr_t)(address))
#define DO(name, count, expected, who, value_of, call) do { \
        EACH(r) fill(r, (count) * (size_t)all); \
        NCCL(ncclGroupStart()); \
        EACH(r) NCCL(call); \
        NCCL(ncclGroupEnd()); \
        check(name, count, expected, who, value_of); \
    } while (0)

static void collectives(size_t count) {
    size_t n = (size_t)all;
    int last = all - 1;
    DO("all-reduce", count, count, -1, sum, ncclAllReduce(P(r->send), P(r->receive), count, FLOAT, SUM, r->comm, r->stream));
    DO("all-reduce of the twin", count, count, -1, sum, pncclAllReduce(P(r->send), P(r->receive), count, FLOAT, SUM, r->comm, r->stream));
    DO("reduce", count, count, last, sum, ncclReduce(P(r->send), P(r->receive), count, FLOAT, SUM, last, r->comm, r->stream));
    DO("broadcast", count, count, -1, last_ones, ncclBroadcast(P(r->send), P(r->receive), count, FLOAT, last, r->comm, r->stream));
    DO("all-gather", count, count * n, -1, gathered, ncclAllGather(P(r->send), P(r->receive), count, FLOAT, r->comm, r->stream));
    DO("reduce-scatter", count, count, -1, own_part_of_sum, ncclReduceScatter(P(r->send), P(r->receive), count, FLOAT, SUM, r->comm, r->stream));
    DO("all-to-all", count, count * n, -1, own_parts, ncclAlltoAll(P(r->send), P(r->receive), count, FLOAT, r->comm, r->stream));
    DO("gather", count, count * n, last, gathered, ncclGather(P(r->send), P(r->receive), count, FLOAT, last, r->comm, r->stream));
    DO("scatter", count, count, -1, last_ones_part, ncclScatter(P(r->send), P(r->receive), count, FLOAT, last, r->comm, r->stream));
    EACH(r) fill(r, count);
    NCCL(ncclGroupStart());
    EACH(r) {
        NCCL(ncclSend(P(r->send), count, FLOAT, (r->rank + 1) % all, r->comm, r->stream));
        NCCL(ncclRecv(P(r->receive), count, FLOAT, (r->rank + all - 1) % all, r->comm, r->stream));
    }
    NCCL(ncclGroupEnd());
    check("messages in a ring", count, count, -1, before);
}

/* Work before and behind a collective on its stream is before and behind it. */
static void order(size_t count) {
    EACH(r) fill(r, count);
    for (int round = 1; round <= 20; round++) {
        EACH(r) CU(cuMemsetD32Async(r->send, (unsigned)(round * (r->rank + 1)), count, r->stream));
        NCCL(ncclGroupStart());
        EACH(r) NCCL(ncclAllReduce(P(r->send), P(r->receive), count, INT, SUM, r->comm, r->stream));
        NCCL(ncclGroupEnd());
        EACH(r) CU(cuMemsetD32Async(r->send, 0, count, r->stream));
    }
    EACH(r) {
        int *bytes = malloc(count * sizeof *bytes);
        CU(cuStreamSynchronize(r->stream));
        CU(cuMemcpyDtoH_v2(bytes, r->receive, count * sizeof *bytes));
        for (size_t at = 0; at < count; at++)
            if (bytes[at] != 20 * all * (all + 1) / 2) {
                printf("order: element %zu is %d\n", at, bytes[at]);
                exit(1);
            }
        free(bytes);
    }
}

static void further(void) {
    size_t count = 1000;
    int operation[MOST];
    float half = 0.5f;
    EACH(r) NCCL(ncclRedOpCreatePreMulSum(&operation[r - ranks], &half, FLOAT, 1, r->comm));
    DO("all-reduce of halves", count, count, -1, half_sum, ncclAllReduce(P(r->send), P(r->receive), count, FLOAT, operation[r - ranks], r->comm, r->stream));
    EACH(r) NCCL(ncclRedOpDestroy(operation[r - ranks], r->comm));
    void *handles[MOST];
    EACH(r) NCCL(ncclCommRegister(r->comm, P(r->send), room, &handles[r - ranks]));
    DO("all-reduce of registered memory", count, count, -1, sum, ncclAllReduce(P(r->send), P(r->receive), count, FLOAT, SUM, r->comm, r->stream));
    EACH(r) NCCL(ncclCommDeregister(r->comm, handles[r - ranks]));
    comm_t whole[MOST];
    for (int at = 0; at < here; at++) whole[at] = ranks[at].comm;
    NCCL(ncclGroupStart());
    EACH(r) NCCL(ncclCommSplit(whole[r - ranks], 0, r->rank, &r->comm, NULL));
    NCCL(ncclGroupEnd());
    DO("all-reduce of a split", count, count, -1, sum, ncclAllReduce(P(r->send), P(r->receive), count, FLOAT, SUM, r->comm, r->stream));
    EACH(r) {
        int many, own, device;
        NCCL(ncclCommCount(r->comm, &many));
        NCCL(ncclCommUserRank(r->comm, &own));
        NCCL(ncclCommCuDevice(r->comm, &device));
        if (many != all || own != r->rank || device != (int)(r - ranks)) {
            printf("a split has %d ranks, is %d, on %d\n", many, own, device);
            exit(1);
        }
        NCCL(ncclCommDestroy(r->comm));
        r->comm = whole[r - ranks];
    }
}

/* A graph with work before and behind a collective, launched several times, does each time what its parts do. */
static void graphs(size_t count) {
    void *graph[MOST], *exec[MOST];
    EACH(r) fill(r, count);
    EACH(r) {
        CU(cuStreamBeginCapture_v2(r->stream, 1));
        CU(cuMemsetD32Async(r->send, (unsigned)r->rank + 1, count, r->stream));
    }
    NCCL(ncclGroupStart());
    EACH(r) NCCL(ncclAllReduce(P(r->send), P(r->receive), count, INT, SUM, r->comm, r->stream));
    NCCL(ncclGroupEnd());
    EACH(r) {
        CU(cuMemsetD32Async(r->send, 0, count, r->stream));
        CU(cuStreamEndCapture(r->stream, &graph[r - ranks]));
        CU(cuGraphInstantiateWithFlags(&exec[r - ranks], graph[r - ranks], 0));
    }
    for (int round = 0; round < 3; round++) {
        EACH(r) CU(cuMemsetD32Async(r->receive, 0, count, r->stream));
        EACH(r) CU(cuGraphLaunch(exec[r - ranks], r->stream));
        EACH(r) {
            int *bytes = malloc(count * sizeof *bytes);
            CU(cuStreamSynchronize(r->stream));
            CU(cuMemcpyDtoH_v2(bytes, r->receive, count * sizeof *bytes));
            for (size_t at = 0; at < count; at++)
                if (bytes[at] != all * (all + 1) / 2) printf("graph: element %zu is %d\n", at, bytes[at]), exit(1);
            free(bytes);
        }
    }
    EACH(r) {
        CU(cuGraphExecDestroy(exec[r - ranks]));
        CU(cuGraphDestroy(graph[r - ranks]));
    }
}

static void everything(void) {
    for (size_t at = 0; at < sizeof SIZES / sizeof *SIZES; at++) collectives(SIZES[at]);
    order(5000);
    graphs(5000);
    further();
    EACH(r) {
        result_t error = -1;
        NCCL(ncclCommGetAsyncError(r->comm, &error));
        if (error) printf("an error was noted: %d\n", error), exit(1);
        NCCL(ncclCommFinalize(r->comm));
        NCCL(ncclCommDestroy(r->comm));
        CU(cuMemFree_v2(r->send));
        NCCL(ncclMemFree(P(r->receive)));
    }
}

static unique_id shared_id(const char *path, int makes) {
    unique_id id;
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    if (makes) {
        NCCL(ncclGetUniqueId(&id));
        FILE *file = fopen(temporary, "wb");
        fwrite(&id, sizeof id, 1, file);
        fclose(file);
        rename(temporary, path);
        return id;
    }
    FILE *file;
    while (!(file = fopen(path, "rb"))) usleep(1000);
    if (fread(&id, sizeof id, 1, file) != 1) exit(1);
    fclose(file);
    return id;
}

static void expect(const char *what, int code, int wanted, const char *words) {
    if (code == wanted && strstr(ncclGetLastError(NULL), words)) return;
    printf("%s: %d, not %d: %s\n", what, code, wanted, ncclGetLastError(NULL));
    exit(1);
}

/* Two ranks of one process; every wrong call is an error of its own, and what follows is right again. */
static void wrong(void) {
    size_t count = 1000, far = (size_t)1 << 62;
    comm_t comm = ranks[0].comm;
    stream_t stream = ranks[0].stream;
    void *send = P(ranks[0].send), *receive = P(ranks[0].receive);
    CU(cuCtxSetCurrent(ranks[0].context));
    expect("no communicator", ncclAllReduce(send, receive, count, FLOAT, SUM, NULL, stream), 4, "handle");
    expect("a made-up handle", ncclAllReduce(send, receive, count, FLOAT, SUM, (comm_t)P(0x1234), stream), 4, "handle");
    expect("no memory", ncclAllReduce(P(0x1000), receive, count, FLOAT, SUM, comm, stream), 4, "not the device's memory");
    expect("beyond memory", ncclAllReduce(send, receive, room, FLOAT, SUM, comm, stream), 4, "not the device's memory");
    expect("an overflow", ncclAllReduce(send, receive, far, FLOAT, SUM, comm, stream), 4, "");
    expect("a large gather", ncclAllGather(send, receive, room / 4, FLOAT, comm, stream), 4, "not the device's memory");
    expect("host memory", ncclAllReduce(&count, receive, 1, FLOAT, SUM, comm, stream), 4, "not the device's memory");
    expect("another GPU's memory", ncclAllReduce(P(ranks[1].send), receive, 1, FLOAT, SUM, comm, stream), 4, "not the device's memory");
    expect("no such type", ncclAllReduce(send, receive, count, 99, SUM, comm, stream), 4, "");
    expect("no such root", ncclBroadcast(send, receive, count, FLOAT, 7, comm, stream), 4, "no rank");
    expect("a negative peer", ncclSend(send, count, FLOAT, -1, comm, stream), 4, "no rank");
    expect("another device's stream", ncclAllReduce(send, receive, count, FLOAT, SUM, comm, ranks[1].stream), 5, "another device");
    expect("a group's end", ncclGroupEnd(), 5, "ncclGroupStart");
    expect("a device communicator", ncclDevCommCreate(), 5, "ncclDevCommCreate is not there");
    device_ptr managed;
    CU(cuMemAllocManaged(&managed, 4096, 1));
    expect("managed memory", ncclAllReduce(P(managed), receive, 1, FLOAT, SUM, comm, stream), 4, "managed");
    expect("an ended group", (ncclGroupStart(), ncclSend(send, count, FLOAT, 9, comm, stream), ncclGroupEnd()), 4, "no rank");
    unique_id id = { "made up" };
    expect("an id of nobody's", ncclCommInitRank(&comm, 2, id, 0), 1, "no server of floe made");
    expect("a rank of nobody's", ncclCommInitRank(&comm, 2, id, 5), 4, "no rank");
}

/* The other rank is gone: this one is told, and does not wait for ever. */
static void left(void) {
    Rank *r = ranks;
    result_t error = 0;
    CU(cuCtxSetCurrent(r->context));
    NCCL(ncclAllReduce(P(r->send), P(r->receive), 1000, FLOAT, SUM, r->comm, r->stream));
    CU(cuStreamSynchronize(r->stream));
    if (r->rank == 1) _exit(0);
    for (int tries = 0; tries < 1000 && !error; tries++) {
        ncclAllReduce(P(r->send), P(r->receive), 1000, FLOAT, SUM, r->comm, r->stream);
        NCCL(ncclCommGetAsyncError(r->comm, &error));
        usleep(10000);
    }
    if (error != 6) printf("the other rank has left, and the error is %d\n", error), exit(1);
    if (!cuCtxSynchronize()) printf("the work that failed has succeeded\n"), exit(1);
    NCCL(ncclCommAbort(r->comm));
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    int is_alone = !strcmp(mode, "together") || !strcmp(mode, "wrong"), version;
    all = !strcmp(mode, "together") ? atoi(words[2]) : !strcmp(mode, "rank") ? atoi(words[3]) : 2;
    here = is_alone ? all : 1;
    room = sizeof(float) * SIZES[2] * (size_t)all;
    CU(cuInit(0));
    NCCL(ncclGetVersion(&version));
    if (version < 20000) printf("no version of NCCL: %d\n", version), exit(1);
    for (int at = 0; at < here; at++) open_rank(&ranks[at], at, is_alone ? at : atoi(words[2]));
    if (is_alone) {
        comm_t made[MOST];
        NCCL(ncclCommInitAll(made, here, NULL));
        for (int at = 0; at < here; at++) ranks[at].comm = made[at];
    } else {
        const char *path = words[!strcmp(mode, "rank") ? 4 : 3];
        NCCL(ncclCommInitRank(&ranks[0].comm, all, shared_id(path, ranks[0].rank == 0), ranks[0].rank));
    }
    if (!strcmp(mode, "wrong")) wrong();
    if (!strcmp(mode, "left")) left();
    else everything();
    printf("right\n");
    return 0;
}
