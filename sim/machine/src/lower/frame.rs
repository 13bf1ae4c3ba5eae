//! The frame of a function in the making: every slot of it is made by [`FrameLayout::take`] and nowhere else.
//! In go sizes of registers and arguments, out come offsets of slots, all of them below one limit.
//! It never makes a frame larger than that: the register, argument or value that would is refused by name.

use super::image::FrameWords;

/// Most bytes of a frame: room for 8192 registers of 32 bits that hold something at the same time, where GPUs have 255.
pub(crate) const FRAME_LIMIT: u32 = 1 << 20;

/// Bytes of a slot of a predicate, of 32 bits and of 64 bits for each of 32 lanes.
pub(crate) const PREDICATE_BYTES: u32 = 4;
/// See [`PREDICATE_BYTES`].
pub(crate) const NARROW_BYTES: u32 = 128;
/// See [`PREDICATE_BYTES`].
pub(crate) const WIDE_BYTES: u32 = 256;

/// Bytes of a line of predicates. Vectors stay on such boundaries.
const LINE: u32 = 64;

/// Slots of a frame.
pub(crate) struct FrameLayout {
    /// Next free byte.
    next: u32,
    /// Bytes of the frame.
    bytes: u32,
    /// Bytes of the current line of predicates that are taken; `LINE` when there is none.
    predicates: u32,
    predicate_line: u32,
    /// First bytes of slots and their lengths: what `emit` looks operands up in.
    #[cfg(debug_assertions)]
    slots: std::collections::BTreeMap<u32, u32>,
}

impl FrameLayout {
    /// A frame that begins with the slot which says where the lanes' local variables start.
    pub(crate) fn new() -> Self {
        let mut layout = Self {
            next: 0,
            bytes: 0,
            predicates: LINE,
            predicate_line: 0,
            #[cfg(debug_assertions)]
            slots: std::collections::BTreeMap::new(),
        };
        layout.next = NARROW_BYTES;
        layout.bytes = NARROW_BYTES;
        layout.note(0, NARROW_BYTES);
        layout
    }

    /// Bytes of the frame so far.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Takes `bytes` bytes, a multiple of a line.
    fn take(&mut self, bytes: u64) -> Result<u32, String> {
        let end = u64::from(self.next) + bytes;
        let end = u32::try_from(end).ok().filter(|end| *end <= FRAME_LIMIT);
        let end =
            end.ok_or_else(|| format!("registers and arguments need more bytes than a frame has: {FRAME_LIMIT}"))?;
        let start = std::mem::replace(&mut self.next, end);
        self.bytes = self.bytes.max(end);
        Ok(start)
    }

    /// A slot of 32 bits for each lane.
    pub(crate) fn narrow(&mut self) -> Result<u32, String> {
        let slot = self.take(u64::from(NARROW_BYTES))?;
        self.note(slot, NARROW_BYTES);
        Ok(slot)
    }

    /// A slot of 64 bits for each lane.
    pub(crate) fn wide(&mut self) -> Result<u32, String> {
        let slot = self.take(u64::from(WIDE_BYTES))?;
        self.note(slot, WIDE_BYTES);
        Ok(slot)
    }

    /// A slot of one bit for each lane.
    pub(crate) fn predicate(&mut self) -> Result<u32, String> {
        if self.predicates == LINE {
            self.predicate_line = self.take(u64::from(LINE))?;
            self.predicates = 0;
        }
        let slot = self.predicate_line + self.predicates;
        self.predicates += PREDICATE_BYTES;
        self.note(slot, PREDICATE_BYTES);
        Ok(slot)
    }

    /// Words of 32 bits for each lane that hold an argument of so many bytes.
    pub(crate) fn words(&mut self, bytes: u32) -> Result<FrameWords, String> {
        let count = bytes.div_ceil(4);
        let offset = self.take(u64::from(NARROW_BYTES) * u64::from(count))?;
        for word in 0..count {
            self.note(offset + NARROW_BYTES * word, NARROW_BYTES);
        }
        Ok(FrameWords { offset, count })
    }

    /// The offset of the next slot, for [`FrameLayout::go_back`].
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// The next slots share bytes with those that were taken since `next`.
    pub(crate) fn go_back(&mut self, next: u32) {
        self.next = self.next.min(next);
    }

    /// The next slots lie behind all that were taken so far.
    pub(crate) fn seal(&mut self) {
        self.next = self.bytes;
    }

    #[cfg(not(debug_assertions))]
    fn note(&mut self, _: u32, _: u32) {}

    #[cfg(debug_assertions)]
    fn note(&mut self, slot: u32, bytes: u32) {
        self.slots.insert(slot, bytes);
    }

    /// Whether an operand is the first byte of a slot, or a predicate in a slot of a value (one that nobody reads).
    #[cfg(debug_assertions)]
    pub(crate) fn holds(&self, operand: u32) -> bool {
        let slot = self.slots.get(&operand).is_some_and(|bytes| operand + bytes <= self.bytes);
        slot && self.bytes <= FRAME_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_never_larger_than_its_limit() {
        let mut layout = FrameLayout::new();
        assert!(layout.words(u32::MAX).is_err());
        assert!(layout.words(FRAME_LIMIT / 32).is_err());
        assert_eq!(layout.words(FRAME_LIMIT / 32 - 4).map(|words| words.offset), Ok(NARROW_BYTES));
        assert!(layout.narrow().is_err() && layout.wide().is_err() && layout.predicate().is_err());
        assert_eq!(layout.bytes(), FRAME_LIMIT);
    }

    #[test]
    fn bytes_taken_again_are_the_same_and_what_follows_lies_behind_them() {
        let mut layout = FrameLayout::new();
        let next = layout.next();
        let first = layout.words(16).expect("room");
        layout.go_back(next);
        let second = layout.words(4).expect("room");
        assert_eq!(first.offset, second.offset);
        layout.seal();
        assert_eq!(layout.narrow(), Ok(first.offset + 4 * NARROW_BYTES));
    }
}
