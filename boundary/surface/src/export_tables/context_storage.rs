//! Values the CUDA runtime keeps per context: put, delete and get by context and key. Destructors run when the context
//! goes. The runtime asks on nearly every call it makes, so each thread remembers its last answers and takes no lock
//! while nothing has changed.

use floe_abi::{Context, CudaError, CudaResult};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The program's destructor: context, key, value.
pub(crate) type Destructor = unsafe extern "C" fn(Context, u64, u64);

#[derive(Clone, Copy)]
struct Stored {
    value: u64,
    destructor: Option<Destructor>,
}

/// Answers a thread remembers; a handful of runtime copies ask with a key each.
const REMEMBERED: usize = 8;

#[derive(Clone, Copy)]
struct Remembered {
    /// The storage's generation when this was the answer.
    generation: u64,
    context: Context,
    key: u64,
    value: u64,
}

static STORAGE: Mutex<BTreeMap<(Context, u64), Stored>> = Mutex::new(BTreeMap::new());
/// Counts changes; 0 is never current, so an empty memory matches nothing.
static GENERATION: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static MEMORY: Cell<[Remembered; REMEMBERED]> =
        const { Cell::new([Remembered { generation: 0, context: Context::NULL, key: 0, value: 0 }; REMEMBERED]) };
}

fn storage() -> MutexGuard<'static, BTreeMap<(Context, u64), Stored>> {
    // The map is whole after every operation, so a panic elsewhere does not spoil it.
    floe_lock::lock(&STORAGE)
}

/// Keeps a value; an older one under the same key is replaced without its destructor.
pub(crate) fn put(context: Context, key: u64, value: u64, destructor: Option<Destructor>) {
    let mut storage = storage();
    storage.insert((context, key), Stored { value, destructor });
    GENERATION.fetch_add(1, Ordering::Release);
}

/// Forgets a value without its destructor.
///
/// # Errors
/// INVALID_HANDLE where there is none.
pub(crate) fn delete(context: Context, key: u64) -> CudaResult<()> {
    let mut storage = storage();
    let removed = storage.remove(&(context, key));
    GENERATION.fetch_add(1, Ordering::Release);
    removed.map(|_| ()).ok_or(CudaError::INVALID_HANDLE)
}

/// The value under a key.
///
/// # Errors
/// INVALID_HANDLE where there is none, by which the runtime learns that it has to make one.
pub(crate) fn get(context: Context, key: u64) -> CudaResult<u64> {
    let generation = GENERATION.load(Ordering::Acquire);
    let slot = slot(key);
    let memory = MEMORY.get();
    let remembered = memory[slot];
    if remembered.generation == generation && remembered.context == context && remembered.key == key {
        return Ok(remembered.value);
    }
    let value = storage().get(&(context, key)).map(|stored| stored.value).ok_or(CudaError::INVALID_HANDLE)?;
    let mut memory = memory;
    memory[slot] = Remembered { generation, context, key, value };
    MEMORY.set(memory);
    Ok(value)
}

/// Keys are addresses in the runtime copies' data; their low bits are alike.
fn slot(key: u64) -> usize {
    usize::try_from((key >> 4) ^ (key >> 12)).unwrap_or(0) % REMEMBERED
}

/// A context is gone: its values' destructors run, in the order of their keys, without any lock held.
pub(crate) fn context_gone(context: Context) {
    let gone = {
        let mut storage = storage();
        let mut gone = storage.split_off(&(context, 0));
        let mut rest = match context.0.checked_add(1) {
            Some(next) => gone.split_off(&(Context(next), 0)),
            None => BTreeMap::new(),
        };
        storage.append(&mut rest);
        GENERATION.fetch_add(1, Ordering::Release);
        gone
    };
    for ((context, key), stored) in gone {
        if let Some(destructor) = stored.destructor {
            // SAFETY: the caller that put the value promised that its destructor may be called with these once the
            // context goes. The value is taken out of the storage first, so the call happens once.
            unsafe { destructor(context, key, stored.value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    static DESTROYED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn count(context: Context, key: u64, value: u64) {
        assert_eq!((context, value), (Context(0x70), key + 1));
        DESTROYED.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn destructors_of_a_gone_context_run_once_and_no_others() {
        put(Context(0x70), 0x10, 0x11, Some(count));
        put(Context(0x70), 0x20, 0x21, Some(count));
        put(Context(0x71), 0x10, 5, Some(count));
        context_gone(Context(0x70));
        context_gone(Context(0x70));
        assert_eq!(DESTROYED.load(Ordering::Relaxed), 2);
        assert_eq!(get(Context(0x70), 0x10), Err(CudaError::INVALID_HANDLE));
        assert_eq!(get(Context(0x71), 0x10), Ok(5));
    }

    #[test]
    fn remembered_answer_is_dropped_when_the_value_changes() {
        let (context, key) = (Context(0x80), 0x1230);
        assert_eq!(get(context, key), Err(CudaError::INVALID_HANDLE));
        put(context, key, 1, None);
        assert_eq!((get(context, key), get(context, key)), (Ok(1), Ok(1)));
        put(context, key, 2, None);
        assert_eq!(get(context, key), Ok(2));
        delete(context, key).expect("is there");
        assert_eq!(get(context, key), Err(CudaError::INVALID_HANDLE));
        assert_eq!(delete(context, key), Err(CudaError::INVALID_HANDLE));
    }
}
