//! Blocks that come, move and go, and what the host does with them.
//! In: the model. Out: operations. Sizes lie around the limits between the ways that copies take.

use super::Generator;
use crate::model::VARIABLE_BYTES;
use crate::operation::{Call, End, Id, Kind, Operation, Place, Stream, Which, Work};

/// Sizes at which copies go another way, in bytes.
const LIMITS: [usize; 6] = [4 << 10, 32 << 10, 64 << 10, 96 << 10, 128 << 10, 512 << 10];
/// Blocks of a program at one time.
const MOST_BLOCKS: usize = 28;

impl Generator {
    fn size(&mut self) -> usize {
        match self.random.below(10) {
            0..4 => self.random.between(1, 1200) * 4,
            4..8 => {
                let limit = self.random.choose(&LIMITS).expect("there are some");
                (limit + self.random.below(9) * 4 - 16).max(64)
            }
            8 => self.random.between(64, 300_000) / 4 * 4,
            _ => self.random.between(1 << 20, 5 << 20) / 4 * 4,
        }
    }

    pub(super) fn allocate(&mut self) {
        if self.model.blocks.len() >= MOST_BLOCKS {
            return;
        }
        let vgpu = self.vgpu();
        let (mut width, mut rows) = (self.size(), 1);
        let kind = match self.random.below(18) {
            0..3 => Kind::Device,
            3 => {
                (width, rows) = (self.random.between(1, 200) * 4, self.random.between(1, 60));
                Kind::Pitched
            }
            4..6 => Kind::Pool { stream: self.stream_of(vgpu), own: self.random.once_in(3) },
            6 | 7 => Kind::Virtual,
            8 | 9 if self.model.can.managed => Kind::Managed,
            10..13 => Kind::Pinned { write_combined: self.random.once_in(5) },
            13 | 14 => Kind::Pageable,
            15 | 16 => {
                let unit = self.random.choose(&[1, 2, 4, 4]).expect("there are some");
                let channels = self.random.choose(&[1, 1, 2, 4]).expect("there are some");
                let depth = if self.random.once_in(3) { self.random.between(1, 4) } else { 0 };
                let texels = self.random.between(2, 70);
                width = texels * unit * channels;
                rows = self.random.between(1, 30) * depth.max(1);
                Kind::Array { unit, channels, depth }
            }
            17 => {
                width = VARIABLE_BYTES;
                Kind::Variable
            }
            _ => Kind::Device,
        };
        let block = self.id();
        let [fill, ..] = self.random.word().to_le_bytes();
        self.push(Operation::Allocate { block, kind, vgpu, width, rows, fill });
    }

    pub(super) fn free(&mut self) {
        if self.model.blocks.len() < MOST_BLOCKS / 3 {
            return;
        }
        let Some(block) = self.block(|_| true) else { return };
        let held = &self.model.blocks[&block];
        let (vgpu, kind) = (held.vgpu, held.kind);
        let in_order = matches!(kind, Kind::Pool { .. }) && !self.random.once_in(5);
        let stream = in_order.then(|| self.stream_of(vgpu));
        self.push(Operation::Free { block, stream });
    }

    pub(super) fn change_memory(&mut self) {
        match self.random.below(8) {
            0 => {
                if let Some(block) = self.block(|block| block.kind == Kind::Virtual) {
                    self.push(Operation::Remap { block });
                }
            }
            5..7 => self.open(),
            7 => self.close(),
            1 | 2 => {
                if let Some(block) = self.block(crate::model::Block::is_pageable) {
                    self.push(Operation::Register { block });
                }
            }
            3 => {
                if let Some(block) = self.block(|block| block.is_registered) {
                    self.push(Operation::Unregister { block });
                }
            }
            _ => {
                if let Some(block) = self.block(|block| block.kind == Kind::Managed) {
                    let stream = self.stream_of(self.model.blocks[&block].vgpu);
                    let to_host = self.random.once_in(2);
                    self.push(Operation::Prefetch { block, to_host, stream });
                }
            }
        }
    }

    /// Another vGPU gets access.
    fn open(&mut self) {
        let (vgpu, can) = (self.vgpu(), self.model.can);
        if let Some(block) = self.block(|block| can.opens(vgpu, block)) {
            self.push(Operation::Open { block, vgpu });
        }
    }

    fn close(&mut self) {
        if let Some(block) = self.block(|block| !block.opened.is_empty()) {
            let vgpu = self.random.choose(&self.model.blocks[&block].opened).expect("there are some");
            self.push(Operation::Close { block, vgpu });
        }
    }

    pub(super) fn write_by_host(&mut self) {
        if let Some(block) = self.block(|block| block.is_host() || block.kind == Kind::Managed) {
            let (at, bytes) = self.range(block, 1);
            let seed = self.random.number();
            self.push(Operation::HostWrite { at, bytes, seed });
        }
    }

    pub(super) fn read(&mut self) {
        let Some(block) = self.block(|block| block.kind != Kind::OfGraph) else { return };
        let held = &self.model.blocks[&block];
        let (owner, is_host, is_managed) = (held.holder(), held.is_host(), held.kind == Kind::Managed);
        if held.is_array() {
            self.read_whole(block);
            return;
        }
        let by_host = is_host || is_managed && self.random.once_in(2);
        let vgpu = if self.random.once_in(3) { self.vgpu() } else { owner };
        let (at, bytes) = self.range(block, 1);
        self.push(if by_host { Operation::HostRead { at, bytes } } else { Operation::Read { at, bytes, vgpu } });
    }

    /// Reads all of a block, by a box where it is an array.
    pub(super) fn read_whole(&mut self, block: Id) {
        let held = &self.model.blocks[&block];
        let (vgpu, width, rows, height) = (held.holder(), held.width, held.rows, held.height());
        let holders: Vec<usize> = held.opened.iter().copied().filter(|other| *other != vgpu).chain([vgpu]).collect();
        let at = Place { block, offset: 0 };
        if held.is_host() {
            self.push(Operation::HostRead { at, bytes: width * rows });
        } else if held.is_array() {
            let copy = self.id();
            self.push(Operation::Allocate {
                block: copy,
                kind: Kind::Pageable,
                vgpu,
                width: width * rows,
                rows: 1,
                fill: 0,
            });
            let [to, from] = [copy, block].map(|block| End { at: Place { block, offset: 0 }, pitch: width, height });
            let work = Work::Box { to, from, extent: [width, height, rows / height] };
            self.push(Operation::Do { stream: Stream { vgpu, which: Which::Default }, work });
            self.push(Operation::HostRead { at: to.at, bytes: width * rows });
            self.push(Operation::Free { block: copy, stream: None });
        } else if held.kind == Kind::Pitched {
            for row in 0..rows {
                self.push(Operation::Read { at: Place { block, offset: row * width }, bytes: width, vgpu });
            }
        } else {
            for vgpu in holders {
                self.push(Operation::Read { at, bytes: width * rows, vgpu });
            }
        }
    }

    /// Any of the functions that copy a line.
    pub(super) fn call(&mut self) -> Call {
        if self.random.once_in(3) { Call::Any } else { Call::Named }
    }
}
