//! When events were recorded, as a line of time that goes on when the session moves.
//! In: events of this worker's driver, and times that another worker has said. Out: times between any two of them.
//! A driver knows the time between two events of its own only. Of others it is as exact as the machine's clock, and a 32-bit
//! number of milliseconds since the event.

use std::sync::Arc;
use std::time::SystemTime;

use floe_abi::{CudaError, CudaResult, event_flags};
use floe_device::Device;

use crate::complete::events::CompletionEvent;
use crate::issue::issuer::Issuer;
use crate::issue::objects::event::{EventObject, Line};
use crate::life::moving::words::{EventTime, Times};

/// Nanoseconds of a millisecond.
const MILLISECOND: f64 = 1e6;

impl<D: Device> Issuer<D> {
    /// The time between two events of which another worker has recorded one at least.
    pub(crate) fn elapsed_across_moves(&self, start: &EventObject<D>, end: &EventObject<D>) -> CudaResult<f32> {
        let line = self.line.as_ref().ok_or(CudaError::INVALID_HANDLE)?;
        let when = |event: &EventObject<D>| match event.time {
            Some(time) => Ok(time),
            None => {
                self.device().event_elapsed_time(line.mark.event(), event.event()).map(|ms| line.at + f64::from(ms))
            }
        };
        #[allow(clippy::cast_possible_truncation, reason = "CUDA's times are of 32 bits")]
        Ok((when(end)? - when(start)?) as f32)
    }

    /// When each event was recorded that has a time; nothing is under way.
    pub(crate) fn event_times(&self) -> CudaResult<Times> {
        let (mark, clock) = self.mark_now()?;
        let since = |event| self.device().event_elapsed_time(event, mark.event()).map(f64::from);
        let now = match &self.line {
            Some(line) => line.at + since(line.mark.event())?,
            None => 0.0,
        };
        let timed = self.events.entries().filter(|(_, event)| event.flags & event_flags::DISABLE_TIMING == 0);
        let when = |(id, event): (u64, &EventObject<D>)| {
            // One that was never recorded has no time.
            let at = event.time.or_else(|| since(event.event()).ok().map(|ms| now - ms))?;
            Some(EventTime { event: id, at: at.to_bits() })
        };
        Ok(Times { now: now.to_bits(), clock, events: timed.filter_map(when).collect() })
    }

    /// Goes on with another worker's line. False: it names an event that there is not, or no number.
    pub(crate) fn recall_times(&mut self, times: &Times) -> CudaResult<bool> {
        let (mark, clock) = self.mark_now()?;
        let now = f64::from_bits(times.now);
        #[allow(clippy::cast_precision_loss, reason = "a pause is short")]
        let passed = clock.saturating_sub(times.clock) as f64 / MILLISECOND;
        let mut is_so = now.is_finite();
        for EventTime { event, at } in &times.events {
            let at = f64::from_bits(*at);
            match self.events.get_mut(*event) {
                Ok(object) if at.is_finite() => object.time = Some(at),
                _ => is_so = false,
            }
        }
        self.line = Some(Line { mark, at: now + passed });
        Ok(is_so)
    }

    /// An event that is recorded now, and the machine's time.
    fn mark_now(&self) -> CudaResult<(Arc<CompletionEvent<D>>, u64)> {
        let mark = CompletionEvent::of_program(&self.shared.device, event_flags::DEFAULT)?;
        self.device().event_record(mark.event(), self.device().own_stream())?;
        self.device().stream_synchronize(self.device().own_stream())?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok((mark, u64::try_from(now.as_nanos()).unwrap_or_default()))
    }
}
