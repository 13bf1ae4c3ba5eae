/* Calls of the driver API with one parameter, or one member of a struct, that is not the default. A probe is such a call; it gets
 * the value and gives the driver's code. `main.c` makes the ones that its input names. */
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A member of a struct; an array gets the value into each of its elements in turn. */
struct member {
    const char *name;
    size_t offset, size, count;
};

/* `call` makes a call with the value; `with` makes one with a struct that `fill` made and that has the value in one member. */
struct probe {
    const char *function, *parameter;
    CUresult (*call)(uint64_t value);
    CUresult (*with)(void *filled);
    void (*fill)(void *it);
    const struct member *members;
    size_t member_count, size;
};

/* What the probes work with, made once. `buffer` has 1 MiB, `managed` 4 MiB, `host` is a page of pinned memory. */
struct bench {
    CUdevice device, peer;
    CUcontext context;
    CUstream stream;
    CUevent event;
    CUdeviceptr buffer, managed;
    char *host;
    CUmodule module;
    CUfunction function;
    CUlibrary library;
    CUkernel kernel;
    CUtexref reference;
    CUmemoryPool pool;
};
extern struct bench bench;
extern const char program_text[];

void add_probe(struct probe probe);

/* Ends the program where a call that is no probe fails. */
#define MUST(call)                                                                             \
    do {                                                                                       \
        CUresult code_ = (call);                                                               \
        if (code_) {                                                                           \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, (int)code_);     \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MEMBER(type, name) {#name, offsetof(type, name), sizeof(((type *)0)->name), 1}
#define ELEMENTS(type, name) \
    {#name, offsetof(type, name), sizeof(((type *)0)->name[0]), COUNT(((type *)0)->name)}

/* A call whose parameter has the value `value`. */
#define PROBE(function_, parameter_)                                                                            \
    static CUresult function_##_##parameter_(uint64_t value);                                                   \
    __attribute__((constructor)) static void add_##function_##_##parameter_(void) {                             \
        add_probe((struct probe){#function_, #parameter_, function_##_##parameter_, 0, 0, 0, 0, 0});            \
    }                                                                                                           \
    static CUresult function_##_##parameter_(uint64_t value)

/* A call with a struct `it`, of which one member has the value. */
#define STRUCT(function_, parameter_, type, members_, fill_)                                                    \
    static CUresult function_##_##parameter_(type *it);                                                         \
    __attribute__((constructor)) static void add_##function_##_##parameter_(void) {                             \
        add_probe((struct probe){#function_, #parameter_, 0, (CUresult(*)(void *))function_##_##parameter_,     \
                                 (void (*)(void *))fill_, members_, COUNT(members_), sizeof(type)});            \
    }                                                                                                           \
    static CUresult function_##_##parameter_(type *it)
