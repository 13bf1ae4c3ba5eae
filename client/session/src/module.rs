//! Modules: an image loaded into one vGPU, its functions and globals. Handles and names come in, what they mean goes out.
//! The image is forgotten when it is loaded; names are asked once.

pub(crate) mod load;

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, Function, Module};
use floe_surface::{Image, JitOptions, ModuleCalls};
use floe_wire::{Call, FindGlobal, FindKernel, KernelId, LibraryId, ListKernels, UnloadLibrary};

use crate::client::Client;
use crate::connection::{Answer, Connection};
use crate::handles::{Handle, Kind};
use crate::kernel::FunctionState;
use crate::log::log;
use crate::session::Session;
use crate::table::lock;

/// CU_MODULE_EAGER_LOADING.
const EAGER: u32 = 1;
/// CU_MODULE_LAZY_LOADING.
const LAZY: u32 = 2;

/// A global variable.
#[derive(Debug, Clone, Copy)]
struct Global {
    at: u64,
    bytes: u64,
    is_managed: bool,
}

/// What a look-up gave.
type Found = CudaResult<Arc<FunctionState>>;

/// An image in the server's memory, for one vGPU.
#[derive(Debug)]
pub(crate) struct Loaded {
    session: Arc<Session>,
    id: u64,
    context: Context,
    epoch: u64,
    /// One thread at a time asks for a function.
    asking: Mutex<()>,
    functions: Mutex<HashMap<String, Arc<FunctionState>>>,
    globals: Mutex<HashMap<String, Global>>,
    names: OnceLock<Vec<String>>,
}

impl Loaded {
    fn new(session: &Arc<Session>, context: Context, id: u64) -> Self {
        Self {
            session: Arc::clone(session),
            id,
            context,
            epoch: session.epoch(),
            asking: Mutex::default(),
            functions: Mutex::default(),
            globals: Mutex::default(),
            names: OnceLock::new(),
        }
    }

    /// The function an answer describes, known by its name from now on.
    fn found(self: &Arc<Self>, name: &str, id: u64, answer: Answer) -> Found {
        let answer = Connection::judge(answer)?;
        let reply = self.session.connection.read(FindKernel::decode_reply(&answer.body))?;
        let function = Arc::new(FunctionState::new(self, id, name, &reply));
        self.session.functions.insert(id, Arc::clone(&function));
        lock(&self.functions).insert(name.to_owned(), Arc::clone(&function));
        Ok(function)
    }

    /// What the program calls it.
    pub(crate) fn handle(&self) -> Module {
        Module(Handle::new(Kind::Module, self.session.ordinal, self.id).value())
    }

    /// Its id on the wire.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Its context's handle.
    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// Whether the server still has it.
    pub(crate) fn is_valid(&self) -> bool {
        self.epoch == self.session.epoch()
    }

    /// Gives it up, with its functions and globals.
    pub(crate) fn unload(&self) -> CudaResult<()> {
        if !self.is_valid() {
            return Ok(());
        }
        let session = &self.session;
        for function in lock(&self.functions).values() {
            session.functions.remove(function.id());
        }
        let mut globals = session.globals.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        for global in lock(&self.globals).values() {
            globals.remove(&global.at);
            session.forget_variable(global.at);
        }
        drop(globals);
        session.connection.post(&UnloadLibrary { library: LibraryId(self.id) })?;
        Ok(())
    }

    /// Its kernel of this name.
    ///
    /// # Errors
    /// NOT_FOUND where it has none.
    pub(crate) fn function(self: &Arc<Self>, name: &str) -> CudaResult<Arc<FunctionState>> {
        // The lock is held over the question, so that two threads that ask for one name get one function.
        let _asking = lock(&self.asking);
        if let Some(function) = lock(&self.functions).get(name) {
            return Ok(Arc::clone(function));
        }
        let session = &self.session;
        session.errors.check()?;
        let id = session.next_id();
        let answer = session.connection.ask(&FindKernel { library: LibraryId(self.id), name, kernel: KernelId(id) })?;
        self.found(name, id, answer)
    }

