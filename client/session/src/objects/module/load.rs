//! Loading. An image and compiler options come in; the client names the image by the hashes of its contents, and sends
//! the bytes that the server lacks. A load waits, since its errors and its log belong to the call, and it may carry the
//! look-up of a kernel or a variable to save a wait.

use std::sync::Arc;

use floe_abi::{Context, CudaError, CudaResult};
use floe_surface::{Image, JitOptions};
use floe_wire::{Call, FindGlobal, FindKernel, JitOption, KernelId, LibraryId, LoadLibrary, UnloadLibrary};

use super::{Coming, Found, Loaded};
use crate::log::log;
use crate::objects::content::{Contents, names_of};
use crate::objects::function::FunctionState;
use crate::objects::module::record::{Look, Source};
use crate::start::{Origin, Start};
use crate::vgpu::Vgpu;
use crate::vgpu::connection::{Answer, Connection};
use crate::vgpu::table::Table;
use floe_lock::lock;

/// The longest log asked of the server's compiler where the program wants none: enough for the user's terminal.
const LOG_BYTES: u32 = 8 << 10;
/// The longest log that fits a frame with room to spare.
const LONGEST_LOG: usize = 1 << 20;
/// The attempts of a load: by hashes alone, with the contents that the server lacks, and once more with contents that
/// its cache has lost meanwhile.
pub(crate) const MOST_ROUNDS: usize = 3;

/// A library that the program's starts note, by what it looks like.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) start: Arc<Start>,
    pub(crate) look: Look,
}

impl Seen {
    /// What notes its uses; with options it can be asked for only by the program.
    pub(crate) fn origin(&self, source: &Source, options: &JitOptions) -> Origin {
        self.start.origin(self.look, is_plain(options).then(|| source.clone()))
    }
}

impl Loaded {
    /// Loads an image.
    pub(crate) fn load(
        vgpu: &Arc<Vgpu>,
        context: Context,
        image: &Image<'_>,
        options: &mut JitOptions,
        seen: Option<&Seen>,
    ) -> CudaResult<Arc<Self>> {
        let ask = |load: &LoadLibrary<'_>| Ok((vgpu.connection.ask(load)?, ()));
        Self::load_asking(vgpu, context, image, options, seen, ask).map(|(loaded, ())| loaded)
    }

    /// Loads an image of a library and asks for a variable in it, for one wait.
    pub(crate) fn load_for_variable(
        vgpu: &Arc<Vgpu>,
        image: &Image<'_>,
        options: &mut JitOptions,
        variable: &str,
        seen: Option<&Seen>,
    ) -> CudaResult<Arc<Self>> {
        let ask = |load: &LoadLibrary<'_>| {
            ask_with(&vgpu.connection, load, &FindGlobal { library: load.library, name: variable })
        };
        let (loaded, answer) = Self::load_asking(vgpu, Context::NULL, image, options, seen, ask)?;
        lock(&loaded.ahead).variables.insert(variable.to_owned(), Coming::Here(answer));
        Ok(loaded)
    }

    /// Loads an image of a library and looks a kernel up in it, which is `known` from then on, for one wait.
    ///
    /// # Errors
    /// The image's error; the look-up has an outcome of its own.
    pub(crate) fn load_for(
        vgpu: &Arc<Vgpu>,
        known: &Table<FunctionState>,
        image: &Image<'_>,
        options: &mut JitOptions,
        kernel: &str,
        seen: Option<&Seen>,
    ) -> CudaResult<(Arc<Self>, Found)> {
        let ask = |load: &LoadLibrary<'_>| {
            let id = vgpu.next_id();
            let question = FindKernel { library: load.library, name: kernel, kernel: KernelId(id) };
            let (answer, found) = ask_with(&vgpu.connection, load, &question)?;
            Ok((answer, (id, found)))
        };
        let (loaded, (id, found)) = Self::load_asking(vgpu, Context::NULL, image, options, seen, ask)?;
        let function = loaded.found(known, kernel, id, found);
        Ok((loaded, function))
    }

    /// Loads an image by `ask`, which sends the load and may ask for a part of what is loaded; that answer comes with it.
    fn load_asking<T>(
        vgpu: &Arc<Vgpu>,
        context: Context,
        image: &Image<'_>,
        options: &mut JitOptions,
        seen: Option<&Seen>,
        ask: impl Fn(&LoadLibrary<'_>) -> CudaResult<(Answer, T)>,
    ) -> CudaResult<(Arc<Self>, T)> {
        vgpu.errors.report()?;
        if let Some(option) = options.unsupported().next() {
            log!(Warn, "a module load with an option that is not supported: CUjit_option {option}");
            return Err(CudaError::NOT_SUPPORTED);
        }
        let contents = Contents::of(image, vgpu);
        let mut missing = contents.unasked(vgpu);
        for _ in 0..MOST_ROUNDS {
            let id = vgpu.next_id();
            contents.send(vgpu, id, &missing)?;
            let message = load_message(id, contents.source(), context, options);
            // On an H200 a module's load did not end beside such a function. A library's was not tried.
            let none_comes = if message.at_once { vgpu.outlast_functions()? } else { None };
            let (answer, also) = ask(&message)?;
            drop(none_comes);
            if let Some(error) = CudaError::from_code(answer.status) {
                forget(vgpu, id)?;
                return Err(refused(error, &answer.detail, options));
            }
            let reply = vgpu.connection.read(LoadLibrary::decode_reply(&answer.body))?;
            if reply.missing.is_empty() {
                vgpu.statistics.knew_contents(contents.count() - missing.len());
                options.write_error("");
                options.write_info(reply.info);
                if !reply.info.is_empty() {
                    log!(Info, "compiling a module: {}", reply.info.trim_end());
                }
                let origin = seen.map(|seen| seen.origin(contents.source(), options));
                return Ok((Arc::new(Self { origin, ..Self::new(vgpu, context, id) }), also));
            }
            forget(vgpu, id)?;
            // The server may lack less than before: its cache may have had no room for all that was sent.
            contents.note_missing(&mut missing, &reply.missing);
        }
        log!(Error, "the server lacks what was sent to it: {} bytes", image.size());
        Err(CudaError::UNKNOWN)
    }
}

