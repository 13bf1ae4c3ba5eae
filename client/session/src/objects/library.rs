//! A library: an image the process holds independent of contexts, loaded into a vGPU when it is first used there. It
//! stays where the program keeps it, or the parts for the devices are kept here. So another device, or the same one
//! after a reset, can have it later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{Context, CudaError, CudaResult, Library};
use floe_image::Kernels;
use floe_surface::{Image, JitOptions};

use crate::log::log;
use crate::objects::content::Contents;
use crate::objects::device::DeviceState;
use crate::objects::function::FunctionState;
use crate::objects::kernel::KernelState;
use crate::objects::module::Loaded;
use crate::objects::module::ahead::Ahead;
use crate::objects::module::early::Early;
use crate::objects::module::load::{Seen, is_plain};
use crate::objects::module::posted::kernels_of;
use crate::start::look_of;
use crate::vgpu::Vgpu;
use crate::vgpu::handles::{Handle, Kind};
use floe_lock::lock;

/// One library.
#[derive(Debug)]
pub(crate) struct LibraryState {
    pub(crate) id: u64,
    pub(crate) image: Image<'static>,
    /// The program's wishes for every load of it, on whatever vGPU.
    options: JitOptions,
    /// By the vGPU's ordinal.
    pub(crate) loaded: Mutex<HashMap<u8, Arc<Loaded>>>,
    /// The vGPU its managed variables are on: each is one for all of the process, so the others have none of its kernels.
    only: OnceLock<u8>,
    pub(crate) kernels: Mutex<HashMap<String, Arc<KernelState>>>,
    /// Where libraries are asked for ahead: what was asked for before they came, and what this one looks like.
    early: Option<(Arc<Early>, Seen)>,
    /// It and its kernels, on their way to a vGPU.
    ahead: Mutex<Option<Ahead>>,
    /// What it says of its kernels. Only programs of one vGPU look.
    says: OnceLock<Arc<Kernels>>,
}

impl LibraryState {
    /// An image the process holds, loaded nowhere yet.
    pub(crate) fn new(id: u64, image: Image<'static>, options: JitOptions, early: Option<&Arc<Early>>) -> Self {
        let seen = |early: &Arc<Early>| Seen { start: Arc::clone(&early.start), look: look_of(&image) };
        let early = early.map(|early| (Arc::clone(early), seen(early)));
        Self {
            id,
            image,
            options,
            loaded: Mutex::default(),
            only: OnceLock::new(),
            kernels: Mutex::default(),
            early,
            ahead: Mutex::default(),
            says: OnceLock::new(),
        }
    }

    /// Asks for it and for what earlier starts of the program used of it, which nobody waits for now; it may have been asked for
    /// before it came.
    pub(crate) fn ask_ahead(&self, vgpu: &Arc<Vgpu>) {
        let Some((early, seen)) = &self.early else { return };
        let used = seen.start.used(&seen.look);
        if used.is_empty() {
            return;
        }
        let ask = || -> CudaResult<Ahead> {
            early.advance(vgpu)?;
            let contents = Contents::of(&self.image, vgpu);
            let there = early.take(vgpu, contents.source()).filter(|_| is_plain(&self.options));
            there.map_or_else(|| Ahead::ask(vgpu, contents.source(), &self.options, used), Ok)
        };
        // A failure is the call's that needs it.
        *lock(&self.ahead) = ask().ok();
    }

    /// What was asked for ahead is not needed any more.
    pub(crate) fn give_up_ahead(&self, vgpu: &Arc<Vgpu>) -> CudaResult<()> {
        let ahead = lock(&self.ahead).take();
        ahead.map_or(Ok(()), |ahead| ahead.give_up(vgpu))
    }

    /// What was asked for ahead, if the server has it, with what its compiler said.
    fn arrived(&self, vgpu: &Arc<Vgpu>) -> Option<(Arc<Loaded>, String)> {
        let ahead = lock(&self.ahead).take_if(|ahead| ahead.is_for(vgpu))?;
        let origin = self.seen().map(|seen| seen.origin(ahead.source(), &self.options));
        ahead.arrives(vgpu, origin).ok().flatten()
    }

    /// What it says of its kernels to a vGPU's device.
    pub(crate) fn says(&self, vgpu: &Vgpu) -> Arc<Kernels> {
        Arc::clone(self.says.get_or_init(|| Arc::new(kernels_of(&self.image, vgpu))))
    }

    fn seen(&self) -> Option<&Seen> {
        self.early.as_ref().map(|(_, seen)| seen)
    }

    /// The program's handle of it.
    pub(crate) fn handle(&self) -> Library {
        Library(Handle::new(Kind::Library, 0, self.id).value())
    }

    /// The library on a vGPU, loaded there now if it is not yet.
    pub(crate) fn on(&self, vgpu: &Arc<Vgpu>) -> CudaResult<Arc<Loaded>> {
        self.on_with(vgpu, &mut self.options.without_answers())
    }

