//! Communicators that are made by their workers, each way with its message.
//! In: how a communicator comes about. Out: a call of which the reply is still to come, since the ranks wait for each other.
//! What a worker would end the session for is refused here.

use std::sync::Arc;

use floe_abi::CudaError;
use floe_lock::lock;
use floe_wire::{AbortComm, Call, CommId, EndComm, GrowComm, InitComm, ShrinkComm, SplitComm};

use super::parts::{CUDA_ERROR, failure};
use super::{
    INVALID_ARGUMENT, MadeComm, NcclFailure, NcclResult, NewComm, ORDINAL_SHIFT, Origin, judged, wire_id, worded,
};
use crate::client::Client;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::{Answer, Ticket};

/// The most ranks of a communicator.
const MOST_RANKS: u32 = 1 << 20;

/// A communicator as its worker made it of another.
fn made_of(outcome: (u32, &str), rank: u32, ranks: u32) -> NcclResult<MadeComm> {
    judged(outcome, MadeComm { comm: 0, rank: rank.cast_signed(), ranks: ranks.cast_signed() })
}

/// A call of which the reply is still to come.
struct Begun {
    vgpu: Arc<Vgpu>,
    ticket: Ticket,
    id: u64,
    read: fn(&[u8], MadeComm) -> Result<NcclResult<MadeComm>, floe_wire::DecodeError>,
    made: MadeComm,
}

impl Begun {
    /// Has the worker forget it, whether it was made or not. Its answer is not waited for.
    fn give_up(&self) {
        let comm = CommId(self.id);
        // A session that is gone has none. An abort overtakes the command that makes it, and an end comes behind that.
        let _ = self.vgpu.connection.begin(&AbortComm { comm });
        let _ = self.vgpu.connection.begin(&EndComm { comm, how: 1 });
        let _ = self.vgpu.connection.flush();
    }
}

