//! Look-ups that nobody waits for (`--far`): in the image the client sees what a launch needs to know of a kernel, so it names the
//! kernel and goes on. An image and names come in; loads and look-ups go out, each with a ticket for what the server says of it.
//! Where the image does not say for certain what a driver would, nothing is posted.

use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{Context, CudaError, CudaResult};
use floe_image::{Kernels, Limits, Takes};
use floe_surface::{Image, JitOptions};
use floe_wire::{FindKernel, KernelId};

use super::load::{Seen, load_message, refused};
use super::{Found, Loaded};
use crate::log::log;
use crate::objects::content::Contents;
use crate::objects::function::FunctionState;
use crate::objects::function::expected::{Bounds, Expected};
use crate::vgpu::Vgpu;
use crate::vgpu::connection::{Connection, Ticket};
use crate::vgpu::table::Table;
use floe_lock::lock;

/// Images that are looked into: bytes as they are, and of the code in them, expanded. To expand more takes longer than an answer.
const LIMITS: Limits = Limits { image_bytes: 4 << 20, entry_bytes: 16 << 20, entries: 4096 };

/// What a vGPU's device finds in an image, by a look into it, once.
pub(crate) fn kernels_of(image: &Image<'_>, vgpu: &Vgpu) -> Kernels {
    let Takes::MachineCode(device) = vgpu.takes else { return Kernels::default() };
    if !vgpu.far.is_on() || image.size() > LIMITS.image_bytes as u64 {
        return Kernels::default();
    }
    Kernels::of(image, device, &LIMITS).unwrap_or_else(|why| {
        log!(Debug, "kernels of an image are waited for (--far): {} bytes: {why}", image.size());
        Kernels::default()
    })
}

/// A load that nobody has waited for.
#[derive(Debug)]
pub(crate) struct Loading {
    ticket: Mutex<Option<Ticket>>,
    outcome: OnceLock<CudaResult<()>>,
}

impl Loading {
    fn of(ticket: Ticket) -> Arc<Self> {
        Arc::new(Self { ticket: Mutex::new(Some(ticket)), outcome: OnceLock::new() })
    }

    /// How it ended, waited for where the answer is not here.
    pub(crate) fn outcome(&self, connection: &Connection) -> CudaResult<()> {
        *self.outcome.get_or_init(|| {
            let Some(ticket) = lock(&self.ticket).take() else { return Err(CudaError::UNKNOWN) };
            let answer = connection.arrived(&ticket)?;
            match CudaError::from_code(answer.status) {
                Some(error) => Err(refused(error, &answer.detail, &mut JitOptions::none())),
                None => Ok(()),
            }
        })
    }

    /// Whether it is known to have failed. Then its id stays a failure at the server, as those of its kernels do.
    pub(crate) fn has_failed(&self, connection: &Connection) -> bool {
        let is_here = lock(&self.ticket).as_ref().is_none_or(Ticket::is_answered);
        is_here && self.outcome(connection).is_err()
    }
}

impl Loaded {
    /// Posts the load of an image, with its contents; `None` where the server may have to say something first.
    pub(crate) fn post(vgpu: &Arc<Vgpu>, image: &Image<'_>, seen: Option<&Seen>) -> CudaResult<Option<Arc<Self>>> {
        vgpu.errors.report()?;
        let contents = Contents::of(image, vgpu);
        let unasked = contents.unasked(vgpu);
        if unasked.len() != contents.count() {
            return Ok(None);
        }
        let (id, options) = (vgpu.next_id(), JitOptions::none());
        contents.send(vgpu, id, &unasked)?;
        let loading = vgpu.connection.ask_early(&load_message(id, contents.source(), Context::NULL, &options))?;
        let origin = seen.map(|seen| seen.origin(contents.source(), &options));
        let loading = Some(Loading::of(loading));
        Ok(Some(Arc::new(Self { origin, loading, ..Self::new(vgpu, Context::NULL, id) })))
    }

    /// Has kernels looked up without waiting, as far as its image describes them.
    pub(crate) fn describe(&self, kernels: impl FnOnce() -> Arc<Kernels>) {
        if self.vgpu.far.is_on() {
            self.kernels.get_or_init(kernels);
        }
    }

    /// Posts the look-up of a kernel, which is `known` from then on; `None` where that is to be waited for.
    pub(super) fn post_look_up(self: &Arc<Self>, known: &Table<FunctionState>, name: &str) -> Option<Found> {
        let facts = match self.kernels.get()?.get(name) {
            Ok(facts) => facts,
            Err(why) => {
                log!(Debug, "a look-up waits (--far): {name}: {why}");
                return None;
            }
        };
        let (vgpu, id) = (&self.vgpu, self.vgpu.next_id());
        let bounds = Bounds::of(facts, vgpu);
        let message = FindKernel { library: self.library(), name, kernel: KernelId(id) };
        let asked = vgpu.connection.ask_foretold(&message, bounds.check_of(name));
        Some(asked.map(|ticket| {
            let expected = Expected::of(ticket, self.loading.clone());
            let origin = self.origin.clone();
            let function = FunctionState::posted(vgpu, self.handle(), id, name, &bounds, expected, origin);
            self.keep(known, name, Arc::new(function))
        }))
    }
}
