//! What belongs to the calling thread: its stack of current contexts and its own default streams. Calls push, pop and ask;
//! shared objects go out. A thread's state is never freed, so that calls from a process's last destructors still find it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::context::ContextState;
use crate::stream::StreamState;

/// One thread's state.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    contexts: RefCell<Vec<Arc<ContextState>>>,
    /// Default streams of this thread, one per context it used them in.
    streams: RefCell<Vec<Arc<StreamState>>>,
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
        if let Some(thread) = OWN.get() {
            thread.contexts.borrow_mut().clear();
            for stream in thread.streams.borrow_mut().drain(..) {
                stream.abandon();
            }
        }
    }
}

/// The calling thread's state.
pub(crate) fn own() -> &'static Thread {
    OWN.get().unwrap_or_else(|| {
        let thread: &'static Thread = Box::leak(Box::default());
        OWN.set(Some(thread));
        // The first thread ends with the process, whose last destructors may still call.
        if rustix::thread::gettid() != rustix::process::getpid() {
            // Where the thread is ending already, there is nothing to be told later.
            let _ = END.try_with(|_| ());
        }
        thread
    })
}

impl Thread {
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

    /// The thread's default stream in a context, made by `make` when it is used first or after the context was reset.
    pub(crate) fn stream<E>(
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