    /// Its kernels of these names, for one wait.
    ///
    /// # Errors
    /// NOT_FOUND where one is not there.
    pub(crate) fn functions(self: &Arc<Self>, names: &[String]) -> CudaResult<Vec<Arc<FunctionState>>> {
        let connection = &self.session.connection;
        let asking = lock(&self.asking);
        self.session.errors.check()?;
        let unknown: Vec<&String> = {
            let known = lock(&self.functions);
            names.iter().filter(|name| !known.contains_key(*name)).collect()
        };
        let mut tickets = Vec::with_capacity(unknown.len());
        for name in unknown {
            let id = self.session.next_id();
            let message = FindKernel { library: LibraryId(self.id), name, kernel: KernelId(id) };
            tickets.push((name, id, connection.begin(&message)?));
        }
        connection.flush()?;
        for (name, id, ticket) in tickets {
            self.found(name, id, connection.answer(&ticket)?)?;
        }
        drop(asking);
        names.iter().map(|name| self.function(name)).collect()
    }

    /// Address and bytes of its global variable of this name.
    pub(crate) fn global(&self, name: &str) -> CudaResult<(u64, u64)> {
        let mut globals = lock(&self.globals);
        if let Some(found) = globals.get(name) {
            return Ok((found.at, found.bytes));
        }
        let session = &self.session;
        session.errors.check()?;
        let answer = session.call(&FindGlobal { library: LibraryId(self.id), name })?;
        let reply = session.connection.read(FindGlobal::decode_reply(&answer.body))?;
        let found = (reply.at.0, reply.bytes);
        if found.0.checked_add(found.1).is_none() {
            log!(Error, "the server gave a variable an address that cannot be: {name}: {:#x}", found.0);
            return Err(CudaError::UNKNOWN);
        }
        globals.insert(name.to_owned(), Global { at: found.0, bytes: found.1, is_managed: reply.managed });
        session.globals.write().unwrap_or_else(std::sync::PoisonError::into_inner).insert(found.0, found.1);
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
        let answer = self.session.call(&ListKernels { library: LibraryId(self.id) })?;
        let reply = self.session.connection.read(ListKernels::decode_reply(&answer.body))?;
        let names = reply.names.iter().map(|name| (*name).to_owned()).collect();
        Ok(self.names.get_or_init(|| names))
    }

    /// Its session.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
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

impl Client {
    fn module(&self, module: Module) -> CudaResult<Arc<Loaded>> {
        let handle = Handle::of(Kind::Module, module.0).ok_or(CudaError::INVALID_HANDLE)?;
        self.session(handle)
            .and_then(|session| session.modules.get(handle.id))
            .filter(|module| module.is_valid())
            .ok_or(CudaError::INVALID_HANDLE)
    }
}

impl ModuleCalls for Client {
    fn module_load_data(&self, image: &Image, options: &mut JitOptions) -> CudaResult<Module> {
        let context = self.working()?;
        let loaded = Loaded::load(&context.session, context.handle(), image, options)?;
        context.session.modules.insert(loaded.id, Arc::clone(&loaded));
        Ok(loaded.handle())
    }

    fn module_unload(&self, module: Module) -> CudaResult<()> {
        let loaded = self.module(module)?;
        // A library's module goes with its library.
        if loaded.context.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        if loaded.session.modules.remove(loaded.id).is_none() {
            return Err(CudaError::INVALID_HANDLE);
        }
        loaded.unload()
    }

    fn module_get_loading_mode(&self) -> CudaResult<u32> {
        Ok(if self.settings()?.eager_loading { EAGER } else { LAZY })
    }

    fn module_get_function(&self, module: Module, name: &CStr) -> CudaResult<Function> {
        let function = self.module(module)?.function(name_of(name)?)?;
        Ok(function.handle())
    }

    fn module_get_function_count(&self, module: Module) -> CudaResult<u32> {
        let loaded = self.module(module)?;
        u32::try_from(loaded.names()?.len()).map_err(|_| CudaError::INVALID_VALUE)
    }

    fn module_enumerate_functions(&self, functions: &mut [Function], module: Module) -> CudaResult<()> {
        let loaded = self.module(module)?;
        let names = loaded.names()?;
        let wanted = names.get(..functions.len()).unwrap_or(names);
        for (slot, function) in functions.iter_mut().zip(loaded.functions(wanted)?) {
            *slot = function.handle();
        }
        Ok(())
    }

    fn module_get_global(&self, module: Module, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        as_pair(self.variable(&*self.module(module)?, name_of(name)?)?)
    }
}
