//! The number of a program's waits: counts, not times.

use floe_tests::{Floed, Linkage, example};

/// vectorAdd needs the library, the kernel, its memory, one copy back and its synchronizes; everything else is posted.
const WAITS_OF_VECTOR_ADD: u64 = 12;

#[test]
fn vector_add_waits_at_most_twelve_times() {
    let daemon = Floed::start();
    let address = daemon.unix().to_owned();
    let outcome = example("vectorAdd", Linkage::Static, &[]).on(&daemon, &address).variable("FLOE_STATS", "json").run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let statistics = outcome.statistics();
    assert!(statistics.waits() <= WAITS_OF_VECTOR_ADD, "{statistics:?}");
    assert!(statistics.post.made > 0, "nothing was posted: {statistics:?}");
}
