//! What measures floe: programs natively and through floe in one run (`floe-bench`), and what the way to a GPU costs
//! (`floe bench link`).
//! In: an installation, a device. Out: tables on stdout; JSON and pictures where files are named. It needs no Rust, no
//! network and no repository, so that it can be carried.
#![forbid(unsafe_code)]

mod bars;
mod checks;
mod compare;
pub mod frameworks;
mod installation;
mod libraries;
mod line;
pub mod link;
mod machine;
mod memory;
mod plot;
mod program;
mod record;
mod rounds;
mod series;
mod server;
pub mod speed;
mod table;
mod together;
mod turns;
mod variants;
mod workload;
