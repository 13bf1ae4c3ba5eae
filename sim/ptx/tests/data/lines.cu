// Compiled with -G and with -lineinfo: .file, .loc with inlined_at, .section.
__device__ int square(int x) { return x * x; }

extern "C" __global__ void lines(int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = square(i);
}
