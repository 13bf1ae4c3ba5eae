//! What NCCL 2.29 and later has beyond collectives: communicators that grow and are suspended, their memory, NCCL's parameters.
//! In: ids, ranks, keys and flags of a stranger. Out: calls of NCCL, on threads where they wait for other ranks.
//! A library that is too old answers with words that name the function and its version.

use std::sync::Arc;

use floe_device::Device;
use floe_device::nccl::newer::{Growth, MOST_KEY, MOST_VALUE, ParameterForm};
use floe_device::nccl::{CommConfig, Nccl, NcclError, UniqueId, result};
use floe_wire::{
    GrowComm, GrowCommReply, ListParametersReply, NewGrowId, NewGrowIdReply, ReadCommMemory, ReadCommMemoryReply,
    ReadParameter, ReadParameterReply, SimulateGroup, SimulateGroupReply, SuspendComm, SuspendCommReply,
};

use super::using::Using;
use super::{MOST_RANKS, answer_later, demand_wanted, encoded, failure, outcome, place, ready};
use crate::issue::fault::{Fault, violation};
use crate::issue::issuer::{Answer, Issuer, body};
use crate::peer::collective::Ready;
use crate::peer::collective::keys::first_ticket;

/// `NCCL_SUSPEND_MEM`, the only flag there is.
const SUSPEND_MEMORY: u32 = 1;
/// `ncclStatGpuMemSuspended`.
const SUSPENDED: u32 = 1;

impl<D: Device> Issuer<D> {
    pub(super) fn grow_id(&self, message: NewGrowId) -> Result<Answer, Fault> {
        let (Ready { comm, .. }, using) = Using::of(&self.shared, message.comm.0)?;
        let key = self.shared.collectives.key_of(message.comm.0)?;
        self.shared.collectives.begin_grow_id(message.comm.0)?;
        let begun = answer_later(&self.shared, self.sequence, Some(using), move |shared, nccl| {
            let sealed = nccl.newer().grow_id(comm).and_then(|id| {
                let refused = |fault: Fault| NcclError { code: result::INVALID_USAGE, words: fault.to_string() };
                shared.collectives.keys.seal_again(id, key).map_err(refused)
            });
            if sealed.is_err() {
                shared.collectives.end_grow_id(message.comm.0);
            }
            let (result, words) = failure(sealed.as_ref().err());
            let id: &[u8] = sealed.as_ref().map_or(&[], |UniqueId(bytes)| bytes);
            encoded(&NewGrowIdReply { result, words, id })
        });
        begun.inspect_err(|_| self.shared.collectives.end_grow_id(message.comm.0))
    }

    pub(super) fn grow(&self, message: &GrowComm<'_>) -> Result<Answer, Fault> {
        let GrowComm { comm, child, id, ranks, rank, ref config, name } = *message;
        let is_new = comm.0 == 0;
        if child.0 == 0 || ranks == 0 || ranks > MOST_RANKS || rank >= ranks || (!is_new && rank != 0) {
            return violation(format!("no communicator grows to {ranks} ranks with the rank: {rank}"));
        }
        let all = &self.shared.collectives;
        if id.len() > 128 || (is_new && id.is_empty()) {
            return violation(format!("no communicator grows by a unique id of bytes: {}", id.len()));
        }
        let opened = if id.is_empty() { None } else { all.keys.open(id)?.pop() };
        let (growth, key, using) = if is_new {
            (Growth::As(rank.cast_signed()), first_ticket(id), None)
        } else {
            let (Ready { comm: parent, .. }, using) = Using::of(&self.shared, comm.0)?;
            (Growth::Of(parent), all.key_of(comm.0)?, Some(using))
        };
        let (config, name, shared) = (config.clone(), name.to_owned(), Arc::clone(&self.shared));
        let make = move |nccl: &Nccl| {
            shared.collectives.join_node(nccl, key, |key, job| shared.hub.node(key, job));
            demand_wanted(&shared, child.0)?;
            let config = CommConfig { numbers: &config, name: &name };
            let made = nccl.newer().grow(growth, ranks.cast_signed(), opened, &config)?;
            shared.collectives.end_grow_id(comm.0);
            ready(nccl, Some(made))
        };
        self.make_comm(child.0, key, using, make, |made| {
            let ((result, words), (rank, ranks)) = (outcome(made), place(made));
            encoded(&GrowCommReply { result, words, rank, ranks })
        })
    }

