//! The answers of one vGPU's server about how kernels fit it. Questions come in, answers go out while nothing they
//! depend on has changed. It asks nobody.

use std::collections::{HashMap, HashSet};

use crate::vgpu::attributes::Attributes;

/// Values of the attributes that are set without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Settings(pub(crate) [i32; 3]);

/// The answers of one vGPU's server about how kernels fit. All of it depends on the kernels' attributes.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    pub(crate) blocks: HashMap<BlocksQuestion, i64>,
    pub(crate) clusters: HashMap<ClusterQuestion, i32>,
    /// Launches with clusters that the device has taken once.
    pub(crate) accepted: HashSet<ClusterLaunch>,
}

impl Occupancy {
    /// Forgets everything: something has changed that is not among a kernel's [`Settings`].
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// One question about blocks: the kernel, how it is set, and two numbers and flags that say what is asked.
pub(crate) type BlocksQuestion = (u64, Settings, i32, u64, u32);

/// One question about clusters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClusterQuestion {
    pub(crate) what: u32,
    pub(crate) kernel: u64,
    pub(crate) settings: Settings,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) attributes: Attributes,
}

/// The facts that decide whether the device takes a launch with clusters, if the grid is made of whole clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClusterLaunch {
    pub(crate) kernel: u64,
    pub(crate) settings: Settings,
    pub(crate) cluster: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}
