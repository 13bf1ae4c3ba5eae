//! What a forked child has of exchanged pages: a copy of its own, as of private memory. Ranges come in and leave; at a fork
//! their bytes are copied, and the child has the copies in their place. The pages themselves never reach a child, so one
//! that was forked past the C library faults there.

use std::cell::RefCell;
use std::fs;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use crate::mapping::shared_file;
use crate::pages;

/// All exchanged pages of the process, and their copies while it forks.
#[derive(Debug)]
pub(crate) struct Table {
    exchanged: Vec<Exchange>,
    /// Where a copy is, and the range it is of.
    copies: Vec<(u64, Range<u64>)>,
}

/// Pages and their file.
#[derive(Debug)]
struct Exchange {
    pages: Range<u64>,
    inode: u64,
}

static TABLE: Mutex<Table> = Mutex::new(Table { exchanged: Vec::new(), copies: Vec::new() });

thread_local! {
    /// The table, from before a fork until after it.
    static FORKING: RefCell<Option<MutexGuard<'static, Table>>> = const { RefCell::new(None) };
}

/// The table: while it is held, nobody forks, and no other pages are exchanged.
pub(crate) fn table() -> MutexGuard<'static, Table> {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: the functions are ours, take nothing and never unwind. They live as long as this library, whose unloading
        // the C library handles.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
    });
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// Makes room: `add` takes no memory then.
    pub(crate) fn reserve(&mut self) {
        self.exchanged.reserve(1);
    }

    /// These pages are of this file from now on.
    pub(crate) fn add(&mut self, pages: &Range<u64>, inode: u64) {
        self.exchanged.push(Exchange { pages: pages.clone(), inode });
    }

    /// They are of no file any more.
    pub(crate) fn remove(&mut self, pages: &Range<u64>) {
        self.exchanged.retain(|exchange| exchange.pages != *pages);
    }

    /// Copies what is still mapped. The program may have unmapped pages without a word, and may do so now: so what is copied is
    /// mapped once more, where it knows nothing of it.
    fn copy(&mut self) {
        let maps = if self.exchanged.is_empty() { None } else { fs::read_to_string("/proc/self/maps").ok() };
        let Some(maps) = maps else { return };
        for Exchange { pages, inode } in &self.exchanged {
            let is_there = shared_file(&maps, pages).is_some_and(|mapping| mapping.inode == *inode);
            let Some(again) = is_there.then(|| pages::again(pages)).flatten() else { continue };
            let bytes = pages.end - pages.start;
            if let Some(copy) = pages::private(bytes) {
                // SAFETY: both are mapped, and known to nobody else. A thread that writes the pages meanwhile does so beside a
                // fork, whose child may have either.
                unsafe { pages::copy(again, copy, bytes) };
                self.copies.push((copy, pages.clone()));
            }
            // SAFETY: mapped just now, known to nobody.
            unsafe { pages::unmap(again, bytes) };
        }
    }
}

/// Has something done before each fork of this process, by the thread that forks: what was asked for first, and nothing else.
pub fn before_forks(action: fn()) {
    ACTION.get_or_init(|| {
        // SAFETY: as that of the table's functions.
        unsafe { libc::pthread_atfork(Some(act), None, None) };
        (action, std::process::id())
    });
}

/// What is done before a fork, and the process of which.
static ACTION: OnceLock<(fn(), u32)> = OnceLock::new();

extern "C" fn act() {
    // A child has none of the threads that an action may wait for.
    if let Some((action, _)) = ACTION.get().filter(|(_, process)| *process == std::process::id()) {
        // A panic has nowhere to go from here.
        let _ = std::panic::catch_unwind(action);
    }
}

extern "C" fn before() {
    let mut table = table();
    table.copy();
    FORKING.with(|forking| *forking.borrow_mut() = Some(table));
}

extern "C" fn after() {
    each_copy(|copy, range| {
        // SAFETY: mapped for the child, which has it now; nobody else knows it.
        unsafe { pages::unmap(copy, range.end - range.start) };
    });
}

extern "C" fn in_child() {
    each_copy(|copy, range| {
        // SAFETY: nothing is mapped there in a child, and the copy is known to nobody else. Where the system refuses, the
        // child faults there.
        let _ = unsafe { pages::replace(copy, range) };
    });
    TABLE.lock().unwrap_or_else(PoisonError::into_inner).exchanged.clear();
}

/// Gives each copy away, and the table free.
fn each_copy(give: impl Fn(u64, &Range<u64>)) {
    FORKING.with(|forking| {
        if let Some(mut table) = forking.borrow_mut().take() {
            table.copies.drain(..).for_each(|(copy, range)| give(copy, &range));
        }
    });
}
