//! Module to running warps: lowering, execution, memory.
