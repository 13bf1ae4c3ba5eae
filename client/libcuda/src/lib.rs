//! The client's libcuda.so.1.
