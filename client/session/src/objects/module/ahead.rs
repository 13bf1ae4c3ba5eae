//! A library and what a start used of it, asked for before the program needs it. A source and names come in; what the server has of
//! them goes out when it is needed. Nothing waits for an answer before that. Kernels are set for questions about them, and set
//! back, before the program has them.

use std::sync::{Arc, Mutex};

use floe_abi::{Context, CudaResult};
use floe_surface::JitOptions;
use floe_wire::{Call, FindGlobal, FindKernel, KernelId, LibraryId, LoadLibrary};

use super::load::{forget, load_message};
use super::{Coming, Expected, Loaded, asking};
use crate::objects::module::record::{Questions, Source, Used};
use crate::start::Origin;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::Ticket;

/// A library that a vGPU's server was asked to load.
#[derive(Debug)]
pub(crate) struct Ahead {
    ordinal: u8,
    epoch: u64,
    id: u64,
    source: Source,
    loading: Ticket,
    expected: Expected,
    /// What is asked about kernels as soon as they are there.
    questions: Vec<(String, Questions)>,
}

impl Ahead {
    /// Asks for a library, and for what was used of it.
    pub(crate) fn ask(vgpu: &Arc<Vgpu>, source: &Source, options: &JitOptions, used: Used) -> CudaResult<Self> {
        let (connection, id) = (&vgpu.connection, vgpu.next_id());
        let library = LibraryId(id);
        let loading = connection.ask_early(&load_message(id, source, Context::NULL, options))?;
        let (mut expected, mut questions) = (Expected::default(), Vec::new());
        for (name, asked) in used.kernels {
            let kernel = vgpu.next_id();
            let ticket = connection.ask_early(&FindKernel { library, name: &name, kernel: KernelId(kernel) })?;
            expected.kernels.insert(name.clone(), (kernel, Coming::Asked(ticket)));
            if !asked.is_empty() {
                questions.push((name, asked));
            }
        }
        for name in used.variables {
            let ticket = connection.ask_early(&FindGlobal { library, name: &name })?;
            expected.variables.insert(name, Coming::Asked(ticket));
        }
        let (ordinal, epoch) = (vgpu.ordinal, vgpu.epoch());
        Ok(Self { ordinal, epoch, id, source: source.clone(), loading, expected, questions })
    }

    /// Whether it is of this vGPU, since its last reset.
    pub(crate) fn is_for(&self, vgpu: &Vgpu) -> bool {
        self.ordinal == vgpu.ordinal && self.epoch == vgpu.epoch()
    }

    /// Its id on the wire.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// By what the server knows it.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// It is not needed any more.
    pub(crate) fn give_up(self, vgpu: &Arc<Vgpu>) -> CudaResult<()> {
        if self.is_for(vgpu) { forget(vgpu, self.id) } else { Ok(()) }
    }

    /// Asks about the kernels if all of those are there.
    pub(crate) fn advance(&mut self, vgpu: &Arc<Vgpu>) -> CudaResult<()> {
        let is_here = |(name, _): &(String, Questions)| {
            self.expected.kernels.get(name).is_none_or(|(_, coming)| coming.is_here())
        };
        if self.questions.iter().all(is_here) { self.ask_about_kernels(vgpu) } else { Ok(()) }
    }

    /// Asks about the kernels. This has to be before the program has one of them.
    fn ask_about_kernels(&mut self, vgpu: &Arc<Vgpu>) -> CudaResult<()> {
        for (name, questions) in std::mem::take(&mut self.questions) {
            let Some((id, coming)) = self.expected.kernels.remove(&name) else { continue };
            let answer = coming.arrives(&vgpu.connection)?;
            if answer.status == 0 {
                let found = vgpu.connection.read(FindKernel::decode_reply(&answer.body))?;
                asking::ask(vgpu, id, &found.attributes, questions)?;
            }
            self.expected.kernels.insert(name, (id, Coming::Here(answer)));
        }
        Ok(())
    }

    /// The library, with what the server's compiler said; `None` where the server lacks contents of it, or does not load it: then
    /// it is loaded as ever.
    pub(crate) fn arrives(
        mut self,
        vgpu: &Arc<Vgpu>,
        origin: Option<Origin>,
    ) -> CudaResult<Option<(Arc<Loaded>, String)>> {
        let answer = vgpu.connection.arrived(&self.loading)?;
        let info = if answer.status == 0 {
            let reply = vgpu.connection.read(LoadLibrary::decode_reply(&answer.body))?;
            reply.missing.is_empty().then(|| reply.info.to_owned())
        } else {
            None
        };
        let Some(info) = info else {
            forget(vgpu, self.id)?;
            return Ok(None);
        };
        self.ask_about_kernels(vgpu)?;
        vgpu.statistics.knew_contents(self.source.contents.len());
        let loaded = Loaded {
            epoch: self.epoch,
            ahead: Mutex::new(self.expected),
            origin,
            ..Loaded::new(vgpu, Context::NULL, self.id)
        };
        Ok(Some((Arc::new(loaded), info)))
    }
}
