// Half precision, vector loads, double precision and carry arithmetic.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void halves(__half2 *out, const __half2 *a, const __nv_bfloat16 *b, float4 *wide) {
    int i = threadIdx.x;
    out[i] = __hfma2(a[i], a[i + 1], __float2half2_rn(1.5f));
    float4 value = wide[i];
    value.x += __bfloat162float(b[i]);
    value.w = fmaf(value.y, value.z, -0.0f);
    wide[i] = value;
}

extern "C" __global__ void doubles(double *out, unsigned long long *big) {
    int i = threadIdx.x;
    out[i] = sin(out[i]) / 3.0 + __dsqrt_rn(out[i + 1]);
    big[i] = __umul64hi(big[i], big[i + 1]) / 7;
    big[i] ^= __brevll(big[i]) + __popcll(big[i]);
}
