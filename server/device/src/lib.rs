//! The CUDA driver API as a typed library, loaded from the libcuda.so.1 one names.
