//! A function whose look-up nobody has waited for (`--far`). What its image says of it comes in, and the server's answer when that is
//! here. Launches go out that every device takes for certain; everything else waits for the answer.
//! An answer that is a failure, or that says otherwise than the image, is the error of every later use.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, device_attribute};
use floe_image::{KernelFacts, Parameter};
use floe_wire::{Call, FindKernel, FindKernelReply};

use super::FunctionState;
use crate::log::log;
use crate::objects::module::posted::Loading;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::{Connection, Ticket};
use crate::vgpu::limits::DeviceLimits;
use floe_lock::lock;

/// In `Expected::state`.
const KNOWN: u8 = 0;
const AWAITED: u8 = 1;
const FAILED: u8 = 2;

/// What a launch of a kernel may ask for, for certain; the device may grant more.
#[derive(Debug)]
pub(crate) struct Bounds {
    parameters: Vec<Parameter>,
    pub(super) threads: u32,
    pub(super) shared: u32,
}

impl Bounds {
    /// What an image says of a kernel, on a vGPU's device.
    pub(crate) fn of(facts: &KernelFacts, vgpu: &Vgpu) -> Self {
        let registers = vgpu.snapshot.attribute(device_attribute::MAX_REGISTERS_PER_BLOCK);
        let registers = registers.and_then(|registers| u32::try_from(registers).ok()).unwrap_or(0);
        let threads = facts.certain_threads(registers);
        Self { parameters: facts.parameters.clone(), threads, shared: facts.shared }
    }

    /// Whether the server's word of this kernel says the same of its parameters. Launches until then had the image's, so if it
    /// does not, the context is beyond use.
    pub(crate) fn check_of(&self, name: &str) -> impl FnOnce(&[u8]) -> CudaResult<()> + Send + 'static {
        let (name, own) = (name.to_owned(), self.parameters.clone());
        move |body| {
            let found = FindKernel::decode_reply(body).map_err(|_| CudaError::LAUNCH_FAILED)?;
            let theirs = found.parameters.iter().map(|it| (it.offset, it.bytes));
            if own.iter().map(|it| (it.offset, it.size)).eq(theirs) {
                return Ok(());
            }
            log!(Error, "a kernel has other parameters on the device than in its image: {name}");
            Err(CudaError::LAUNCH_FAILED)
        }
    }

    /// Offsets and sizes.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (u32, u32)> {
        self.parameters.iter().map(|parameter| (parameter.offset, parameter.size))
    }
}

/// The server's answer to a look-up, which may be here and may be on its way.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// A launch looks at this without the lock.
    state: AtomicU8,
    answer: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    /// There is nothing to wait for.
    #[default]
    Known,
    Awaited(Ticket, Option<Arc<Loading>>),
    Failed(CudaError),
}

impl Expected {
    /// The answer to a look-up that was posted, in a library that may be on its way, too.
    pub(crate) fn of(ticket: Ticket, loading: Option<Arc<Loading>>) -> Self {
        Self { state: AtomicU8::new(AWAITED), answer: Mutex::new(State::Awaited(ticket, loading)) }
    }

    /// Whether the server has said that there is no such kernel.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }

    #[inline]
    fn is_known(&self) -> bool {
        self.state.load(Ordering::Acquire) == KNOWN
    }
}

impl FunctionState {
    /// Whether the server's word of it is awaited, or was that there is none.
    #[inline]
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.expected.is_known()
    }

    /// Waits for the server's word of it where that is not here.
    ///
    /// # Errors
    /// What the library or the look-up failed with, now and at every later call.
    #[inline]
    pub(crate) fn settle(&self) -> CudaResult<()> {
        if self.expected.is_known() { Ok(()) } else { self.take_answer(true) }
    }

    /// Checks a launch by its limits. What every device takes is not waited for.
    #[inline]
    pub(crate) fn check_launch(
        &self,
        device: &DeviceLimits,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
    ) -> CudaResult<()> {
        let check = || device.check(&self.limits(), grid, block, shared);
        if self.expected.is_known() {
            return check();
        }
        self.take_answer(false)?;
        check().or_else(|_| {
            self.settle()?;
            check()
        })
    }

    /// Takes the answer if it is here, or waits for it.
    #[cold]
    fn take_answer(&self, waits: bool) -> CudaResult<()> {
        let connection = &self.vgpu.connection;
        let mut state = lock(&self.expected.answer);
        let (ticket, loading) = match &*state {
            State::Known => return Ok(()),
            State::Failed(error) => return Err(*error),
            State::Awaited(ticket, loading) => (ticket, loading),
        };
        connection.look();
        if !ticket.is_answered() {
            if !waits {
                return Ok(());
            }
            connection.flush()?;
        }
        let found = self.found(connection, ticket).inspect_err(|_| {
            // Why a library was not loaded, its own answer says.
            if let Some(loading) = loading {
                let _ = loading.outcome(connection);
            }
        });
        let (next, number, outcome) = match found {
            Ok(found) => {
                self.learn_as_found(&found);
                (State::Known, KNOWN, Ok(()))
            }
            Err(error) => (State::Failed(error), FAILED, Err(error)),
        };
        *state = next;
        self.expected.state.store(number, Ordering::Release);
        outcome
    }

    /// The server's word of it, if that is what the image says.
    fn found(&self, connection: &Connection, ticket: &Ticket) -> CudaResult<FindKernelReply> {
        let answer = Connection::judge(connection.arrived(ticket)?)?;
        let found = connection.read(FindKernel::decode_reply(&answer.body))?;
        let own = self.layout.parameters().iter().map(|parameter| (parameter.offset, parameter.size));
        let theirs = found.parameters.iter().map(|parameter| (parameter.offset as usize, parameter.bytes as usize));
        // That it is not, has been said as the answer came.
        if own.eq(theirs) { Ok(found) } else { Err(CudaError::INVALID_IMAGE) }
    }

    /// Takes over what it was found as; what the program has set since is newer.
    fn learn_as_found(&self, found: &FindKernelReply) {
        // What another thread sets meanwhile is set behind this.
        let mut known = floe_lock::write(&self.attributes);
        let mut attributes = found.attributes.clone();
        attributes.retain(|it| u32::try_from(it.number).is_ok_and(|number| !known.contains_key(&number)));
        self.learn_in(&mut known, &attributes);
    }
}
