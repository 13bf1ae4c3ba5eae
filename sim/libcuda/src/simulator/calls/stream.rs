//! Streams: handles of the program come in, places in the executor's queues go out.
//! The two default streams belong to the context that is current; a per-thread one also to the thread, with which it goes.
//! A destroyed stream finishes what was queued on it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use floe_abi::{
    Context, CudaError, CudaResult, Device, DevicePtr, Event, LaunchAttributeValue, Stream, attach_flags,
    event_wait_flags, launch_attribute, pointer_attribute, stream_flags,
};
use floe_surface::graph::{CaptureStream, Work as Recorded};
use floe_surface::{
    PointerAttribute, PointerCalls, StreamCallback, StreamCalls, check_attribute, check_stream_attribute,
    unset_stream_attribute,
};

use super::context::ContextState;
use super::event::key_of;
use crate::simulator::Simulator;
use crate::simulator::executor::queue::{StreamKey, StreamKind};
use crate::simulator::executor::{Executor, Work};
use floe_lock::lock;

/// The lowest priority, which streams have unless they ask for another.
pub(crate) const LEAST_PRIORITY: i32 = 0;
/// The highest. Priorities are kept and reported; the machine shares its cores evenly all the same.
pub(crate) const GREATEST_PRIORITY: i32 = -5;

struct StreamState {
    key: StreamKey,
    context: Arc<ContextState>,
    flags: u32,
    priority: i32,
    attributes: std::sync::Mutex<HashMap<u32, LaunchAttributeValue>>,
}

/// All streams programs created.
#[derive(Default)]
pub(crate) struct Streams {
    by_handle: RwLock<HashMap<u64, Arc<StreamState>>>,
}

impl StreamState {
    /// The priority it was given last.
    fn priority(&self) -> i32 {
        let given = lock(&self.attributes).get(&launch_attribute::PRIORITY).map(|value| value.as_u32().cast_signed());
        given.map_or(self.priority, |given| given.clamp(GREATEST_PRIORITY, LEAST_PRIORITY))
    }

    fn for_capture(&self) -> CaptureStream {
        let blocking = self.flags & stream_flags::NON_BLOCKING == 0;
        CaptureStream { key: self.key.0, context: self.context.serial, legacy: false, blocking }
    }
}

impl Streams {
    fn get(&self, stream: Stream) -> CudaResult<Arc<StreamState>> {
        let streams = floe_lock::read(&self.by_handle);
        streams.get(&stream.0).cloned().ok_or(CudaError::INVALID_HANDLE)
    }
}

/// A thread's own default streams, one per context it used; they close with the thread.
#[derive(Default)]
struct OfThread {
    streams: HashMap<u64, (StreamKey, Arc<Executor>)>,
}

impl Drop for OfThread {
    fn drop(&mut self) {
        for (stream, executor) in self.streams.values() {
            executor.close(*stream);
        }
    }
}

thread_local! {
    static OF_THREAD: RefCell<OfThread> = RefCell::default();
}

impl Simulator {
    /// The context and queue a stream handle stands for.
    ///
    /// # Errors
    /// INVALID_CONTEXT for a default stream without a context, INVALID_HANDLE for a stream that is none.
    pub(crate) fn stream(&self, stream: Stream) -> CudaResult<(Arc<ContextState>, StreamKey)> {
        match stream {
            Stream::LEGACY => self.current().map(|context| (Arc::clone(&context), context.legacy)),
            Stream::PER_THREAD => {
                let context = self.current()?;
                let key = self.stream_of_thread(&context)?;
                Ok((context, key))
            }
            _ => self.streams.get(stream).map(|state| (Arc::clone(&state.context), state.key)),
        }
    }

