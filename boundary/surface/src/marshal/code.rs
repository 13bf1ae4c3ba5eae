//! Marshallers of the nouns about device code: kernels, modules, libraries, links, launches and occupancy. It only lists them.

pub mod kernel;
pub mod launch;
pub mod library;
pub mod link;
pub mod module;
pub mod occupancy;
