//! What is kept of a session: the steps by which it left, and descriptors.
//! In: steps of the worker that leaves. Out: an answer to each, or why the session is not kept; later the same in their order.
//! Nothing is understood of objects and the link. Bytes of blocks are compared with the source's hashes.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use floe_device::{HASH_UNIT, HashKey, UnitHash};

use crate::life::moving::arrive::wanted::Refused;
use crate::life::moving::differing::{Hashed, differing, hashes_of, key_of};
use crate::life::moving::words::{
    Answer, Contents, Description, Last, LentBlock, LinkKind, MOST_BLOCKS, Piece, RING_MEMORY, RING_SOCKET, Step,
    UNTAKEN, Variable,
};

/// The most threads that hash.
const MOST_HASHING: usize = 16;

/// A session that is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(super) description: Description,
    /// Descriptors, by the numbers under which its source offered them.
    pub(super) files: BTreeMap<u64, OwnedFd>,
    /// Contents of libraries, by their hashes.
    pub(super) code: Vec<([u8; 32], Box<[u8]>)>,
    /// Images of objects, in their order.
    pub(super) objects: Vec<Vec<u8>>,
    /// Blocks, by where they were staged.
    pub(super) blocks: BTreeMap<u64, Block>,
    pub(super) variables: Vec<Variable>,
    pub(super) contents: Vec<Together>,
    /// Hashes of all blocks by a key, until anything of them changes.
    hashed: Hashed,
    /// The hashes by which the source's memory and this are the same.
    pub(super) compared: Option<([u64; 2], Vec<u8>)>,
    pub(super) last: Option<(Box<Last>, Vec<u8>)>,
    pub(super) digest: Option<[u8; 32]>,
    /// The most bytes that it may take.
    room: u64,
}

/// Things that are not memory of blocks, with the bytes of each, and these bytes.
type Together = (Vec<(Contents, u64)>, Vec<u8>);

/// A block with its bytes.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) lent: LentBlock,
    pub(super) bytes: Vec<u8>,
}

impl Kept {
    /// Nothing yet of this session, for so many bytes.
    pub(super) fn new(description: Description, room: u64) -> Self {
        Self {
            description,
            files: BTreeMap::new(),
            code: Vec::new(),
            objects: Vec::new(),
            blocks: BTreeMap::new(),
            variables: Vec::new(),
            contents: Vec::new(),
            hashed: Hashed::default(),
            compared: None,
            last: None,
            digest: None,
            room,
        }
    }

    /// Bytes of everything.
    pub(super) fn bytes(&self) -> u64 {
        let small = self.code.iter().map(|(_, content)| content.len());
        let small = small.chain(self.objects.iter().map(Vec::len));
        let small = small.chain(self.contents.iter().map(|(_, bytes)| bytes.len()));
        let small = small.chain(self.last.iter().map(|(_, bytes)| bytes.len()));
        small.map(|bytes| bytes as u64).sum::<u64>() + self.blocks.values().map(|block| block.lent.bytes).sum::<u64>()
    }

    /// The program has taken so much memory since its session was described that it does not fit.
    fn has_grown(&self) -> Refused {
        format!("it has grown meanwhile, to more than the {} bytes that were kept for it; try again", self.room)
    }

