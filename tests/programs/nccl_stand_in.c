/* Stands in for NVIDIA's NCCL where there is no GPU: ranks find each other by sockets, as NCCL's do, and move and add bytes
 * through the driver API of the process. Of each function it has what the tests use; work is done when a group ends.
 * In: NCCL's calls in a worker. Out: the same results as NCCL's for sums of float and int. It has none of NCCL's code.
 * With -DNEWER it is of 2.32 and has what came since 2.28: ranks that join, memory, parameters. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef int Result;
enum { SUCCESS = 0, CUDA_ERROR = 1, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, REMOTE_ERROR = 6 };
/* Roots that wait for ranks: 256 ids of a session, and as many by which communicators grow. */
enum { MOST_RANKS = 16, MOST_CALLS = 64, MOST_ROOTS = 512 };

typedef struct { char bytes[128]; } UniqueId;
typedef struct { uint64_t magic; struct sockaddr_in6 root; } Handle;

typedef struct Comm {
    int rank, ranks, socket[MOST_RANKS], failed, color;
    uint64_t scalars[8];
    int scalar_count, contexts, is_suspended, users;
} Comm;

typedef struct { int kind, rank, datatype, operation; size_t count; uint64_t send, receive; Comm *comm; void *stream; } Call;

static __thread int depth;
static __thread Call calls[MOST_CALLS];
static __thread int call_count;
static char last[256] = "nothing failed";

static int (*stream_synchronize)(void *);
static int (*current_device)(int *);
static int (*bus_id)(char *, int, int);
static int (*to_host)(void *, uint64_t, size_t);
static int (*to_device)(uint64_t, const void *, size_t);

static Result fail(Result result, const char *words) {
    snprintf(last, sizeof last, "stand-in: %s: %s", words, strerror(errno));
    return result;
}

static int load_driver(void) {
    if (to_device) return 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver) return -1;
    stream_synchronize = (int (*)(void *))dlsym(driver, "cuStreamSynchronize");
    to_host = (int (*)(void *, uint64_t, size_t))dlsym(driver, "cuMemcpyDtoH_v2");
    to_device = (int (*)(uint64_t, const void *, size_t))dlsym(driver, "cuMemcpyHtoD_v2");
    current_device = (int (*)(int *))dlsym(driver, "cuCtxGetDevice");
    bus_id = (int (*)(char *, int, int))dlsym(driver, "cuDeviceGetPCIBusId");
    return stream_synchronize && to_host && to_device && current_device && bus_id ? 0 : -1;
}

/* The address of the one interface that NCCL would take. */
static int own_address(struct sockaddr_in6 *address) {
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return -1;
    int found = -1;
    for (struct ifaddrs *at = all; at && found; at = at->ifa_next)
        if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET6) {
            memcpy(address, at->ifa_addr, sizeof *address);
            found = 0;
        }
    freeifaddrs(all);
    address->sin6_port = 0;
    return found;
}

static int listen_somewhere(struct sockaddr_in6 *address) {
    socklen_t length = sizeof *address;
    int one = 1, fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (fd < 0 || own_address(address) || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)
        || bind(fd, (struct sockaddr *)address, sizeof *address) || listen(fd, 64)
        || getsockname(fd, (struct sockaddr *)address, &length))
        return -1;
    return fd;
}

static int connect_to(const struct sockaddr_in6 *address) {
    int one = 1, fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address)
        || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one)) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static int put(int fd, const void *bytes, size_t count) {
    for (size_t done = 0; done < count;) {
        ssize_t more = send(fd, (const char *)bytes + done, count - done, MSG_NOSIGNAL);
        if (more <= 0 && errno != EINTR) return -1;
        if (more > 0) done += (size_t)more;
    }
    return 0;
}

static int get(int fd, void *bytes, size_t count) {
    for (size_t done = 0; done < count;) {
        ssize_t more = recv(fd, (char *)bytes + done, count - done, 0);
        if (more == 0) errno = ECONNRESET;
        if (more == 0 || (more < 0 && errno != EINTR)) return -1;
        if (more > 0) done += (size_t)more;
    }
    return 0;
}

/* What a rank says to the root, and the root to all: ranks, where each listens, its node and its GPU. */
typedef struct { struct sockaddr_in6 at; uint64_t node; char gpu[16]; } Place;
typedef struct { uint64_t magic; int rank, ranks; Place place; } Hello;

