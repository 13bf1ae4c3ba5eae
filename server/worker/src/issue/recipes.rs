//! The recipes of a session: per live object the messages that made and changed it, and a short history of ended ones.
//! In: messages that were carried out, and which objects have ended. Out: the same messages, in an order in which another
//! worker can carry them out. It decides nothing of objects, calls no device, and forgets what has ended.
//!
//! The bound of the history: an ended stream, event or library is remembered only if code was loaded or looked up while it
//! lived, since only then something lies behind it in the driver's memory. Of those there are `MOST_PAST` at most; with one more the
//! session has no history, and another worker repeats what lives.

mod short;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use floe_device::Content;
use floe_wire::{Entry, Key, Object, ObjectKind, Own};
use rustc_hash::FxHashMap;

use crate::issue::cache::Hash;
use crate::memory::budget::{Budget, cost};
use short::Short;

/// Ended objects that the history has at most.
const MOST_PAST: usize = 4096;

/// A message that was carried out, as its sender wrote it.
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) payload: &'a [u8],
    /// The reply's fields as far as they bind the session.
    pub(crate) reply: &'a [u8],
    pub(crate) own: Own,
}

/// A message that is kept.
#[derive(Clone)]
struct Kept {
    when: u64,
    own: Own,
    kind: u16,
    payload: Short,
    reply: Short,
    /// The recipe of an object that the change took in.
    absorbed: Option<Box<Recipe>>,
}

/// The messages of an object.
#[derive(Clone)]
struct Recipe {
    made: Kept,
    /// The object it is a part of.
    of: Option<Object>,
    /// By the message's kind and its key; without a key, by its time.
    changes: BTreeMap<(u16, u64), Kept>,
    /// Bytes that the budget was charged.
    charged: u64,
    /// Of a library.
    contents: Contents,
    /// A message of it could not be kept: the object cannot be made again.
    lost: bool,
}

/// The contents of a library, with their hashes.
pub(crate) type Contents = Vec<(Hash, Content)>;

/// An object that ended.
struct Past {
    made: Kept,
    ended: Kept,
    /// Of a library.
    contents: Contents,
}

impl Past {
    /// Bytes of memory that it takes. Contents in files of the cache take none.
    fn bytes(&self) -> u64 {
        let in_memory = self.contents.iter().filter(|(_, content)| content.is_in_memory());
        let contents: u64 = in_memory.map(|(_, content)| content.len() as u64).sum();
        self.made.bytes() + self.ended.bytes() + contents
    }
}

/// The recipes of a session.
pub(crate) struct Recipes {
    live: FxHashMap<Object, Recipe>,
    /// The addresses of mappings: these end by ranges.
    mappings: BTreeSet<u64>,
    past: Vec<Past>,
    /// Whether the history has all that its rule says.
    whole: bool,
    /// Counts the messages.
    clock: u64,
    /// When the context began.
    begun: u64,
    /// When code was last loaded or looked up.
    looked_up: u64,
    budget: Budget,
}

impl Kept {
    fn new(when: u64, message: &Message<'_>) -> Self {
        let (payload, reply) = (message.payload.into(), message.reply.into());
        Self { when, own: message.own, kind: message.kind, payload, reply, absorbed: None }
    }

    fn is(&self, message: &Message<'_>) -> bool {
        self.kind == message.kind && *self.payload == *message.payload && *self.reply == *message.reply
    }

    /// Bytes of memory that it takes.
    fn bytes(&self) -> u64 {
        let absorbed = self.absorbed.as_ref().map_or(0, |recipe| recipe.charged);
        cost::MESSAGE + self.payload.beside() + self.reply.beside() + absorbed
    }

    fn entry(&self, past: bool) -> Entry {
        let (payload, reply) = (self.payload.to_vec(), self.reply.to_vec());
        Entry { when: self.when, past, own: self.own, kind: self.kind, payload, reply }
    }
}

impl Recipe {
    fn messages(&self) -> impl Iterator<Item = &Kept> {
        std::iter::once(&self.made).chain(self.changes.values())
    }

