//! The CPU device's libcuda.so.1.
