//! In: streams whose front waits for a word of memory. Out: the same streams, once the word has the wanted value. Other
//! work of ours that ends releases them at once; a thread looks again for what a running kernel or the program itself
//! writes.
//! A stream that waits here delays no stream that does not wait for it.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::queue::StreamPosition;
use super::words::Words;
use super::{Executor, ExecutorState};

/// How soon the thread looks again after something has happened.
const SOON: Duration = Duration::from_micros(20);
/// Longest sleep of the thread, which bounds the delay of a release by the program alone.
const LATE: Duration = Duration::from_millis(1);

/// A stream's front that waits for a word.
pub(super) struct Held {
    position: StreamPosition,
    context: u64,
    words: Words,
}

impl ExecutorState {
    /// Whether what `position` stands for cannot come before a word of memory changes.
    pub(super) fn is_held(&self, position: StreamPosition) -> bool {
        let mut stream = position.stream;
        loop {
            if self.held.iter().any(|held| held.position.stream == stream) {
                return true;
            }
            let Some(before) = self.queues.waits_for(stream) else { return false };
            stream = before;
        }
    }
}

impl Executor {
    /// The front of a stream, which was taken from the queues, waits for a word.
    pub(super) fn hold(
        self: &Arc<Self>,
        state: &mut ExecutorState,
        position: StreamPosition,
        context: u64,
        words: Words,
    ) {
        state.held.push(Held { position, context, words });
        if !state.words_thread {
            state.words_thread = true;
            self.spawn("floe-words", Self::words_thread);
        }
        self.words.notify_one();
        // Streams that wait for work that is not held proceed.
        if state.waiting > 0 {
            self.progress.notify_all();
        }
    }

    /// Looks at every word that is waited for. Whether a stream proceeds.
    pub(super) fn look_at_words(&self, state: &mut ExecutorState) -> bool {
        let before = state.held.len();
        for mut held in std::mem::take(&mut state.held) {
            // Nothing more of a context in error happens.
            let over = match state.faults.get(&held.context) {
                Some(_) => Ok(true),
                None => held.words.advance(&self.memory, &self.host_memory),
            };
            match over {
                Ok(false) => state.held.push(held),
                Ok(true) => self.finish(state, held.position, held.context, Ok(())),
                Err(error) => self.finish(state, held.position, held.context, Err(error)),
            }
        }
        state.held.len() < before
    }

    /// Changes which memory is mapped. Words that are waited for may lie in it, and are not looked at meanwhile.
    pub(crate) fn while_no_word_is_looked_at<T>(&self, change: impl FnOnce() -> T) -> T {
        let _state = self.lock();
        change()
    }

    fn words_thread(self: Arc<Self>) {
        let mut pause = SOON;
        let mut state = self.lock();
        loop {
            if state.held.is_empty() {
                state = floe_lock::wait(&self.words, state);
                pause = SOON;
            } else if self.look_at_words(&mut state) {
                self.pump(state);
                state = self.lock();
                pause = SOON;
            } else {
                let (woken, timeout) = self.words.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                pause = if timeout.timed_out() { LATE.min(pause * 2) } else { SOON };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use floe_abi::{CudaError, DevicePtr, WordOperation, WordTest};
    use floe_machine::Memory;

    use super::super::Work;
    use super::*;
    use crate::simulator::executor::queue::StreamKind;
    use crate::simulator::memory::host_memory::HostMemory;

    fn executor() -> (Arc<Executor>, DevicePtr, Arc<HostMemory>) {
        let base = 0x7_2000_0000_0000 >> 4;
        let memory = Memory::reserve(base, 2 << 20).expect("addresses");
        let host_memory = Arc::<HostMemory>::default();
        let word = host_memory.allocate(64, 0, 1).expect("memory");
        (Executor::new(memory, Arc::clone(&host_memory), 1, 0), DevicePtr(word.0), host_memory)
    }

    fn wait(at: DevicePtr, value: u64) -> Work {
        let test = WordTest::Equal;
        Work::Words(Words::new(vec![WordOperation::Wait { at, bytes: 8, value, test, flush: false }]))
    }

    fn write(at: DevicePtr, value: u64) -> Work {
        Work::Words(Words::new(vec![WordOperation::Write { at, bytes: 8, value }]))
    }

    fn note(notes: &Arc<Mutex<Vec<u32>>>, number: u32) -> Work {
        let notes = Arc::clone(notes);
        Work::Release(Box::new(move || notes.lock().expect("no test panics in it").push(number)))
    }

    #[test]
    fn a_wait_holds_up_its_stream_only_and_a_write_of_another_releases_it() {
        let (executor, word, _memory) = executor();
        let [waiting, free] = [(); 2].map(|()| executor.open(1, StreamKind::NonBlocking));
        let notes = Arc::<Mutex<Vec<u32>>>::default();
        executor.post(waiting, wait(word, 3)).expect("queued");
        executor.post(waiting, note(&notes, 1)).expect("queued");
        executor.run(free, note(&notes, 2)).expect("nothing is in its way");
        assert_eq!(*notes.lock().expect("whole"), [2]);
        assert!(!executor.is_idle(waiting) && executor.is_idle(free));
        executor.run(free, write(word, 3)).expect("done");
        executor.wait_stream(waiting);
        assert_eq!(*notes.lock().expect("whole"), [2, 1]);
    }

    #[test]
    fn the_programs_own_write_releases_a_wait() {
        let (executor, word, memory) = executor();
        let stream = executor.open(1, StreamKind::NonBlocking);
        executor.post(stream, wait(word, 9)).expect("queued");
        assert!(!executor.is_idle(stream));
        memory.part(word.0, 8).expect("pinned").write(&9_u64.to_ne_bytes()).expect("fits");
        executor.wait_stream(stream);
        assert!(executor.is_idle(stream));
    }

    #[test]
    fn waiting_for_what_is_not_held_does_not_wait_for_what_is() {
        let (executor, word, _memory) = executor();
        let [waiting, behind, free] = [(); 3].map(|()| executor.open(1, StreamKind::NonBlocking));
        executor.create_event(crate::simulator::executor::events::EventKey(1), 1, false);
        executor.post(waiting, wait(word, 1)).expect("queued");
        executor.record(waiting, crate::simulator::executor::events::EventKey(1)).expect("queued");
        executor.follow(behind, crate::simulator::executor::events::EventKey(1)).expect("queued");
        executor.post(free, write(DevicePtr(word.0 + 8), 1)).expect("queued");
        executor.wait_unheld(1);
        assert!(executor.is_idle(free) && !executor.is_idle(behind));
        executor.run(free, write(word, 1)).expect("done");
        executor.wait_context(1);
        assert!(executor.is_idle(behind));
    }

    #[test]
    fn a_word_that_is_not_there_any_more_breaks_the_context_and_so_ends_its_other_waits() {
        let (executor, word, memory) = executor();
        let [first, second] = [(); 2].map(|()| executor.open(1, StreamKind::NonBlocking));
        let other = memory.allocate(8, 0, 1).expect("memory");
        executor.post(first, wait(word, 1)).expect("queued");
        executor.post(second, wait(DevicePtr(other.0), 1)).expect("queued");
        memory.free(other).expect("allocated");
        executor.wait_context(1);
        assert_eq!(executor.fault(1), Err(CudaError::ILLEGAL_ADDRESS));
    }
}