    /// Its entries that are of `since` or later; those of what a change took in come just before it, at its time.
    fn entries(&self, since: u64, out: &mut Vec<Entry>) {
        for kept in self.messages().filter(|kept| kept.when > since) {
            if let Some(absorbed) = &kept.absorbed {
                let mut entries = Vec::new();
                absorbed.entries(0, &mut entries);
                entries.sort_by_key(|entry| entry.when);
                out.extend(entries.into_iter().map(|entry| Entry { when: kept.when, ..entry }));
            }
            out.push(kept.entry(false));
        }
    }

    fn see(&self, see: &mut dyn FnMut(u64, u16, &[u8])) {
        for kept in self.messages() {
            if let Some(absorbed) = &kept.absorbed {
                absorbed.see(see);
            }
            see(kept.when, kept.kind, &kept.payload);
        }
    }

    fn is_lost(&self) -> bool {
        self.lost || self.changes.values().filter_map(|kept| kept.absorbed.as_ref()).any(|recipe| recipe.is_lost())
    }
}

impl Recipes {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            live: FxHashMap::default(),
            mappings: BTreeSet::new(),
            past: Vec::new(),
            whole: true,
            clock: 0,
            begun: 0,
            looked_up: 0,
            budget: budget.clone(),
        }
    }

    /// An object was made, which may take the place of one that ended unseen.
    pub(crate) fn make(&mut self, object: Object, of: Option<Object>, message: &Message<'_>) {
        self.forget(object);
        self.clock += 1;
        let mut made = Kept::new(self.clock, message);
        let mut charged = made.bytes() + cost::RECIPE;
        if matches!(object.kind, ObjectKind::Library | ObjectKind::Kernel) {
            self.looked_up = self.clock;
        }
        let lost = self.budget.take(charged).is_err();
        if lost {
            // What is left of it is as little as the object itself was charged for.
            (made.payload, made.reply, charged) = ([][..].into(), [][..].into(), 0);
        }
        if object.kind == ObjectKind::Mapping {
            self.mappings.insert(object.id);
        }
        self.live
            .insert(object, Recipe { made, of, changes: BTreeMap::new(), charged, contents: Contents::new(), lost });
    }

    /// An object was changed, by what the change took in, if anything. A change that is exactly like the one it replaces is none.
    pub(crate) fn change(&mut self, object: Object, by: Option<Key>, message: &Message<'_>, absorbs: Option<Object>) {
        let absorbed = absorbs.and_then(|absorbs| self.live.remove(&absorbs));
        self.make_context(object);
        self.clock += 1;
        let (when, budget) = (self.clock, self.budget.clone());
        if object.kind == ObjectKind::Library {
            self.looked_up = when;
        }
        let Some(recipe) = self.live.get_mut(&object) else {
            absorbed.iter().for_each(|recipe| budget.give(recipe.charged));
            return;
        };
        let place = (message.kind, by.map_or(when, |key| key.0));
        if absorbed.is_none() && recipe.changes.get(&place).is_some_and(|kept| kept.is(message)) {
            return;
        }
        recipe.put(&budget, place, when, message, absorbed);
    }

    /// The context is there before any message.
    fn make_context(&mut self, object: Object) {
        if object == Object::CONTEXT && !self.live.contains_key(&object) {
            let none = Message { kind: 0, payload: &[], reply: &[], own: Own::default() };
            self.make(object, None, &none);
        }
    }

    /// An object has ended by a message.
    pub(crate) fn end(&mut self, object: Object, message: &Message<'_>) {
        let Some(recipe) = self.remove(object) else { return };
        self.clock += 1;
        let takes_addresses = matches!(object.kind, ObjectKind::Stream | ObjectKind::Event | ObjectKind::Library);
        // What is looked up in a library itself comes with it.
        if self.whole && takes_addresses && recipe.made.when < self.looked_up {
            let Recipe { made, contents, .. } = recipe;
            self.remember(Past { made, ended: Kept::new(self.clock, message), contents });
        }
    }

    fn remember(&mut self, past: Past) {
        if self.past.len() < MOST_PAST && self.budget.take(past.bytes()).is_ok() {
            self.past.push(past);
        } else {
            self.forget_history();
        }
    }

    fn forget_history(&mut self) {
        let bytes = self.past.iter().map(Past::bytes).sum();
        self.budget.give(bytes);
        (self.past, self.whole) = (Vec::new(), false);
    }

    /// An object is gone without a message of its own.
    pub(crate) fn forget(&mut self, object: Object) {
        self.remove(object);
    }

    fn remove(&mut self, object: Object) -> Option<Recipe> {
        if object.kind == ObjectKind::Mapping {
            self.mappings.remove(&object.id);
        }
        let recipe = self.live.remove(&object)?;
        self.budget.give(recipe.charged);
        Some(recipe)
    }

    /// A new context begins, where nothing lies in the driver.
    pub(crate) fn begin_anew(&mut self) {
        self.clock += 1;
        self.forget(Object::CONTEXT);
        self.forget_history();
        (self.whole, self.looked_up, self.begun) = (true, 0, self.clock);
    }

    /// A library was made of these; they cost nothing more than the library does.
    pub(crate) fn hold(&mut self, library: Object, contents: Contents) {
        if let Some(recipe) = self.live.get_mut(&library) {
            recipe.contents = contents;
        }
    }

    /// Contents of a library, also of one of the history.
    pub(crate) fn content(&self, hash: &Hash) -> Option<Content> {
        let live = self.live.values().flat_map(|recipe| &recipe.contents);
        let mut all = live.chain(self.past.iter().flat_map(|past| &past.contents));
        all.find(|(its, _)| its == hash).map(|(_, content)| content.clone())
    }

    /// The object that another is a part of.
    pub(crate) fn parent(&self, object: Object) -> Option<Object> {
        self.live.get(&object)?.of
    }

    /// The objects that live, in no order.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        self.live.keys().copied()
    }

    /// The mappings that begin in a range.
    pub(crate) fn mappings(&self, range: Range<u64>) -> Vec<Object> {
        self.mappings.range(range).map(|&id| Object { kind: ObjectKind::Mapping, id }).collect()
    }

    /// When an object was made.
    pub(crate) fn made_at(&self, object: Object) -> Option<u64> {
        self.live.get(&object).map(|recipe| recipe.made.when)
    }

    /// Gives `see` time, kind and payload of each message of an object, also of what its changes took in.
    pub(crate) fn messages(&self, object: Object, see: &mut dyn FnMut(u64, u16, &[u8])) {
        if let Some(recipe) = self.live.get(&object) {
            recipe.see(see);
        }
    }

    /// Drops changes of an object that match.
    pub(crate) fn drop_changes(&mut self, object: Object, mut matches: impl FnMut(u16, &[u8]) -> bool) {
        let Some(recipe) = self.live.get_mut(&object) else { return };
        let budget = &self.budget;
        let mut given = 0;
        recipe.changes.retain(|_, kept| {
            let goes = matches(kept.kind, &kept.payload);
            given += if goes { kept.bytes() } else { 0 };
            !goes
        });
        recipe.charged -= given;
        budget.give(given);
    }

    /// Objects that cannot be made again because there was no room for their messages.
    pub(crate) fn lost(&self) -> Vec<Object> {
        self.live.iter().filter(|(_, recipe)| recipe.is_lost()).map(|(object, _)| *object).collect()
    }

    /// A time from which on changes tell all: `since`, or 0 where another context has begun after it.
    pub(crate) fn since(&self, since: u64) -> u64 {
        if since < self.begun { 0 } else { since }
    }

    /// The clock, and whether the history is whole.
    pub(crate) fn clock(&self) -> (u64, bool) {
        (self.clock, self.whole)
    }

    /// The messages later than `since` in an order in which they can be carried out: first memory, so that a texture or a
    /// node made over other memory of the same addresses is made over what is there now; then all others by time. The
    /// history is part of it where `since` is 0.
    pub(crate) fn entries(&self, since: u64) -> Vec<Entry> {
        let (mut memory, mut others) = (Vec::new(), Vec::new());
        for (object, recipe) in &self.live {
            match object.kind {
                ObjectKind::Memory
                | ObjectKind::Pages
                | ObjectKind::Mirror
                | ObjectKind::Block
                | ObjectKind::Mapping => recipe.entries(since, &mut memory),
                _ => recipe.entries(since, &mut others),
            }
        }
        if since == 0 {
            for past in &self.past {
                others.extend([past.made.entry(true), past.ended.entry(true)]);
            }
        }
        // The context has no message of its own. Sorting is stable: what a change took in stays before it.
        others.retain(|entry| entry.kind != 0);
        memory.sort_by_key(|entry| entry.when);
        others.sort_by_key(|entry| entry.when);
        memory.append(&mut others);
        memory
    }
}

