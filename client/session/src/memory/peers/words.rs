//! The words of one page: which are in use, and the value that each was raised to last. Uses and proofs of their end come in; a
//! word and the value to wait for go out. It is pure, and no word is given out before the wait for it is known to be over.

use std::collections::VecDeque;
use std::sync::Arc;

use floe_wire::SignalsId;

use crate::vgpu::order::StreamProgress;

/// Words of a page.
pub(crate) const WORDS: u32 = 512;

/// The words of one page. `P` proves that a wait is over.
#[derive(Debug)]
pub(crate) struct Words<P> {
    /// The value that each word which was ever used will have.
    values: Vec<u64>,
    free: Vec<u32>,
    busy: VecDeque<(u32, P)>,
}

/// A page of words for waits of one vGPU.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its id in the session of the streams that wait.
    pub(super) own: SignalsId,
    /// Its id in the session that raises the words.
    pub(super) theirs: SignalsId,
    pub(super) words: Words<(Arc<StreamProgress>, u64)>,
    /// How many waits it has served.
    pub(super) waits: u64,
}

impl<P> Default for Words<P> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new(), busy: VecDeque::new() }
    }
}

impl<P> Words<P> {
    /// A word nobody waits for, and a value it has never had. `None` where all are in use. The caller says with
    /// [`Words::used`] what ends the wait.
    pub(crate) fn take(&mut self, is_over: impl Fn(&P) -> bool) -> Option<(u32, u64)> {
        if self.free.is_empty() {
            self.collect(is_over);
        }
        let word = match self.free.pop() {
            Some(word) => word,
            None => self.fresh()?,
        };
        let value = &mut self.values[word as usize];
        *value += 1;
        Some((word, *value))
    }

    /// A stream waits for the word until `proof` says that it does not any more.
    pub(crate) fn used(&mut self, word: u32, proof: P) {
        self.busy.push_back((word, proof));
    }

    fn fresh(&mut self) -> Option<u32> {
        let word = u32::try_from(self.values.len()).ok().filter(|word| *word < WORDS)?;
        self.values.push(0);
        Some(word)
    }

    fn collect(&mut self, is_over: impl Fn(&P) -> bool) {
        for (word, proof) in std::mem::take(&mut self.busy) {
            if is_over(&proof) {
                self.free.push(word);
            } else {
                self.busy.push_back((word, proof));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_word_comes_back_behind_its_proof_with_a_higher_value() {
        let mut words = Words::default();
        let (first, value) = words.take(|_: &u32| false).unwrap();
        words.used(first, 7);
        let (second, _) = words.take(|_| false).unwrap();
        assert_ne!(first, second);
        assert_eq!(words.take(|proof| *proof == 7), Some((first, value + 1)));
    }

    #[test]
    fn a_page_has_so_many_words_and_no_more() {
        let mut words = Words::default();
        for _ in 0..WORDS {
            let (word, value) = words.take(|_| false).unwrap();
            assert_eq!(value, 1);
            words.used(word, ());
        }
        assert_eq!(words.take(|()| false), None);
        assert!(words.take(|()| true).is_some());
    }

    proptest! {
        #[test]
        fn no_word_is_given_out_twice_at_a_time_and_values_only_grow(
            steps in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 1..2000)
        ) {
            let (mut words, mut waits, mut over) = (Words::default(), Vec::new(), HashSet::new());
            let mut values: HashMap<u32, u64> = HashMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Some(index) if !waits.is_empty() => {
                        let (_, ended) = waits.swap_remove(index.index(waits.len()));
                        over.insert(ended);
                    }
                    _ => {
                        let Some((word, value)) = words.take(|proof| over.contains(proof)) else { continue };
                        prop_assert!(waits.iter().all(|(other, _)| *other != word));
                        prop_assert!(values.insert(word, value).unwrap_or(0) < value);
                        words.used(word, number);
                        waits.push((word, number));
                    }
                }
            }
        }
    }
}
