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
                possible(!self.block(block)?.is_left)?;
                // What another process has opened stays where it is there.
                let is_kept = self.can.processes;
                self.admit_move(block, |block| block.opened.retain(|_| is_kept))
            }
            Operation::Register { block } => {
                possible(self.block(block)?.is_pageable())?;
                self.admit_move(block, |block| block.is_registered = true)
            }
            Operation::Unregister { block } => {
                possible(self.block(block)?.is_registered)?;
                self.admit_move(block, |block| block.is_registered = false)
            }
            Operation::Prefetch { block, stream, to_host } => {
                let held = self.block(block)?;
                possible(held.kind == Kind::Managed && held.vgpu == stream.vgpu && self.order.has(stream))?;
                let touch = Touch { block, start: 0, end: held.bytes.len(), writes: true };
                self.check_order(&[touch], &self.order.before(stream))?;
                // Where host and device do not touch it at once, a prefetch to the device is refused, and orders nothing.
                if to_host {
                    let moment = self.order.work(stream);
                    self.note(&[touch], moment);
                }
                Ok(())
            }
            Operation::Open { block, vgpu } => {
                possible(self.can.opens(vgpu, self.block(block)?))?;
                if self.can.processes {
                    self.check_rest(block)?;
                }
                self.blocks.entry(block).and_modify(|block| block.opened.push(vgpu));
                Ok(())
            }
            Operation::Close { block, vgpu } => {
                let held = self.block(block)?;
                possible(held.opened.contains(&vgpu) && (self.can.processes || held.kind == Kind::Virtual))?;
                self.check_rest(block)?;
                self.blocks.entry(block).and_modify(|block| block.close(vgpu));
                self.blocks.retain(|_, block| !block.is_over());
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
        possible(held.kind != Kind::OfGraph && !held.is_registered && !held.is_left)?;
        if self.can.processes && !held.opened.is_empty() {
            // What the others have of other kinds may be used again.
            possible(held.kind == Kind::Virtual && stream.is_none())?;
            return self.admit_move(block, |block| block.is_left = true);
        }
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
        let is_touched = |block: &Block| block.vgpu == vgpu || block.opened.contains(&vgpu);
        let touched: Vec<u32> = self.blocks.iter().filter(|(_, block)| is_touched(block)).map(|(id, _)| *id).collect();
        for block in &touched {
            self.check_rest(*block)?;
            let held = self.block(*block)?;
            let is_elsewhere = self.can.processes && held.vgpu == vgpu && !held.opened.is_empty();
            possible(!is_elsewhere || held.kind == Kind::Virtual)?;
        }
        self.graphs.retain(|_, graph| graph.vgpu != vgpu);
        self.instances.retain(|_, graph| graph.vgpu != vgpu);
        let processes = self.can.processes;
        self.blocks.values_mut().for_each(|block| block.end_of(vgpu, processes));
        self.blocks.retain(|_, block| !block.is_over());
        self.order.reset(vgpu);
        Ok(())
    }
}
