// A kernel that prints and one that only asserts, each where its macro is set.
#include <cassert>
#include <cstdio>

extern "C" __global__ void says(const int *value) {
#ifdef PRINTS
    printf("a value\n");
#else
    assert(*value == 1);
#endif
}
