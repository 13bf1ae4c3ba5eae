//! Modules: an image loaded into one vGPU, its functions and globals. An image and compiler options come in; the image is
//! named to the server by its hash and sent where that lacks it, and the load is waited for, since its errors and its log
//! belong to the call. Names are asked once.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, Function, Module};
use floe_surface::{Image, JitOptions, ModuleCalls};
use floe_wire::{
    Call, FindGlobal, FindKernel, JitOption, KernelId, LibraryId, ListKernels, LoadLibrary, UnloadLibrary,
};

use crate::client::Client;
use crate::connection::{Answer, Connection};
use crate::content::Contents;
use crate::handles::{Handle, Kind};
use crate::kernel::FunctionState;
use crate::log::log;
use crate::session::Session;
use crate::table::lock;

/// The longest log asked of the server's compiler where the program wants none: enough for the user's terminal.
const LOG_BYTES: u32 = 8 << 10;
/// The longest log that fits a frame with room to spare.
const LONGEST_LOG: usize = 1 << 20;
/// How often a load is asked for: by hashes alone, with what the server lacks, and once more with what its cache has lost
/// in between.
const MOST_ROUNDS: usize = 3;
/// CU_MODULE_EAGER_LOADING.
const EAGER: u32 = 1;
/// CU_MODULE_LAZY_LOADING.
const LAZY: u32 = 2;

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
    globals: Mutex<HashMap<String, (u64, u64)>>,
    names: OnceLock<Vec<String>>,
}

impl Loaded {
    /// Loads an image.
    pub(crate) fn load(
        session: &Arc<Session>,
        context: Context,
        image: &Image<'_>,
        options: &mut JitOptions,
    ) -> CudaResult<Arc<Self>> {
        Self::load_asking(session, context, image, options, None).map(|(loaded, _)| loaded)
    }

    /// Loads an image of a library and looks a kernel up in it, for one wait.
    ///
    /// # Errors
    /// What is wrong with the image; the look-up has an outcome of its own.
    pub(crate) fn load_for(session: &Arc<Session>, image: &Image<'_>, kernel: &str) -> CudaResult<(Arc<Self>, Found)> {
        let options = &mut JitOptions::none();
        let (loaded, function) = Self::load_asking(session, Context::NULL, image, options, Some(kernel))?;
        Ok((loaded, function.unwrap_or(Err(CudaError::NOT_FOUND))))
    }

