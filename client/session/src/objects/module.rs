//! A module: an image loaded into one vGPU, its functions and globals. Names come in, what they mean goes out. The image is
//! forgotten when it is loaded; names are asked once.

pub(crate) mod ahead;
mod asking;
pub(crate) mod early;
pub(crate) mod load;
pub(crate) mod posted;
pub(crate) mod record;

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, Module};
use floe_image::Kernels;
use floe_wire::{Call, FindGlobal, FindKernel, KernelId, LibraryId, ListKernels, UnloadLibrary};

use crate::log::log;
use crate::objects::function::FunctionState;
use crate::objects::module::posted::Loading;
use crate::start::Origin;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::{Answer, Connection, Ticket};
use crate::vgpu::handles::{Handle, Kind};
use crate::vgpu::table::{Table, lock};

/// A global variable.
#[derive(Debug, Clone, Copy)]
struct Global {
    at: u64,
    bytes: u64,
    is_managed: bool,
}

/// The outcome of a look-up.
pub(crate) type Found = CudaResult<Arc<FunctionState>>;

/// An image in the server's memory, for one vGPU.
#[derive(Debug)]
pub(crate) struct Loaded {
    vgpu: Arc<Vgpu>,
    id: u64,
    context: Context,
    epoch: u64,
    /// One thread at a time asks for a function.
    asking: Mutex<()>,
    functions: Mutex<HashMap<String, Arc<FunctionState>>>,
    globals: Mutex<HashMap<String, Global>>,
    names: OnceLock<Vec<String>>,
    /// Its load, where nobody has waited for that.
    loading: Option<Arc<Loading>>,
    /// What its image says of its kernels, where that is looked at.
    kernels: OnceLock<Arc<Kernels>>,
    /// What was asked for with it.
    ahead: Mutex<Expected>,
    /// What notes that the program uses it.
    origin: Option<Origin>,
}

/// What was asked for with a library, by name: kernels with their ids, and variables.
#[derive(Debug, Default)]
struct Expected {
    kernels: HashMap<String, (u64, Coming)>,
    variables: HashMap<String, Coming>,
}

/// An answer that was asked for, or is here already.
#[derive(Debug)]
enum Coming {
    Asked(Ticket),
    Here(Answer),
}

impl Coming {
    /// The answer, waited for where it is not here.
    fn arrives(self, connection: &Connection) -> CudaResult<Answer> {
        match self {
            Self::Asked(ticket) => connection.arrived(&ticket),
            Self::Here(answer) => Ok(answer),
        }
    }

    /// Whether nobody need wait for it.
    fn is_here(&self) -> bool {
        match self {
            Self::Asked(ticket) => ticket.is_answered(),
            Self::Here(_) => true,
        }
    }
}

impl Loaded {
    fn new(vgpu: &Arc<Vgpu>, context: Context, id: u64) -> Self {
        Self {
            vgpu: Arc::clone(vgpu),
            id,
            context,
            epoch: vgpu.epoch(),
            asking: Mutex::default(),
            functions: Mutex::default(),
            globals: Mutex::default(),
            names: OnceLock::new(),
            loading: None,
            kernels: OnceLock::new(),
            ahead: Mutex::default(),
            origin: None,
        }
    }

    /// The function an answer describes, known by its name and among `known` from now on.
    fn found(self: &Arc<Self>, known: &Table<FunctionState>, name: &str, id: u64, answer: Answer) -> Found {
        let answer = Connection::judge(answer)?;
        let reply = self.vgpu.connection.read(FindKernel::decode_reply(&answer.body))?;
        let function = FunctionState::new(&self.vgpu, self.handle(), id, name, &reply, self.origin.clone());
        Ok(self.keep(known, name, Arc::new(function)))
    }

    /// A function of it, known by its name and among `known` from now on.
    fn keep(&self, known: &Table<FunctionState>, name: &str, function: Arc<FunctionState>) -> Arc<FunctionState> {
        if let Some(origin) = &self.origin {
            origin.found(name);
        }
        known.insert(function.id(), Arc::clone(&function));
        lock(&self.functions).insert(name.to_owned(), Arc::clone(&function));
        function
    }

    /// The program's handle of it.
    pub(crate) fn handle(&self) -> Module {
        Module(Handle::new(Kind::Module, self.vgpu.ordinal, self.id).value())
    }

    /// Its id on the wire.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The same as messages name it.
    pub(crate) fn library(&self) -> LibraryId {
        LibraryId(self.id)
    }

    /// Its context's handle.
    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// Whether the server still has it, as far as it has answered.
    pub(crate) fn is_valid(&self) -> bool {
        self.is_of_now() && !self.has_failed()
    }

    /// Whether it was loaded since the last reset.
    fn is_of_now(&self) -> bool {
        self.epoch == self.vgpu.epoch()
    }

