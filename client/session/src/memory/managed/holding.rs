//! Who has which pieces of one range of managed memory: the host, the device, or both alike. Touches and closings come in;
//! what is to be fetched, sent, opened and closed goes out, and holds once it is said to be done. It is pure: it moves
//! nothing, and no piece is ever newer on both sides.

use std::ops::Range;

/// Bytes of a piece: what one touch brings at least. A fault costs some microseconds and a way to the server and back, as long
/// as so many bytes take on a fast network.
pub(crate) const PIECE: u64 = 64 << 10;
/// Touches that follow one another bring twice as much each time, up to so many pieces: 8 MiB, which use all that a link has.
const MOST_AHEAD: usize = 128;

/// Who has a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Its pages are closed to the host.
    Device,
    /// The host may read it: both have the same.
    Both,
    /// The host may write it.
    Host,
}

/// What is to be done for a touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Bytes to be opened.
    pub(crate) bytes: Range<u64>,
    /// Whether they come from the device first.
    pub(crate) fetched: bool,
    /// Whether the host may write them.
    pub(crate) writable: bool,
}

/// What is to be done before the device works.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Closing {
    /// Bytes to be closed to the host.
    pub(crate) closed: Vec<Range<u64>>,
    /// Those of them that are sent.
    pub(crate) sent: Vec<Range<u64>>,
}

/// One range.
#[derive(Debug)]
pub(crate) struct Holding {
    bytes: Range<u64>,
    pieces: Vec<Owner>,
    /// Nothing of it has been on the device: all is the host's, and zero where nobody has touched it.
    fresh: bool,
    /// Pieces that are not the device's alone.
    open: Vec<usize>,
    /// Where the next touch would follow the last.
    next: usize,
    /// How many pieces the last touch brought.
    ahead: usize,
}

impl Holding {
    /// A range that is the host's and has never been on the device.
    pub(crate) fn fresh(bytes: Range<u64>) -> Self {
        let mut holding = Self::on_device(bytes);
        holding.fresh = true;
        holding
    }

    /// A range that is the device's.
    pub(crate) fn on_device(bytes: Range<u64>) -> Self {
        let count = usize::try_from((bytes.end - bytes.start).div_ceil(PIECE)).unwrap_or_default();
        Self { bytes, pieces: vec![Owner::Device; count], fresh: false, open: Vec::new(), next: usize::MAX, ahead: 0 }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Range<u64> {
        self.bytes.clone()
    }

    /// Whether nothing of it has been on the device.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether the host can touch any of it.
    pub(crate) fn is_open(&self) -> bool {
        self.fresh || !self.open.is_empty()
    }

    /// What a touch needs; `None` where nothing stands in its way.
    pub(crate) fn touch(&self, address: u64, writes: bool) -> Option<Opening> {
        if self.fresh || !self.bytes.contains(&address) {
            return None;
        }
        let first = self.piece_of(address);
        let owner = self.pieces[first];
        if owner == Owner::Host || (owner == Owner::Both && !writes) {
            return None;
        }
        let most = if first == self.next { (self.ahead * 2).min(MOST_AHEAD) } else { 1 };
        let alike = self.pieces[first..].iter().take(most).take_while(|other| **other == owner).count();
        let bytes = self.span(&(first..first + alike));
        Some(Opening { bytes, fetched: owner == Owner::Device, writable: writes })
    }

    /// What it takes to open all pieces of these bytes that are the device's, for reading.
    pub(crate) fn look(&self, bytes: &Range<u64>) -> Vec<Opening> {
        let closed = self.pieces_in(bytes).filter(|piece| !self.fresh && self.pieces[*piece] == Owner::Device);
        let opening = |run: Range<usize>| Opening { bytes: self.span(&run), fetched: true, writable: false };
        runs(closed).into_iter().map(opening).collect()
    }

    /// An opening is done.
    pub(crate) fn opened(&mut self, opening: &Opening) {
        let pieces = self.pieces_in(&opening.bytes);
        (self.next, self.ahead) = (pieces.end, pieces.len());
        for piece in pieces {
            if self.pieces[piece] == Owner::Device {
                self.open.push(piece);
            }
            self.pieces[piece] = if opening.writable { Owner::Host } else { Owner::Both };
        }
    }

    /// What it takes to give these bytes to the device. A fresh holding goes as a whole.
    pub(crate) fn closing(&self, bytes: &Range<u64>) -> Closing {
        if self.fresh {
            return Closing { closed: vec![self.bytes()], sent: Vec::new() };
        }
        let wanted = self.pieces_in(bytes);
        let mut open: Vec<usize> = self.open.iter().copied().filter(|piece| wanted.contains(piece)).collect();
        open.sort_unstable();
        let spans = |pieces: Vec<Range<usize>>| pieces.iter().map(|run| self.span(run)).collect();
        let written = open.iter().copied().filter(|piece| self.pieces[*piece] == Owner::Host);
        Closing { sent: spans(runs(written)), closed: spans(runs(open.iter().copied())) }
    }

    /// A closing is done: these bytes are the device's alone.
    pub(crate) fn closed(&mut self, closing: &Closing) {
        self.fresh = false;
        for closed in &closing.closed {
            let pieces = self.pieces_in(closed);
            self.pieces[pieces.clone()].fill(Owner::Device);
            self.open.retain(|piece| !pieces.contains(piece));
        }
    }

    fn piece_of(&self, address: u64) -> usize {
        usize::try_from((address - self.bytes.start) / PIECE).unwrap_or(usize::MAX)
    }

    /// The pieces that have any of these bytes.
    fn pieces_in(&self, bytes: &Range<u64>) -> Range<usize> {
        let (start, end) = (bytes.start.max(self.bytes.start), bytes.end.min(self.bytes.end));
        if start >= end { 0..0 } else { self.piece_of(start)..self.piece_of(end - 1) + 1 }
    }

    fn span(&self, pieces: &Range<usize>) -> Range<u64> {
        let at = |piece: usize| (self.bytes.start + piece as u64 * PIECE).min(self.bytes.end);
        at(pieces.start)..at(pieces.end)
    }
}

/// Ascending numbers as ranges.
fn runs(pieces: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for piece in pieces {
        match runs.last_mut() {
            Some(last) if last.end == piece => last.end += 1,
            _ => runs.push(piece..piece + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