    fn stream_of_thread(&self, context: &ContextState) -> CudaResult<StreamKey> {
        let find = |of_thread: &RefCell<OfThread>| {
            let mut of_thread = of_thread.borrow_mut();
            let open = || (self.executor.open(context.serial, StreamKind::Blocking), Arc::clone(&self.executor));
            of_thread.streams.entry(context.serial).or_insert_with(open).0
        };
        // A thread that is ending has no stream of its own any more.
        OF_THREAD.try_with(find).map_err(|_| CudaError::DEINITIALIZED)
    }

    /// Closes all streams of a context that ends.
    pub(crate) fn close_streams(&self, serial: u64) {
        let mut streams = floe_lock::write(&self.streams.by_handle);
        streams.retain(|_, state| {
            if state.context.serial == serial {
                self.graphs.forget_stream(&state.for_capture());
                self.executor.close(state.key);
            }
            state.context.serial != serial
        });
        drop(streams);
        self.executor.close_of_context(serial);
    }

    fn create_stream(&self, flags: u32, priority: i32) -> CudaResult<Stream> {
        if flags & !stream_flags::NON_BLOCKING != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let context = self.working()?;
        let kind = if flags == 0 { StreamKind::Blocking } else { StreamKind::NonBlocking };
        let state = StreamState {
            key: self.executor.open(context.serial, kind),
            context,
            flags,
            priority: priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY),
            attributes: std::sync::Mutex::default(),
        };
        let handle = self.handles.next();
        floe_lock::write(&self.streams.by_handle).insert(handle, Arc::new(state));
        Ok(Stream(handle))
    }

    /// The stream's state, for the attributes only created streams have.
    fn created(&self, stream: Stream) -> CudaResult<Option<Arc<StreamState>>> {
        if stream.is_default() {
            self.current()?;
            return Ok(None);
        }
        self.streams.get(stream).map(Some)
    }
}

impl StreamCalls for Simulator {
    fn stream_create(&self, flags: u32) -> CudaResult<Stream> {
        self.create_stream(flags, LEAST_PRIORITY)
    }

    fn stream_create_with_priority(&self, flags: u32, priority: i32) -> CudaResult<Stream> {
        self.create_stream(flags, priority)
    }

    fn stream_destroy(&self, stream: Stream) -> CudaResult<()> {
        let mut streams = floe_lock::write(&self.streams.by_handle);
        let state = streams.remove(&stream.0).ok_or(CudaError::INVALID_HANDLE)?;
        drop(streams);
        self.graphs.forget_stream(&state.for_capture());
        floe_surface::graph::settle(self);
        self.executor.close(state.key);
        Ok(())
    }

    fn stream_synchronize(&self, stream: Stream) -> CudaResult<()> {
        let (context, key) = self.stream(stream)?;
        self.refuse_wait(stream)?;
        self.executor.wait_stream(key);
        context.kernels.output.drain();
        self.executor.fault(context.serial)
    }

    fn stream_query(&self, stream: Stream) -> CudaResult<()> {
        let (context, key) = self.stream(stream)?;
        self.refuse_wait(stream)?;
        let idle = self.executor.is_idle(key);
        self.executor.fault(context.serial)?;
        if idle { Ok(()) } else { Err(CudaError::NOT_READY) }
    }

    fn stream_wait_event(&self, stream: Stream, event: Event, flags: u32) -> CudaResult<()> {
        if !matches!(flags, event_wait_flags::DEFAULT | event_wait_flags::EXTERNAL) {
            return Err(CudaError::INVALID_VALUE);
        }
        let (context, key) = self.stream(stream)?;
        self.executor.fault(context.serial)?;
        self.executor.event(key_of(event)).ok_or(CudaError::INVALID_HANDLE)?;
        if flags == event_wait_flags::EXTERNAL {
            // Only a stream that is being captured may wait for external events.
            let captured = self.capturing(stream)?.ok_or(CudaError::ILLEGAL_STATE)?;
            return self.graphs.record(&captured, Recorded::Wait(event));
        }
        if self.graphs.is_watching() && self.graphs.wait_event(&self.stream_for_capture(stream)?, event)? {
            return Ok(());
        }
        self.executor.follow(key, key_of(event))
    }