    pub(super) fn suspend(&self, message: SuspendComm) -> Result<Answer, Fault> {
        let SuspendComm { comm: id, flags } = message;
        if flags & !SUSPEND_MEMORY != 0 {
            return violation(format!("a communicator is not suspended with the flags: {flags}"));
        }
        let (Ready { comm, .. }, using) = Using::of(&self.shared, id.0)?;
        if flags != 0 {
            self.shared.collectives.is_suspended(id.0, true);
        }
        answer_later(&self.shared, self.sequence, Some(using), move |shared, nccl| {
            let done =
                if flags == 0 { nccl.newer().resume(comm) } else { nccl.newer().suspend(comm, flags.cast_signed()) };
            // One that is suspended already stays so where this call is refused.
            let may_be_usable = if flags == 0 { done.is_ok() } else { done.is_err() };
            if may_be_usable {
                let is_still = nccl.newer().memory_of(comm, SUSPENDED).is_ok_and(|value| value != 0);
                shared.collectives.is_suspended(id.0, is_still);
            }
            let (result, words) = failure(done.as_ref().err());
            encoded(&SuspendCommReply { result, words })
        })
    }

    pub(super) fn comm_memory(&self, message: ReadCommMemory) -> Result<Answer, Fault> {
        let ReadCommMemory { comm, stat } = message;
        let (nccl, ready) = (self.shared.collectives.nccl()?, self.shared.collectives.ready(comm.0)?);
        let read = nccl.newer().memory_of(ready.comm, stat);
        let (result, words) = failure(read.as_ref().err());
        body(&ReadCommMemoryReply { result, words, value: *read.as_ref().unwrap_or(&0) })
    }

    pub(super) fn simulation(&mut self, message: &SimulateGroup) -> Result<Answer, Fault> {
        let nccl = self.shared.collectives.nccl()?;
        let calls = message.calls.iter().map(|call| self.collective(call)).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<u64> = message.calls.iter().map(|call| call.comm.0).collect();
        let estimated = self.shared.collectives.use_all(&ids, || nccl.simulate(&calls));
        let (result, words) = failure(estimated.as_ref().err());
        body(&SimulateGroupReply { result, words, time: *estimated.as_ref().unwrap_or(&0.0) })
    }

    pub(super) fn parameter(&self, message: ReadParameter<'_>) -> Result<Answer, Fault> {
        let ReadParameter { key, form } = message;
        let Some(form) = ParameterForm::of(form) else {
            return violation(format!("a parameter of NCCL has no form: {form}"));
        };
        if key.len() > MOST_KEY || key.contains('\0') {
            return violation(format!("no parameter of NCCL has a key of bytes: {}", key.len()));
        }
        let read = self.shared.collectives.nccl()?.newer().parameter(key, form);
        let (result, words) = failure(read.as_ref().err());
        let value: &[u8] = read.as_deref().unwrap_or_default();
        body(&ReadParameterReply { result, words, value: &value[..value.len().min(MOST_VALUE)] })
    }

    pub(super) fn parameter_keys(&self) -> Result<Answer, Fault> {
        let read = self.shared.collectives.nccl()?.newer().parameter_keys();
        let (result, words) = failure(read.as_ref().err());
        let keys = read.as_ref().map_or_else(|_| Vec::new(), |keys| keys.iter().map(String::as_str).collect());
        body(&ListParametersReply { result, words, keys })
    }
}
