//! The calling thread's stack of contexts, of which the top is current. Handles come in and go out; whether a handle
//! stands for a context that exists is for others to know.
//! The current one can be asked for to the very end of a thread, when destructors of the program still make calls.

use std::cell::{Cell, RefCell};

thread_local! {
    /// The current context's handle; 0 stands for none. Without a destructor, so that it outlives all others.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    /// The contexts below it, the next one last.
    static BELOW: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The current context's handle, 0 for none.
pub(crate) fn get() -> u64 {
    CURRENT.get()
}

/// Makes `handle` current over what was.
pub(crate) fn push(handle: u64) {
    let below = CURRENT.replace(handle);
    if below != 0 {
        // A thread whose destructors run already has no use for what lies below any more.
        let _ = BELOW.try_with(|stack| stack.borrow_mut().push(below));
    }
}

/// Takes the current context off, and gives its handle; `None` where there is none.
pub(crate) fn pop() -> Option<u64> {
    let next = BELOW.try_with(|stack| stack.borrow_mut().pop()).ok().flatten().unwrap_or(0);
    let popped = CURRENT.replace(next);
    (popped != 0).then_some(popped)
}

/// Puts `handle` in the place of the current context; 0 only takes that off.
pub(crate) fn replace(handle: u64) {
    if handle == 0 {
        pop();
    } else {
        CURRENT.set(handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_come_off_in_the_order_they_lie() {
        push(1);
        push(2);
        assert_eq!((get(), pop(), pop(), pop()), (2, Some(2), Some(1), None));
    }

    #[test]
    fn replacing_with_none_shows_what_lies_below() {
        push(1);
        push(2);
        replace(3);
        assert_eq!(get(), 3);
        replace(0);
        assert_eq!(get(), 1);
        replace(0);
        assert_eq!((get(), pop()), (0, None));
    }
}
