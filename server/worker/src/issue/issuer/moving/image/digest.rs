//! One number for all tables of a session: two workers with the same objects have the same.
//! In: the tables. Out: a hash over ids, sizes, flags, places and names, not over what a driver chose and no program sees.

use floe_device::{Device, Mapped as _};

use super::Issuer;
use crate::issue::objects::array::{ArrayObject, Made};
use crate::issue::objects::block::Mapping;

/// The number.
pub(crate) type Digest = [u8; 32];

impl<D: Device> Issuer<D> {
    /// The digest of what the session has.
    pub(crate) fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for words in self.tables() {
            hasher.update(words.as_bytes());
            hasher.update(b"\n");
        }
        *hasher.finalize().as_bytes()
    }

    /// All that the digest is over, in words: a line for each object and message.
    pub(crate) fn tables(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.memory_lines(&mut lines);
        self.code_lines(&mut lines);
        self.work_lines(&mut lines);
        for object in self.recipes.objects() {
            self.recipes.messages(object, &mut |_, kind, payload| {
                lines.push(format!("{object:?} by {kind:#x} {}", blake3::hash(payload)));
            });
        }
        lines.extend(self.failures().iter().map(|failure| format!("{failure:?}")));
        lines.sort_unstable();
        lines
    }

    fn memory_lines(&self, lines: &mut Vec<String>) {
        for (id, block) in self.blocks.iter() {
            let block = block.map(|block| (block.bytes, block.mappings, block.released));
            lines.push(format!("block {id}: {block:?}"));
        }
        for (at, mapping) in &self.mappings {
            let Mapping { bytes, block, offset } = mapping;
            lines.push(format!("mapping {at:#x}: {bytes} from {offset} of block {}", block.0));
        }
        if let Some(memory) = &self.sharing.memory {
            lines.push(format!("shared memory {:#x}: {}", memory.at, memory.bytes));
        }
        for (at, pages) in &self.sharing.ranges {
            lines.push(format!("pages {at:#x}: {} reached {}", pages.memory().bytes(), pages.memory().is_reached()));
        }
        for (at, bytes) in self.shared.mirrors.ranges() {
            lines.push(format!("mirror {at:#x}: {bytes}"));
        }
        for (id, array) in self.arrays.iter() {
            let levels = |array: &ArrayObject| match &array.made {
                Made::Plain(_) => (0, Vec::new()),
                Made::Level(_, of) => (0, vec![*of]),
                Made::Mipmapped(_, levels, taken) => {
                    let mut taken = taken.clone();
                    taken.sort_unstable();
                    (*levels, taken)
                }
            };
            lines.push(format!("array {id}: {:?}", array.map(|its| (its.shape, its.charge, levels(its)))));
        }
        let ledger = &self.allowance.ledger;
        lines.push(format!("limits: {:?}, frame {}", ledger.limits(), ledger.largest_frame()));
    }

    fn code_lines(&self, lines: &mut Vec<String>) {
        for (id, library) in self.libraries.iter() {
            let library =
                library.map(|its| (its.charge, its.contents.iter().map(|(hash, _)| hash).collect::<Vec<_>>()));
            lines.push(format!("library {id}: {library:?}"));
        }
        for (id, kernel) in self.kernels.iter() {
            let kernel = kernel.map(|its| {
                let facts = self.device().kernel_facts(its.function);
                (its.library, its.parameter_bytes, its.frame, facts.map(|facts| facts.attributes))
            });
            lines.push(format!("kernel {id}: {kernel:?}"));
        }
    }

    fn work_lines(&self, lines: &mut Vec<String>) {
        for (id, stream) in self.streams.iter() {
            lines.push(format!("stream {id}: {:?}", stream.map(|its| (its.flags, its.priority))));
        }
        for (id, event) in self.events.iter() {
            lines.push(format!("event {id}: {:?}", event.map(|its| its.flags)));
        }
        for (id, graph) in self.graphs.iter() {
            let graph = graph.map(|its| (its.nodes.len(), its.exec.is_some(), &its.words, its.kept, its.failed));
            lines.push(format!("graph {id}: {graph:?}"));
        }
        for (id, texture) in self.textures.iter() {
            lines.push(format!("texture {id}: {texture:?}"));
        }
        for (id, surface) in self.surfaces.iter() {
            lines.push(format!("surface {id}: {surface:?}"));
        }
    }
}
