//! Programs from seeds.
//! In: a seed, a length, what the devices can do. Out: a list of operations that the model admits one after the other.
//! Where work would race, it puts a wait before it, of any kind that orders the two. It never asks a device.

mod data;
mod graphs;
mod memory;

use crate::model::{Capabilities, Model, Refusal};
use crate::operation::{Id, Operation, Place, Stream, Which};
use crate::random::Random;

/// Tries to order an operation behind others, the last ones by the host.
const TRIES: usize = 4;

pub(crate) struct Generator {
    random: Random,
    model: Model,
    operations: Vec<Operation>,
    next: Id,
}

/// The program of a seed.
pub(crate) fn program(seed: u64, length: usize, can: Capabilities) -> Vec<Operation> {
    let (model, operations) = (Model::new(can), Vec::new());
    let mut generator = Generator { random: Random::new(seed), model, operations, next: 0 };
    generator.begin();
    while generator.operations.len() < length {
        generator.step();
    }
    generator.finish();
    generator.operations
}

impl Generator {
    fn begin(&mut self) {
        for vgpu in 0..self.model.can.vgpus {
            for _ in 0..3 {
                self.create_stream(vgpu);
            }
        }
        for _ in 0..10 {
            self.allocate();
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..9 => self.allocate(),
            9..13 => self.free(),
            13..17 => self.change_memory(),
            17..25 => self.write_by_host(),
            25..33 => self.read(),
            33..88 => self.work(),
            88..92 => self.order(),
            92..99 => self.graph(),
            _ => self.reset(),
        }
    }

    /// Reads everything that is left.
    fn finish(&mut self) {
        for vgpu in 0..self.model.can.vgpus {
            self.push(Operation::SynchronizeContext { vgpu });
        }
        let blocks: Vec<Id> = self.model.blocks.keys().copied().collect();
        for block in blocks {
            self.read_whole(block);
        }
    }

    fn id(&mut self) -> Id {
        self.next += 1;
        self.next
    }

    /// Adds an operation, behind what it must wait for; false where it makes no sense.
    fn push(&mut self, operation: Operation) -> bool {
        for attempt in 0..TRIES {
            match self.model.admit(&operation) {
                Ok(()) => {
                    self.operations.push(operation);
                    return true;
                }
                Err(Refusal::Impossible) => return false,
                Err(Refusal::Unordered(others)) => {
                    let toward = stream_of(&operation).filter(|_| attempt + 2 < TRIES);
                    for other in others {
                        self.order_behind(other, toward);
                    }
                }
            }
        }
        false
    }

    /// Orders what comes, on a stream or by the host, behind what another stream has done.
    fn order_behind(&mut self, other: Stream, toward: Option<Stream>) {
        if !self.model.order.has(other) {
            self.push(Operation::SynchronizeContext { vgpu: other.vgpu });
            return;
        }
        let by_query = self.random.once_in(4);
        match (toward, self.random.below(8)) {
            (Some(stream), 0..5) if self.model.can.across || stream.vgpu == other.vgpu => {
                let event = self.event(other);
                self.push(Operation::Record { event, stream: other });
                self.push(Operation::WaitEvent { event, stream });
            }
            (Some(stream), 0..5) if self.model.can.processes => {
                let event = self.opened_event(other, stream.vgpu);
                self.push(Operation::Record { event, stream: other });
                self.push(Operation::WaitEvent { event, stream });
            }
            (Some(to), 5 | 6) if to.vgpu == other.vgpu && crate::order::named(to) != other => {
                let wide = self.random.once_in(2);
                self.push(Operation::Signal { from: other, to, wide });
            }
            (None, 0..2) => {
                let event = self.event(other);
                self.push(Operation::Record { event, stream: other });
                self.push(Operation::SynchronizeEvent { event, by_query, vgpu: other.vgpu });
            }
            (_, 7) => drop(self.push(Operation::SynchronizeContext { vgpu: other.vgpu })),
            _ => drop(self.push(Operation::SynchronizeStream { stream: other, by_query })),
        }
    }

    /// An event of a stream's vGPU: a new one or one that is recorded again.
    fn event(&mut self, stream: Stream) -> Id {
        let known: Vec<Id> = self.model.order.events_of(stream.vgpu);
        match self.random.choose(&known) {
            Some(event) if known.len() > 6 || self.random.once_in(2) => event,
            _ => self.id(),
        }
    }

