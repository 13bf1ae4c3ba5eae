//! The thread that has the device copy chunks into slots, and learns when its copies are over.
//! In: chunks that may leave, free slots, copies under way. Out: full slots for the connections, transfers that are over.
//! It waits for no stream of the program's: its own hold copies only, in a context apart, so nothing holds them up.

use std::sync::Arc;
use std::time::Instant;

use floe_abi::CudaResult;
use floe_device::Device;
use floe_transport::{Spin, sleep_precisely};

use super::staging::{Flying, Full, Goal, Staging, slots};
use super::{PeerLink, State, Word};
use crate::complete::completer::Pace;
use crate::issue::fault::Fault;
use crate::memory::budget::Budget;

impl<D: Device> PeerLink<D> {
    /// Takes the staging memory and starts the thread, at the first connection.
    pub(super) fn start(self: &Arc<Self>, budget: &Budget) -> Result<(), Fault> {
        let mut state = self.state();
        if state.over.is_some() || state.staging.is_some() {
            return Ok(());
        }
        let apart = self.apart.get(&self.device, budget)?;
        let staging = Staging::new(&self.device, apart, state.lanes.len(), budget)?;
        (state.to_send, state.to_receive) = slots(state.lanes.len());
        state.staging = Some(Arc::clone(&staging));
        let this = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("floe-peer-copy".into()).spawn(move || this.move_all(staging));
        spawned.map_err(|_| Fault::from(floe_abi::CudaError::OPERATING_SYSTEM))?;
        state.threads += 1;
        Ok(())
    }

    fn move_all(&self, staging: Arc<Staging<D>>) {
        let spin = Spin::of_process();
        if spin.is_on() {
            sleep_precisely();
        }
        let mut pace = Pace::new(spin);
        let mut state = self.state();
        // A thread that reads a connection may still have one copy more.
        while state.over.is_none() || !state.flying.is_empty() || state.threads > 1 {
            match self.step(&mut state, &staging) {
                Ok(true) => pace = Pace::new(spin),
                Ok(false) if state.flying.is_empty() => {
                    state = floe_lock::wait(&self.mover, state);
                    pace = Pace::new(spin);
                }
                Ok(false) => {
                    drop(state);
                    if let Some(sleep) = pace.next(Instant::now()) {
                        std::thread::sleep(sleep);
                    }
                    state = self.state();
                }
                Err(error) => {
                    drop(state);
                    self.end(&format!("the device does not copy for it: {error}"));
                    state = self.state();
                }
            }
        }
        state.staging = None;
        drop(state);
        // The driver may wait in this.
        drop(staging);
        self.thread_ends();
    }

    /// Whether something has moved.
    fn step(&self, state: &mut State<D>, staging: &Staging<D>) -> CudaResult<bool> {
        let landed = self.settle(state)?;
        let mut issued = false;
        while state.over.is_none()
            && let Some(slot) = state.to_send.pop()
        {
            let Some(chunk) = state.book.next_chunk() else {
                state.to_send.push(slot);
                break;
            };
            state.flying.push_back(staging.fetch(slot, chunk)?);
            issued = true;
        }
        Ok(landed || issued)
    }

    /// Takes copies off that are over. Where the link is over, their failures are no news.
    fn settle(&self, state: &mut State<D>) -> CudaResult<bool> {
        let (mut index, mut any) = (0, false);
        while let Some(outcome) = state.flying.get(index).map(|flying| flying.completion.outcome()) {
            let Some(outcome) = outcome else {
                index += 1;
                continue;
            };
            let Some(flying) = state.flying.remove(index) else { break };
            any = true;
            if state.over.is_none() {
                outcome?;
                self.landed(state, &flying);
            }
        }
        Ok(any)
    }

    fn landed(&self, state: &mut State<D>, flying: &Flying<D>) {
        match flying.goal {
            Goal::Send(chunk) => {
                state.full.push_back(Full { slot: flying.slot, chunk });
                self.writers.notify_one();
            }
            Goal::Land(transfer) => {
                state.to_receive.push(flying.slot);
                self.readers.notify_one();
                if let Some(wait) = state.book.landed(transfer) {
                    wait.end();
                    self.say(state, Word::Done { transfer });
                }
            }
        }
    }

    /// A slot's bytes have left.
    pub(super) fn give_back(&self, slot: usize) {
        self.state().to_send.push(slot);
        self.mover.notify_one();
    }
}
