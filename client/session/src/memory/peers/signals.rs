//! Words that streams wait for: of another vGPU's events, or of this process. A wait comes in; the stream's worker is told to wait,
//! and whoever ends the wait is told to raise the word. No thread of a driver stands meanwhile, and a word is used again only
//! when the wait for it is known to be over.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use floe_abi::CudaResult;
use floe_wire::{AwaitSignal, EventId, RaiseNow, RaiseSignal, SignalsId, StreamId};

use super::words::{Page, Words};
use crate::vgpu::Vgpu;
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

/// After so many waits the server is asked, without waiting, how far the stream has come, so that words come back.
const ASK_EVERY: u64 = 64;

/// Held while a wait of a stream and what ends it are posted to two workers, or both ends of a transfer. GPUs put many streams
/// into few queues, so a wait also holds up what was posted behind it on other streams. With all pairs in one order everywhere,
/// each wait depends on earlier work only, and never in a circle.
static PAIRS: Mutex<()> = Mutex::new(());

/// Both halves of a pair are posted before another pair is.
pub(crate) fn one_pair_at_a_time() -> MutexGuard<'static, ()> {
    lock(&PAIRS)
}

/// A word that a stream waits for, at both ends.
#[derive(Debug, Clone, Copy)]
struct Word {
    own: SignalsId,
    theirs: SignalsId,
    word: u32,
    value: u64,
}

/// What a stream waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Awaited {
    /// The last record of an event.
    Event(EventId),
    /// All work of a stream so far.
    Stream(StreamId),
}

/// A stream's wait for this process, which is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Raise {
    vgpu: Weak<Vgpu>,
    /// The vGPU's when the wait was posted.
    epoch: u64,
    at: Word,
}

impl Vgpu {
    /// The stream waits for work of another vGPU of this server.
    pub(crate) fn await_work(&self, progress: &Arc<StreamProgress>, there: &Self, work: Awaited) -> CudaResult<()> {
        let (event, stream) = match work {
            Awaited::Event(event) => (event, StreamId(0)),
            Awaited::Stream(stream) => (EventId(0), stream),
        };
        let _pair = one_pair_at_a_time();
        self.await_raised(progress, there, |at| {
            let Word { theirs: signals, word, value, .. } = at;
            there.connection.post(&RaiseSignal { signals, word, value, event, stream }).map(drop)
        })
        .map(drop)
    }

    /// The stream waits until what this returns is raised.
    pub(crate) fn await_process(self: &Arc<Self>, progress: &Arc<StreamProgress>) -> CudaResult<Raise> {
        let at = self.await_raised(progress, self, |_| Ok(()))?;
        self.watched.stands_for_process(progress, progress.issued());
        Ok(Raise { vgpu: Arc::downgrade(self), epoch: self.epoch(), at })
    }

    /// Posts a wait for a word that `raise` has `there` raise.
    fn await_raised(
        &self,
        progress: &Arc<StreamProgress>,
        there: &Self,
        raise: impl FnOnce(Word) -> CudaResult<()>,
    ) -> CudaResult<Word> {
        let mut all = lock(&self.peers.signals);
        let pages = all.entry(there.ordinal).or_default();
        let (page, at) = self.free_word(pages, there)?;
        raise(at)?;
        let Word { own: signals, word, value, .. } = at;
        let stream = StreamId(progress.stream());
        let sequence = self.connection.post_on(progress, &AwaitSignal { stream, signals, word, value })?;
        let page = &mut pages[page];
        page.words.used(word, (Arc::clone(progress), sequence));
        page.waits += 1;
        let asks = page.waits.is_multiple_of(ASK_EVERY);
        drop(all);
        self.watched.stands(progress, sequence);
        self.connection.watch();
        if asks {
            self.connection.mark(progress)?;
        }
        Ok(at)
    }

    /// A word of these pages, or of a new one.
    fn free_word(&self, pages: &mut Vec<Page>, there: &Self) -> CudaResult<(usize, Word)> {
        let is_over = |(progress, sequence): &(Arc<StreamProgress>, u64)| progress.completed() >= *sequence;
        for (index, page) in pages.iter_mut().enumerate() {
            if let Some((word, value)) = page.words.take(is_over) {
                return Ok((index, Word { own: page.own, theirs: page.theirs, word, value }));
            }
        }
        let mut page = self.new_page(there)?;
        let (word, value) = page.words.take(is_over).unwrap_or_default();
        let at = Word { own: page.own, theirs: page.theirs, word, value };
        pages.push(page);
        Ok((pages.len() - 1, at))
    }

    fn new_page(&self, there: &Self) -> CudaResult<Page> {
        let own = self.create_signals()?;
        let imported = if std::ptr::eq(self, there) {
            Ok(own)
        } else {
            self.ticket().and_then(|ticket| there.import_signals(&ticket, own))
        };
        match imported {
            Ok(theirs) => Ok(Page { own, theirs, words: Words::default(), waits: 0 }),
            Err(error) => {
                self.drop_signals(own)?;
                Err(error)
            }
        }
    }

    /// Drops all pages that streams of this vGPU wait at, and those whose words it raises. A session that is over has none.
    pub(super) fn leave_signals(&self) {
        let own = std::mem::take(&mut *lock(&self.peers.signals));
        for (raiser, pages) in own {
            let other = self.others().find(|other| other.ordinal == raiser);
            drop_pages(&pages, self, other.as_deref());
        }
        for other in self.others() {
            let pages = lock(&other.peers.signals).remove(&self.ordinal);
            drop_pages(&pages.unwrap_or_default(), &other, Some(self));
        }
    }
}

/// Drops pages at both ends; the vGPU that waits raises its own words where there is no other.
fn drop_pages(pages: &[Page], waits: &Vgpu, raises: Option<&Vgpu>) {
    for page in pages {
        let _ = waits.drop_signals(page.own);
        let _ = raises.map(|raises| raises.drop_signals(page.theirs));
    }
}

impl Raise {
    /// Ends the wait by a thread of the waiting vGPU's, for callers that must not post.
    pub(crate) fn elsewhere(self) {
        let vgpu = self.vgpu.upgrade();
        if let Some(raiser) = vgpu.as_deref().and_then(|vgpu| vgpu.peers.raiser()) {
            // One that cannot be handed over is dropped, and the wait ends with it.
            let _ = raiser.send(Box::new(self));
        }
    }
}

impl Drop for Raise {
    /// A link that has failed needs no telling, and a reset has ended the wait.
    fn drop(&mut self) {
        let Some(vgpu) = self.vgpu.upgrade() else { return };
        // What this process has got of the work reaches the stream ahead of the word. A link that has failed needs nothing.
        let _ = vgpu.send_mirrors();
        // Held over the post: a reset drops the page behind it.
        let all = lock(&vgpu.peers.signals);
        let Word { own: signals, word, value, .. } = self.at;
        let is_there = all.get(&vgpu.ordinal).is_some_and(|pages| pages.iter().any(|page| page.own == signals));
        if is_there && vgpu.epoch() == self.epoch {
            let _ = vgpu.connection.post(&RaiseNow { signals, word, value });
        }
    }
}
