//! Watches of address ranges. A range comes in with its handler and leaves when the watch is dropped. The first watch starts
//! two threads that ask handlers: one for faults within host functions, which never waits for the other.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::queue::FaultQueue;
use crate::registry::{self, FAULTS, FAULTS_IN_HOST_FUNCTIONS, FaultHandler, decide};
use crate::signal;

/// Addresses that are watched until this is dropped.
pub struct Watch {
    addresses: Range<u64>,
}

impl Watch {
    /// Watches addresses that are not watched yet. `None` if the system refuses the threads, if one of the addresses is
    /// watched already, or if the range is empty.
    pub fn start(addresses: Range<u64>, handler: Arc<dyn FaultHandler>) -> Option<Self> {
        static THREADS: OnceLock<bool> = OnceLock::new();
        if !*THREADS.get_or_init(start_threads) || !registry::add(&addresses, handler) {
            return None;
        }
        signal::install();
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
    let start = |name: &str, queue: &'static FaultQueue| {
        let serve = move || {
            signal::block_signals();
            queue.serve(decide)
        };
        std::thread::Builder::new().name(name.into()).spawn(serve).is_ok()
    };
    start("floe-fault", &FAULTS) && start("floe-fault-host", &FAULTS_IN_HOST_FUNCTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{PageFault, is_watched};

    struct Refuses;

    impl FaultHandler for Refuses {
        fn handle(&self, _fault: PageFault) -> bool {
            false
        }
    }

    fn start(addresses: Range<u64>) -> Option<Watch> {
        Watch::start(addresses, Arc::new(Refuses))
    }

    #[test]
    fn watched_addresses_are_refused_and_stay_watched() {
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
