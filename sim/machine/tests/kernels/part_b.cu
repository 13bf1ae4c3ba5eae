// The other module.
__device__ int shared_counter = 40;
__constant__ int offsets[4] = {1000, 2000, 3000, 4000};
static __device__ int own = 3;
__device__ int scale(int x) { return own * x; }