    fn stream_get_flags(&self, stream: Stream) -> CudaResult<u32> {
        Ok(self.created(stream)?.map_or(stream_flags::DEFAULT, |state| state.flags))
    }

    fn stream_get_priority(&self, stream: Stream) -> CudaResult<i32> {
        Ok(self.created(stream)?.map_or(LEAST_PRIORITY, |state| state.priority()))
    }

    fn stream_get_ctx(&self, stream: Stream) -> CudaResult<Context> {
        self.stream(stream).map(|(context, _)| Context(context.handle))
    }

    fn stream_get_device(&self, stream: Stream) -> CudaResult<Device> {
        let (context, _) = self.stream(stream)?;
        i32::try_from(context.device).map(Device).map_err(|_| CudaError::UNKNOWN)
    }

    fn stream_get_id(&self, stream: Stream) -> CudaResult<u64> {
        self.stream(stream).map(|(_, key)| key.0)
    }

    fn stream_for_capture(&self, stream: Stream) -> CudaResult<CaptureStream> {
        if let Some(state) = self.created(stream)? {
            return Ok(state.for_capture());
        }
        let (context, key) = self.stream(stream)?;
        Ok(CaptureStream { key: key.0, context: context.serial, legacy: key == context.legacy, blocking: true })
    }

    fn stream_add_callback(&self, stream: Stream, callback: StreamCallback) -> CudaResult<()> {
        let (context, key) = self.stream(stream)?;
        self.refuse_captured(stream)?;
        let output = Arc::clone(&context.kernels.output);
        let call = move |status| {
            output.drain();
            callback.call(status);
        };
        self.executor.post(key, Work::Host(Box::new(call))).map(|_| ())
    }

    fn stream_attach_mem_async(&self, stream: Stream, address: DevicePtr, bytes: usize, flags: u32) -> CudaResult<()> {
        self.stream(stream)?;
        self.refuse_captured(stream)?;
        let known = matches!(flags, attach_flags::GLOBAL | attach_flags::HOST);
        if !known && (flags != attach_flags::SINGLE || stream.is_default()) {
            return Err(CudaError::INVALID_VALUE);
        }
        match self.range_around(address.0) {
            Some((start, length)) if start == address.0 && (bytes == 0 || bytes as u64 == length) => {}
            _ => return Err(CudaError::INVALID_VALUE),
        }
        // Any device's work may use it: there is one memory.
        match self.pointer_get_attribute(pointer_attribute::IS_MANAGED, address)? {
            PointerAttribute::IsManaged(true) => Ok(()),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn stream_copy_attributes(&self, destination: Stream, source: Stream) -> CudaResult<()> {
        let (Some(target), Some(from)) = (self.created(destination)?, self.created(source)?) else { return Ok(()) };
        let attributes = lock(&from.attributes).clone();
        *lock(&target.attributes) = attributes;
        Ok(())
    }

    fn stream_get_attribute(&self, stream: Stream, attribute: u32) -> CudaResult<LaunchAttributeValue> {
        check_stream_attribute(attribute)?;
        let Some(state) = self.created(stream)? else { return Ok(unset_stream_attribute(attribute)) };
        if attribute == launch_attribute::PRIORITY {
            return Ok(LaunchAttributeValue::from_u32(state.priority().cast_unsigned()));
        }
        let attributes = lock(&state.attributes);
        Ok(attributes.get(&attribute).copied().unwrap_or_else(|| unset_stream_attribute(attribute)))
    }

    fn stream_set_attribute(&self, stream: Stream, attribute: u32, value: &LaunchAttributeValue) -> CudaResult<()> {
        check_stream_attribute(attribute)?;
        check_attribute(attribute, value)?;
        // All of them are hints here.
        if let Some(state) = self.created(stream)? {
            lock(&state.attributes).insert(attribute, *value);
        }
        Ok(())
    }
}