    /// Does a step other than bytes of blocks, which are received in their [`place`](Self::place). `file` takes a descriptor of the source's.
    pub(super) fn step(
        &mut self,
        step: Step,
        body: Vec<u8>,
        file: &mut dyn FnMut(u64) -> Result<OwnedFd, Refused>,
    ) -> Result<Answer, Refused> {
        let answer = match step {
            Step::Describe(_) => return Err("the session was described".into()),
            Step::Bytes(_) => return Err("bytes of a block go to their place".into()),
            Step::Blocks(blocks) => self.list(&blocks)?,
            Step::Code(named) => self.lacks(&named),
            Step::CodeBytes(hash) => {
                self.code.push((hash, body.into()));
                Answer::Done
            }
            Step::Files(numbers) => {
                for number in numbers {
                    self.files.insert(number, file(number)?);
                }
                Answer::Done
            }
            // The last of them are demanded, too.
            Step::Places(_) => Answer::Done,
            Step::Objects => {
                self.objects.push(body);
                Answer::Done
            }
            Step::Variables(variables) => {
                self.variables = variables;
                Answer::Done
            }
            Step::Copy => self.lacking(),
            Step::Hash(points) => {
                let key = key_of(points)?;
                let hashes = self.hashes(key);
                self.hashed.keep(key, hashes);
                Answer::Done
            }
            Step::Compare { key, last } => self.compare(key, body, last)?,
            Step::Contents(contents) => {
                self.contents.push((contents, body));
                Answer::Done
            }
            Step::Last(last) => {
                if last.descriptor.is_some() {
                    self.files.insert(UNTAKEN, file(UNTAKEN)?);
                }
                self.last = Some((last, body));
                Answer::Done
            }
            Step::Frozen(digest) => {
                if self.last.is_none() || self.compared.is_none() {
                    return Err("not everything was said".into());
                }
                self.digest = Some(digest);
                Answer::Done
            }
        };
        if self.bytes() > self.room {
            return Err(self.has_grown());
        }
        Ok(answer)
    }

    /// Takes the descriptors of the session's link.
    pub(super) fn take_link(&mut self, file: &mut dyn FnMut(u64) -> Result<OwnedFd, Refused>) -> Result<(), Refused> {
        if matches!(self.description.link, LinkKind::Rings { .. }) {
            for number in [RING_MEMORY, RING_SOCKET] {
                self.files.insert(number, file(number)?);
            }
        }
        Ok(())
    }

    /// A piece of a block; `None`: there is none such.
    pub(super) fn piece(&self, block: u64, offset: u64, bytes: u64) -> Option<&[u8]> {
        let found = self.blocks.values().find(|its| its.lent.block == block)?;
        let from = usize::try_from(offset).ok()?;
        found.bytes.get(from..from.checked_add(usize::try_from(bytes).ok()?)?)
    }

    /// Takes the source's list. What a pause that was given up has said of other things is said again.
    fn list(&mut self, list: &[LentBlock]) -> Result<Answer, Refused> {
        if list.len() > MOST_BLOCKS {
            return Err(format!("more blocks than {MOST_BLOCKS}: {}", list.len()));
        }
        let sizes = list.iter().try_fold(0_u64, |sum, block| sum.checked_add(block.bytes));
        if sizes.is_none_or(|bytes| bytes > self.room) {
            return Err(self.has_grown());
        }
        if list.iter().any(|block| block.bytes == 0 || !block.bytes.is_multiple_of(HASH_UNIT)) {
            return Err("a block of no whole units".into());
        }
        let mut before = std::mem::take(&mut self.blocks);
        for lent in list {
            let same = before.remove(&lent.offset).filter(|block| block.lent == *lent);
            let block = same.unwrap_or(Block { lent: *lent, bytes: Vec::new() });
            if self.blocks.insert(lent.offset, block).is_some() {
                return Err("two blocks in one place".into());
            }
        }
        self.contents.clear();
        (self.last, self.compared) = (None, None);
        self.hashed.forget();
        Ok(Answer::Done)
    }

    fn lacks(&self, named: &[([u8; 32], u64)]) -> Answer {
        let is_here = |hash: &[u8; 32]| self.code.iter().any(|(its, _)| its == hash);
        let lacking: Vec<usize> = (0..named.len()).filter(|index| !is_here(&named[*index].0)).collect();
        if lacking.is_empty() { Answer::Done } else { Answer::Lacks(lacking) }
    }

