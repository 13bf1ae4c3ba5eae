//! A pipe that is no socket and has none: two bounded buffers of this process.
//! In: nothing. Out: both of its ends.
//! It says what the interface of pipes asks of any transport, and nothing more.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use floe_transport::{Failure, Pipe, Reach, Slot};
use rustix::io::Errno;

/// Bytes of each buffer.
const ROOM: usize = 64 << 10;

#[derive(Debug, Default)]
struct Buffer {
    bytes: VecDeque<u8>,
    descriptor: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct State {
    buffers: [Buffer; 2],
    is_over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// One end; it writes to the buffer of its number and reads the other.
#[derive(Debug)]
pub(crate) struct End {
    shared: Arc<Shared>,
    writes: usize,
    limit: Mutex<Option<Duration>>,
}

/// Both ends.
pub(crate) fn pair() -> [End; 2] {
    let shared = Arc::<Shared>::default();
    [0, 1].map(|writes| End { shared: Arc::clone(&shared), writes, limit: Mutex::default() })
}

impl End {
    /// Sleeps until `is_there`, or until the time is over.
    fn sleep(&self, time: Option<Duration>, is_there: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock().unwrap();
        let missing = |state: &mut State| !state.is_over && !is_there(state);
        match time {
            None => self.shared.changed.wait_while(state, missing).unwrap(),
            Some(time) => self.shared.changed.wait_timeout_while(state, time, missing).unwrap().0,
        }
    }

    fn sleep_for_bytes(&self, time: Option<Duration>) -> MutexGuard<'_, State> {
        let reads = 1 - self.writes;
        self.sleep(time, |state| !state.buffers[reads].bytes.is_empty())
    }
}

impl Pipe for End {
    fn write(&self, head: &[u8], tail: &[u8]) -> Result<(), Failure> {
        let limit = *self.limit.lock().unwrap();
        for mut bytes in [head, tail] {
            while !bytes.is_empty() {
                let mut state = self.sleep(limit, |state| state.buffers[self.writes].bytes.len() < ROOM);
                let room = ROOM - state.buffers[self.writes].bytes.len();
                if state.is_over || room == 0 {
                    return Err(if state.is_over { Errno::PIPE } else { Errno::AGAIN }.into());
                }
                let (now, later) = bytes.split_at(room.min(bytes.len()));
                state.buffers[self.writes].bytes.extend(now);
                bytes = later;
                self.shared.changed.notify_all();
            }
        }
        Ok(())
    }

    fn write_with(&self, head: &[u8], tail: &[u8], descriptor: BorrowedFd<'_>) -> Result<(), Failure> {
        let descriptor = descriptor.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        self.shared.state.lock().unwrap().buffers[self.writes].descriptor = Some(descriptor);
        self.write(head, tail)
    }

    fn limit_writes(&self, time: Option<Duration>) -> Result<(), Failure> {
        *self.limit.lock().unwrap() = time;
        Ok(())
    }

    fn read_now(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        let mut state = self.shared.state.lock().unwrap();
        let is_over = state.is_over;
        let Buffer { bytes, descriptor } = &mut state.buffers[1 - self.writes];
        let count = target.len().min(bytes.len());
        for (place, byte) in target.iter_mut().zip(bytes.drain(..count)) {
            *place = byte;
        }
        if count > 0
            && let (Some(descriptor), Some(slot)) = (descriptor.take(), slot)
        {
            *slot = Some(descriptor);
        }
        self.shared.changed.notify_all();
        Ok((count > 0 || is_over).then_some(count))
    }

    fn read(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        drop(self.sleep_for_bytes(None));
        self.read_now(target, slot)
    }

    fn wait(&self, time: Option<Duration>) -> Result<bool, Failure> {
        let began = Instant::now();
        drop(self.sleep_for_bytes(time));
        Ok(time.is_none_or(|time| began.elapsed() < time))
    }

    fn end(&self) {
        self.shared.state.lock().unwrap().is_over = true;
        self.shared.changed.notify_all();
    }

    fn reach(&self) -> Reach {
        Reach::Machine
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.end();
    }
}
