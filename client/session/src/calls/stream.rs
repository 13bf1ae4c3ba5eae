//! Streams: the two default ones, those the program makes, and what they wait for. Handles come in; creation, waits and
//! destruction are posted, a synchronize waits only where something is outstanding. Questions about finished work are
//! answered from earlier replies.

use std::sync::Arc;

use floe_abi::{
    Context, CudaError, CudaResult, Device, DevicePtr, Event, LaunchAttributeValue, Stream, event_wait_flags,
    launch_attribute, stream_flags,
};
use floe_surface::graph::{CaptureStream, Work};
use floe_surface::{StreamCallback, StreamCalls, check_attribute, check_stream_attribute, unset_stream_attribute};
use floe_wire::{EventId, QueryStream, WaitEvent};

use crate::client::Client;
use crate::log::log_once;
use crate::memory::peers::signals::{Awaited, one_pair_at_a_time};
use crate::objects::event::EventState;
use crate::objects::event::shared::SharedEvent;
use crate::objects::stream::{Asked, StreamState};
use crate::objects::thread;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::HostWork;
use crate::vgpu::handles::{Handle, Kind};
use crate::vgpu::recent::Found;
use floe_lock::lock;

impl Client {
    /// The stream of a handle: one of the current context's default streams, or one the program made.
    pub(crate) fn stream(&self, stream: Stream) -> CudaResult<Found<StreamState>> {
        self.find_stream(stream)
    }

    /// As `stream`, where it is called: work is put on streams all the time.
    #[inline(always)]
    fn find_stream(&self, stream: Stream) -> CudaResult<Found<StreamState>> {
        let Some(handle) = Handle::of(Kind::Stream, stream.0) else { return self.default_stream(stream) };
        let Some(device) = self.device_of(handle) else { return Err(CudaError::INVALID_HANDLE) };
        match device.objects.streams.find_by(&thread::own().recent_streams, handle.id) {
            Some(stream) => Ok(stream),
            None => Err(CudaError::INVALID_HANDLE),
        }
    }

    /// The default stream of the current context that the program has named.
    fn default_stream(&self, stream: Stream) -> CudaResult<Found<StreamState>> {
        let own = thread::own();
        if stream == Stream::LEGACY || stream.is_null() {
            return self.with_current(|context| own.legacy(context));
        }
        if stream == Stream::PER_THREAD {
            let context = self.current()?;
            return own
                .stream(&context, || StreamState::create(&context.vgpu, context.handle(), stream_flags::DEFAULT, 0));
        }
        Err(CudaError::INVALID_HANDLE)
    }

    /// As `stream`, for work that is put on it: reports what failed earlier. Work that can be recorded has looked before
    /// whether the stream is captured; all other is refused then.
    pub(crate) fn working_stream(&self, stream: Stream) -> CudaResult<Found<StreamState>> {
        let stream = self.ordered_stream(stream)?;
        // Work put on the stream sees everything that the program has written so far.
        stream.vgpu.send_mirrors()?;
        Ok(stream)
    }

    /// The same for what only orders work, and reads no memory: records of events, and waits for them.
    pub(crate) fn ordered_stream(&self, stream: Stream) -> CudaResult<Found<StreamState>> {
        let stream = self.find_stream(stream)?;
        stream.vgpu.errors.report()?;
        self.refuse_captured(&stream)?;
        Ok(stream)
    }

    fn create_stream(&self, flags: u32, priority: i32) -> CudaResult<Stream> {
        if flags & !stream_flags::NON_BLOCKING != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let context = self.working()?;
        let priority = context.vgpu.snapshot.clamp_priority(priority);
        let state = StreamState::create(&context.vgpu, context.handle(), flags, priority)?;
        let id = state.progress().stream();
        let handle = Handle::new(Kind::Stream, context.vgpu.ordinal, id);
        self.objects(&context.vgpu)?.streams.insert(id, state);
        Ok(Stream(handle.value()))
    }

