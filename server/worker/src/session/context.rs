//! The session's one context on the device.
//! In: waits for everything, limits, resets. Out: answers when all work is done; a context as new.
//! A reset is the one command the issuer waits for the GPU in: nothing may follow before it is over.

use floe_abi::CudaError;
use floe_wire::{SetCacheConfig, SetLimit, SetLimitReply};

use super::{Answer, Session, body};
use crate::completer::Lane;
use crate::device::Device;
use crate::fault::{Fault, broken};

/// `CUlimit`s whose value is bytes of device memory: what kernels print into, and what they allocate from.
const DEVICE_MEMORY_LIMITS: [i32; 2] = [1, 2];

impl<D: Device> Session<D> {
    pub(super) fn synchronize_context(&mut self, sequence: u64) -> Result<Answer, Fault> {
        let marks = self.mark_everything();
        self.orphans.retain(|mark| mark.outcome().is_none());
        Ok(self.answer_after(sequence, Lane::Alone(sequence), marks))
    }

    pub(super) fn set_limit(&mut self, message: SetLimit) -> Result<Answer, Fault> {
        let left = self.allowance.quota.saturating_sub(self.shared.used());
        if self.allowance.quota != 0 && DEVICE_MEMORY_LIMITS.contains(&message.limit) && message.value > left {
            let words = format!(
                "{} bytes for limit {} are over what is left of the quota: {left}",
                message.value, message.limit
            );
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words));
        }
        let value = self.device().set_limit(message.limit, message.value)?;
        body(&SetLimitReply { value })
    }

    pub(super) fn reset_context(&mut self) -> Result<Answer, Fault> {
        // A failure of the work is forgotten with the context it happened in; what was said of it is not.
        let outcome = self.device().synchronize();
        // A client that cannot be told is gone, which others notice.
        let _ = self.shared.show_printed(outcome.is_err());
        let never_run = self.functions.give_up();
        self.shared.queue.host_functions_end(never_run);
        self.tasks.wait_until_done();
        self.drop_graphs();
        self.events.drain().for_each(drop);
        self.kernels.drain().for_each(drop);
        self.contents.clear();
        for library in self.libraries.drain() {
            let _ = self.shared.device.unload(library);
        }
        self.uploads.let_go();
        self.late.let_go();
        self.downloads.reset();
        self.drop_streams();
        self.pool.empty();
        self.drop_textures();
        self.drop_arrays();
        self.drop_memory();
        self.shared.mirrors.clear();
        self.sharing.clear();
        self.shared.failures.take();
        self.device().reset()?;
        self.uploads.take_up();
        self.late.take_up();
        body(&())
    }

    /// Cache preferences are hints that change no result; today's devices choose themselves.
    pub(super) fn set_cache_config(message: SetCacheConfig) -> Result<Answer, Fault> {
        if message.what > 2 {
            return broken(format!("unknown cache setting: {}", message.what));
        }
        Ok(Answer::Nothing)
    }
}
