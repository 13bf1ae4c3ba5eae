//! The vGPUs that a program has on one server, and what their GPUs can do with each other's memory. vGPUs come in, once; whoever is
//! beside one goes out. A pair is asked about once.

use std::sync::{Arc, Weak};

use floe_abi::{CudaError, CudaResult};
use floe_wire::{AskPeer, AskPeerReply, Call};

use super::PeerAbility;
use crate::vgpu::Vgpu;
use floe_lock::lock;

impl Vgpu {
    /// Says which other vGPUs the program has on the same server. Said once.
    pub(crate) fn meet(self: &Arc<Self>, all: &[Arc<Self>]) {
        let others = all.iter().filter(|other| !Arc::ptr_eq(self, other) && self.is_beside(other));
        let _ = self.peers.others.set(others.map(Arc::downgrade).collect());
    }

    /// Whether both are of one server.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.peers.seat.server.is_some() && self.peers.seat.server == other.peers.seat.server
    }

    /// The program's other vGPUs of the same server.
    pub(crate) fn others(&self) -> impl Iterator<Item = Arc<Self>> {
        self.peers.others.get().into_iter().flatten().filter_map(Weak::upgrade)
    }

    /// Whether there are any.
    pub(crate) fn has_others(&self) -> bool {
        self.peers.others.get().is_some_and(|others| !others.is_empty())
    }

    /// What kernels of this vGPU can do with the memory of another: nothing where that is of another server.
    pub(crate) fn ability_with(&self, other: &Self) -> CudaResult<PeerAbility> {
        if !self.is_beside(other) {
            return Ok(PeerAbility::default());
        }
        let gpu = other.peers.seat.gpu;
        if let Some(known) = lock(&self.peers.abilities).get(&gpu) {
            return Ok(*known);
        }
        let ability = match self.call(&AskPeer { gpu }) {
            // A device without peers.
            Err(CudaError::NOT_SUPPORTED) => PeerAbility::default(),
            answer => {
                let reply = self.connection.read(AskPeer::decode_reply(&answer?.body))?;
                let AskPeerReply { rank, access, atomics, arrays } = reply;
                PeerAbility { rank, access, atomics, arrays }
            }
        };
        lock(&self.peers.abilities).insert(gpu, ability);
        Ok(ability)
    }
}