    /// An event that the processes of a stream and of a vGPU have.
    fn opened_event(&mut self, stream: Stream, vgpu: usize) -> Id {
        let events = &self.model.order;
        let known: Vec<Id> =
            events.events_of(vgpu).into_iter().filter(|event| events.has_event(*event, stream.vgpu)).collect();
        match self.random.choose(&known) {
            Some(event) if known.len() > 3 || self.random.once_in(2) => event,
            _ => {
                let event = self.event(stream);
                self.push(Operation::Record { event, stream });
                self.push(Operation::OpenEvent { event, vgpu });
                event
            }
        }
    }

    fn vgpu(&mut self) -> usize {
        self.random.below(self.model.can.vgpus)
    }

    /// A stream that work of this vGPU can be given to by its handle.
    fn stream_of(&mut self, vgpu: usize) -> Stream {
        let mut streams = self.model.order.streams_of(vgpu);
        streams.extend([Which::Legacy, Which::PerThread].map(|which| Stream { vgpu, which }));
        self.random.choose(&streams).expect("there are two")
    }

    fn create_stream(&mut self, vgpu: usize) {
        let stream = Stream { vgpu, which: Which::Own(self.id()) };
        let blocking = self.random.once_in(2);
        self.push(Operation::CreateStream { stream, blocking });
    }

    fn order(&mut self) {
        let vgpu = self.vgpu();
        let stream = self.stream_of(vgpu);
        let by_query = self.random.once_in(3);
        match self.random.below(7) {
            0 if self.model.order.streams_of(vgpu).len() < 6 => self.create_stream(vgpu),
            1 if self.model.order.streams_of(vgpu).len() > 2 => drop(self.push(Operation::DestroyStream { stream })),
            2 => {
                let event = self.event(stream);
                self.push(Operation::Record { event, stream });
            }
            3 => {
                let events = self.model.order.events();
                if let Some(event) = self.random.choose(&events) {
                    self.push(Operation::WaitEvent { event, stream });
                }
            }
            4 => drop(self.push(Operation::SynchronizeStream { stream, by_query })),
            5 => {
                let events = self.model.order.events();
                if let Some(event) = self.random.choose(&events) {
                    self.push(Operation::SynchronizeEvent { event, by_query, vgpu });
                }
            }
            _ => {
                let (to, wide) = (self.stream_of(vgpu), self.random.once_in(2));
                self.push(Operation::Signal { from: stream, to, wide });
            }
        }
    }

    /// Rare: everything of a vGPU ends, and it begins anew.
    fn reset(&mut self) {
        if !self.random.once_in(4) {
            return;
        }
        let vgpu = self.vgpu();
        for vgpu in 0..self.model.can.vgpus {
            self.push(Operation::SynchronizeContext { vgpu });
        }
        if self.push(Operation::Reset { vgpu }) {
            for _ in 0..3 {
                self.create_stream(vgpu);
                self.allocate();
            }
        }
    }

    /// A block that passes.
    fn block(&mut self, passes: impl Fn(&crate::model::Block) -> bool) -> Option<Id> {
        let fit: Vec<Id> = self.model.blocks.iter().filter(|(_, block)| passes(block)).map(|(id, _)| *id).collect();
        self.random.choose(&fit)
    }

    /// A range of a block, in one row where it has rows, at a multiple of `unit` and of as many units.
    fn range(&mut self, block: Id, unit: usize) -> (Place, usize) {
        let held = &self.model.blocks[&block];
        let (width, total, rows) = (held.width, held.bytes.len(), held.rows);
        let (row, length) = if held.has_shape() { (self.random.below(rows) * width, width) } else { (0, total) };
        let units = length / unit;
        let (first, count) = match self.random.below(6) {
            0 | 1 => (0, units),
            2 => {
                let count = self.random.between(1, units.min(64));
                (self.random.between(0, units - count), count)
            }
            3 => {
                let first = self.random.below(units);
                (first, units - first)
            }
            _ => {
                let first = self.random.below(units);
                (first, self.random.between(1, units - first))
            }
        };
        (Place { block, offset: row + first * unit }, count * unit)
    }
}

/// The stream that an operation is work of.
fn stream_of(operation: &Operation) -> Option<Stream> {
    match operation {
        Operation::Do { stream, .. } if stream.which != Which::Default => Some(*stream),
        Operation::Free { stream, .. } => *stream,
        Operation::LaunchGraph { stream, .. } | Operation::Prefetch { stream, .. } => Some(*stream),
        _ => None,
    }
}
