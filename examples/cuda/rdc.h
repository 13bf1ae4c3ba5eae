// Shared declarations of the two units of the program `rdc`: device functions and variables that one defines and the
// other uses. Host functions wrap symbols that only one of them can name.
#pragma once

using Combine = int (*)(int, int);

extern __device__ int shared_counter;  // defined in rdc.cu, counted up by count_call
extern __device__ int table[4];        // defined in rdc_functions.cu
__device__ int polynomial(int x);
__device__ Combine chosen(bool sum);
__device__ void count_call();

void set_coefficients(const int *values);
void launch_double(int *data, int count);
