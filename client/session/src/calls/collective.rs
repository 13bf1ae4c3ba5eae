//! NCCL's communicators of this process: made, used and ended by the workers of their vGPUs.
//! In: calls of floe's `libnccl.so.2`, by communicators' numbers. Out: posts in stream order for groups, calls for all else.
//! It knows nothing of NCCL but numbers. Memory is looked up here, so that a wrong address is this call's error; the worker
//! looks it up again.

mod making;
mod newer;
mod parts;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, DevicePtr, Stream, nccl};
use floe_surface::graph::{OwnWork, Work};
use floe_wire::{
    AbortComm, AskComm, Call, CollectiveCall, CollectiveGroup, CollectiveSetting, CommId, CreateReduction,
    DeregisterBuffer, DestroyReduction, EndComm, NewUniqueId, OpenCollectives, RegisterBuffer,
};

use crate::client::Client;
use crate::log::log;
use crate::lookup::Lookup;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::Answer;
use floe_lock::lock;
use parts::{CUDA_ERROR, element_bytes, extent, failure, variables};
pub use parts::{Collective, MadeComm, NcclFailure, NcclResult, NewComm, Origin};

/// Bits of a communicator's number below its vGPU's ordinal.
const ORDINAL_SHIFT: u32 = 48;
/// Results of NCCL.
const SUCCESS: u32 = 0;
const INVALID_ARGUMENT: u32 = 4;
const INVALID_USAGE: u32 = 5;
/// Variables that name files or a network of the program's machine, which mean nothing beside the GPU.
const KEPT_HERE: [&str; 9] = [
    "NCCL_CONF_FILE",
    "NCCL_COMM_ID",
    nccl::NODE,
    "NCCL_DEBUG_FILE",
    "NCCL_TOPO_FILE",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_SOCKET_IFNAME",
];

/// The servers' versions of NCCL, and the communicators' ranks.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    versions: Mutex<BTreeMap<u8, u32>>,
    comms: Mutex<BTreeMap<u64, MadeComm>>,
    suspended: Mutex<BTreeSet<u64>>,
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A reply's result and words.
fn judged<T>((result, words): (u32, &str), value: T) -> NcclResult<T> {
    if result == SUCCESS { Ok(value) } else { failure(result, floe_wire::printable(words)) }
}

impl Client {
    /// This thread's words for the last failure of NCCL.
    #[must_use]
    pub fn nccl_words() -> String {
        LAST.with_borrow(String::clone)
    }

    /// Remembers a failure's words for the thread.
    pub fn nccl_failed(failure: &NcclFailure) {
        log!(Info, "NCCL: {}", failure.words);
        LAST.set(failure.words.clone());
    }

    /// The ordinal of the current context's device.
    ///
    /// # Errors
    /// Without a context.
    pub fn nccl_device(&self) -> NcclResult<i32> {
        Ok(i32::from(self.current()?.vgpu.ordinal))
    }

    /// The version of the NCCL beside the current device.
    ///
    /// # Errors
    /// Where its server has none.
    pub fn nccl_version(&self) -> NcclResult<u32> {
        let vgpu = self.vgpu_of_nccl()?;
        self.open_nccl(&vgpu)
    }

    /// The current context's, or the first.
    fn vgpu_of_nccl(&self) -> NcclResult<Arc<Vgpu>> {
        match self.current() {
            Ok(context) => Ok(Arc::clone(&context.vgpu)),
            Err(_) => Ok(Arc::clone(&self.devices()?.first().ok_or(CudaError::NO_DEVICE)?.vgpu)),
        }
    }

    fn open_nccl(&self, vgpu: &Vgpu) -> NcclResult<u32> {
        if let Some(version) = lock(&self.collectives.versions).get(&vgpu.ordinal) {
            return Ok(*version);
        }
        let all = variables(std::env::vars_os());
        let (kept, sent): (Vec<_>, Vec<_>) = all.iter().partition(|(name, _)| KEPT_HERE.contains(&name.as_str()));
        for (name, _) in kept {
            log!(Warn, "a variable of NCCL means nothing beside the GPU: {name}");
        }
        let mut settings: Vec<_> = sent.iter().map(|(name, value)| CollectiveSetting { name, value }).collect();
        if let Some(job) = &self.settings()?.job {
            settings.push(CollectiveSetting { name: nccl::NODE, value: job });
        }
        if !nccl::settings_fit(settings.iter().map(|it| (it.name, it.value))) {
            let most = nccl::MOST_SETTINGS;
            let words = format!("the program's variables of NCCL and FLOE_JOB have more bytes than: {most}");
            return failure(INVALID_USAGE, words);
        }
        let answer = vgpu.connection.ask(&OpenCollectives { settings })?;
        if let Some(error) = CudaError::from_code(answer.status) {
            let server = "no NCCL beside the GPU";
            return failure(INVALID_USAGE, format!("{server}: {error}: {}", floe_wire::printable(&answer.detail)));
        }
        let version = vgpu.connection.read(OpenCollectives::decode_reply(&answer.body))?.version;
        lock(&self.collectives.versions).insert(vgpu.ordinal, version);
        Ok(version)
    }