impl Client {
    /// Makes communicators, all at once, and waits.
    ///
    /// # Errors
    /// The first that fails.
    pub fn nccl_make(&self, news: &[NewComm<'_>]) -> NcclResult<Vec<MadeComm>> {
        let mut begun = Vec::with_capacity(news.len());
        for new in news {
            match self.begin_comm(new) {
                Ok(one) => begun.push(one),
                Err(failed) => {
                    begun.iter().for_each(Begun::give_up);
                    return Err(failed);
                }
            }
        }
        for one in &begun {
            one.vgpu.connection.flush()?;
        }
        if let [one] = begun.as_slice() {
            return Ok(vec![self.finish_comm(one, one.vgpu.connection.answer(&one.ticket)?)?]);
        }
        self.finish_comms(begun)
    }

    /// Waits for communicators as they are made. The ranks wait for each other, so where one fails the others are given up.
    fn finish_comms(&self, begun: Vec<Begun>) -> NcclResult<Vec<MadeComm>> {
        let mut made = vec![MadeComm::default(); begun.len()];
        let (begun, (answered, answers)) = (Arc::new(begun), std::sync::mpsc::channel());
        for index in 0..begun.len() {
            let (all, answered) = (Arc::clone(&begun), answered.clone());
            let wait = move || {
                let answer = all[index].vgpu.connection.answer(&all[index].ticket);
                // After a failure nobody wants to know.
                let _ = answered.send((index, answer));
            };
            let thread = std::thread::Builder::new().name("floe-nccl".into()).spawn(wait);
            thread.map_err(|_| CudaError::OPERATING_SYSTEM)?;
        }
        for _ in 0..begun.len() {
            let Ok((index, answer)) = answers.recv() else { return failure(CUDA_ERROR, "a thread has ended") };
            let finished = answer.map_err(NcclFailure::from).and_then(|answer| self.finish_comm(&begun[index], answer));
            match finished {
                Ok(one) => made[index] = one,
                Err(failed) => {
                    begun.iter().for_each(Begun::give_up);
                    return Err(failed);
                }
            }
        }
        Ok(made)
    }

    fn finish_comm(&self, begun: &Begun, answer: Answer) -> NcclResult<MadeComm> {
        let connection = &begun.vgpu.connection;
        let answer = worded(answer)?;
        let made = connection.read((begun.read)(&answer.body, begun.made))??;
        if begun.id == 0 {
            return Ok(MadeComm::default());
        }
        let made = MadeComm { comm: u64::from(begun.vgpu.ordinal) << ORDINAL_SHIFT | begun.id, ..made };
        lock(&self.collectives.comms).insert(made.comm, made);
        Ok(made)
    }

    fn begin_comm(&self, new: &NewComm<'_>) -> NcclResult<Begun> {
        // Without a configuration a communicator has its parent's.
        let (config, name) = (new.config.unwrap_or_default().to_vec(), new.name);
        match new.origin {
            Origin::Ids { device, ids, ranks, rank } => {
                let vgpu = &self.device(floe_abi::Device(device))?.vgpu;
                self.open_nccl(vgpu)?;
                let (Ok(many), Ok(own)) = (u32::try_from(ranks), u32::try_from(rank)) else {
                    return failure(INVALID_ARGUMENT, format!("no rank of {ranks}: {rank}"));
                };
                if own >= many || ids.is_empty() || ids.len() % 128 != 0 {
                    return failure(INVALID_ARGUMENT, format!("no rank of {ranks}: {rank}"));
                }
                let id = vgpu.next_id();
                let message = InitComm { comm: CommId(id), ids, ranks: many, rank: own, config, name };
                let made = MadeComm { comm: 0, rank, ranks };
                Self::begun(vgpu, &message, id, made, |body, made| {
                    InitComm::decode_reply(body).map(|reply| judged((reply.result, reply.words), made))
                })
            }
            Origin::Grow { comm, device, id, ranks, rank } => {
                let vgpu =
                    if comm == 0 { &self.device(floe_abi::Device(device))?.vgpu } else { self.vgpu_of_comm(comm)? };
                self.open_nccl(vgpu)?;
                let (Ok(ranks), Ok(rank)) = (u32::try_from(ranks), u32::try_from(rank)) else {
                    return failure(INVALID_ARGUMENT, format!("no rank of {ranks}: {rank}"));
                };
                if rank >= ranks || ranks > MOST_RANKS || !matches!(id.len(), 0 | 128) {
                    return failure(INVALID_ARGUMENT, format!("no rank of {ranks}: {rank}"));
                }
                let (new, child) = (vgpu.next_id(), wire_id(comm));
                let message = GrowComm { comm: child, child: CommId(new), id, ranks, rank, config, name };
                Self::begun(vgpu, &message, new, MadeComm::default(), |body, _| {
                    GrowComm::decode_reply(body)
                        .map(|reply| made_of((reply.result, reply.words), reply.rank, reply.ranks))
                })
            }
            Origin::Split { comm, color, key } => {
                let vgpu = self.vgpu_of_comm(comm)?;
                let id = if color == -1 { 0 } else { vgpu.next_id() };
                let (comm, child) = (wire_id(comm), CommId(id));
                let message = SplitComm { comm, child, color, key, config, name };
                Self::begun(vgpu, &message, id, MadeComm::default(), |body, _| {
                    SplitComm::decode_reply(body)
                        .map(|reply| made_of((reply.result, reply.words), reply.rank, reply.ranks))
                })
            }
            Origin::Shrink { comm, excluded, flags } => {
                let vgpu = self.vgpu_of_comm(comm)?;
                let id = vgpu.next_id();
                let (comm, child, excluded) = (wire_id(comm), CommId(id), excluded.to_vec());
                let message = ShrinkComm { comm, child, excluded, flags, config, name };
                Self::begun(vgpu, &message, id, MadeComm::default(), |body, _| {
                    ShrinkComm::decode_reply(body)
                        .map(|reply| made_of((reply.result, reply.words), reply.rank, reply.ranks))
                })
            }
        }
    }

    fn begun<M: Call>(
        vgpu: &Arc<Vgpu>,
        message: &M,
        id: u64,
        made: MadeComm,
        read: fn(&[u8], MadeComm) -> Result<NcclResult<MadeComm>, floe_wire::DecodeError>,
    ) -> NcclResult<Begun> {
        let ticket = vgpu.connection.begin(message)?;
        Ok(Begun { vgpu: Arc::clone(vgpu), ticket, id, read, made })
    }
}
