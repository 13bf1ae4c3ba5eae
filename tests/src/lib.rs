//! Whole-system tests: ordinary CUDA programs, faults, golden bytes.