/// Asks for the library of a source, with the program's wishes. A module has a context from the start; a library does not, and
/// waits until it is used.
pub(crate) fn load_message<'a>(id: u64, source: &'a Source, context: Context, options: &JitOptions) -> LoadLibrary<'a> {
    let plain = options.plain().filter_map(|(option, value)| {
        let option = i32::try_from(option).ok()?;
        Some(JitOption { option, value })
    });
    LoadLibrary {
        library: LibraryId(id),
        kind: source.kind,
        contents: names_of(source),
        at_once: context != Context::NULL,
        options: plain.collect(),
        log_bytes: log_bytes(options),
    }
}

/// Whether a load with these options is the same as one without any.
pub(crate) fn is_plain(options: &JitOptions) -> bool {
    options.plain().next().is_none() && options.unsupported().next().is_none() && log_bytes(options) == LOG_BYTES
}

/// The longest log that is asked for.
pub(crate) fn log_bytes(options: &JitOptions) -> u32 {
    let wanted = options.info_capacity().max(options.error_capacity());
    u32::try_from(wanted.min(LONGEST_LOG)).map_or(LOG_BYTES, |bytes| bytes.max(LOG_BYTES))
}

/// Asks for a load, and in the same breath for a part of what is loaded.
fn ask_with(connection: &Connection, load: &LoadLibrary<'_>, part: &impl Call) -> CudaResult<(Answer, Answer)> {
    let loading = connection.begin(load)?;
    let found = connection.ask(part)?;
    Ok((connection.answer(&loading)?, found))
}

/// Releases the id of a library that was not loaded.
pub(super) fn forget(vgpu: &Vgpu, id: u64) -> CudaResult<()> {
    vgpu.connection.post(&UnloadLibrary { library: LibraryId(id) }).map(drop)
}

/// Lines of a compiler's words that the user is shown; the program gets all.
const SHOWN_LINES: usize = 20;

/// Tells the program and the user why a load or a link failed.
pub(crate) fn refused(error: CudaError, detail: &str, options: &mut JitOptions) -> CudaError {
    options.write_info("");
    options.write_error(detail);
    if !detail.is_empty() {
        let lines: Vec<String> = detail.trim_end().lines().take(SHOWN_LINES).map(floe_wire::printable).collect();
        log!(Warn, "a module could not be loaded: {error}: {}", lines.join("\n  "));
    }
    error
}