    /// The stream waits for what an event records.
    pub(crate) fn wait_on(stream: &StreamState, event: &EventState) -> CudaResult<()> {
        if let Some(shared) = event.shared()? {
            return Self::wait_on_shared(stream, event, shared);
        }
        if event.is_known_complete() {
            return Ok(());
        }
        let (here, there) = (&stream.vgpu, &event.vgpu);
        if Arc::ptr_eq(here, there) {
            return stream.post(&WaitEvent { stream: stream.id(), event: EventId(event.id()), flags: 0 });
        }
        if here.hears_at_once(there) {
            let _comes = here.managed.gate().come_in();
            return here.await_work(stream.progress(), there, Awaited::Event(EventId(event.id())));
        }
        // A stream there that holds nothing but the wait, so that a later record of the event does not move the goal.
        let copy = StreamState::create(there, event.context(), stream_flags::NON_BLOCKING, 0)?;
        copy.post(&WaitEvent { stream: copy.id(), event: EventId(event.id()), flags: 0 })?;
        Self::wait_across(stream, &copy)?;
        copy.abandon();
        Ok(())
    }

    /// The same of an event that several processes have.
    fn wait_on_shared(stream: &StreamState, event: &EventState, shared: &SharedEvent) -> CudaResult<()> {
        if Arc::ptr_eq(&stream.vgpu, &event.vgpu) {
            return shared.wait_on(stream);
        }
        // A stream there that holds nothing but the wait.
        let copy = StreamState::create(&event.vgpu, event.context(), stream_flags::NON_BLOCKING, 0)?;
        let result = shared.wait_on(&copy).and_then(|()| Self::wait_for_stream(stream, &copy));
        copy.abandon();
        result
    }

    /// The stream waits for all work so far of a stream of another vGPU, and for what work issued there now would wait for.
    pub(crate) fn wait_for_stream(stream: &StreamState, other: &StreamState) -> CudaResult<()> {
        let (here, there) = (&stream.vgpu, &other.vgpu);
        there.mark_place(other.progress())?;
        if there.is_quiet(other.progress()) {
            return Ok(());
        }
        if here.hears_at_once(there) {
            let _comes = here.managed.gate().come_in();
            return here.await_work(stream.progress(), there, Awaited::Stream(other.id()));
        }
        Self::wait_across(stream, other)
    }

    /// The stream waits for work of another server, or for what comes to this process with it: this process sees the work
    /// complete and ends the stream's wait. No thread stands meanwhile.
    fn wait_across(stream: &StreamState, other: &StreamState) -> CudaResult<()> {
        other.vgpu.send_mirrors()?;
        let _pair = one_pair_at_a_time();
        let raise = stream.vgpu.await_process(stream.progress())?;
        other.vgpu.connection.when_over(other.progress(), move || raise.elsewhere())
    }
}

impl Vgpu {
    /// Whether work of another vGPU is over, for this one's streams, when its device says so: not where that is of another
    /// server, nor while this process gets with it what later work here may use: that arrives behind the device's word.
    fn hears_at_once(&self, there: &Self) -> bool {
        self.is_beside(there) && !there.connection.delivers() && !there.mirrors.any() && !self.mirrors.any()
    }
}

impl StreamCalls for Client {
    fn stream_create(&self, flags: u32) -> CudaResult<Stream> {
        self.create_stream(flags, 0)
    }

    fn stream_create_with_priority(&self, flags: u32, priority: i32) -> CudaResult<Stream> {
        self.create_stream(flags, priority)
    }

    fn stream_destroy(&self, stream: Stream) -> CudaResult<()> {
        let handle = Handle::of(Kind::Stream, stream.0).ok_or(CudaError::INVALID_HANDLE)?;
        let state = self
            .device_of(handle)
            .and_then(|device| device.objects.streams.remove(handle.id))
            .ok_or(CudaError::INVALID_HANDLE)?;
        self.graphs.forget_stream(&state.for_capture());
        floe_surface::graph::settle(self);
        state.abandon();
        Ok(())
    }

    fn stream_synchronize(&self, stream: Stream) -> CudaResult<()> {
        let stream = self.working_stream(stream)?;
        thread::own().waited.begin(&stream.vgpu, stream.progress())?;
        stream.vgpu.await_stream(stream.progress())?;
        stream.vgpu.note_wait();
        Ok(())
    }

