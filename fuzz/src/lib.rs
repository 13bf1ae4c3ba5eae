//! What the targets that run kernels share: a small device, and a generator of PTX texts.
//! In go bytes of the fuzzer, out come texts, and the memory that kernels leave.
//! Nothing here looks at the clock: runs end after a number of steps.
#![forbid(unsafe_code)]

pub mod device;
pub mod generate;