typedef struct { int listener; uint64_t magic; } Root;
static int roots;

static void *serve_root(void *argument) {
    Root root = *(Root *)argument;
    free(argument);
    int from[MOST_RANKS], there = 0, ranks = 1;
    Place at[MOST_RANKS];
    while (there < ranks) {
        Hello hello;
        int fd = accept(root.listener, NULL, NULL);
        if (fd < 0) return NULL;
        if (get(fd, &hello, sizeof hello) || hello.magic != root.magic || hello.ranks > MOST_RANKS) {
            close(fd);
            continue;
        }
        ranks = hello.ranks;
        from[hello.rank] = fd;
        at[hello.rank] = hello.place;
        there++;
    }
    for (int rank = 0; rank < ranks; rank++) {
        put(from[rank], at, sizeof at[0] * (size_t)ranks);
        close(from[rank]);
    }
    close(root.listener);
    __atomic_sub_fetch(&roots, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

#ifdef NEWER
enum { VERSION = 23203 };
#else
enum { VERSION = 22809 };
#endif
Result ncclGetVersion(int *version) { *version = VERSION; return SUCCESS; }
const char *ncclGetLastError(Comm *comm) { (void)comm; return last; }

Result ncclGetUniqueId(UniqueId *id) {
    Handle handle = { .magic = ((uint64_t)rand() << 32) ^ (uint64_t)(uintptr_t)&handle };
    Root *root = malloc(sizeof *root);
    root->listener = listen_somewhere(&handle.root);
    root->magic = handle.magic;
    if (root->listener < 0) return fail(SYSTEM_ERROR, "no root listens");
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    if (__atomic_add_fetch(&roots, 1, __ATOMIC_SEQ_CST) > MOST_ROOTS) abort();
    if (pthread_create(&thread, &small, serve_root, root)) return fail(SYSTEM_ERROR, "no thread for the root");
    pthread_detach(thread);
    memset(id, 0, sizeof *id);
    memcpy(id, &handle, sizeof handle);
    return SUCCESS;
}

/* A file of the machine's memory, as NCCL has one for its own threads. */
static int uses_shared_memory(void) {
    char name[] = "/dev/shm/nccl-XXXXXX", other[sizeof name];
    int made = mkstemp(name);
    if (made < 0 || ftruncate(made, 4096) || write(made, "floe", 4) != 4) return -1;
    int again = open(name, O_RDWR, 0600), gone = unlink(name);
    if (again < 0 || gone || open(name, O_RDWR, 0600) >= 0 || pread(again, other, 4, 0) != 4) return -1;
    close(made);
    close(again);
    return memcmp(other, "floe", 4);
}

/* NCCL's node: a hash of its variable, or else of nothing, as all processes of a machine have it. */
static uint64_t own_node(void) {
    const char *name = getenv("NCCL_HOSTID");
    uint64_t hash = 0xcbf29ce484222325;
    while (name && *name) hash = (hash ^ (unsigned char)*name++) * 0x100000001b3;
    return hash;
}

static int own_gpu(char *gpu, int length) {
    int device;
    return current_device(&device) || bus_id(gpu, length, device) ? -1 : 0;
}

/* NCCL has no two ranks of a node on one GPU. A test says how many nodes there are to be. */
static Result judge(const Place *at, int ranks) {
    int nodes = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int is_new = 1;
        for (int other = 0; other < rank; other++) {
            if (at[other].node != at[rank].node) continue;
            is_new = 0;
            if (memcmp(at[other].gpu, at[rank].gpu, sizeof at[rank].gpu) == 0) return fail(5, "two ranks on one GPU");
        }
        nodes += is_new;
    }
    const char *wanted = getenv("NCCL_STAND_IN_NODES");
    return wanted && atoi(wanted) != nodes ? fail(5, "another number of nodes") : SUCCESS;
}

/* Every rank listens; the higher one of a pair connects and says which it is. */
static Result meet(Comm *comm, const UniqueId *id) {
    Handle handle;
    memcpy(&handle, id, sizeof handle);
    Hello hello = { .magic = handle.magic, .rank = comm->rank, .ranks = comm->ranks, .place.node = own_node() };
    Place at[MOST_RANKS];
    int listener = listen_somewhere(&hello.place.at), root = connect_to(&handle.root);
    if (listener < 0 || root < 0 || own_gpu(hello.place.gpu, sizeof hello.place.gpu)) return fail(SYSTEM_ERROR, "the root is not reached");
    if (put(root, &hello, sizeof hello) || get(root, at, sizeof at[0] * (size_t)comm->ranks))
        return fail(REMOTE_ERROR, "the root is gone");
    close(root);
    Result judged = judge(at, comm->ranks);
    if (judged != SUCCESS) return judged;
    for (int peer = 0; peer < comm->rank; peer++) {
        comm->socket[peer] = connect_to(&at[peer].at);
        if (comm->socket[peer] < 0 || put(comm->socket[peer], &comm->rank, sizeof comm->rank))
            return fail(REMOTE_ERROR, "a rank is not reached");
    }
    for (int peer = comm->rank + 1; peer < comm->ranks; peer++) {
        int which, fd = accept(listener, NULL, NULL);
        if (fd < 0 || get(fd, &which, sizeof which)) return fail(REMOTE_ERROR, "a rank does not come");
        comm->socket[which] = fd;
    }
    close(listener);
    return SUCCESS;
}

/* numRmaCtx of ncclConfig_t, which 2.29 and newer have; without a configuration it is the parent's. */
static int contexts_of(const char *config, const Comm *parent) {
    size_t size;
    unsigned version;
    int contexts;
    if (!config) return parent ? parent->contexts : 1;
    memcpy(&size, config, sizeof size);
    memcpy(&version, config + 12, sizeof version);
    memcpy(&contexts, size >= 88 ? config + 84 : config, sizeof contexts);
    return version < 22900 || size < 88 || contexts < 0 ? 1 : contexts;
}

Result ncclCommInitRankConfig(Comm **made, int ranks, UniqueId id, int rank, const void *config) {
    if (ranks > MOST_RANKS || load_driver()) return fail(SYSTEM_ERROR, "no driver, or too many ranks");
    if (uses_shared_memory()) return fail(SYSTEM_ERROR, "no file in memory");
    Comm *comm = calloc(1, sizeof *comm);
    comm->rank = rank;
    comm->ranks = ranks;
    comm->contexts = contexts_of(config, NULL);
    Result met = meet(comm, &id);
    if (met == SUCCESS) *made = comm;
    return met;
}

Result ncclCommInitRankScalable(Comm **made, int ranks, int rank, int count, UniqueId *ids, const void *config) {
    return count < 1 ? INVALID_ARGUMENT : ncclCommInitRankConfig(made, ranks, ids[0], rank, config);
}

static Result exchange(Comm *comm, int peer, const void *out, size_t out_bytes, void *in, size_t in_bytes) {
    if (peer == comm->rank) {
        memcpy(in, out, in_bytes);
        return SUCCESS;
    }
    /* The lower one speaks first, so that neither waits for room of the other. */
    int fd = comm->socket[peer], first = comm->rank < peer;
    if (first && put(fd, out, out_bytes)) return fail(REMOTE_ERROR, "a rank is gone");
    if (get(fd, in, in_bytes)) return fail(REMOTE_ERROR, "a rank is gone");
    if (!first && put(fd, out, out_bytes)) return fail(REMOTE_ERROR, "a rank is gone");
    return SUCCESS;
}

/* A call that waits for other ranks uses the communicator until it returns, and NCCL frees it under none. */
static Result used(Comm *comm, Result result) {
    __atomic_sub_fetch(&comm->users, 1, __ATOMIC_SEQ_CST);
    return result;
}
#define USING(comm, call) (__atomic_add_fetch(&(comm)->users, 1, __ATOMIC_SEQ_CST), used(comm, call))
static void is_unused(Comm *comm) {
    if (__atomic_load_n(&comm->users, __ATOMIC_SEQ_CST)) abort();
}

/* Ranks of one color, in order of rank, over connections of the parent's. */
static Result split(Comm *parent, int color, int key, Comm **made, const void *config) {
    (void)key;
    int colors[MOST_RANKS];
    for (int peer = 0; peer < parent->ranks; peer++)
        if (exchange(parent, peer, &color, sizeof color, &colors[peer], sizeof color)) return REMOTE_ERROR;
    *made = NULL;
    if (color < 0) return SUCCESS;
    Comm *comm = calloc(1, sizeof *comm);
    comm->contexts = contexts_of(config, parent);
    for (int peer = 0; peer < parent->ranks; peer++) {
        if (colors[peer] != color) continue;
        if (peer == parent->rank) comm->rank = comm->ranks;
        else comm->socket[comm->ranks] = dup(parent->socket[peer]);
        comm->ranks++;
    }
    *made = comm;
    return SUCCESS;
}

Result ncclCommSplit(Comm *parent, int color, int key, Comm **made, const void *config) {
    return USING(parent, split(parent, color, key, made, config));
}

Result ncclCommShrink(Comm *comm, int *list, int count, Comm **made, const void *config, int flags) {
    (void)list;
    (void)flags;
    if (count != 0) return fail(INVALID_ARGUMENT, "leaves no rank out");
    return ncclCommSplit(comm, 0, 0, made, config);
}

Result ncclCommUserRank(Comm *comm, int *rank) { *rank = comm->rank; return SUCCESS; }
Result ncclCommCount(Comm *comm, int *ranks) { *ranks = comm->ranks; return SUCCESS; }
Result ncclCommGetAsyncError(Comm *comm, int *error) { *error = comm->failed; return SUCCESS; }
Result ncclCommFinalize(Comm *comm) { (void)comm; return SUCCESS; }
Result ncclCommRevoke(Comm *comm, int flags) {
    (void)flags;
    for (int peer = 0; peer < comm->ranks; peer++)
        if (peer != comm->rank) shutdown(comm->socket[peer], SHUT_RDWR);
    return SUCCESS;
}
/* As NVIDIA's may: a destroy is a call of all ranks. */
static void meets(Comm *comm) {
    char byte = 0;
    for (int peer = 0; peer < comm->ranks; peer++)
        if (peer != comm->rank && send(comm->socket[peer], &byte, 1, MSG_NOSIGNAL) != 1) return;
    for (int peer = 0; peer < comm->ranks; peer++)
        if (peer != comm->rank && recv(comm->socket[peer], &byte, 1, 0) != 1) return;
}
Result ncclCommDestroy(Comm *comm) {
    is_unused(comm);
    if (getenv("NCCL_STAND_IN_MEETS")) meets(comm);
    for (int peer = 0; peer < comm->ranks; peer++)
        if (peer != comm->rank) close(comm->socket[peer]);
    free(comm);
    return SUCCESS;
}
/* Whoever is in a group with it is not in its memory any more, but may still look at it. */
Result ncclCommAbort(Comm *comm) {
    is_unused(comm);
    return ncclCommRevoke(comm, 0);
}
Result ncclRedOpCreatePreMulSum(int *operation, void *scalar, int datatype, int residence, Comm *comm) {
    (void)datatype;
    if (residence != 1 || comm->scalar_count == 8) return fail(INVALID_ARGUMENT, "such a scalar");
    memcpy(&comm->scalars[comm->scalar_count], scalar, 4);
    *operation = 5 + comm->scalar_count++;
    return SUCCESS;
}
Result ncclRedOpDestroy(int operation, Comm *comm) { (void)comm; return operation < 5 ? INVALID_ARGUMENT : SUCCESS; }
Result ncclCommRegister(Comm *comm, void *at, size_t bytes, void **handle) {
    (void)comm;
    (void)bytes;
    *handle = at;
    return SUCCESS;
}
Result ncclCommDeregister(Comm *comm, void *handle) { (void)comm; return handle ? SUCCESS : INVALID_ARGUMENT; }

static size_t element(int datatype) { return datatype == 4 || datatype == 5 || datatype == 8 ? 8 : datatype < 2 ? 1 : 4; }

static void add(void *to, const void *from, size_t count, int datatype) {
    for (size_t at = 0; at < count; at++) {
        if (datatype == 7) ((float *)to)[at] += ((const float *)from)[at];
        else ((int *)to)[at] += ((const int *)from)[at];
    }
}

enum { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECEIVE, ALL_TO_ALL, GATHER, SCATTER };

/* Every rank has everybody's part: enough for every collective that tests are about. */
static Result collect(Call *call, size_t bytes, char *all) {
    char *own = malloc(bytes + 1);
    Result result = SUCCESS;
    if (call->send && to_host(own, call->send, bytes)) result = fail(CUDA_ERROR, "reading");
    for (int peer = 0; result == SUCCESS && peer < call->comm->ranks; peer++)
        result = exchange(call->comm, peer, own, bytes, all + bytes * (size_t)peer, bytes);
    free(own);
    return result;
}

static Result run(Call *call) {
    Comm *comm = call->comm;
    size_t width = element(call->datatype), bytes = call->count * width, ranks = (size_t)comm->ranks;
    if (stream_synchronize(call->stream)) return fail(CUDA_ERROR, "waiting for the stream");
    if (call->kind == SEND || call->kind == RECEIVE) {
        char *room = malloc(bytes + 1);
        Result result = SUCCESS;
        if (call->kind == SEND) {
            if (to_host(room, call->send, bytes)) result = fail(CUDA_ERROR, "reading");
            else if (put(comm->socket[call->rank], room, bytes)) result = fail(REMOTE_ERROR, "a rank is gone");
        } else if (get(comm->socket[call->rank], room, bytes)) result = fail(REMOTE_ERROR, "a rank is gone");
        else if (to_device(call->receive, room, bytes)) result = fail(CUDA_ERROR, "writing");
        free(room);
        return result;
    }
    int is_whole = call->kind == REDUCE_SCATTER || call->kind == ALL_TO_ALL || call->kind == SCATTER;
    size_t part = is_whole ? bytes * ranks : bytes;
    char *all = calloc(ranks, part + 1), *out = calloc(ranks, part + 1);
    /* Of a scatter or a broadcast only the root has memory to read. */
    if ((call->kind == SCATTER || call->kind == BROADCAST) && comm->rank != call->rank) call->send = 0;
    Result result = collect(call, part, all);
    size_t own = bytes * (size_t)comm->rank, out_bytes = bytes;
    for (size_t peer = 0; result == SUCCESS && peer < ranks; peer++) {
        char *from = all + part * peer;
        switch (call->kind) {
        case ALL_REDUCE: case REDUCE: add(out, from, call->count, call->datatype); break;
        case REDUCE_SCATTER: add(out, from + own, call->count, call->datatype); break;
        case BROADCAST: if ((int)peer == call->rank) memcpy(out, from, bytes); break;
        case SCATTER: if ((int)peer == call->rank) memcpy(out, from + own, bytes); break;
        case ALL_TO_ALL: memcpy(out + bytes * peer, from + own, bytes); out_bytes = bytes * ranks; break;
        default: memcpy(out + bytes * peer, from, bytes); out_bytes = bytes * ranks;
        }
    }
    if (call->operation >= 5) {
        float scalar;
        memcpy(&scalar, &comm->scalars[call->operation - 5], sizeof scalar);
        for (size_t at = 0; at < call->count; at++) ((float *)out)[at] *= scalar;
    }
    int writes = (call->kind != REDUCE && call->kind != GATHER) || comm->rank == call->rank;
    if (result == SUCCESS && writes && to_device(call->receive, out, out_bytes)) result = fail(CUDA_ERROR, "writing");
    free(all);
    free(out);
    return result;
}

/* Sends go before receives, of which the lower rank's first, so that two ranks do not wait for each other. */
Result ncclGroupEnd(void) {
    if (depth == 0 || --depth) return SUCCESS;
    Result result = SUCCESS;
    for (int at = 0; at < call_count; at++)
        if (calls[at].comm->is_suspended) result = fail(5, "a suspended communicator");
    for (int pass = 0; pass < 2; pass++)
        for (int at = 0; at < call_count && result == SUCCESS; at++) {
            Call *call = &calls[at];
            if ((call->kind == RECEIVE) != pass) continue;
            result = run(call);
            if (result != SUCCESS) call->comm->failed = result;
        }
    call_count = 0;
    return result;
}
Result ncclGroupStart(void) { depth++; return SUCCESS; }

static Result later(Call call) {
    if (call_count == MOST_CALLS) return INVALID_ARGUMENT;
    int alone = depth == 0;
    if (alone) ncclGroupStart();
    calls[call_count++] = call;
    return alone ? ncclGroupEnd() : SUCCESS;
}

#define CALL(k, ...) later((Call){ .kind = k, .count = count, .datatype = datatype, .comm = comm, .stream = stream, __VA_ARGS__ })
#define ARGUMENTS uint64_t send, uint64_t receive, size_t count, int datatype
#define REST Comm *comm, void *stream
Result ncclAllReduce(ARGUMENTS, int op, REST) { return CALL(ALL_REDUCE, .send = send, .receive = receive, .operation = op); }
Result ncclReduce(ARGUMENTS, int op, int root, REST) { return CALL(REDUCE, .send = send, .receive = receive, .operation = op, .rank = root); }
Result ncclBroadcast(ARGUMENTS, int root, REST) { return CALL(BROADCAST, .send = send, .receive = receive, .rank = root); }
Result ncclAllGather(ARGUMENTS, REST) { return CALL(ALL_GATHER, .send = send, .receive = receive); }
Result ncclReduceScatter(ARGUMENTS, int op, REST) { return CALL(REDUCE_SCATTER, .send = send, .receive = receive, .operation = op); }
Result ncclAlltoAll(ARGUMENTS, REST) { return CALL(ALL_TO_ALL, .send = send, .receive = receive); }
Result ncclGather(ARGUMENTS, int root, REST) { return CALL(GATHER, .send = send, .receive = receive, .rank = root); }
Result ncclScatter(ARGUMENTS, int root, REST) { return CALL(SCATTER, .send = send, .receive = receive, .rank = root); }
Result ncclSend(uint64_t send, size_t count, int datatype, int peer, REST) { return CALL(SEND, .send = send, .rank = peer); }
Result ncclRecv(uint64_t receive, size_t count, int datatype, int peer, REST) { return CALL(RECEIVE, .receive = receive, .rank = peer); }

#ifdef NEWER

/* The id for new ranks. The ranks that are there get it by what they have of each other, and may not be in a call yet. */
Result ncclCommGetUniqueId(Comm *comm, UniqueId *id) {
    Result made = ncclGetUniqueId(id);
    for (int peer = 0; made == SUCCESS && peer < comm->ranks; peer++)
        if (peer != comm->rank && put(comm->socket[peer], id, sizeof *id)) made = fail(REMOTE_ERROR, "a rank is gone");
    return made;
}

/* The id, from whichever rank has made it. */
static Result passed_id(Comm *comm, UniqueId *id) {
    struct pollfd from[MOST_RANKS];
    for (int peer = 0; peer < comm->ranks; peer++)
        from[peer] = (struct pollfd){ .fd = peer == comm->rank ? -1 : comm->socket[peer], .events = POLLIN };
    while (poll(from, (nfds_t)comm->ranks, -1) < 0)
        if (errno != EINTR) return fail(SYSTEM_ERROR, "waiting for an id");
    for (int peer = 0; peer < comm->ranks; peer++)
        if (from[peer].revents) return get(from[peer].fd, id, sizeof *id) ? fail(REMOTE_ERROR, "a rank is gone") : SUCCESS;
    return fail(SYSTEM_ERROR, "no id");
}

/* As NCCL, it wants of each rank just what that rank has. */
static Result grow(Comm *comm, int ranks, const UniqueId *given, int rank, Comm **made, const void *config) {
    UniqueId id;
    *made = NULL;
    if (comm ? rank != -1 || ranks <= comm->ranks : rank < 0 || rank >= ranks || !given) return fail(INVALID_ARGUMENT, "growing");
    if (given) id = *given;
    else if (passed_id(comm, &id) != SUCCESS) return REMOTE_ERROR;
    Result result = ncclCommInitRankConfig(made, ranks, id, comm ? comm->rank : rank, config);
    if (result == SUCCESS && comm) (*made)->contexts = contexts_of(config, comm);
    return result;
}

Result ncclCommGrow(Comm *comm, int ranks, const UniqueId *given, int rank, Comm **made, const void *config) {
    return comm ? USING(comm, grow(comm, ranks, given, rank, made, config)) : grow(comm, ranks, given, rank, made, config);
}

/* Waits for all ranks. */
static Result meet_all(Comm *comm) {
    for (int peer = 0; peer < comm->ranks; peer++) {
        char own = 1, other = 0;
        if (exchange(comm, peer, &own, 1, &other, 1) != SUCCESS) return REMOTE_ERROR;
        if (!other) return fail(REMOTE_ERROR, "a rank says something else");
    }
    return SUCCESS;
}

Result ncclCommSuspend(Comm *comm, int flags) {
    if (flags != 1 || comm->is_suspended) return fail(5, "suspending");
    Result result = USING(comm, meet_all(comm));
    comm->is_suspended = result == SUCCESS;
    return result;
}

Result ncclCommResume(Comm *comm) {
    if (!comm->is_suspended) return fail(5, "resuming");
    Result result = USING(comm, meet_all(comm));
    comm->is_suspended = result != SUCCESS;
    return result;
}

/* A page for each rank can be given up, a MiB for each context cannot. */
Result ncclCommMemStats(Comm *comm, int stat, uint64_t *value) {
    uint64_t given_up = 4096 * (uint64_t)comm->ranks, kept = (uint64_t)comm->contexts << 20;
    uint64_t stats[] = { given_up, (uint64_t)comm->is_suspended, kept, given_up + kept };
    if (stat < 0 || stat > 3) return fail(INVALID_ARGUMENT, "no such stat");
    *value = stats[stat];
    return SUCCESS;
}

typedef struct { size_t size; unsigned magic, version; float time; } Simulation;

/* A group takes two microseconds and a half for each call. */
Result ncclGroupSimulateEnd(Simulation *simulation) {
    if (depth == 0) return fail(5, "no group");
    if (--depth) return SUCCESS;
    int count = call_count;
    call_count = 0;
    if (simulation->magic != 0x74685283 || simulation->size < sizeof *simulation) return fail(INVALID_ARGUMENT, "no mark");
    simulation->time = 2.5f * (float)count;
    return SUCCESS;
}

static int64_t number = -123456789012;
static uint8_t byte = 200;
enum Type { NUMBER, BYTE, WORDS };
typedef struct { const char *key; int type; } Parameter;
static Parameter parameters[] = { { "NCCL_STAND_IN_NUMBER", NUMBER }, { "NCCL_STAND_IN_BYTE", BYTE }, { "NCCL_STAND_IN_WORDS", WORDS } };
static const char *keys[] = { "NCCL_STAND_IN_NUMBER", "NCCL_STAND_IN_BYTE", "NCCL_STAND_IN_WORDS" };

static const char *words(void) {
    const char *found = getenv("NCCL_STAND_IN_WORDS");
    return found ? found : "";
}

Result ncclParamBind(Parameter **parameter, const char *key) {
    for (int at = 0; at < 3; at++)
        if (!strcmp(parameters[at].key, key)) {
            *parameter = &parameters[at];
            return SUCCESS;
        }
    return fail(INVALID_ARGUMENT, "no such parameter");
}

Result ncclParamGetI64(Parameter *parameter, int64_t *to) {
    if (parameter->type != NUMBER) return fail(INVALID_ARGUMENT, "another type");
    *to = number;
    return SUCCESS;
}

Result ncclParamGetU8(Parameter *parameter, uint8_t *to) {
    if (parameter->type != BYTE) return fail(INVALID_ARGUMENT, "another type");
    *to = byte;
    return SUCCESS;
}

Result ncclParamGetStr(Parameter *parameter, const char **to) {
    if (parameter->type != WORDS) return fail(INVALID_ARGUMENT, "another type");
    *to = words();
    return SUCCESS;
}

Result ncclParamGet(Parameter *parameter, void *to, int room, int *length) {
    const void *from[] = { &number, &byte, words() };
    int lengths[] = { sizeof number, sizeof byte, (int)strlen(words()) + 1 };
    *length = lengths[parameter->type];
    if (*length > room) return fail(INVALID_ARGUMENT, "little room");
    memcpy(to, from[parameter->type], (size_t)*length);
    return SUCCESS;
}

Result ncclParamGetParameter(const char *key, const char **value, int *length) {
    static __thread char text[256];
    Parameter *parameter;
    if (ncclParamBind(&parameter, key) != SUCCESS) return INVALID_ARGUMENT;
    if (parameter->type == NUMBER) snprintf(text, sizeof text, "%lld", (long long)number);
    else if (parameter->type == BYTE) snprintf(text, sizeof text, "%d", byte);
    else snprintf(text, sizeof text, "%s", words());
    *value = text;
    *length = (int)strlen(text);
    return SUCCESS;
}

Result ncclParamGetAllParameterKeys(const char ***table, int *length) {
    *table = keys;
    *length = 3;
    return SUCCESS;
}

#endif