    fn stream_query(&self, stream: Stream) -> CudaResult<()> {
        let stream = self.working_stream(stream)?;
        let vgpu = &stream.vgpu;
        if vgpu.seems_quiet(stream.progress()) {
            return Ok(());
        }
        // A kernel may be waiting for what the program has just written.
        vgpu.send_mirrors()?;
        if vgpu.far.is_on() {
            return stream.query_ahead();
        }
        let asked = *lock(&stream.asked);
        if let Some(asked) = asked.filter(|asked| stream.progress().completed() < asked.sequence)
            && vgpu.connection.holds(asked.answer)
            && stream.progress().completed() < asked.sequence
        {
            vgpu.errors.report()?;
            return Err(CudaError::NOT_READY);
        }
        let before = stream.progress().issued();
        match vgpu.connection.query(&QueryStream { stream: stream.id() })? {
            Ok(sequence) => {
                vgpu.order.stream_completed(stream.progress(), sequence);
                vgpu.errors.report()
            }
            Err(answer) => {
                *lock(&stream.asked) = Some(Asked { sequence: before, answer });
                Err(CudaError::NOT_READY)
            }
        }
    }

    fn stream_wait_event(&self, stream: Stream, event: Event, flags: u32) -> CudaResult<()> {
        if flags > 1 {
            return Err(CudaError::INVALID_VALUE);
        }
        let state = self.event(event)?;
        if flags == event_wait_flags::EXTERNAL {
            let stream = self.capturing(stream)?.ok_or(CudaError::ILLEGAL_STATE)?;
            return self.record_work(&stream, Work::Wait(event));
        }
        if self.graphs.is_watching() && self.graphs.wait_event(&self.stream(stream)?.for_capture(), event)? {
            return Ok(());
        }
        Self::wait_on(&*self.ordered_stream(stream)?, &state)
    }

    fn stream_get_flags(&self, stream: Stream) -> CudaResult<u32> {
        Ok(self.stream(stream)?.flags)
    }

    fn stream_get_priority(&self, stream: Stream) -> CudaResult<i32> {
        Ok(self.stream(stream)?.priority())
    }

    fn stream_get_ctx(&self, stream: Stream) -> CudaResult<Context> {
        Ok(self.stream(stream)?.context())
    }

    fn stream_get_device(&self, stream: Stream) -> CudaResult<Device> {
        Ok(Device(i32::from(self.stream(stream)?.vgpu.ordinal)))
    }

    fn stream_get_id(&self, stream: Stream) -> CudaResult<u64> {
        // Ids of the wire are unique on a vGPU; the default stream has 0 there, which programs take for "none".
        Ok(self.stream(stream)?.progress().stream() + 1)
    }

    fn stream_for_capture(&self, stream: Stream) -> CudaResult<CaptureStream> {
        let stream = self.stream(stream)?;
        Ok(stream.for_capture())
    }

    fn stream_add_callback(&self, stream: Stream, callback: StreamCallback) -> CudaResult<()> {
        let stream = self.working_stream(stream)?;
        stream.vgpu.host_function(stream.progress(), HostWork::Callback(callback))
    }

    fn stream_attach_mem_async(&self, stream: Stream, address: DevicePtr, bytes: usize, flags: u32) -> CudaResult<()> {
        self.attach(stream, address, bytes, flags)
    }

    fn stream_copy_attributes(&self, destination: Stream, source: Stream) -> CudaResult<()> {
        let (destination, source) = (self.stream(destination)?, self.stream(source)?);
        let values = lock(&source.attributes).clone();
        *lock(&destination.attributes) = values;
        Ok(())
    }

    fn stream_get_attribute(&self, stream: Stream, attribute: u32) -> CudaResult<LaunchAttributeValue> {
        let stream = self.stream(stream)?;
        if attribute == launch_attribute::PRIORITY {
            let bits = u32::from_ne_bytes(stream.priority().to_ne_bytes());
            return Ok(LaunchAttributeValue::from_u32(bits));
        }
        check_stream_attribute(attribute)?;
        let value = lock(&stream.attributes).get(&attribute).copied();
        Ok(value.unwrap_or_else(|| unset_stream_attribute(attribute)))
    }

    fn stream_set_attribute(&self, stream: Stream, attribute: u32, value: &LaunchAttributeValue) -> CudaResult<()> {
        let stream = self.stream(stream)?;
        check_stream_attribute(attribute)?;
        check_attribute(attribute, value)?;
        // All of these are about speed, none about results.
        log_once!(Info, "cuStreamSetAttribute: remembered but without effect, attribute: {attribute}");
        if attribute == launch_attribute::PRIORITY {
            stream.prioritize(value.as_u32().cast_signed());
            return Ok(());
        }
        lock(&stream.attributes).insert(attribute, *value);
        Ok(())
    }
}
