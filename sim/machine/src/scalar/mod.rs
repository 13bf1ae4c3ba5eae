//! The arithmetic of one lane: typed bits of the operands come in, typed bits of the result go out.
//! Every function is pure, small and `#[inline(always)]`, so that the loops over 32 lanes that call it are vectorised
//! once per instruction set. Results are the same bits on every instruction set.
//! Nothing here knows registers, memory, warps or instructions' text, and nothing here is unsafe.
//!
//! Conventions shared by all files:
//!
//! - 16-bit floats travel as `u16` bits, pairs of them as `u32`; the low half is element 0.
//! - A rounding mode is a type ([`Rn`], [`Rz`], [`Rm`], [`Rp`]); `.ftz`, `.sat`, `.relu` and `.NaN` are
//!   `const` booleans. All of them vanish at compile time.
//! - A NaN made by f32, f16 or bf16 arithmetic is the canonical one (`0x7fffffff`, `0x7fff`), as GPUs make it.
//!   Arithmetic of f64 makes a NaN operand quiet and keeps its payload. Of several it takes the host's choice, which may
//!   differ from a GPU's.
//! - All functions were compared with an H200 over 524 instruction forms, conversions of 8-bit floats at their edges with an H100. Apart from the choice among several f64 NaN,
//!   exact instructions agree bit for bit. Approximate ones agree within 2 ulp where hardware keeps to its documented
//!   error.
//! - If the ISA leaves a result open, the function's comment states the choice.
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lane arithmetic is modular: dropping bits and reinterpreting signs is what the instructions do"
)]

pub mod atomic;
pub mod bits;
pub mod carry;
pub mod compare;
pub mod convert;
pub mod double;
pub mod float;
pub mod fp8;
pub mod half;
pub mod int;
pub mod operand;
pub mod order;
pub mod packed;
pub mod round;
pub mod soft;
pub mod transcend;

#[cfg(test)]
mod exact;

pub use compare::{CompareOp, Comparison};
pub use half::{Bf16, F16, HalfFormat};
pub use operand::Int;
pub use round::{Mode, Rm, Rn, Round, Rp, Rz};

/// The NaN that f32 instructions produce.
pub const NAN_F32: f32 = f32::from_bits(0x7fff_ffff);

/// The NaN that f16 and bf16 instructions produce (the same bits in both formats).
pub const NAN_HALF: u16 = 0x7fff;