    fn load_asking(
        session: &Arc<Session>,
        context: Context,
        image: &Image<'_>,
        options: &mut JitOptions,
        kernel: Option<&str>,
    ) -> CudaResult<(Arc<Self>, Option<Found>)> {
        session.errors.report()?;
        if let Some(option) = options.unsupported().next() {
            log!(Warn, "a module load with an option that is not supported: CUjit_option {option}");
            return Err(CudaError::NOT_SUPPORTED);
        }
        let contents = Contents::of(image, session);
        let mut missing = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let id = session.next_id();
            contents.send(session, id, &missing)?;
            let message = load_message(id, &contents, context, options);
            let (answer, found) = ask_with(session, &message, kernel)?;
            if let Some(error) = CudaError::from_code(answer.status) {
                forget(session, id)?;
                return Err(refused(error, &answer.detail, options));
            }
            let reply = session.connection.read(LoadLibrary::decode_reply(&answer.body))?;
            if reply.missing.is_empty() {
                session.statistics.knew_contents(contents.count() - missing.len());
                options.write_error("");
                options.write_info(reply.info);
                if !reply.info.is_empty() {
                    log!(Info, "compiling a module: {}", reply.info.trim_end());
                }
                let loaded = Arc::new(Self::new(session, context, id));
                let function = found.map(|(id, answer)| loaded.found(kernel.unwrap_or_default(), id, answer));
                return Ok((loaded, function));
            }
            forget(session, id)?;
            // What it lacks now may be less than before: it may have had no room for what was sent.
            for index in reply.missing {
                if !missing.contains(&index) {
                    missing.push(index);
                }
            }
        }
        log!(Error, "the server lacks what was sent to it: {} bytes", image.size());
        Err(CudaError::UNKNOWN)
    }

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
        for (at, _) in lock(&self.globals).values() {
            globals.remove(at);
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

    /// Address and bytes of its global variable of this name.
    pub(crate) fn global(&self, name: &str) -> CudaResult<(u64, u64)> {
        let mut globals = lock(&self.globals);
        if let Some(found) = globals.get(name) {
            return Ok(*found);
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
        globals.insert(name.to_owned(), found);
        session.globals.write().unwrap_or_else(std::sync::PoisonError::into_inner).insert(found.0, found.1);
        Ok(found)
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

fn load_message<'a>(id: u64, contents: &'a Contents<'_>, context: Context, options: &JitOptions) -> LoadLibrary<'a> {
    let wanted = options.info_capacity().max(options.error_capacity());
    let plain = options.plain().filter_map(|(option, value)| {
        let option = i32::try_from(option).ok()?;
        Some(JitOption { option, value })
    });
    LoadLibrary {
        library: LibraryId(id),
        kind: contents.kind(),
        contents: contents.names(),
        // A module has a context from the start; a library does not, and waits until it is used.
        at_once: context != Context::NULL,
        options: plain.collect(),
        log_bytes: u32::try_from(wanted.min(LONGEST_LOG)).map_or(LOG_BYTES, |bytes| bytes.max(LOG_BYTES)),
    }
}

/// Asks for a load, and in the same breath for a kernel of what is loaded; the kernel's answer comes with its id.
fn ask_with(
    session: &Session,
    load: &LoadLibrary<'_>,
    kernel: Option<&str>,
) -> CudaResult<(Answer, Option<(u64, Answer)>)> {
    let connection = &session.connection;
    let Some(name) = kernel else { return Ok((connection.ask(load)?, None)) };
    let loading = connection.begin(load)?;
    let id = session.next_id();
    let found = connection.ask(&FindKernel { library: load.library, name, kernel: KernelId(id) })?;
    Ok((connection.answer(&loading)?, Some((id, found))))
}

/// Gives up the id of a library that was not loaded.
fn forget(session: &Session, id: u64) -> CudaResult<()> {
    session.connection.post(&UnloadLibrary { library: LibraryId(id) }).map(drop)
}

/// Tells the program and the user why a load failed.
fn refused(error: CudaError, detail: &str, options: &mut JitOptions) -> CudaError {
    options.write_info("");
    options.write_error(detail);
    if !detail.is_empty() {
        log!(Warn, "a module could not be loaded: {error}: {}", detail.trim_end());
    }
    error
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
        let _call = self.enter();
        let context = self.working()?;
        let loaded = Loaded::load(&context.session, context.handle(), image, options)?;
        context.session.modules.insert(loaded.id, Arc::clone(&loaded));
        Ok(loaded.handle())
    }

    fn module_unload(&self, module: Module) -> CudaResult<()> {
        let _call = self.enter();
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
        let _call = self.enter();
        Ok(if self.settings()?.eager_loading { EAGER } else { LAZY })
    }

    fn module_get_function(&self, module: Module, name: &CStr) -> CudaResult<Function> {
        let _call = self.enter();
        let function = self.module(module)?.function(name_of(name)?)?;
        Ok(function.handle())
    }

    fn module_get_function_count(&self, module: Module) -> CudaResult<u32> {
        let _call = self.enter();
        let loaded = self.module(module)?;
        u32::try_from(loaded.names()?.len()).map_err(|_| CudaError::INVALID_VALUE)
    }

    fn module_enumerate_functions(&self, functions: &mut [Function], module: Module) -> CudaResult<()> {
        let _call = self.enter();
        let loaded = self.module(module)?;
        for (slot, name) in functions.iter_mut().zip(loaded.names()?) {
            *slot = loaded.function(name)?.handle();
        }
        Ok(())
    }

    fn module_get_global(&self, module: Module, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        let _call = self.enter();
        as_pair(self.module(module)?.global(name_of(name)?)?)
    }
}
