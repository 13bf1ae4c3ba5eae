//! Memory that comes, moves and goes.
//! In: allocations, frees and a vGPU's end. Out: blocks. It never frees what work may still touch.

use super::block::Block;
use super::state::{Admission, Model, Refusal, possible};
use super::touch::Touch;
use crate::operation::{Kind, Operation, Place, Stream};

/// Most bytes of all blocks of a program together.
const MOST_BYTES: usize = 24 << 20;

/// What a module's variable holds at first; `variables.ptx` says it too.
const VARIABLE: [u32; 8] = [1, 2, 3, 5, 8, 13, 21, 34];
/// And the bytes it has.
pub(crate) const VARIABLE_BYTES: usize = 4096;

impl Model {
    pub(crate) fn admit_memory(&mut self, operation: &Operation) -> Admission {
        match *operation {
            Operation::Allocate { .. } => self.admit_allocation(operation),
            Operation::Free { block, stream } => self.admit_free(block, stream),
            Operation::Remap { block } => {
                possible(self.block(block)?.kind == Kind::Virtual)?;
                self.admit_move(block, |block| block.opened.clear())
            }
            Operation::Register { block } => {
                possible(self.block(block)?.is_pageable())?;
                self.admit_move(block, |block| block.is_registered = true)
            }
            Operation::Unregister { block } => {
                possible(self.block(block)?.is_registered)?;
                self.admit_move(block, |block| block.is_registered = false)
            }
            Operation::Prefetch { block, stream, .. } => {
                let held = self.block(block)?;
                possible(held.kind == Kind::Managed && held.vgpu == stream.vgpu && self.order.has(stream))?;
                let touch = Touch { block, start: 0, end: held.bytes.len(), writes: true };
                self.check_order(&[touch], &self.order.before(stream))?;
                let moment = self.order.work(stream);
                self.note(&[touch], moment);
                Ok(())
            }
            Operation::Open { block, vgpu } => {
                possible(self.can.opens(vgpu, self.block(block)?))?;
                self.blocks.entry(block).and_modify(|block| block.opened.push(vgpu));
                Ok(())
            }
            Operation::Close { block, vgpu } => {
                possible(self.block(block)?.opened.contains(&vgpu) && self.block(block)?.kind == Kind::Virtual)?;
                self.check_rest(block)?;
                self.blocks.entry(block).and_modify(|block| block.close(vgpu));
                Ok(())
            }
            Operation::Reset { vgpu } => self.admit_reset(vgpu),
            _ => Err(Refusal::Impossible),
        }
    }

    fn admit_allocation(&mut self, operation: &Operation) -> Admission {
        let Operation::Allocate { block, kind, vgpu, width, rows, fill } = *operation else {
            return Err(Refusal::Impossible);
        };
        let held: usize = self.blocks.values().map(|block| block.bytes.len()).sum();
        possible(!self.blocks.contains_key(&block) && vgpu < self.can.vgpus && held + width * rows <= MOST_BYTES)?;
        let mut made = Block::new(kind, vgpu, width, rows, fill);
        if kind == Kind::Variable {
            possible(made.bytes.len() == VARIABLE_BYTES)?;
            made.bytes.fill(0);
            VARIABLE.iter().zip((0..).step_by(4)).for_each(|(word, offset)| made.set_word(offset, *word));
        }
        let stream = match kind {
            Kind::Pool { stream, .. } => {
                possible(stream.vgpu == vgpu && self.order.has(stream))?;
                Some(stream)
            }
            // A fill of the default stream.
            Kind::Device | Kind::Pitched | Kind::Virtual | Kind::Managed | Kind::Array { .. } => {
                Some(Stream { vgpu, which: crate::operation::Which::Default })
            }
            _ => None,
        };
        let touch = Touch::new(Place { block, offset: 0 }, made.bytes.len(), true);
        self.blocks.insert(block, made);
        if let Some(stream) = stream {
            let moment = self.order.work(stream);
            self.note(&[touch], moment);
        }
        Ok(())
    }

    fn admit_free(&mut self, block: u32, stream: Option<Stream>) -> Admission {
        let held = self.block(block)?;
        possible(held.kind != Kind::OfGraph && !held.is_registered)?;
        match stream {
            Some(stream) => {
                let is_of_pool = matches!(held.kind, Kind::Pool { .. });
                possible(is_of_pool && held.vgpu == stream.vgpu && self.order.has(stream))?;
                self.check_end(block, stream)?;
                self.order.work(stream);
            }
            None => self.check_rest(block)?,
        }
        self.blocks.remove(&block);
        Ok(())
    }

    fn admit_move(&mut self, block: u32, change: impl FnOnce(&mut Block)) -> Admission {
        self.check_rest(block)?;
        let held = self.blocks.get_mut(&block).expect("it was looked up");
        held.version += 1;
        change(held);
        Ok(())
    }

    fn admit_reset(&mut self, vgpu: usize) -> Admission {
        possible(vgpu < self.can.vgpus)?;
        let outstanding = self.order.outstanding(vgpu);
        if !outstanding.is_empty() {
            return Err(Refusal::Unordered(outstanding));
        }
        let of_it: Vec<u32> = self.blocks.iter().filter(|(_, block)| block.vgpu == vgpu).map(|(id, _)| *id).collect();
        for block in &of_it {
            self.check_rest(*block)?;
        }
        let opened: Vec<u32> =
            self.blocks.iter().filter(|(_, block)| block.opened.contains(&vgpu)).map(|(id, _)| *id).collect();
        for block in &opened {
            self.check_rest(*block)?;
        }
        self.blocks.values_mut().for_each(|block| block.close(vgpu));
        self.graphs.retain(|_, graph| graph.vgpu != vgpu);
        self.instances.retain(|_, graph| graph.vgpu != vgpu);
        for id in of_it {
            let block = self.blocks.get_mut(&id).expect("it was listed");
            if block.kind == Kind::Pageable {
                block.version += u32::from(block.is_registered);
                block.is_registered = false;
            } else {
                self.blocks.remove(&id);
            }
        }
        self.order.reset(vgpu);
        Ok(())
    }
}