    /// A unique id, whose root is beside the current device.
    ///
    /// # Errors
    /// NCCL's.
    pub fn nccl_unique_id(&self) -> NcclResult<[u8; 128]> {
        let vgpu = self.vgpu_of_nccl()?;
        self.open_nccl(&vgpu)?;
        let answer = worded(vgpu.connection.ask(&NewUniqueId {})?)?;
        let reply = vgpu.connection.read(NewUniqueId::decode_reply(&answer.body))?;
        let id = judged((reply.result, reply.words), reply.id)?;
        id.try_into().or_else(|_| failure(INVALID_USAGE, "the server's unique id has another length"))
    }

    fn vgpu_of_comm(&self, comm: u64) -> NcclResult<&Arc<Vgpu>> {
        let index = usize::try_from(comm >> ORDINAL_SHIFT).unwrap_or(usize::MAX);
        let is_known = lock(&self.collectives.comms).contains_key(&comm);
        match self.devices()?.get(index).filter(|_| is_known) {
            Some(device) => Ok(&device.vgpu),
            None => failure(INVALID_ARGUMENT, "no communicator"),
        }
    }

    /// Asks a communicator's worker.
    fn ask_comm<M: Call>(&self, comm: u64, message: &M) -> NcclResult<(&Arc<Vgpu>, Answer)> {
        let vgpu = self.vgpu_of_comm(comm)?;
        Ok((vgpu, worded(vgpu.connection.ask(message)?)?))
    }

    /// The asynchronous error of a communicator, `ncclInProgress` among them.
    ///
    /// # Errors
    /// Where its session is gone.
    pub fn nccl_ask(&self, comm: u64) -> NcclResult<()> {
        let (vgpu, answer) = self.ask_comm(comm, &AskComm { comm: wire_id(comm) })?;
        let reply = vgpu.connection.read(AskComm::decode_reply(&answer.body))?;
        judged((reply.result, reply.words), ())
    }

    /// Ends a communicator: 0 finalizes, 1 destroys, 2 aborts, 3 revokes it.
    ///
    /// # Errors
    /// NCCL's.
    pub fn nccl_end(&self, comm: u64, how: u32) -> NcclResult<()> {
        let wire = wire_id(comm);
        let ended = match how {
            2 => self.ask_comm(comm, &AbortComm { comm: wire }).and_then(|(vgpu, answer)| {
                let reply = vgpu.connection.read(AbortComm::decode_reply(&answer.body))?;
                judged((reply.result, reply.words), ())
            }),
            // Nobody waits for the answer.
            1 if self.has_other_rank(comm) => self
                .vgpu_of_comm(comm)
                .and_then(|vgpu| Ok(vgpu.connection.begin_at_once(&EndComm { comm: wire, how }).map(drop)?)),
            _ => self.ask_comm(comm, &EndComm { comm: wire, how }).and_then(|(vgpu, answer)| {
                let reply = vgpu.connection.read(EndComm::decode_reply(&answer.body))?;
                judged((reply.result, reply.words), ())
            }),
        };
        if matches!(how, 1 | 2) {
            lock(&self.collectives.comms).remove(&comm);
            lock(&self.collectives.suspended).remove(&comm);
        }
        ended
    }

    /// Whether the program has another rank of this communicator, or of one that looks like it. NCCL may have a destroy wait for
    /// the ranks of other processes, and each rank here is one on its server. Those of a program only count down, so a
    /// thread may destroy them one after the other: only the last one's answer is waited for.
    fn has_other_rank(&self, comm: u64) -> bool {
        let comms = lock(&self.collectives.comms);
        let is_other = |own: &MadeComm, other: &MadeComm| other.ranks == own.ranks && other.rank != own.rank;
        comms.get(&comm).is_some_and(|own| comms.values().any(|other| is_other(own, other)))
    }

