//! Host memory of the program that kernels of one vGPU reach: what the server knows of it. Ranges come in. The
//! program's changes go out before work and waits; the device's changes are written here before a wait's reply is seen.
//! It never sends a byte that has not changed, so that neither side undoes what the other is doing.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use floe_abi::CudaResult;
use floe_surface::{HostPages, HostRange, PAGE};
use floe_touch::{FaultHandler, Written, devices_may_write};
use floe_wire::{MirrorRun, changed_runs};

use floe_lock::lock;

mod closable;
mod recent;

use closable::Closable;
pub(crate) use closable::MOST_CLOSED;
use recent::{Asked, Recent};

/// Bytes that are compared, and sent in one message, at a time.
const PIECE: usize = 64 << 10;
/// Less is compared: about 48 KiB take as long as asking the kernel what was written (0.9 us, to 256 KiB).
const NOTED_FROM: usize = 64 << 10;

/// Bytes of the longest word that a stream waits for.
const LONGEST_WORD: usize = 8;

/// One range.
#[derive(Debug)]
struct Mirror {
    range: HostRange,
    /// Where the server has it, and its kernels.
    place: u64,
    /// The server's bytes, as far as is known here.
    known: Vec<u8>,
    /// Offsets and sizes of words that streams wait, or waited, for.
    words: BTreeMap<usize, usize>,
    /// Whether what the program had written before it was made is sent, or is about to be by who holds `sending`.
    is_looked_at: bool,
    /// Says which pages to compare, where the kernel notes writes.
    written: Option<(Written, Recent)>,
    /// Where it may be closed to the program.
    closable: Option<Closable>,
}

impl Mirror {
    /// Bytes of its pages.
    fn pages(&self) -> u64 {
        self.known.len().next_multiple_of(PAGE) as u64
    }

    /// The offsets of bytes that may have changed since the last look.
    fn suspects(&mut self, devices_write: impl FnMut() -> bool) -> Vec<Range<usize>> {
        let (start, bytes) = (self.range.pointer().0, self.known.len());
        let Some((written, recent)) = &mut self.written else {
            return std::iter::once(0..bytes).collect();
        };
        let pages = recent.suspects(written.pages(), &mut Kernel { written, devices_write });
        let offset = |at: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(bytes).min(bytes);
        pages.iter().map(|pages| offset(pages.start)..offset(pages.end)).collect()
    }

    /// Whether these bytes are what the server has. A closed mirror is not looked at.
    fn is_known(range: &HostRange, closable: Option<&Closable>, start: usize, known: &[u8]) -> bool {
        let is_open = closable.is_none_or(|closable| !closable.is_closed());
        is_open && range.sub(start, known.len()).is_ok_and(|piece| piece.holds(known))
    }

    /// Reads the program's bytes, closed to it or not. False where the system refuses.
    fn read(range: &HostRange, closable: Option<&Closable>, start: usize, now: &mut [u8]) -> bool {
        match closable {
            Some(closable) if closable.is_closed() => closable.read(start, now),
            _ => range.sub(start, now.len()).and_then(|piece| piece.read_into(now)).is_ok(),
        }
    }

    /// The words that the program has changed, each whole: a stream must not see a half of one. From now on the server
    /// knows them.
    fn changed_words(&mut self) -> Option<Change> {
        let mut runs = Vec::new();
        for (start, bytes) in &self.words {
            let Some(known) = self.known.get_mut(*start..start + bytes).filter(|_| *bytes <= LONGEST_WORD) else {
                continue;
            };
            let mut room = [0; LONGEST_WORD];
            let now = &mut room[..*bytes];
            let is_read = Self::read(&self.range, self.closable.as_ref(), *start, now);
            if is_read && known != now {
                known.copy_from_slice(now);
                runs.push((u32::try_from(*start).unwrap_or(u32::MAX), now.to_vec()));
            }
        }
        (!runs.is_empty()).then_some(Change { at: self.place, runs })
    }

    /// Makes the words among these bytes, which begin at `start`, what the server has: they were looked at before.
    fn leave_words(words: &BTreeMap<usize, usize>, start: usize, known: &[u8], now: &mut [u8]) {
        // One that begins before these bytes may reach into them.
        for (word, bytes) in words.range(start.saturating_sub(LONGEST_WORD - 1)..start + now.len()) {
            let of_piece = word.saturating_sub(start)..(word + bytes).saturating_sub(start).min(now.len());
            now[of_piece.clone()].copy_from_slice(&known[of_piece]);
        }
    }