impl Recipe {
    /// Puts a change in its place. Where there is no room for it, the object is lost.
    fn put(&mut self, budget: &Budget, place: (u16, u64), when: u64, message: &Message<'_>, absorbed: Option<Self>) {
        let before = self.changes.get(&place).map_or(0, Kept::bytes);
        // The recipe of what was taken in is paid for already.
        let paid = absorbed.as_ref().map_or(0, |recipe| recipe.charged);
        if let Some(kept) = self.changes.get_mut(&place) {
            (kept.when, kept.own) = (when, message.own);
            kept.payload.set(message.payload);
            kept.reply.set(message.reply);
            kept.absorbed = absorbed.map(Box::new);
        } else {
            let absorbed = absorbed.map(Box::new);
            self.changes.insert(place, Kept { absorbed, ..Kept::new(when, message) });
        }
        let after = self.changes.get(&place).map_or(0, Kept::bytes);
        self.charged += after;
        self.charged -= before;
        budget.give(before);
        let room = budget.take(after - paid);
        if room.is_err() {
            self.changes.remove(&place);
            self.lost = true;
            self.charged -= after;
            budget.give(paid);
        }
    }
}

impl std::fmt::Debug for Recipes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recipes")
            .field("live", &self.live.len())
            .field("past", &self.past.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: u16 = 0x0501;

    fn object(kind: ObjectKind, id: u64) -> Object {
        Object { kind, id }
    }

    fn message(payload: &[u8]) -> Message<'_> {
        Message { kind: STREAM, payload, reply: &[], own: Own::default() }
    }

    fn payloads(recipes: &Recipes, since: u64) -> Vec<(u8, bool)> {
        recipes.entries(since).iter().map(|entry| (entry.payload[0], entry.past)).collect()
    }

    #[test]
    fn what_ended_is_forgotten_and_costs_nothing() {
        let budget = Budget::new(1 << 20);
        let mut recipes = Recipes::new(&budget);
        for id in 0..100_000 {
            let event = object(ObjectKind::Event, id);
            recipes.make(event, None, &message(&[1; 12]));
            recipes.end(event, &message(&[2; 8]));
        }
        assert_eq!((budget.kept(), recipes.lost(), recipes.clock().1), (0, vec![], true));
        assert_eq!(payloads(&recipes, 0), []);
    }

    #[test]
    fn an_ended_stream_stays_in_the_history_if_code_was_looked_up_while_it_lived() {
        let mut recipes = Recipes::new(&Budget::default());
        let [first, second, library] = [(ObjectKind::Stream, 1), (ObjectKind::Stream, 2), (ObjectKind::Library, 3)]
            .map(|(kind, id)| object(kind, id));
        recipes.make(first, None, &message(&[1]));
        recipes.make(library, None, &message(&[2]));
        recipes.make(second, None, &message(&[3]));
        recipes.end(first, &message(&[4]));
        recipes.end(second, &message(&[5]));
        assert_eq!(payloads(&recipes, 0), [(1, true), (2, false), (4, true)]);
        assert_eq!(payloads(&recipes, 1), [(2, false)], "who has the beginning needs no history");
        recipes.begin_anew();
        assert_eq!(payloads(&recipes, 0), [(2, false)]);
    }

    #[test]
    fn the_history_is_given_up_when_it_grows_over_its_bound() {
        let budget = Budget::default();
        let mut recipes = Recipes::new(&budget);
        for id in 0..=MOST_PAST as u64 {
            recipes.make(object(ObjectKind::Stream, id), None, &message(&[1]));
        }
        recipes.make(object(ObjectKind::Library, 1), None, &message(&[2]));
        let with_all = budget.kept();
        for id in 0..=MOST_PAST as u64 {
            recipes.end(object(ObjectKind::Stream, id), &message(&[1]));
        }
        assert!(!recipes.clock().1 && budget.kept() < with_all / 1000);
        assert_eq!(payloads(&recipes, 0), [(2, false)]);
    }

    #[test]
    fn a_change_takes_the_place_of_the_last_one_with_its_key() {
        let budget = Budget::default();
        let mut recipes = Recipes::new(&budget);
        let graph = object(ObjectKind::Graph, 1);
        recipes.make(graph, None, &message(&[0]));
        let made = budget.kept();
        for value in 1..100 {
            recipes.change(graph, Some(Key(7)), &message(&[value; 60]), None);
        }
        recipes.change(graph, Some(Key(8)), &message(&[100]), None);
        recipes.change(graph, Some(Key(7)), &message(&[99; 60]), None);
        assert_eq!(payloads(&recipes, 0), [(0, false), (99, false), (100, false)], "a change to the same is none");
        assert_eq!(budget.kept() - made, 2 * cost::MESSAGE + 60);
        recipes.forget(graph);
        assert_eq!(budget.kept(), 0);
    }

    #[test]
    fn events_that_come_and_go_and_nodes_that_are_set_allocate_nothing() {
        let mut recipes = Recipes::new(&Budget::default());
        let [event, graph] = [(ObjectKind::Event, 1), (ObjectKind::Graph, 2)].map(|(kind, id)| object(kind, id));
        recipes.make(graph, None, &message(&[0]));
        let mut round = |value: u8| {
            recipes.make(event, None, &message(&[value; 12]));
            recipes.end(event, &message(&[value; 8]));
            recipes.change(graph, Some(Key(1)), &message(&[value; 100]), None);
        };
        round(0);
        let measured = allocation_counter::measure(|| (1..100).for_each(&mut round));
        assert_eq!(measured.count_total, 0);
    }

    #[test]
    fn what_a_change_takes_in_goes_with_it_and_before_it() {
        let budget = Budget::default();
        let mut recipes = Recipes::new(&budget);
        let [graph, other] = [1, 2].map(|id| object(ObjectKind::Graph, id));
        recipes.make(other, None, &message(&[1]));
        recipes.change(other, None, &message(&[2]), None);
        recipes.make(graph, None, &message(&[3]));
        recipes.change(graph, Some(Key(0)), &message(&[4]), Some(other));
        assert_eq!(payloads(&recipes, 0).iter().map(|(first, _)| *first).collect::<Vec<_>>(), [3, 1, 2, 4]);
        assert_eq!(recipes.objects().collect::<Vec<_>>(), [graph]);
        let after_one = budget.kept();
        recipes.make(other, None, &message(&[1]));
        recipes.change(other, None, &message(&[2]), None);
        recipes.change(graph, Some(Key(0)), &message(&[5]), Some(other));
        assert_eq!(budget.kept(), after_one);
        recipes.forget(graph);
        assert_eq!(budget.kept(), 0);
    }

    #[test]
    fn an_object_without_room_for_its_messages_is_named_until_it_ends() {
        let budget = Budget::new(8 * (cost::RECIPE + cost::MESSAGE));
        let mut recipes = Recipes::new(&budget);
        let graph = object(ObjectKind::Graph, 1);
        recipes.make(graph, None, &message(&[1]));
        recipes.change(graph, None, &message(&[2; 1 << 20]), None);
        assert_eq!(recipes.lost(), [graph]);
        recipes.forget(graph);
        assert_eq!((recipes.lost(), budget.kept()), (vec![], 0));
        recipes.make(graph, None, &message(&[1; 1 << 20]));
        assert_eq!((recipes.lost(), budget.kept()), (vec![graph], 0));
    }
}
