//! What the host reads and writes itself.
//! In: ranges. Out: whether nothing else touches them then. It never compares: the bytes are the executor's.

use super::state::{Admission, Model, Refusal, possible};
use super::touch::Touch;
use crate::operation::{Kind, Operation, Place, Stream, Which};
use crate::random::Random;

impl Model {
    pub(crate) fn admit_of_host(&mut self, operation: &Operation) -> Admission {
        match *operation {
            Operation::HostWrite { at, bytes, seed } => {
                self.check_host(at, bytes, true)?;
                let block = self.blocks.get_mut(&at.block).expect("it was checked");
                block.bytes[at.offset..at.offset + bytes].copy_from_slice(&Random::bytes(seed, bytes));
            }
            Operation::HostRead { at, bytes } => self.check_host(at, bytes, false)?,
            Operation::Read { at, bytes, vgpu } => {
                let block = self.block(at.block)?;
                possible(!block.is_array() && block.kind != Kind::OfGraph && block.holds(at.offset, bytes))?;
                possible(vgpu < self.can.vgpus && self.can.copies(vgpu, block))?;
                let stream = Stream { vgpu, which: Which::Default };
                let touch = Touch::new(at, bytes, false);
                self.check_order(&[touch], &self.order.before(stream))?;
                self.order.work(stream);
                self.order.synchronize_stream(stream);
                self.forget();
            }
            _ => return Err(Refusal::Impossible),
        }
        Ok(())
    }

    fn check_host(&self, at: Place, bytes: usize, writes: bool) -> Admission {
        let block = self.block(at.block)?;
        possible(block.holds(at.offset, bytes) && (block.is_host() || block.kind == Kind::Managed))?;
        self.check_order(&[Touch::new(at, bytes, writes)], self.order.host())?;
        // Without concurrent access the host may touch managed memory only while its device does nothing.
        let outstanding = if block.kind == Kind::Managed { self.order.outstanding(block.vgpu) } else { Vec::new() };
        if outstanding.is_empty() { Ok(()) } else { Err(Refusal::Unordered(outstanding)) }
    }
}
