//! The session's one context on the device.
//! In: waits for everything, limits, resets. Out: answers when all work is done; a context as new.
//! A reset is the one command the issuer waits for the GPU in: nothing may follow before it is over.

use floe_abi::{CudaError, limit};
use floe_device::{Device, Limits};
use floe_wire::{ContextRequests, ResetContext, SetCacheConfig, SetLimit, SetLimitReply, SynchronizeContext};

use super::{Answer, Issuer, body};
use crate::complete::completer::Lane;
use crate::issue::fault::{Fault, violation};

/// Launches that kernels may have pending unless their program says otherwise: what more take is not known.
const PENDING_LAUNCHES: u64 = 2048;

impl<D: Device> ContextRequests for Issuer<D> {
    fn synchronize_context(&mut self, _: SynchronizeContext) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let completions = self.record_everything();
        self.orphans.retain(|completion| completion.outcome().is_none());
        Ok(self.answer_after(sequence, Lane::Alone(sequence), completions))
    }

    fn set_limit(&mut self, message: SetLimit) -> Result<Answer, Fault> {
        let SetLimit { limit: number, value } = message;
        let kind = u32::try_from(number).unwrap_or(u32::MAX);
        let before = self.allowance.ledger.limits();
        match kind {
            limit::STACK_SIZE => self.allowance.ledger.limit(|limits| limits.stack = value)?,
            limit::PRINTF_FIFO_SIZE => self.allowance.ledger.limit(|limits| limits.printing = value)?,
            limit::MALLOC_HEAP_SIZE => self.allowance.ledger.limit(|limits| limits.heap = value)?,
            limit::DEV_RUNTIME_SYNC_DEPTH | limit::MAX_L2_FETCH_GRANULARITY => {}
            limit::DEV_RUNTIME_PENDING_LAUNCH_COUNT if value <= PENDING_LAUNCHES => {}
            limit::DEV_RUNTIME_PENDING_LAUNCH_COUNT if !self.allowance.ledger.has_quota() => {}
            _ => return Err(Fault::Explained(CudaError::UNSUPPORTED_LIMIT, refusal(kind, value))),
        }
        let set = self.device().set_limit(number, value);
        match (&set, kind) {
            (Err(_), _) => self.allowance.ledger.limits_are(before),
            // The driver may have rounded it.
            (Ok(value), limit::STACK_SIZE) => self.allowance.ledger.limits_are(Limits { stack: *value, ..before }),
            (Ok(value), limit::PRINTF_FIFO_SIZE) => {
                self.allowance.ledger.limits_are(Limits { printing: *value, ..before });
            }
            (Ok(value), limit::MALLOC_HEAP_SIZE) => self.allowance.ledger.limits_are(Limits { heap: *value, ..before }),
            _ => {}
        }
        body(&SetLimitReply { value: set? })
    }

    fn reset_context(&mut self, _: ResetContext) -> Result<Answer, Fault> {
        // A failure of the work is forgotten with the context it happened in; what was said of it is not.
        // Streams do not wait for other servers any longer.
        self.end_peer_links();
        self.shared.collectives.abort_all();
        let outcome = self.device().ctx_synchronize();
        self.wait_for_apart();
        // If the output does not reach the client, it is gone; other threads notice.
        let _ = self.shared.show_printed(outcome.is_err());
        let never_run = self.functions.give_up();
        self.shared.queue.host_functions_end(never_run);
        self.tasks.wait_until_done();
        self.drop_graphs();
        self.events.drain().for_each(drop);
        self.line = None;
        self.kernels.drain().for_each(drop);
        self.contents.clear();
        for library in self.libraries.drain() {
            let _ = self.shared.device.unload(library.code);
        }
        self.departed.clear();
        self.uploads.unpin();
        self.late.unpin();
        self.downloads.reset();
        self.drop_streams();
        self.pool.empty();
        self.drop_textures();
        self.drop_arrays();
        self.drop_all_signals();
        self.shared.links.words.clear();
        self.drop_memory();
        self.shared.mirrors.clear();
        self.sharing.clear();
        self.shared.failures.take();
        self.device().reset()?;
        self.uploads.pin_again();
        self.late.pin_again();
        body(&())
    }

    /// Cache preferences are hints that change no result; today's devices choose themselves.
    fn set_cache_config(&mut self, message: SetCacheConfig) -> Result<Answer, Fault> {
        if message.what > 2 {
            return violation(format!("unknown cache setting: {}", message.what));
        }
        Ok(Answer::Nothing)
    }
}

/// Why a limit stays as it is.
fn refusal(kind: u32, value: u64) -> String {
    match kind {
        limit::PERSISTING_L2_CACHE_SIZE => {
            "a session has no share of the persisting L2 cache: all sessions of the GPU share it".into()
        }
        limit::DEV_RUNTIME_PENDING_LAUNCH_COUNT => {
            format!("a session with a quota has no more pending launches than {PENDING_LAUNCHES}: {value}")
        }
        other => format!("no limit that a session may set: {other}"),
    }
}
