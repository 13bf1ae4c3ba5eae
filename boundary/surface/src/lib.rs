//! The CUDA driver API as C sees it: exported symbols, version look-up, hidden tables; turned into typed Rust calls.