    /// An operation that multiplies by a scalar, which is these bytes or lies at `at`.
    ///
    /// # Errors
    /// NCCL's.
    pub fn nccl_create_reduction(&self, comm: u64, datatype: u32, value: &[u8], at: DevicePtr) -> NcclResult<u32> {
        let message = CreateReduction { comm: wire_id(comm), datatype, value, at };
        let (vgpu, answer) = self.ask_comm(comm, &message)?;
        let reply = vgpu.connection.read(CreateReduction::decode_reply(&answer.body))?;
        judged((reply.result, reply.words), reply.operation)
    }

    /// Destroys it.
    ///
    /// # Errors
    /// Where there is no such communicator.
    pub fn nccl_destroy_reduction(&self, comm: u64, operation: u32) -> NcclResult<()> {
        let vgpu = self.vgpu_of_comm(comm)?;
        vgpu.connection.post(&DestroyReduction { comm: wire_id(comm), operation })?;
        Ok(())
    }

    /// Registers memory.
    ///
    /// # Errors
    /// NCCL's.
    pub fn nccl_register(&self, comm: u64, at: DevicePtr, bytes: u64) -> NcclResult<u64> {
        self.demand_own(self.vgpu_of_comm(comm)?, at, bytes)?;
        let (vgpu, answer) = self.ask_comm(comm, &RegisterBuffer { comm: wire_id(comm), at, bytes })?;
        let reply = vgpu.connection.read(RegisterBuffer::decode_reply(&answer.body))?;
        judged((reply.result, reply.words), reply.handle)
    }

    /// Undoes it.
    ///
    /// # Errors
    /// NCCL's.
    pub fn nccl_deregister(&self, comm: u64, handle: u64) -> NcclResult<()> {
        let (vgpu, answer) = self.ask_comm(comm, &DeregisterBuffer { comm: wire_id(comm), handle })?;
        let reply = vgpu.connection.read(DeregisterBuffer::decode_reply(&answer.body))?;
        judged((reply.result, reply.words), ())
    }

    /// The calls of a group, each in the order of its stream. Nothing is waited for.
    ///
    /// # Errors
    /// Where a communicator, a stream or an address will not do; then nothing of the group is done.
    pub fn nccl_group(&self, calls: &[Collective]) -> NcclResult<()> {
        let mut groups: BTreeMap<u8, (Vec<CollectiveCall>, Vec<Arc<StreamState>>)> = BTreeMap::new();
        let mut captured = 0;
        for call in calls {
            let (vgpu, message, stream, is_captured) = self.collective(call)?;
            captured += usize::from(is_captured);
            let (messages, streams) = groups.entry(vgpu.ordinal).or_default();
            messages.push(message);
            if !streams.iter().any(|known| Arc::ptr_eq(known, &stream)) {
                streams.push(stream);
            }
        }
        if captured > 0 {
            return self.record_groups(groups.into_values(), captured == calls.len());
        }
        for (messages, streams) in groups.into_values() {
            let Some((first, others)) = streams.split_first() else { continue };
            let connection = &first.vgpu.connection;
            let sequence = connection.post_on(first.progress(), &CollectiveGroup { calls: messages })?;
            others.iter().for_each(|other| other.progress().issue(sequence));
        }
        Ok(())
    }

    /// Each vGPU's part of a group becomes a node of the graph that its stream's capture makes.
    fn record_groups(
        &self,
        groups: impl Iterator<Item = (Vec<CollectiveCall>, Vec<Arc<StreamState>>)>,
        are_all_captured: bool,
    ) -> NcclResult<()> {
        for (messages, streams) in groups {
            let [stream] = streams.as_slice() else {
                return failure(
                    INVALID_USAGE,
                    "a group on several streams of a device cannot be captured into a graph",
                );
            };
            if !are_all_captured {
                return failure(INVALID_USAGE, "a group is captured into a graph with all of its streams or none");
            }
            self.record_work(stream, Work::Own(OwnWork(Arc::new(messages))))?;
        }
        Ok(())
    }

    /// A group of a graph, on the stream that launches the graph.
    pub(crate) fn group_recorded(&self, stream: &StreamState, work: &OwnWork) -> CudaResult<()> {
        let calls = work.0.downcast_ref::<Vec<CollectiveCall>>().ok_or(CudaError::INVALID_VALUE)?;
        let number = |call: &CollectiveCall| u64::from(stream.vgpu.ordinal) << ORDINAL_SHIFT | call.comm.0;
        let comms = lock(&self.collectives.comms);
        if !calls.iter().all(|call| comms.contains_key(&number(call))) {
            return Err(CudaError::INVALID_HANDLE);
        }
        drop(comms);
        let suspended = lock(&self.collectives.suspended);
        if calls.iter().any(|call| suspended.contains(&number(call))) {
            return Err(CudaError::INVALID_VALUE);
        }
        drop(suspended);
        let calls = calls.iter().map(|call| CollectiveCall { stream: stream.id(), ..*call }).collect();
        stream.post(&CollectiveGroup { calls })
    }