    /// Whether its load, which nobody has waited for, is known to have failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.loading.as_ref().is_some_and(|loading| loading.has_failed(&self.vgpu.connection))
    }

    /// Gives it up, with its globals and its functions, which are `known` no more.
    pub(crate) fn unload(&self, known: &Table<FunctionState>) -> CudaResult<()> {
        if !self.is_of_now() {
            return Ok(());
        }
        let vgpu = &self.vgpu;
        for function in lock(&self.functions).values() {
            known.remove(function.id());
        }
        let mut globals = floe_lock::write(&vgpu.globals);
        for global in lock(&self.globals).values() {
            globals.remove(&global.at);
            vgpu.forget_variable(global.at);
        }
        drop(globals);
        // The driver's unload waits for the GPU and would hold the issuer up, also for what a host function needs.
        let _none_comes = vgpu.outlast_functions()?;
        if vgpu.is_held() {
            vgpu.synchronize()?;
        }
        vgpu.connection.post(&UnloadLibrary { library: self.library() })?;
        Ok(())
    }

    /// Its kernel of this name, which is `known` by its id from now on.
    ///
    /// # Errors
    /// NOT_FOUND where it has none.
    pub(crate) fn function(self: &Arc<Self>, known: &Table<FunctionState>, name: &str) -> Found {
        self.function_by(known, name, Arc::default)
    }

    /// The same, where its image is looked at if nobody has asked for the kernel.
    pub(crate) fn function_by(
        self: &Arc<Self>,
        known: &Table<FunctionState>,
        name: &str,
        says: impl FnOnce() -> Arc<Kernels>,
    ) -> Found {
        // The lock is held over the question, so that two threads that ask for one name get one function.
        let _asking = lock(&self.asking);
        if let Some(function) = lock(&self.functions).get(name).filter(|function| function.is_usable()) {
            return Ok(Arc::clone(function));
        }
        let vgpu = &self.vgpu;
        vgpu.errors.check()?;
        let ahead = lock(&self.ahead).kernels.remove(name);
        if let Some((id, coming)) = ahead {
            let answer = coming.arrives(&vgpu.connection)?;
            if answer.status == 0 {
                return self.found(known, name, id, answer);
            }
        }
        self.describe(says);
        // Once: what the server has refused is asked again in a way that says why.
        if !lock(&self.functions).contains_key(name)
            && let Some(posted) = self.post_look_up(known, name)
        {
            return posted;
        }
        let id = vgpu.next_id();
        let answer = vgpu.connection.ask(&FindKernel { library: self.library(), name, kernel: KernelId(id) })?;
        self.found(known, name, id, answer)
    }

    /// Its kernels of these names, for one wait.
    ///
    /// # Errors
    /// NOT_FOUND if one does not exist.
    pub(crate) fn functions(
        self: &Arc<Self>,
        known: &Table<FunctionState>,
        names: &[String],
    ) -> CudaResult<Vec<Arc<FunctionState>>> {
        let connection = &self.vgpu.connection;
        let asking = lock(&self.asking);
        self.vgpu.errors.check()?;
        let unknown: Vec<&String> = {
            let functions = lock(&self.functions);
            names.iter().filter(|name| !functions.contains_key(*name)).collect()
        };
        let mut tickets = Vec::with_capacity(unknown.len());
        for name in unknown {
            let id = self.vgpu.next_id();
            let message = FindKernel { library: self.library(), name, kernel: KernelId(id) };
            tickets.push((name, id, connection.begin(&message)?));
        }
        connection.flush()?;
        for (name, id, ticket) in tickets {
            self.found(known, name, id, connection.answer(&ticket)?)?;
        }
        drop(asking);
        names.iter().map(|name| self.function(known, name)).collect()
    }

    /// Address and bytes of its global variable of this name.
    pub(crate) fn global(&self, name: &str) -> CudaResult<(u64, u64)> {
        let mut globals = lock(&self.globals);
        if let Some(found) = globals.get(name) {
            return Ok((found.at, found.bytes));
        }
        let vgpu = &self.vgpu;
        vgpu.errors.check()?;
        let ahead = lock(&self.ahead).variables.remove(name);
        let ahead = ahead.map(|coming| coming.arrives(&vgpu.connection)).transpose()?;
        let answer = match ahead.filter(|answer| answer.status == 0) {
            Some(answer) => answer,
            None => vgpu.call(&FindGlobal { library: self.library(), name })?,
        };
        let reply = vgpu.connection.read(FindGlobal::decode_reply(&answer.body))?;
        let found = (reply.at.0, reply.bytes);
        if found.0.checked_add(found.1).is_none() {
            log!(Error, "the server gave a variable an address that cannot be: {name}: {:#x}", found.0);
            return Err(CudaError::UNKNOWN);
        }
        globals.insert(name.to_owned(), Global { at: found.0, bytes: found.1, is_managed: reply.managed });
        floe_lock::write(&vgpu.globals).insert(found.0, found.1);
        if let Some(origin) = &self.origin {
            origin.found_variable(name);
        }
        Ok(found)
    }

    /// Whether the global variable of this name, which was asked for, is managed memory.
    pub(crate) fn is_managed(&self, name: &str) -> bool {
        lock(&self.globals).get(name).is_some_and(|global| global.is_managed)
    }

    /// The names of its kernels.
    pub(crate) fn names(&self) -> CudaResult<&[String]> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let answer = self.vgpu.call(&ListKernels { library: self.library() })?;
        let reply = self.vgpu.connection.read(ListKernels::decode_reply(&answer.body))?;
        let names = reply.names.iter().map(|name| (*name).to_owned()).collect();
        Ok(self.names.get_or_init(|| names))
    }

    /// Its vGPU.
    pub(crate) fn vgpu(&self) -> &Arc<Vgpu> {
        &self.vgpu
    }
}

/// A name as the wire has names; one that is not UTF-8 is no kernel's or variable's.
pub(crate) fn name_of(name: &CStr) -> CudaResult<&str> {
    match name.to_str() {
        Ok("") => Err(CudaError::INVALID_VALUE),
        Ok(name) => Ok(name),
        Err(_) => Err(CudaError::NOT_FOUND),
    }
}

/// Address and size as the program reads them.
pub(crate) fn as_pair((at, bytes): (u64, u64)) -> CudaResult<(DevicePtr, usize)> {
    let bytes = usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)?;
    Ok((DevicePtr(at), bytes))
}
