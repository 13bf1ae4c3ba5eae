//! Events as things that are given back: a pool of those the worker records for itself, and the program's own.
//! In: recordings. Out: completion events that can be asked whether the work before them has completed.
//! An event is never recorded again while somebody still waits for its last record.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, Event, Stream, event_flags};
use floe_device::Device;

/// Events kept for use again.
const KEPT: usize = 1024;

/// An event that goes back to its pool, or is destroyed, with its last holder.
pub(crate) struct CompletionEvent<D: Device> {
    event: Event,
    home: Home<D>,
}

enum Home<D: Device> {
    /// Of this context, by number.
    Pool(Arc<Pool<D>>, u64),
    Program(Arc<D>),
}

impl<D: Device> CompletionEvent<D> {
    /// An event of the program's.
    pub(crate) fn of_program(device: &Arc<D>, flags: u32) -> CudaResult<Arc<Self>> {
        let event = device.event_create(flags)?;
        Ok(Arc::new(Self { event, home: Home::Program(Arc::clone(device)) }))
    }

    pub(crate) fn event(&self) -> Event {
        self.event
    }

    fn device(&self) -> &D {
        match &self.home {
            Home::Pool(pool, _) => &pool.device,
            Home::Program(device) => device,
        }
    }

    /// `None`: not yet. Otherwise how the work before it ended.
    pub(crate) fn outcome(&self) -> Option<CudaResult<()>> {
        match self.device().event_query(self.event) {
            Err(error) if error == CudaError::NOT_READY => None,
            result => Some(result),
        }
    }

    /// Makes the driver write out what the completed work printed.
    pub(crate) fn settle(&self) {
        // The outcome is known already; only the writing is wanted.
        let _ = self.device().event_synchronize(self.event);
    }
}

impl<D: Device> Drop for CompletionEvent<D> {
    fn drop(&mut self) {
        match &self.home {
            Home::Pool(pool, context) => pool.take_back(self.event, *context),
            // On a context beyond use the driver refuses; the event is gone with it.
            Home::Program(device) => drop(device.event_destroy(self.event)),
        }
    }
}

/// Events the worker records for itself.
pub(crate) struct Pool<D: Device> {
    device: Arc<D>,
    free: Mutex<Free>,
    /// Events made so far in this context.
    made: AtomicU32,
}

/// Events that nobody holds.
#[derive(Default)]
struct Free {
    events: Vec<Event>,
    /// The number of the context that they are of: one that comes back later is gone with its own.
    context: u64,
}

impl<D: Device> Pool<D> {
    pub(crate) fn new(device: Arc<D>) -> Arc<Self> {
        Arc::new(Self { device, free: Mutex::default(), made: AtomicU32::new(0) })
    }

    /// Records what the stream holds so far.
    pub(crate) fn record(self: &Arc<Self>, stream: Stream) -> CudaResult<Arc<CompletionEvent<D>>> {
        let (pooled, context) = {
            let mut free = floe_lock::lock(&self.free);
            (free.events.pop(), free.context)
        };
        let event = match pooled {
            Some(event) => event,
            None => self.make()?,
        };
        let completion = Arc::new(CompletionEvent { event, home: Home::Pool(Arc::clone(self), context) });
        self.device.event_record(event, stream)?;
        Ok(completion)
    }

    fn make(&self) -> CudaResult<Event> {
        let event = self.device.event_create(event_flags::DISABLE_TIMING)?;
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(event)
    }

    /// Events that were made in this context.
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// Makes events until so many have been made, but no more than are kept.
    pub(crate) fn prepare(&self, count: u32) -> CudaResult<()> {
        loop {
            let free = floe_lock::lock(&self.free);
            let (kept, context) = (free.events.len(), free.context);
            drop(free);
            if self.made() >= count || kept >= KEPT {
                return Ok(());
            }
            self.take_back(self.make()?, context);
        }
    }

    fn take_back(&self, event: Event, context: u64) {
        let mut free = floe_lock::lock(&self.free);
        if free.context != context {
            return;
        }
        if free.events.len() < KEPT {
            free.events.push(event);
        } else {
            drop(free);
            let _ = self.device.event_destroy(event);
        }
    }

    /// Destroys all events that nobody holds, and takes no other one back: the context is about to go.
    pub(crate) fn empty(&self) {
        self.made.store(0, Ordering::Relaxed);
        let mut free = floe_lock::lock(&self.free);
        free.context += 1;
        let events = std::mem::take(&mut free.events);
        drop(free);
        for event in events {
            let _ = self.device.event_destroy(event);
        }
    }
}
