//! What NCCL 2.29 and later has beyond collectives: ids for new ranks, suspended communicators, memory, estimates, parameters.
//! In: communicators' numbers, keys. Out: calls, whose replies are NCCL's answers beside the GPU.
//! Where a server's NCCL is too old, its words name the function and its version.

use std::collections::BTreeMap;
use std::sync::Arc;

use floe_lock::lock;
use floe_wire::{
    Call as _, CollectiveCall, ListParameters, NewGrowId, ReadCommMemory, ReadParameter, SimulateGroup, SuspendComm,
};

use super::parts::failure;
use super::{Collective, INVALID_ARGUMENT, INVALID_USAGE, NcclResult, judged, wire_id, worded};
use crate::client::Client;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::Ticket;

/// Bytes of a parameter's key.
const MOST_KEY: usize = 256;

impl Client {
    /// A unique id with which new ranks join those of a communicator.
    ///
    /// # Errors
    /// NCCL's.
    pub fn nccl_grow_id(&self, comm: u64) -> NcclResult<[u8; 128]> {
        let (vgpu, answer) = self.ask_comm(comm, &NewGrowId { comm: wire_id(comm) })?;
        let reply = vgpu.connection.read(NewGrowId::decode_reply(&answer.body))?;
        let id = judged((reply.result, reply.words), reply.id)?;
        id.try_into().or_else(|_| failure(INVALID_USAGE, "the server's unique id has another length"))
    }

    /// Suspends communicators with flags of NCCL, or resumes those without, all at once, and waits: their ranks wait for each
    /// other.
    ///
    /// # Errors
    /// The first that fails.
    pub fn nccl_suspend(&self, list: &[(u64, u32)]) -> NcclResult<()> {
        let begin = |&(comm, flags): &(u64, u32)| {
            let vgpu = self.vgpu_of_comm(comm)?;
            let ticket = vgpu.connection.begin(&SuspendComm { comm: wire_id(comm), flags })?;
            vgpu.connection.flush()?;
            Ok((vgpu, ticket, comm, flags != 0))
        };
        let begun = list.iter().map(begin).collect::<NcclResult<Vec<_>>>()?;
        let finish = |(vgpu, ticket, comm, is_suspended): &(&Arc<Vgpu>, Ticket, u64, bool)| {
            let answer = worded(vgpu.connection.answer(ticket)?)?;
            let reply = vgpu.connection.read(SuspendComm::decode_reply(&answer.body))?;
            judged((reply.result, reply.words), ())?;
            let mut all = lock(&self.collectives.suspended);
            let _ = if *is_suspended { all.insert(*comm) } else { all.remove(comm) };
            Ok(())
        };
        let finished: Vec<NcclResult<()>> = begun.iter().map(finish).collect();
        finished.into_iter().collect()
    }

    /// What NCCL counts of a communicator's memory, by `ncclCommMemStat_t`.
    ///
    /// # Errors
    /// NCCL's.
    pub fn nccl_memory(&self, comm: u64, stat: u32) -> NcclResult<u64> {
        let (vgpu, answer) = self.ask_comm(comm, &ReadCommMemory { comm: wire_id(comm), stat })?;
        let reply = vgpu.connection.read(ReadCommMemory::decode_reply(&answer.body))?;
        judged((reply.result, reply.words), reply.value)
    }

    /// NCCL's estimate of a group's microseconds: the longest of its devices.
    ///
    /// # Errors
    /// As for the group itself, and NCCL's.
    pub fn nccl_simulate(&self, calls: &[Collective]) -> NcclResult<f32> {
        let mut groups: BTreeMap<u8, (&Arc<Vgpu>, Vec<CollectiveCall>)> = BTreeMap::new();
        for call in calls {
            let (vgpu, message, ..) = self.collective(call)?;
            groups.entry(vgpu.ordinal).or_insert_with(|| (vgpu, Vec::new())).1.push(message);
        }
        let mut longest = 0.0_f32;
        for (vgpu, calls) in groups.into_values() {
            let answer = worded(vgpu.connection.ask(&SimulateGroup { calls })?)?;
            let reply = vgpu.connection.read(SimulateGroup::decode_reply(&answer.body))?;
            longest = longest.max(judged((reply.result, reply.words), reply.time)?);
        }
        Ok(longest)
    }

    /// A parameter of the NCCL beside the current device, in a form of the wire.
    ///
    /// # Errors
    /// NCCL's.
    pub fn nccl_parameter(&self, key: &str, form: u32) -> NcclResult<Vec<u8>> {
        if key.len() > MOST_KEY {
            return failure(INVALID_ARGUMENT, format!("no parameter of NCCL has a key of bytes: {}", key.len()));
        }
        let vgpu = self.vgpu_of_nccl()?;
        self.open_nccl(&vgpu)?;
        let answer = worded(vgpu.connection.ask(&ReadParameter { key, form })?)?;
        let reply = vgpu.connection.read(ReadParameter::decode_reply(&answer.body))?;
        judged((reply.result, reply.words), reply.value.to_vec())
    }

    /// The keys of the parameters of the NCCL beside the current device.
    ///
    /// # Errors
    /// NCCL's.
    pub fn nccl_parameter_keys(&self) -> NcclResult<Vec<String>> {
        let vgpu = self.vgpu_of_nccl()?;
        self.open_nccl(&vgpu)?;
        let answer = worded(vgpu.connection.ask(&ListParameters {})?)?;
        let reply = vgpu.connection.read(ListParameters::decode_reply(&answer.body))?;
        judged((reply.result, reply.words), reply.keys.iter().map(|key| (*key).to_owned()).collect())
    }
}
