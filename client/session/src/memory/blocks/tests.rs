//! The allocator's promises, on chosen cases and on random sequences: no overlap, alignment, nothing given out again
//! before its fence is passed, no byte lost. A fence here is a number that time passes.

use proptest::prelude::*;

use super::*;

const BASE: u64 = 0x2000_0000_0000;
const GRANULARITY: u64 = 2 << 20;

fn blocks() -> Blocks<u64> {
    Blocks::new(BASE..BASE + (1 << 39), GRANULARITY)
}

/// Allocates, creating a block when needed; ids count up.
fn allocate(blocks: &mut Blocks<u64>, bytes: u64, next: &mut u64) -> u64 {
    if let Some(at) = blocks.allocate(bytes, 0, None) {
        return at;
    }
    let plan = blocks.plan(bytes).unwrap();
    assert_eq!(plan.at % GRANULARITY, 0);
    assert_eq!(plan.bytes % GRANULARITY, 0);
    *next += 1;
    blocks.add(plan, *next, bytes, 0).unwrap()
}

#[test]
fn small_allocations_share_one_block() {
    let (mut blocks, mut created) = (blocks(), 0);
    let first = allocate(&mut blocks, 4096, &mut created);
    let second = allocate(&mut blocks, 1, &mut created);
    let third = allocate(&mut blocks, 100, &mut created);
    assert_eq!([first, second, third], [BASE, BASE + 4096, BASE + 4096 + 512]);
    assert_eq!(created, 1);
}

#[test]
fn a_large_allocation_has_a_block_of_its_own_size() {
    let mut blocks = blocks();
    assert_eq!(blocks.plan(100 << 20).unwrap().bytes, 100 << 20);
    assert_eq!(blocks.plan((100 << 20) + 1).unwrap().bytes, 102 << 20);
}

#[test]
fn a_freed_range_is_not_reused_before_its_fence_is_passed() {
    let (mut blocks, mut created) = (blocks(), 0);
    let first = allocate(&mut blocks, 1 << 20, &mut created);
    blocks.free(first, 7, None).unwrap();
    blocks.collect(|fence| *fence <= 6);
    assert_ne!(blocks.allocate(1 << 20, 0, None), Some(first));
    blocks.collect(|fence| *fence <= 7);
    assert_eq!(blocks.allocate(1 << 20, 0, None), Some(first));
}

#[test]
fn the_stream_that_freed_takes_its_memory_again_at_once_and_no_other_does() {
    let (mut blocks, mut created) = (blocks(), 0);
    let first = allocate(&mut blocks, 2 << 20, &mut created);
    blocks.free(first, 7, Some(4)).unwrap();
    assert_eq!(blocks.allocate(2 << 20, 0, Some(5)), None);
    assert_eq!(blocks.allocate(2 << 20, 0, None), None);
    assert_eq!(blocks.allocate(2 << 20, 0, Some(4)), Some(first));
}

#[test]
fn a_large_block_is_given_up_when_its_allocation_is_over() {
    let (mut blocks, mut created) = (blocks(), 0);
    let at = allocate(&mut blocks, 256 << 20, &mut created);
    blocks.free(at, 1, None).unwrap();
    assert_eq!(blocks.collect(|_| false), []);
    let surplus = blocks.collect(|_| true);
    assert_eq!(surplus, [Whole { block: 1, at, bytes: 256 << 20 }]);
    assert_eq!(blocks.idle_bytes(), 0);
}

#[test]
fn a_small_empty_block_is_kept_and_given_up_on_demand() {
    let (mut blocks, mut created) = (blocks(), 0);
    let at = allocate(&mut blocks, 1 << 20, &mut created);
    blocks.free(at, 1, None).unwrap();
    assert_eq!(blocks.collect(|_| true), []);
    assert_eq!(blocks.surplus(0).len(), 1);
}

#[test]
fn freeing_twice_or_inside_finds_no_allocation() {
    let (mut blocks, mut created) = (blocks(), 0);
    let at = allocate(&mut blocks, 4096, &mut created);
    assert_eq!(blocks.free(at + 512, 1, None), None);
    assert!(blocks.free(at, 1, None).is_some());
    assert_eq!(blocks.free(at, 1, None), None);
}