    /// The same, with options for the load.
    pub(crate) fn on_with(&self, vgpu: &Arc<Vgpu>, options: &mut JitOptions) -> CudaResult<Arc<Loaded>> {
        self.on_by(vgpu, options, |options| Loaded::load(vgpu, Context::NULL, &self.image, options, self.seen()))
    }

    /// The library on a vGPU, for a variable of it, which is asked for with the load.
    pub(crate) fn on_for_variable(&self, vgpu: &Arc<Vgpu>, name: &str) -> CudaResult<Arc<Loaded>> {
        self.on_by(vgpu, &mut self.options.without_answers(), |options| {
            Loaded::load_for_variable(vgpu, &self.image, options, name, self.seen())
        })
    }

    fn on_by(
        &self,
        vgpu: &Arc<Vgpu>,
        options: &mut JitOptions,
        load: impl FnOnce(&mut JitOptions) -> CudaResult<Arc<Loaded>>,
    ) -> CudaResult<Arc<Loaded>> {
        let mut loaded = lock(&self.loaded);
        if let Some(loaded) = loaded.get(&vgpu.ordinal).filter(|loaded| loaded.is_valid()) {
            return Ok(Arc::clone(loaded));
        }
        self.check_may_be_on(vgpu)?;
        let fresh = match self.arrived(vgpu) {
            Some((arrived, info)) => {
                options.write_error("");
                options.write_info(&info);
                arrived
            }
            None => load(options)?,
        };
        loaded.insert(vgpu.ordinal, Arc::clone(&fresh));
        Ok(fresh)
    }

    /// The same, and on no other from now on.
    pub(crate) fn only_on(&self, vgpu: &Arc<Vgpu>) -> CudaResult<Arc<Loaded>> {
        let only = *self.only.get_or_init(|| vgpu.ordinal);
        let elsewhere = lock(&self.loaded).keys().any(|ordinal| *ordinal != only);
        if elsewhere {
            self.refuse_others(only);
            return Err(CudaError::NOT_SUPPORTED);
        }
        self.on(vgpu)
    }

    fn check_may_be_on(&self, vgpu: &Vgpu) -> CudaResult<()> {
        match self.only.get() {
            Some(only) if *only != vgpu.ordinal => {
                self.refuse_others(*only);
                Err(CudaError::NOT_SUPPORTED)
            }
            _ => Ok(()),
        }
    }

    fn refuse_others(&self, only: u8) {
        log!(
            Warn,
            "a library with managed variables can be used on one vGPU of a process: library {}, device {only}",
            self.id
        );
    }

    /// Its kernel of this name on a device; the library is loaded there with the same question if it is not yet.
    pub(crate) fn function(&self, device: &DeviceState, name: &str) -> CudaResult<Arc<FunctionState>> {
        let (vgpu, known) = (&device.vgpu, &device.objects.functions);
        let mut loaded = lock(&self.loaded);
        if let Some(there) = self.there(&mut loaded, vgpu, |says| says.get(name).is_ok())? {
            drop(loaded);
            return there.function_by(known, name, || self.says(vgpu));
        }
        let options = &mut self.options.without_answers();
        let (fresh, function) = Loaded::load_for(vgpu, known, &self.image, options, name, self.seen())?;
        loaded.insert(vgpu.ordinal, fresh);
        function
    }

    /// The library as a module of a vGPU.
    pub(crate) fn module(&self, vgpu: &Arc<Vgpu>) -> CudaResult<Arc<Loaded>> {
        let there = self.there(&mut lock(&self.loaded), vgpu, |says| !says.is_empty())?;
        let there = there.map_or_else(|| self.on(vgpu), Ok)?;
        there.describe(|| self.says(vgpu));
        Ok(there)
    }

    /// The library on a vGPU, if it is there, was asked for ahead, or may be on its way by what it says of its kernels.
    fn there(
        &self,
        loaded: &mut HashMap<u8, Arc<Loaded>>,
        vgpu: &Arc<Vgpu>,
        is_enough: impl FnOnce(&Kernels) -> bool,
    ) -> CudaResult<Option<Arc<Loaded>>> {
        let before = loaded.get(&vgpu.ordinal).cloned();
        if before.as_ref().is_some_and(|there| there.is_valid()) {
            return Ok(before);
        }
        self.check_may_be_on(vgpu)?;
        let has_failed = before.is_some_and(|before| before.has_failed());
        let arrived = match self.arrived(vgpu) {
            Some((arrived, _)) => Some(arrived),
            // One that has failed so is loaded in a way that says why.
            None if !has_failed && is_plain(&self.options) && is_enough(&self.says(vgpu)) => {
                Loaded::post(vgpu, &self.image, self.seen())?
            }
            None => None,
        };
        if let Some(arrived) = &arrived {
            loaded.insert(vgpu.ordinal, Arc::clone(arrived));
        }
        Ok(arrived)
    }
}