    /// Adds what differs among these bytes to `changes`, piece by piece, but for words. From now on the server knows it.
    /// `now` is room.
    fn compare(&mut self, bytes: Range<usize>, now: &mut Vec<u8>, changes: &mut Vec<Change>) {
        let mut start = bytes.start;
        for known in self.known.get_mut(bytes).into_iter().flat_map(|known| known.chunks_mut(PIECE)) {
            if Self::is_known(&self.range, self.closable.as_ref(), start, known) {
                start += known.len();
                continue;
            }
            now.resize(PIECE, 0);
            let now = &mut now[..known.len()];
            let is_read = Self::read(&self.range, self.closable.as_ref(), start, now);
            Self::leave_words(&self.words, start, known, now);
            let runs = changed_runs(known, now, u32::try_from(start).unwrap_or(u32::MAX));
            if is_read && !runs.is_empty() {
                let runs = runs.iter().map(|run| (run.offset, run.bytes.to_vec())).collect();
                changes.push(Change { at: self.place, runs });
                known.copy_from_slice(now);
            }
            start += known.len();
        }
    }
}

/// What the kernel says of one mirror's pages. Where it says nothing, all of them may be written.
struct Kernel<'a, F> {
    written: &'a Written,
    devices_write: F,
}

impl<F: FnMut() -> bool> Asked for Kernel<'_, F> {
    fn now(&mut self) -> Instant {
        Instant::now()
    }

    fn written(&mut self) -> Vec<Range<u64>> {
        self.written.peek().unwrap_or_else(|| std::iter::once(self.written.pages().clone()).collect())
    }

    fn protect(&mut self) -> Vec<Range<u64>> {
        self.written.take().unwrap_or_else(|| std::iter::once(self.written.pages().clone()).collect())
    }

    fn devices_may_write(&mut self) -> bool {
        (self.devices_write)()
    }
}

/// The mirrored ranges of one vGPU.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    any: AtomicBool,
    /// Held while a mirror is made, over the call: never by who sends changes, since the answer may need them.
    pub(super) making: Mutex<()>,
    /// Held from the look at the memory to the post: what one thread found changed is sent before another thread's work.
    /// Inside: room for a piece, which each look uses.
    sending: Mutex<Vec<u8>>,
    /// By first address. Never held while something is sent: the receiving thread needs it.
    ranges: Mutex<BTreeMap<u64, Mirror>>,
    /// First addresses of memory that kernels were given and do not reach.
    refused: Mutex<BTreeSet<u64>>,
}

/// Those that have any page of these bytes.
fn among(ranges: &mut BTreeMap<u64, Mirror>, at: u64, bytes: u64) -> impl Iterator<Item = &mut Mirror> {
    let touched = ranges.range_mut(..at.saturating_add(bytes));
    touched.filter(move |(start, mirror)| *start + mirror.pages() > at).map(|(_, mirror)| mirror)
}

/// Changed bytes of one mirror.
struct Change {
    at: u64,
    runs: Vec<(u32, Vec<u8>)>,
}

impl Mirrors {
    /// Whether there are any.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether any of these bytes is mirrored.
    pub(crate) fn touches(&self, at: u64, bytes: u64) -> bool {
        if !self.any() {
            return false;
        }
        let end = at.saturating_add(bytes);
        let ranges = lock(&self.ranges);
        ranges.range(..end).next_back().is_some_and(|(start, mirror)| start + mirror.known.len() as u64 > at)
    }

    /// Whether all of these bytes are of one mirror.
    pub(crate) fn covers(&self, at: u64, bytes: u64) -> bool {
        if !self.any() {
            return false;
        }
        let ranges = lock(&self.ranges);
        let found = ranges.range(..=at).next_back();
        found.is_some_and(|(start, mirror)| {
            at.checked_add(bytes).is_some_and(|end| end <= start + mirror.known.len() as u64)
        })
    }

    /// Whether work that is posted now finds in one mirror all of these bytes as the program wrote them before its last look.
    pub(crate) fn serves(&self, at: u64, bytes: u64) -> bool {
        if !self.covers(at, bytes) {
            return false;
        }
        // Who makes the mirror sends its first bytes behind its making, and holds this until they are posted.
        let _posted = lock(&self.sending);
        let ranges = lock(&self.ranges);
        ranges.range(..=at).next_back().is_some_and(|(_, mirror)| mirror.is_looked_at)
    }