    /// Asks for all blocks that have no bytes yet.
    fn lacking(&mut self) -> Answer {
        let mut pieces = Vec::new();
        for Block { lent, bytes } in self.blocks.values_mut().filter(|block| block.bytes.is_empty()) {
            pieces.push((lent.block, 0, lent.bytes));
            *bytes = zeros(lent.bytes);
        }
        if pieces.is_empty() { Answer::Copied(0) } else { Answer::Send { copied: 0, pieces } }
    }

    /// Where bytes of a block go.
    pub(super) fn place(&mut self, Piece { block, offset }: Piece, bytes: usize) -> Result<&mut [u8], Refused> {
        self.hashed.forget();
        let found = self.blocks.values_mut().find(|its| its.lent.block == block);
        let place = found.and_then(|found| {
            let from = usize::try_from(offset).ok()?;
            found.bytes.get_mut(from..from.checked_add(bytes)?)
        });
        place.ok_or_else(|| format!("{bytes} bytes from {offset} on of no block: {block}"))
    }

    /// Compares with the source's hashes, and asks for what differs.
    fn compare(&mut self, points: [u64; 2], body: Vec<u8>, last: bool) -> Result<Answer, Refused> {
        let key = key_of(points)?;
        let theirs = hashes_of(&body);
        let ours = self.hashed.take(key).unwrap_or_else(|| self.hashes(key));
        if ours.len() != theirs.len() {
            return Err(format!("hashes of {} units, not of: {}", theirs.len(), ours.len()));
        }
        let blocks = self.blocks.values().map(|block| (block.lent.block, block.lent.bytes));
        let pieces = differing(blocks, &ours, theirs);
        if !pieces.is_empty() {
            return Ok(Answer::Send { copied: 0, pieces });
        }
        if last {
            self.compared = Some((points, body));
        }
        Ok(Answer::Copied(0))
    }

    /// The hashes of all units, by as many threads as there are processors.
    fn hashes(&mut self, key: HashKey) -> Vec<UnitHash> {
        for Block { lent, bytes } in self.blocks.values_mut().filter(|block| block.bytes.is_empty()) {
            *bytes = zeros(lent.bytes);
        }
        const PIECE: usize = 4 << 20;
        let pieces: Vec<&[u8]> = self.blocks.values().flat_map(|block| block.bytes.chunks(PIECE)).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_HASHING);
        let each = pieces.len().div_ceil(threads).max(1);
        let hash = |pieces: &[&[u8]]| -> Vec<UnitHash> { pieces.iter().flat_map(|piece| key.hashes(piece)).collect() };
        std::thread::scope(|scope| {
            let parts: Vec<_> = pieces.chunks(each).map(|part| scope.spawn(move || hash(part))).collect();
            parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
        })
    }
}

