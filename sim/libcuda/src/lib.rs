//! The CPU device's libcuda.so.1.
#![allow(unreachable_pub)]

mod simulator;