    /// A stream will wait for the word that the server has there. What the program wrote before it is sent ahead of it.
    pub(crate) fn add_word(&self, place: u64, bytes: usize) {
        for mirror in lock(&self.ranges).values_mut() {
            let word = place.checked_sub(mirror.place).and_then(|offset| usize::try_from(offset).ok());
            let inside = word.filter(|word| word.checked_add(bytes).is_some_and(|end| end <= mirror.known.len()));
            inside.map(|word| mirror.words.entry(word).and_modify(|had| *had = bytes.max(*had)).or_insert(bytes));
        }
    }

    /// Whether nothing that can be asked makes kernels reach memory that begins here.
    pub(super) fn is_refused(&self, start: u64) -> bool {
        lock(&self.refused).contains(&start)
    }

    pub(super) fn refuse(&self, start: u64) {
        lock(&self.refused).insert(start);
    }

    /// Others may be there from now on, or there is room for it.
    pub(crate) fn forgive(&self, start: u64) {
        lock(&self.refused).remove(&start);
    }

    pub(super) fn is_mirror(&self, start: u64) -> bool {
        self.any() && lock(&self.ranges).contains_key(&start)
    }

    pub(super) fn bytes(&self) -> u64 {
        lock(&self.ranges).values().map(|mirror| mirror.known.len() as u64).sum()
    }

    /// The address that the server and its kernels have for mirrored memory.
    pub(crate) fn place_of(&self, at: u64) -> Option<u64> {
        if !self.any() {
            return None;
        }
        let ranges = lock(&self.ranges);
        let (start, mirror) = ranges.range(..=at).next_back()?;
        (at - start < mirror.known.len() as u64).then(|| mirror.place + (at - start))
    }

    /// Has a range from now on. Of its own pages it may be closed to the program, and the opener is asked to open it.
    pub(super) fn add(&self, range: HostRange, place: u64, closes: Option<(HostPages, Arc<dyn FaultHandler>)>) {
        let (start, bytes) = (range.pointer().0, range.len());
        let written = if bytes < NOTED_FROM { None } else { Written::note(&(start..start + bytes as u64)) };
        let written = written.map(|written| (written, Recent::new(Instant::now())));
        let closable = closes.and_then(|(pages, opener)| Closable::of(&range, pages, opener));
        self.forgive(start);
        let (known, words) = (vec![0; bytes], BTreeMap::new());
        let mirror = Mirror { range, place, known, words, is_looked_at: false, written, closable };
        lock(&self.ranges).insert(start, mirror);
        self.any.store(true, Ordering::Release);
    }

    pub(super) fn remove(&self, start: u64) {
        let mut ranges = lock(&self.ranges);
        // Dropped, it is open to the program.
        ranges.remove(&start);
        self.any.store(!ranges.is_empty(), Ordering::Release);
        drop(ranges);
        lock(&self.refused).clear();
        self.let_looks_end();
    }

    /// The server has none of them any more.
    pub(crate) fn clear(&self) {
        lock(&self.ranges).clear();
        lock(&self.refused).clear();
        self.any.store(false, Ordering::Release);
        self.let_looks_end();
    }

    /// Waits until what other threads found changed is posted: a mirror that is made at the same place is not to have changes of
    /// the one before it.
    fn let_looks_end(&self) {
        drop(lock(&self.sending));
    }

    /// The program's changes since the last look. Words that streams wait for are looked at first, and are the last of these:
    /// what the program wrote before such a word has been sent when a stream sees it.
    fn changes(&self, room: &mut Vec<u8>) -> Vec<Change> {
        let mut changes = Vec::new();
        let devices_write = LazyCell::new(devices_may_write);
        let mut ranges = lock(&self.ranges);
        let words: Vec<_> = ranges.values_mut().filter_map(Mirror::changed_words).collect();
        // The program's threads store data, then a word; this one loads a word, then data.
        fence(Ordering::Acquire);
        for mirror in ranges.values_mut() {
            mirror.is_looked_at = true;
            if mirror.written.is_none() {
                mirror.compare(0..mirror.known.len(), room, &mut changes);
                continue;
            }
            for suspect in mirror.suspects(|| *devices_write) {
                mirror.compare(suspect, room, &mut changes);
            }
        }
        changes.extend(words);
        changes
    }

