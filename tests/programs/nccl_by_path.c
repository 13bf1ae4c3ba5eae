/* A program that opens NCCLs by a path, one after the other, and calls what it finds there, beside the NCCL that comes first by
 * name. Built with -DLIBRARY it is one of those: it has no ranks, and two of its functions call others of it by name, as NVIDIA's
 * do. -DOTHER builds one whose callers lie where those of the first do, and what they call elsewhere.
 *   nccl_by_path VERSION LIBRARY...
 * Out: "right" and 0, or what is wrong and 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*version_of)(int *);
typedef int (*broadcast_of)(const void *, void *, size_t, int, int, void *, void *);

#ifdef LIBRARY

enum { OWN_VERSION = 4242 };

int ncclGetVersion(int *version);
int ncclBroadcast(const void *send, void *receive, size_t count, int datatype, int root, void *comm, void *stream);

int ncclCommInitAll(int *version) { return ncclGetVersion(version); }

int ncclBcast(const void *send, void *receive, size_t count, int datatype, int root, void *comm, void *stream) {
    return ncclBroadcast(send, receive, count, datatype, root, comm, stream);
}

#ifdef OTHER
__attribute__((used)) static int between(int number) {
    for (int i = 0; i < 64; i++) number = number * 31 + i;
    return number;
}
#endif

int ncclGetVersion(int *version) { *version = OWN_VERSION; return 0; }

/* Each argument has its place in the answer. */
int ncclBroadcast(const void *send, void *receive, size_t count, int datatype, int root, void *comm, void *stream) {
    return (int)((uintptr_t)send + 10 * (uintptr_t)receive + 100 * count + 1000 * (uintptr_t)datatype +
                 10000 * (uintptr_t)root + 100000 * (uintptr_t)comm + 1000000 * (uintptr_t)stream);
}

#else

static int wrong(const char *words, int found) {
    printf("%s: %d\n", words, found);
    return 1;
}

/* floe's NCCL answers by the server of the current device. */
static int make_context(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    if (!driver) return 1;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    return !init || !retain || !set || init(0) || retain(&context, 0) || set(context);
}

static int try(const char *path, version_of first, int expected) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return wrong("no library", 0);
    version_of direct = (version_of)dlsym(library, "ncclGetVersion"), by_name = (version_of)dlsym(library, "ncclCommInitAll");
    broadcast_of bcast = (broadcast_of)dlsym(library, "ncclBcast");
    for (int turn = 0; turn < 3; turn++) {
        int version = 0, code = direct(&version);
        if (code != 0 || version != 4242) return wrong("what was opened", version);
        code = by_name(&version);
        if (code != 0 || version != 4242) return wrong("what it calls by name", version);
        code = bcast((void *)1, (void *)2, 3, 4, 5, (void *)6, (void *)7);
        if (code != 7654321) return wrong("arguments by name", code);
        code = first(&version);
        if (code != 0 || version != expected) return wrong("what comes first", version);
    }
    return dlclose(library);
}

int main(int count, char **arguments) {
    if (count < 3) return wrong("arguments", count);
    if (make_context()) return wrong("no context", 0);
    version_of first = (version_of)dlsym(RTLD_DEFAULT, "ncclGetVersion");
    if (!first) return wrong("no library", 0);
    for (int i = 2; i < count; i++)
        if (try(arguments[i], first, atoi(arguments[1]))) return 1;
    puts("right");
    return 0;
}

#endif