/// So many zeros, which the system gives when they are written.
fn zeros(bytes: u64) -> Vec<u8> {
    vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::life::moving::words::{KEY, VERSION};

    const ROOM: u64 = 4 * HASH_UNIT;

    fn kept() -> Kept {
        let description = Description {
            version: VERSION,
            session: 1,
            ticket: 2,
            key: [0; KEY],
            ordinal: 0,
            granularity: HASH_UNIT,
            link: LinkKind::Connections { local: true },
            kept: false,
        };
        Kept::new(description, ROOM)
    }

    fn step(kept: &mut Kept, step: Step, body: &[u8]) -> Result<Answer, Refused> {
        kept.step(step, body.to_vec(), &mut |number| Err(format!("no file {number}")))
    }

    fn bytes(kept: &mut Kept, block: u64, offset: u64, bytes: &[u8]) -> Result<(), Refused> {
        kept.place(Piece { block, offset }, bytes.len()).map(|place| place.copy_from_slice(bytes))
    }

    fn block(block: u64, units: u64, offset: u64) -> LentBlock {
        LentBlock { block, bytes: units * HASH_UNIT, offset: offset * HASH_UNIT }
    }

    fn compare(kept: &mut Kept, source: &[u8]) -> Result<Answer, Refused> {
        let key = HashKey::of([3, 4]);
        let hashes: Vec<UnitHash> = key.hashes(source).collect();
        step(kept, Step::Compare { key: key.points(), last: true }, hashes.as_flattened())
    }

    #[test]
    fn memory_is_whole_when_its_hashes_are_the_sources() {
        let mut kept = kept();
        let unit = usize::try_from(HASH_UNIT).unwrap();
        let source: Vec<u8> = (0..3 * unit).map(|at| u8::try_from(at / 7 % 251).unwrap()).collect();
        step(&mut kept, Step::Blocks(vec![block(5, 2, 0), block(6, 1, 2)]), &[]).unwrap();
        let pieces = vec![(5, 0, 2 * HASH_UNIT), (6, 0, HASH_UNIT)];
        assert_eq!(step(&mut kept, Step::Copy, &[]), Ok(Answer::Send { copied: 0, pieces }));
        bytes(&mut kept, 5, 0, &source[..2 * unit]).unwrap();
        let lacking = Answer::Send { copied: 0, pieces: vec![(6, 0, HASH_UNIT)] };
        assert_eq!(compare(&mut kept, &source), Ok(lacking));
        assert!(step(&mut kept, Step::Frozen([0; 32]), &[]).is_err(), "not compared, and no last state");
        bytes(&mut kept, 6, 0, &source[2 * unit..]).unwrap();
        assert_eq!(compare(&mut kept, &source), Ok(Answer::Copied(0)));
        step(&mut kept, Step::Last(Box::default()), &[]).unwrap();
        step(&mut kept, Step::Frozen([7; 32]), &[]).unwrap();
        assert_eq!((kept.bytes(), kept.digest), (3 * HASH_UNIT, Some([7; 32])));
    }

    #[test]
    fn a_pause_that_is_given_up_leaves_nothing_of_what_it_said() {
        let mut kept = kept();
        step(&mut kept, Step::Contents(Vec::new()), &[1; 9]).unwrap();
        step(&mut kept, Step::Last(Box::default()), &[]).unwrap();
        step(&mut kept, Step::Blocks(Vec::new()), &[]).unwrap();
        assert!(kept.contents.is_empty() && kept.last.is_none() && kept.bytes() == 0);
    }

    #[test]
    fn a_source_that_lies_is_refused_and_takes_no_memory() {
        let unit = usize::try_from(HASH_UNIT).unwrap();
        for lie in [
            vec![block(1, 5, 0)],
            vec![block(1, u64::MAX / HASH_UNIT, 0), block(2, 2, 8)],
            vec![block(1, 1, 0), block(2, 1, 0)],
            vec![LentBlock { block: 1, bytes: HASH_UNIT + 1, offset: 0 }],
            vec![block(1, 0, 0)],
        ] {
            let taken = allocation_counter::measure(|| {
                assert!(step(&mut kept(), Step::Blocks(lie.clone()), &[]).is_err(), "{lie:?}");
            });
            assert!(taken.bytes_max < HASH_UNIT, "{taken:?}");
        }
        let mut kept = kept();
        step(&mut kept, Step::Blocks(vec![block(1, 1, 0)]), &[]).unwrap();
        assert!(bytes(&mut kept, 1, 0, &[1]).is_err(), "ahead of the question");
        step(&mut kept, Step::Copy, &[]).unwrap();
        for (block, offset, count) in [(1, 1, unit), (1, u64::MAX, 1), (2, 0, 1)] {
            assert!(bytes(&mut kept, block, offset, &vec![0; count]).is_err());
        }
        assert!(step(&mut kept, Step::Compare { key: [0, 1], last: true }, &[]).is_err());
        assert!(step(&mut kept, Step::Compare { key: [3, 4], last: true }, &[0; 40]).is_err());
        assert!(step(&mut kept, Step::Files(vec![9]), &[]).is_err());
        let large = vec![0; usize::try_from(ROOM).unwrap()];
        assert!(step(&mut kept, Step::Objects, &large).is_err(), "more than its room");
    }
}
