//! A library and its kernels that are asked for before the program needs them. An image and names come in; what the server has of
//! them goes out when it is needed. Nothing waits for an answer before that, and nothing is sent but questions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use floe_abi::{Context, CudaResult};
use floe_surface::{Image, JitOptions};
use floe_wire::{Call, FindKernel, KernelId, LibraryId, LoadLibrary};

use super::Loaded;
use super::load::{forget, load_message};
use crate::objects::content::Contents;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::Ticket;

/// A library that a vGPU's server was asked to load.
#[derive(Debug)]
pub(crate) struct Ahead {
    ordinal: u8,
    epoch: u64,
    id: u64,
    contents: usize,
    loading: Ticket,
    kernels: HashMap<String, (u64, Ticket)>,
}

impl Ahead {
    /// Asks for a library and kernels of it.
    pub(crate) fn ask(vgpu: &Arc<Vgpu>, image: &Image<'_>, options: &JitOptions, names: &[&str]) -> CudaResult<Self> {
        let contents = Contents::of(image, vgpu);
        let (connection, id) = (&vgpu.connection, vgpu.next_id());
        let loading = connection.begin(&load_message(id, &contents, Context::NULL, options))?;
        let mut kernels = HashMap::new();
        for name in names {
            let kernel = vgpu.next_id();
            let message = FindKernel { library: LibraryId(id), name, kernel: KernelId(kernel) };
            kernels.insert((*name).to_owned(), (kernel, connection.begin(&message)?));
        }
        Ok(Self { ordinal: vgpu.ordinal, epoch: vgpu.epoch(), id, contents: contents.count(), loading, kernels })
    }

    /// Whether it is of this vGPU, since its last reset.
    pub(crate) fn is_for(&self, vgpu: &Vgpu) -> bool {
        self.ordinal == vgpu.ordinal && self.epoch == vgpu.epoch()
    }

    /// It is not needed any more.
    pub(crate) fn give_up(self, vgpu: &Arc<Vgpu>) -> CudaResult<()> {
        if self.is_for(vgpu) { forget(vgpu, self.id) } else { Ok(()) }
    }

    /// The library; `None` where the server lacks contents of it, or does not load it: then it is loaded as ever.
    pub(crate) fn arrives(self, vgpu: &Arc<Vgpu>) -> CudaResult<Option<Arc<Loaded>>> {
        let answer = vgpu.connection.arrived(&self.loading)?;
        let is_loaded = answer.status == 0 && {
            let reply = vgpu.connection.read(LoadLibrary::decode_reply(&answer.body))?;
            reply.missing.is_empty()
        };
        if !is_loaded {
            forget(vgpu, self.id)?;
            return Ok(None);
        }
        vgpu.statistics.knew_contents(self.contents);
        let loaded =
            Loaded { epoch: self.epoch, ahead: Mutex::new(self.kernels), ..Loaded::new(vgpu, Context::NULL, self.id) };
        Ok(Some(Arc::new(loaded)))
    }
}
