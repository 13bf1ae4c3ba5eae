//! Watches of address ranges. A range comes in with its keeper and leaves when the watch is dropped. The first watch starts
//! two threads that ask keepers: one for faults within host functions, which never waits for the other.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::handler;
use crate::line::Line;
use crate::registry::{self, Keeper, ORDINARY, TURNS, decide};

/// Addresses that are watched until this is dropped.
pub struct Watch {
    addresses: Range<u64>,
}

impl Watch {
    /// Watches addresses nobody watches yet. `None` where the system has no threads for it, where somebody watches one of
    /// them already, and where there are none.
    pub fn start(addresses: Range<u64>, keeper: Arc<dyn Keeper>) -> Option<Self> {
        static THREADS: OnceLock<bool> = OnceLock::new();
        if !*THREADS.get_or_init(start_threads) || !registry::add(&addresses, keeper) {
            return None;
        }
        handler::be_first();
        Some(Self { addresses })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        registry::remove(&self.addresses);
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("addresses", &self.addresses).finish()
    }
}

fn start_threads() -> bool {
    let start = |name: &str, line: &'static Line| {
        let serve = move || {
            handler::leave_signals_alone();
            line.serve(decide)
        };
        std::thread::Builder::new().name(name.into()).spawn(serve).is_ok()
    };
    start("floe-touch", &ORDINARY) && start("floe-touch-turn", &TURNS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Touch, is_watched};

    struct Refuses;

    impl Keeper for Refuses {
        fn touched(&self, _touch: Touch) -> bool {
            false
        }
    }

    fn start(addresses: Range<u64>) -> Option<Watch> {
        Watch::start(addresses, Arc::new(Refuses))
    }

    #[test]
    fn what_is_kept_already_is_refused_and_stays_kept() {
        let own = start(0x1000..0x3000).expect("nobody watches these");
        for taken in [0x1000..0x3000, 0x1000..0x2000, 0x0..0x1001, 0x2fff..0x4000, 0x0..0x4000] {
            assert!(start(taken.clone()).is_none(), "{taken:x?}");
        }
        assert!(is_watched(0x1000) && is_watched(0x2fff) && !is_watched(0x3000));
        let neighbour = start(0x3000..0x4000).expect("nobody watches these");
        drop(own);
        assert!(!is_watched(0x2fff) && is_watched(0x3000));
        let again = start(0x1000..0x3000).expect("nobody watches these any more");
        assert!(is_watched(0x1000));
        drop((neighbour, again));
        assert!(!is_watched(0x1000) && !is_watched(0x3000));
    }
}