    /// A call as its worker gets it, with the vGPU and the stream that it is put on.
    fn collective(&self, call: &Collective) -> NcclResult<(&Arc<Vgpu>, CollectiveCall, Arc<StreamState>, bool)> {
        let comm = call.call.comm.0;
        let vgpu = self.vgpu_of_comm(comm)?;
        if lock(&self.collectives.suspended).contains(&comm) {
            return failure(INVALID_USAGE, "the communicator is suspended");
        }
        let made = lock(&self.collectives.comms).get(&comm).copied().unwrap_or_default();
        let (stream, is_captured) = self.stream_of_group(vgpu, call.stream)?;
        let rank = u32::try_from(call.rank).ok().filter(|_| call.rank < made.ranks);
        let Some(rank) = rank else {
            return failure(INVALID_ARGUMENT, format!("no rank of {}: {}", made.ranks, call.rank));
        };
        let CollectiveCall { kind, datatype, count, send, receive, .. } = call.call;
        let Some(bytes) = element_bytes(datatype).and_then(|bytes| bytes.checked_mul(count)) else {
            return failure(INVALID_ARGUMENT, format!("no memory has {count} elements of type {datatype}"));
        };
        let ranks = u64::from(made.ranks.unsigned_abs());
        let (reads, writes) = extent(kind, ranks, call.rank == made.rank);
        for (at, times) in [(send, reads), (receive, writes)] {
            match bytes.checked_mul(times) {
                Some(bytes) => self.demand_own(vgpu, at, bytes)?,
                None => return failure(INVALID_ARGUMENT, "more bytes than any memory has"),
            }
        }
        let message = CollectiveCall { comm: wire_id(comm), rank, stream: stream.id(), ..call.call };
        Ok((vgpu, message, stream, is_captured))
    }

    /// The default stream of the communicator's device, or a stream of that device; and whether it is captured.
    fn stream_of_group(&self, vgpu: &Arc<Vgpu>, stream: Stream) -> NcclResult<(Arc<StreamState>, bool)> {
        if stream == Stream::LEGACY || stream.is_null() {
            let device = self.device_having(vgpu)?;
            let legacy = device.primary.legacy();
            vgpu.errors.report()?;
            self.refuse_captured(legacy)?;
            vgpu.send_mirrors()?;
            return Ok((Arc::clone(legacy), false));
        }
        let captured = self.capturing(stream)?;
        let is_captured = captured.is_some();
        let found = captured.map_or_else(|| self.working_stream(stream), Ok)?;
        if !Arc::ptr_eq(&found.vgpu, vgpu) {
            return failure(INVALID_USAGE, "the stream is of another device than the communicator");
        }
        Ok((Arc::clone(&found), is_captured))
    }

    /// Whether all these bytes are device memory of the vGPU.
    fn demand_own(&self, vgpu: &Arc<Vgpu>, at: DevicePtr, bytes: u64) -> NcclResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        let outside = || failure(INVALID_ARGUMENT, format!("{bytes} bytes at {:#x} are not the device's memory", at.0));
        let Ok(Lookup::Device(memory)) = self.lookup_device(at, bytes, vgpu) else { return outside() };
        if memory.is_managed {
            return failure(INVALID_ARGUMENT, "NCCL beside the GPU takes no managed memory");
        }
        let Some(end) = at.offset(bytes) else { return outside() };
        if vgpu.reach_range(&(at.0..end.0))? { Ok(()) } else { outside() }
    }
}

fn wire_id(comm: u64) -> CommId {
    CommId(comm & ((1 << ORDINAL_SHIFT) - 1))
}

/// An answer, or the words with which the worker refuses.
fn worded(answer: Answer) -> NcclResult<Answer> {
    match CudaError::from_code(answer.status) {
        None => Ok(answer),
        Some(error) => failure(CUDA_ERROR, format!("{error}: {}", floe_wire::printable(&answer.detail))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_communicators_number_has_its_vgpu_and_the_wires_id() {
        assert_eq!(wire_id(3 << ORDINAL_SHIFT | 77), CommId(77));
        assert_eq!((element_bytes(9), element_bytes(12)), (Some(2), None));
        assert_eq!(extent(4, 8, false), (8, 1));
    }
}
