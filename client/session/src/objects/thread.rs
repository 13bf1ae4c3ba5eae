//! The state of the calling thread: its stack of current contexts and its own default streams. Calls push, pop and ask;
//! shared objects go out. A thread's state is never freed, so that calls from a process's last destructors still find
//! it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::objects::context::ContextState;
use crate::objects::function::FunctionState;
use crate::objects::stream::StreamState;
use crate::vgpu::recent::{Found, Recent};
use crate::vgpu::waited::Waited;

/// Streams a thread finds again without asking the table. Programs use few.
const RECENT_STREAMS: usize = 8;
/// The same of functions: a step of a large model launches some hundred.
const RECENT_FUNCTIONS: usize = 128;
/// The place of the legacy default stream among streams; no stream's id.
const LEGACY: u64 = 0;
/// The place of the thread's own default stream; no stream's id.
const PER_THREAD: u64 = u64::MAX;

/// One thread's state.
#[derive(Debug)]
pub(crate) struct Thread {
    contexts: RefCell<Vec<Arc<ContextState>>>,
    /// Default streams of this thread, one per context it used them in.
    streams: RefCell<Vec<Arc<StreamState>>>,
    /// Streams found last, by id; the default ones under their context's stamp.
    pub(crate) recent_streams: Recent<StreamState>,
    /// Functions of modules found last, by id.
    pub(crate) recent_functions: Recent<FunctionState>,
    /// Functions of kernels found last, by the kernel's id.
    pub(crate) recent_kernels: Recent<FunctionState>,
    /// Streams it has waited for, where there are several vGPUs.
    pub(crate) waited: Waited,
}

thread_local! {
    // Without a destructor: it stays readable while the thread's other locals are torn down.
    static OWN: Cell<Option<&'static Thread>> = const { Cell::new(None) };
}

thread_local! {
    // Runs when a thread other than the last ends: its streams are given back.
    static END: End = const { End };
}

struct End;

impl Drop for End {
    fn drop(&mut self) {
        // In a forked child the thread's state belongs to the parent, and so does the link.
        if is_first() {
            return;
        }
        if let Some(thread) = OWN.get() {
            thread.contexts.borrow_mut().clear();
            thread.recent_streams.clear();
            thread.recent_functions.clear();
            thread.recent_kernels.clear();
            thread.waited.clear();
            for stream in thread.streams.borrow_mut().drain(..) {
                stream.abandon();
            }
        }
    }
}

/// The calling thread's state.
#[inline]
pub(crate) fn own() -> &'static Thread {
    OWN.get().unwrap_or_else(first_call)
}

/// The calling thread's state, from now on.
#[cold]
fn first_call() -> &'static Thread {
    let thread: &'static Thread = Box::leak(Box::new(Thread::new()));
    OWN.set(Some(thread));
    // The first thread ends with the process, whose last destructors may still call.
    if !is_first() {
        // A thread that is ending already needs no notice later.
        let _ = END.try_with(|_| ());
    }
    thread
}

/// Whether the calling thread is its process's first; one that forked is its child's.
fn is_first() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

impl Thread {
    fn new() -> Self {
        Self {
            contexts: RefCell::default(),
            streams: RefCell::default(),
            recent_streams: Recent::new(RECENT_STREAMS),
            recent_functions: Recent::new(RECENT_FUNCTIONS),
            recent_kernels: Recent::new(RECENT_FUNCTIONS),
            waited: Waited::default(),
        }
    }

    /// The current context.
    pub(crate) fn top(&self) -> Option<Arc<ContextState>> {
        self.contexts.borrow().last().cloned()
    }

    /// Runs `ask` on the current context without taking a share of it.
    pub(crate) fn with_top<R>(&self, ask: impl FnOnce(Option<&Arc<ContextState>>) -> R) -> R {
        ask(self.contexts.borrow().last())
    }

    /// Makes a context current, above the present one.
    pub(crate) fn push(&self, context: Arc<ContextState>) {
        self.contexts.borrow_mut().push(context);
    }

    /// Takes the current context away.
    pub(crate) fn pop(&self) -> Option<Arc<ContextState>> {
        self.contexts.borrow_mut().pop()
    }

    /// Replaces the current context; `None` takes it away.
    pub(crate) fn set(&self, context: Option<Arc<ContextState>>) {
        let mut contexts = self.contexts.borrow_mut();
        contexts.pop();
        contexts.extend(context);
    }

    /// The legacy default stream as a context sees it.
    pub(crate) fn legacy(&'static self, context: &ContextState) -> Found<StreamState> {
        let (recent, stamp) = (&self.recent_streams, context.stamp());
        recent.recall(LEGACY, stamp).unwrap_or_else(|| recent.found(LEGACY, stamp, Arc::clone(context.legacy())))
    }

    /// The thread's default stream in a context, made by `make` when it is used first or after the context was reset.
    pub(crate) fn stream<E>(
        &'static self,
        context: &ContextState,
        make: impl FnOnce() -> Result<Arc<StreamState>, E>,
    ) -> Result<Found<StreamState>, E> {
        let (recent, stamp) = (&self.recent_streams, context.stamp());
        if let Some(stream) = recent.recall(PER_THREAD, stamp).filter(|stream| stream.is_valid()) {
            return Ok(stream);
        }
        self.own_stream(context, make).map(|stream| recent.found(PER_THREAD, stamp, stream))
    }

    fn own_stream<E>(
        &self,
        context: &ContextState,
        make: impl FnOnce() -> Result<Arc<StreamState>, E>,
    ) -> Result<Arc<StreamState>, E> {
        let mut streams = self.streams.borrow_mut();
        streams.retain(|stream| stream.is_valid());
        if let Some(stream) = streams.iter().find(|stream| stream.context() == context.handle()) {
            return Ok(Arc::clone(stream));
        }
        let stream = make()?;
        streams.push(Arc::clone(&stream));
        Ok(stream)
    }
}
