//! Shared parts of the targets that run kernels: a small device, and a generator of PTX texts. Bytes of the fuzzer go
//! in; texts, and the memory that kernels leave, come out. Nothing here looks at the clock: runs end after a number of
//! steps.
#![forbid(unsafe_code)]

pub mod device;
pub mod generate;
