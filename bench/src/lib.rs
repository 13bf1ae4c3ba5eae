//! Benchmarks of floe: programs natively and through floe in one run (`floe-bench`), and the cost of the link to a GPU
//! (`floe bench link`).
//! In: an installation, a device. Out: tables on stdout; JSON and pictures where files are named. It needs no Rust, no
//! network and no repository, so that it can be carried.
#![forbid(unsafe_code)]

mod bars;
pub mod conformance;
pub mod frameworks;
mod installation;
pub mod link;
mod machine;
pub mod moves;
mod moving;
mod program;
mod server;
pub mod shares;
pub mod speed;
