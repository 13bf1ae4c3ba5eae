//! What the driver has made: blocks, graphs and instances, with their handles.
//! In: nothing. Out: types. It calls nothing.

use std::ptr::null_mut;

use cudarc::driver::sys;

use crate::operation::{Id, Kind};

/// Where a block is.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) kind: Kind,
    pub(super) vgpu: usize,
    /// As kernels of its vGPU name it.
    pub(super) address: u64,
    /// As the host names it; 0 where it does not.
    pub(super) host: u64,
    pub(super) width: usize,
    pub(super) height: usize,
    /// Bytes from row to row.
    pub(super) pitch: usize,
    pub(super) array: sys::CUarray,
    pub(super) texture: sys::CUtexObject,
    pub(super) surface: sys::CUsurfObject,
    pub(super) module: sys::CUmodule,
    pub(super) handle: u64,
    pub(super) reserved: usize,
    pub(super) is_registered: bool,
    /// Another process has allocated it.
    pub(super) is_opened: bool,
    /// The memory of a pageable block.
    pub(super) own: Vec<u8>,
}

impl Held {
    pub(super) fn new(kind: Kind, vgpu: usize, width: usize, height: usize) -> Self {
        let (array, module, own) = (null_mut(), null_mut(), Vec::new());
        let (address, host, pitch, texture, surface, handle, reserved) = (0, 0, width, 0, 0, 0, 0);
        let is_registered = false;
        Self {
            kind,
            vgpu,
            address,
            host,
            width,
            height,
            pitch,
            array,
            texture,
            surface,
            module,
            handle,
            reserved,
            is_registered,
            is_opened: false,
            own,
        }
    }

    /// Bytes from its beginning to an offset of the model's.
    pub(super) fn distance(&self, offset: usize) -> u64 {
        let bytes =
            if self.kind == Kind::Pitched { offset / self.width * self.pitch + offset % self.width } else { offset };
        u64::try_from(bytes).expect("a usize has at most 64 bits")
    }

    pub(super) fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Pageable | Kind::Pinned { .. })
    }
}

/// A graph.
pub(super) struct Made {
    pub(super) vgpu: usize,
    pub(super) graph: sys::CUgraph,
    /// Those of a graph that is built by hand.
    pub(super) nodes: Vec<sys::CUgraphNode>,
}

/// An instance of a graph.
pub(super) struct Instance {
    pub(super) vgpu: usize,
    pub(super) instance: sys::CUgraphExec,
    pub(super) graph: Id,
}
