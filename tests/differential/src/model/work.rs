//! Work of streams: whether it is ordered, and what it does to memory.
//! In: work and its stream. Out: changed bytes. It never touches a byte that `touch` has not named.

use super::block::Block;
use super::state::{Admission, Model, possible};
use super::touch::Touch;
use crate::operation::{Kernel, Kind, Stream, Which, Work};

impl Model {
    pub(crate) fn admit_work(&mut self, stream: Stream, work: &Work) -> Admission {
        possible(stream.vgpu < self.can.vgpus && self.order.has(stream) && is_callable(stream, work))?;
        let touches = self.touches(stream.vgpu, work)?;
        possible(!touches.iter().any(|touch| self.blocks[&touch.block].kind == Kind::OfGraph))?;
        // The call itself reads or writes pageable memory, but in a batch.
        let is_by_call = |touch: &Touch| {
            !matches!(work, Work::Batch { .. } | Work::Function { .. }) && self.blocks[&touch.block].is_pageable()
        };
        let (by_call, by_stream): (Vec<_>, Vec<_>) = touches.iter().copied().partition(is_by_call);
        self.check_order(&by_stream, &self.order.before(stream))?;
        self.check_order(&by_call, self.order.host())?;
        if !self.can.reads_in_order && matches!(work, Work::Copy { .. } | Work::Box { .. } | Work::Batch { .. }) {
            let sources = by_stream.iter().filter(|touch| !touch.writes && self.blocks[&touch.block].is_host());
            self.check_order(&sources.copied().collect::<Vec<_>>(), &self.order.reached(stream))?;
        }
        let moment = self.order.work(stream);
        self.note(&by_stream, moment);
        self.perform(work);
        if by_call.iter().any(|touch| touch.writes) || self.is_waited_for(stream, &touches) {
            self.order.synchronize_stream(stream);
            self.forget();
        }
        Ok(())
    }

    /// Copies by calls that name no stream are over when they return, if their target is the host's memory, or their
    /// source is pinned.
    fn is_waited_for(&self, stream: Stream, touches: &[Touch]) -> bool {
        let on_host = |touch: &Touch| self.blocks[&touch.block].is_host();
        stream.which == Which::Default && touches.len() > 1 && {
            let pinned = |touch: &Touch| on_host(touch) && !self.blocks[&touch.block].is_pageable();
            touches.iter().any(|touch| if touch.writes { on_host(touch) } else { pinned(touch) })
        }
    }

    /// Changes the bytes. Places and shapes are as `touches` has checked them.
    pub(crate) fn perform(&mut self, work: &Work) {
        match work {
            Work::Fill { at, unit, value, columns, rows } => {
                let row = value.to_le_bytes()[..*unit].repeat(*columns);
                self.change(at.at.block, |block| block.scatter(*at, [row.len(), *rows, 1], &row.repeat(*rows)));
            }
            Work::Copy { to, from, bytes, .. } => self.copy(*to, *from, *bytes),
            Work::Box { to, from, extent } => {
                let bytes = self.blocks[&from.at.block].gather(*from, *extent);
                self.change(to.at.block, |block| block.scatter(*to, *extent, &bytes));
            }
            Work::Batch { copies } => copies.iter().for_each(|(to, from, bytes)| self.copy(*to, *from, *bytes)),
            Work::Kernel(kernel) => self.launch(kernel),
            Work::Function { at, words, multiply, add } => {
                self.change(at.block, |block| block.change(at.offset, *words, *multiply, *add));
            }
            Work::Write { at, bytes, value } => {
                let value = &value.to_le_bytes()[..*bytes];
                self.change(at.block, |block| block.bytes[at.offset..at.offset + bytes].copy_from_slice(value));
            }
            Work::Wait { .. } => {}
        }
    }

    fn change(&mut self, block: crate::operation::Id, change: impl FnOnce(&mut Block)) {
        change(self.blocks.get_mut(&block).expect("it was looked up"));
    }

    fn copy(&mut self, to: crate::operation::Place, from: crate::operation::Place, bytes: usize) {
        let copied = self.blocks[&from.block].bytes[from.offset..from.offset + bytes].to_vec();
        self.change(to.block, |block| block.bytes[to.offset..to.offset + bytes].copy_from_slice(&copied));
    }

    fn launch(&mut self, kernel: &Kernel) {
        match *kernel {
            Kernel::Affine { at, words, multiply, add } => {
                self.change(at.block, |block| block.change(at.offset, words, multiply, add));
            }
            Kernel::Stride { to, from, words, to_step, from_step } => {
                for word in 0..words {
                    let value = self.blocks[&from.block].word(from.offset + word * from_step * 4);
                    self.change(to.block, |block| block.set_word(to.offset + word * to_step * 4, value));
                }
            }
            Kernel::Atomic { at, words, threads, step } => self.change(at.block, |block| {
                for (thread, added) in (0..threads).zip(1..) {
                    let offset = at.offset + thread * step % words * 4;
                    block.set_word(offset, block.word(offset).wrapping_add(added));
                }
            }),
            Kernel::Bytes { at, bytes, flip } => {
                self.change(at.block, |block| {
                    block.bytes[at.offset..at.offset + bytes].iter_mut().for_each(|byte| *byte ^= flip);
                });
            }
            Kernel::Spin { .. } => {}
            Kernel::Texture { to, array } => {
                let source = &self.blocks[&array];
                let Kind::Array { unit, .. } = source.kind else { return };
                let widen =
                    |element: &[u8]| element.iter().rev().fold(0_u32, |wide, byte| wide << 8 | u32::from(*byte));
                let words: Vec<u8> =
                    source.bytes.chunks(unit).flat_map(|element| widen(element).to_le_bytes()).collect();
                self.change(to.block, |block| block.bytes[to.offset..to.offset + words.len()].copy_from_slice(&words));
            }
            Kernel::Surface { array, multiply, add } => {
                self.change(array, |block| block.change(0, block.bytes.len() / 4, multiply, add));
            }
            Kernel::Own { variable, words, multiply, add } => {
                self.change(variable, |block| block.change(0, words, multiply, add));
            }
        }
    }
}

/// Whether there is a function for this work on this stream.
fn is_callable(stream: Stream, work: &Work) -> bool {
    match work {
        Work::Batch { .. } => matches!(stream.which, Which::Own(_) | Which::PerThread),
        Work::Fill { .. } | Work::Copy { .. } | Work::Box { .. } => true,
        _ => stream.which != Which::Default,
    }
}