#[test]
fn find_ends_at_the_bytes_asked_for() {
    let (mut blocks, mut created) = (blocks(), 0);
    let at = allocate(&mut blocks, 100, &mut created);
    assert_eq!(blocks.find(at + 99).map(|found| found.at), Some(at));
    assert_eq!(blocks.find(at + 100), None);
    assert_eq!(blocks.find(at - 1), None);
}

#[test]
fn impossible_sizes_are_refused() {
    let mut blocks = blocks();
    assert_eq!(blocks.allocate(0, 0, None), None);
    assert_eq!(blocks.plan(0), None);
    assert_eq!(blocks.plan(u64::MAX), None);
    assert_eq!(blocks.plan(1 << 40), None);
}

#[test]
fn a_cancelled_plan_leaves_its_place_free() {
    let mut blocks = blocks();
    let plan = blocks.plan(1 << 30).unwrap();
    blocks.cancel(plan);
    assert_eq!(blocks.plan(1 << 30), Some(plan));
}

#[derive(Debug, Clone)]
enum Step {
    Allocate(u64, Option<u64>),
    Free(prop::sample::Index, u64, Option<u64>),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (prop_oneof![1u64..5000, 1u64..(40 << 20)], prop::option::of(0u64..3)).prop_map(|(bytes, stream)| Step::Allocate(bytes, stream)),
        2 => (any::<prop::sample::Index>(), 1u64..20, prop::option::of(0u64..3)).prop_map(|(pick, later, stream)| Step::Free(pick, later, stream)),
        1 => (1u64..10).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn random_sequences_keep_every_promise(steps in prop::collection::vec(step(), 1..150)) {
        let mut blocks = blocks();
        let mut now = 0u64;
        let mut next = 0u64;
        let mut mapped: BTreeMap<u64, u64> = BTreeMap::new();
        let mut held: Vec<(u64, u64)> = Vec::new();
        // Freed ranges with the time from which they may be used again, and the stream that may use them earlier.
        let mut resting: Vec<(u64, u64, u64, Option<u64>)> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate(bytes, stream) => {
                    let at = blocks.allocate(bytes, 0, stream).unwrap_or_else(|| {
                        let plan = blocks.plan(bytes).unwrap();
                        next += 1;
                        mapped.insert(plan.at, plan.bytes);
                        blocks.add(plan, next, bytes, 0).unwrap()
                    });
                    prop_assert_eq!(at % ALIGNMENT, 0);
                    let (block, block_bytes) = mapped.range(..=at).next_back().unwrap();
                    prop_assert!(at + bytes <= block + block_bytes, "inside a mapped block");
                    for (other, other_bytes) in &held {
                        prop_assert!(at + bytes <= *other || other + other_bytes <= at, "no overlap");
                    }
                    for (other, other_bytes, until, freed_on) in &resting {
                        let apart = at + bytes <= *other || other + other_bytes <= at;
                        let same_stream = stream.is_some() && freed_on == &stream;
                        prop_assert!(apart || *until <= now || same_stream, "not before its fence");
                    }
                    resting.retain(|(other, other_bytes, ..)| at + bytes <= *other || other + other_bytes <= at);
                    held.push((at, bytes));
                }
                Step::Free(pick, later, stream) => {
                    if !held.is_empty() {
                        let (at, bytes) = held.swap_remove(pick.index(held.len()));
                        prop_assert!(blocks.free(at, now + later, stream).is_some());
                        resting.push((at, bytes, now + later, stream));
                    }
                }
                Step::Pass(by) => {
                    now += by;
                    for surplus in blocks.collect(|fence| *fence <= now) {
                        prop_assert_eq!(mapped.remove(&surplus.at), Some(surplus.bytes));
                        for (at, bytes) in &held {
                            prop_assert!(at + bytes <= surplus.at || surplus.at + surplus.bytes <= *at, "unused");
                        }
                    }
                }
            }
        }
        for (at, _) in held {
            blocks.free(at, now, None);
        }
        blocks.collect(|_| true);
        let last = blocks.surplus(0);
        for surplus in &last {
            mapped.remove(&surplus.at);
        }
        prop_assert_eq!(blocks.idle_bytes(), 0);
    }
}
