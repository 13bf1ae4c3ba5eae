// The smallest kernels with something to tell apart: scalar, pointer, struct and wide parameters; a constant table.
struct Pair {
    double weight;
    int count;
};

__constant__ float table[64] = {1, 2, 3};

extern "C" __global__ void sums(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] + table[i & 63];
}

extern "C" __global__ void mixed(char flag, Pair pair, short *out, unsigned long long big, char last) {
    out[threadIdx.x] = flag + pair.count + (short)pair.weight + (short)big + last;
}

extern "C" __global__ void nothing() {}
