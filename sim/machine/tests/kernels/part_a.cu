// One of two modules that are linked: calls and reads what the other defines.
extern __device__ int shared_counter;
extern __device__ int scale(int x);
extern __constant__ int offsets[4];
__device__ int own = 7;
extern "C" __global__ void across(int *out) {
    out[threadIdx.x] = scale(threadIdx.x) + offsets[threadIdx.x & 3] + own;
    atomicAdd(&shared_counter, 1);
}