    /// Writes what the device has changed. Changes of memory that is not mirrored any more are dropped.
    pub(crate) fn apply(&self, at: u64, runs: &[MirrorRun<'_>]) {
        let mut ranges = lock(&self.ranges);
        let Some(mirror) = ranges.values_mut().find(|mirror| mirror.place == at) else {
            return;
        };
        for run in runs {
            let offset = run.offset as usize;
            let end = offset.checked_add(run.bytes.len());
            let Some(known) = end.and_then(|end| mirror.known.get_mut(offset..end)) else { continue };
            let is_written = match &mirror.closable {
                Some(closable) if closable.is_closed() => closable.write(offset, run.bytes),
                _ => mirror.range.sub(offset, run.bytes.len()).is_ok_and(|target| target.write(run.bytes).is_ok()),
            };
            if is_written {
                known.copy_from_slice(run.bytes);
            }
        }
    }

    /// Whether all of them may be closed to the program.
    pub(crate) fn can_close(&self) -> bool {
        lock(&self.ranges).values().all(|mirror| mirror.closable.is_some())
    }

    /// Closes all of them to the program. False where one stays open.
    pub(crate) fn close(&self) -> bool {
        lock(&self.ranges).values_mut().all(|mirror| mirror.closable.as_mut().is_some_and(Closable::close))
    }

    /// Opens those of which the program touches any of these bytes. False where the system refuses.
    pub(crate) fn open(&self, at: u64, bytes: u64) -> bool {
        let mut ranges = lock(&self.ranges);
        among(&mut ranges, at, bytes).all(|mirror| mirror.closable.as_mut().is_none_or(Closable::open))
    }

    /// Whether any is closed to the program.
    pub(crate) fn any_closed(&self) -> bool {
        self.any() && lock(&self.ranges).values().any(|it| it.closable.as_ref().is_some_and(Closable::is_closed))
    }

    /// Whether any of these bytes may be closed to the program.
    pub(crate) fn may_close(&self, at: u64, bytes: u64) -> bool {
        self.any() && among(&mut lock(&self.ranges), at, bytes).any(|mirror| mirror.closable.is_some())
    }

    /// Opens those of any of these bytes for good.
    pub(crate) fn keep_open(&self, at: u64, bytes: u64) {
        // Dropped, they are open.
        among(&mut lock(&self.ranges), at, bytes).for_each(|mirror| mirror.closable = None);
    }

    /// Gives `send` what the program has changed since the last look, while no other thread looks.
    pub(crate) fn each_change(
        &self,
        mut send: impl FnMut(u64, Vec<MirrorRun<'_>>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let mut room = lock(&self.sending);
        for change in self.changes(&mut room) {
            let runs = change.runs.iter().map(|(offset, bytes)| MirrorRun { offset: *offset, bytes }).collect();
            send(change.at, runs)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "these are lists of ranges, some with one")]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use floe_surface::HostBlock;

    use super::*;

    #[test]
    fn only_what_changed_is_sent_and_what_came_is_not_sent_back() {
        let (mirrors, block) = (Mirrors::default(), HostBlock::new(PIECE + 8).unwrap());
        mirrors.add(block.range(), block.pointer().0, None);
        assert!(mirrors.changes(&mut Vec::new()).is_empty());
        block.range().sub(PIECE + 4, 2).unwrap().write(&[1, 2]).unwrap();
        let changes = mirrors.changes(&mut Vec::new());
        assert_eq!((changes.len(), changes[0].at), (1, block.pointer().0));
        assert_eq!(changes[0].runs, [(u32::try_from(PIECE).unwrap() + 4, vec![1, 2])]);
        mirrors.apply(block.pointer().0, &[MirrorRun { offset: 0, bytes: &[7] }]);
        assert_eq!(block.range().to_vec()[0], 7);
        assert!(mirrors.changes(&mut Vec::new()).is_empty());
    }

    /// Programs launch thousands of kernels beside a few words that kernels show them.
    #[test]
    fn a_look_at_a_small_mirror_asks_the_kernel_nothing_and_takes_no_room() {
        let (mirrors, block, mut room) = (Mirrors::default(), HostBlock::new(NOTED_FROM - 1).unwrap(), Vec::new());
        mirrors.add(block.range(), block.pointer().0, None);
        assert!(lock(&mirrors.ranges).values().all(|mirror| mirror.written.is_none()));
        assert!(mirrors.changes(&mut room).is_empty() && room.capacity() == 0);
        block.range().sub(NOTED_FROM - 2, 1).unwrap().write(&[9]).unwrap();
        assert_eq!(mirrors.changes(&mut room).len(), 1);
        assert!(mirrors.changes(&mut room).is_empty() && room.len() == PIECE);
    }

    #[test]
    fn words_that_streams_wait_for_are_sent_whole_and_last() {
        let (mirrors, first, second) =
            (Mirrors::default(), HostBlock::new(PIECE + 8).unwrap(), HostBlock::new(8).unwrap());
        let at = |block: &HostBlock| block.pointer().0;
        for block in [&first, &second] {
            mirrors.add(block.range(), at(block), None);
        }
        // Its halves lie in two pieces.
        let word = PIECE - 2;
        mirrors.add_word(at(&first) + word as u64, 4);
        first.range().sub(word, 4).unwrap().write(&[1, 0, 0, 2]).unwrap();
        first.range().sub(word + 4, 1).unwrap().write(&[3]).unwrap();
        second.range().write(&[9; 8]).unwrap();
        let changes = mirrors.changes(&mut Vec::new());
        let last = changes.last().unwrap();
        assert_eq!((changes.len(), last.at), (3, at(&first)));
        assert_eq!(last.runs, [(u32::try_from(word).unwrap(), vec![1, 0, 0, 2])]);
        assert!(changes[..2].iter().any(|change| change.runs == [(u32::try_from(word).unwrap() + 4, vec![3])]));
        assert!(mirrors.changes(&mut Vec::new()).is_empty());
        // Written behind the look at the words, it is of the next one.
        let mut now = [7; 8];
        let known = [1; 8];
        Mirror::leave_words(&BTreeMap::from([(6, 4), (14, 4)]), 8, &known, &mut now);
        assert_eq!(now, [1, 1, 7, 7, 7, 7, 1, 1]);
    }

    #[test]
    fn a_mirror_serves_copies_from_its_first_look_on() {
        let (mirrors, block) = (Mirrors::default(), HostBlock::new(16).unwrap());
        let at = block.pointer().0;
        mirrors.add(block.range(), at, None);
        assert!(mirrors.covers(at, 16) && !mirrors.serves(at, 16));
        mirrors.each_change(|_, _| Ok(())).unwrap();
        assert!(mirrors.serves(at, 16) && !mirrors.serves(at, 17));
    }

    #[test]
    fn pages_that_were_written_are_suspects_and_no_others_become_so() {
        let (mirrors, block) = (Mirrors::default(), HostBlock::new(64 * PIECE).unwrap());
        let start = block.pointer().0;
        mirrors.add(block.range(), start, None);
        // Where the kernel notes nothing, all of it is compared, always.
        if lock(&mirrors.ranges).values().all(|mirror| mirror.written.is_none()) {
            let suspects = lock(&mirrors.ranges).values_mut().next().unwrap().suspects(|| false);
            assert_eq!(suspects.first(), Some(&(0..64 * PIECE)));
            return;
        }
        let noted = || {
            let taken = |mirror: &Mirror| mirror.written.as_ref().and_then(|(written, _)| written.peek());
            lock(&mirrors.ranges).values().filter_map(taken).collect::<Vec<_>>().concat()
        };
        assert!(mirrors.changes(&mut Vec::new()).is_empty());
        assert_eq!(noted(), []);
        block.range().sub(5 * 4096 + 7, 2).unwrap().write(&[1, 2]).unwrap();
        assert_eq!(noted(), [start + 5 * 4096..start + 6 * 4096]);
        // What the device wrote is known, though the page counts as written.
        mirrors.apply(start, &[MirrorRun { offset: 9 * 4096, bytes: &[7] }]);
        block.range().sub(11 * 4096, 1).unwrap().write(&[3]).unwrap();
        let changes = mirrors.changes(&mut Vec::new());
        assert_eq!((changes.len(), changes[0].runs.len()), (1, 2));
        assert!(mirrors.changes(&mut Vec::new()).is_empty());
    }

    /// One look at the only mirror, of a process that has memory locked or not.
    #[derive(Debug, PartialEq)]
    struct Look {
        suspects: Vec<Range<usize>>,
        changes: usize,
        statuses: u32,
    }

    /// Looks. `None` where the kernel notes nothing.
    fn look(mirrors: &Mirrors, is_locked: bool) -> Option<Look> {
        let mut ranges = lock(&mirrors.ranges);
        let mirror = ranges.values_mut().next().unwrap();
        mirror.written.as_ref()?;
        let (mut statuses, mut changes) = (0, Vec::new());
        let suspects = mirror.suspects(|| {
            statuses += 1;
            is_locked
        });
        suspects.iter().for_each(|suspect| mirror.compare(suspect.clone(), &mut Vec::new(), &mut changes));
        Some(Look { suspects, changes: changes.len(), statuses })
    }

    /// Has the last protection been 30 s ago, and forgets the notes: what was written since then is as if by a device.
    fn settle_unnoted(mirrors: &Mirrors) {
        for mirror in lock(&mirrors.ranges).values_mut() {
            let (written, recent) = mirror.written.as_mut().unwrap();
            let _ = written.take().unwrap();
            recent.pass_period();
        }
    }

    #[test]
    fn a_quiet_look_reads_no_status_and_while_memory_is_locked_nothing_is_let_go() {
        let (mirrors, block) = (Mirrors::default(), HostBlock::new(NOTED_FROM).unwrap());
        let write = |page: usize| block.range().sub(page * PAGE, 1).unwrap().write(&[9]).unwrap();
        let is = |pages: Range<usize>, changes, statuses| {
            let suspects = Some(pages.start * PAGE..pages.end * PAGE).filter(|pages| !pages.is_empty());
            Some(Look { suspects: suspects.into_iter().collect(), changes, statuses })
        };
        let all = 0..NOTED_FROM / PAGE;
        block.range().write(&[1; NOTED_FROM]).unwrap();
        mirrors.add(block.range(), block.pointer().0, None);
        let Some(first) = look(&mirrors, true) else { return };
        assert_eq!(Some(first), is(all.clone(), 1, 0));
        for page in 1..4 {
            write(page);
            settle_unnoted(&mirrors);
            assert_eq!(look(&mirrors, true), is(all.clone(), 1, 1));
        }
        write(5);
        settle_unnoted(&mirrors);
        assert_eq!(look(&mirrors, false), is(all.clone(), 1, 1), "let go with a last look");
        for _ in 0..100 {
            assert_eq!(look(&mirrors, true), is(0..0, 0, 0));
        }
        for _ in 0..2 {
            write(6);
            assert_eq!(look(&mirrors, false).map(|it| it.suspects), is(6..7, 1, 0).map(|it| it.suspects));
        }
        settle_unnoted(&mirrors);
        assert_eq!(look(&mirrors, false), is(6..7, 0, 1));
        assert_eq!(look(&mirrors, false), is(0..0, 0, 0));
    }

    /// Of a new mirror there, changes of the one before it would be wrong bytes, or bytes outside.
    #[test]
    fn a_mirror_has_ended_when_what_changed_in_it_is_posted() {
        let (mirrors, block) = (Mirrors::default(), HostBlock::new(16).unwrap());
        let at = block.pointer().0;
        for end in [|mirrors: &Mirrors, at| mirrors.remove(at), |mirrors: &Mirrors, _| mirrors.clear()] {
            mirrors.add(block.range(), at, None);
            block.range().write(&[1; 16]).unwrap();
            let (ends, ended) = mpsc::channel();
            std::thread::scope(|scope| {
                let send = |_, _: Vec<MirrorRun<'_>>| {
                    let (mirrors, ends) = (&mirrors, ends.clone());
                    scope.spawn(move || {
                        end(mirrors, at);
                        ends.send(()).unwrap();
                    });
                    while mirrors.any() {
                        std::thread::yield_now();
                    }
                    // It is not there any more, and the change is not posted yet.
                    assert!(ended.recv_timeout(Duration::from_millis(20)).is_err());
                    Ok(())
                };
                mirrors.each_change(send).unwrap();
                ended.recv().unwrap();
            });
        }
    }

    #[test]
    fn bytes_outside_a_mirror_are_not_written() {
        let (mirrors, block) = (Mirrors::default(), HostBlock::new(16).unwrap());
        mirrors.add(block.range(), block.pointer().0, None);
        for offset in [15, 16, u32::MAX] {
            mirrors.apply(block.pointer().0, &[MirrorRun { offset, bytes: &[7, 7] }]);
        }
        mirrors.apply(block.pointer().0 + 1, &[MirrorRun { offset: 0, bytes: &[7] }]);
        assert_eq!(block.range().to_vec(), [0; 16]);
        assert!(mirrors.covers(block.pointer().0 + 8, 8) && !mirrors.covers(block.pointer().0 + 8, 9));
        assert!(mirrors.touches(block.pointer().0 + 15, 9) && !mirrors.touches(block.pointer().0 + 16, 1));
    }
}
