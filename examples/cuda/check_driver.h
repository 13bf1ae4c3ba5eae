// The same as check.h for programs that call the driver API themselves.
#pragma once

#include "check.h"

#include <cuda.h>

// Ends the program with exit code 1 when a driver call fails, saying which call, where, and why.
#define CHECK_DRIVER(call)                                                                                 \
    do {                                                                                                   \
        const CUresult check_status = (call);                                                              \
        if (check_status != CUDA_SUCCESS) {                                                                \
            const char *check_name = nullptr;                                                              \
            cuGetErrorName(check_status, &check_name);                                                     \
            std::fprintf(stderr, "%s:%d: %s gave %d %s\n", __FILE__, __LINE__, #call,                      \
                         static_cast<int>(check_status), check_name ? check_name : "?");                   \
            std::printf("FAILED\n");                                                                       \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (0)

// Whether a driver call gave the code that it should; prints what it gave where it did not.
inline bool says(CUresult got, CUresult want, const char *what, Verdict &verdict) {
    if (got != want) std::printf("  %s: %d instead of %d\n", what, static_cast<int>(got), static_cast<int>(want));
    return verdict.expect(got == want, what);
}
