//! When device memory is given out again, given back, and refused.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use floe_abi::{CudaError, Device, Stream, pool_attribute};
use floe_surface::*;
use scripted::*;

#[test]
fn freed_memory_is_not_reused_while_work_issued_before_may_touch_it() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let first = client.mem_alloc(1 << 20).unwrap();
    client.memset_d8(Stream::LEGACY, first, 1, 1 << 20).unwrap();
    client.mem_free(first).unwrap();
    let second = client.mem_alloc(1 << 20).unwrap();
    assert_ne!(second, first);
    client.ctx_synchronize().unwrap();
    let third = client.mem_alloc(1 << 20).unwrap();
    assert_eq!(third, first);
    assert_eq!(server.count("CreateBlock"), 1);
}

#[test]
fn memory_freed_on_a_stream_serves_that_stream_at_once() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (one, other) = (client.stream_create(1).unwrap(), client.stream_create(1).unwrap());
    let first = client.mem_alloc_async(4096, one).unwrap();
    client.memset_d8_async(first, 1, 4096, one).unwrap();
    client.mem_free_async(first, one).unwrap();
    assert_ne!(client.mem_alloc_async(4096, other).unwrap(), first);
    assert_eq!(client.mem_alloc_async(4096, one).unwrap(), first);
}

#[test]
fn memory_freed_on_an_idle_stream_waits_for_the_default_stream_it_runs_after() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let (blocking, free) = (client.stream_create(0).unwrap(), client.stream_create(1).unwrap());
    for (used_on, freed_on) in [(Stream::LEGACY, blocking), (blocking, Stream::LEGACY)] {
        let first = client.mem_alloc_async(4096, used_on).unwrap();
        client.memset_d8_async(first, 1, 4096, used_on).unwrap();
        client.mem_free_async(first, freed_on).unwrap();
        assert_ne!(client.mem_alloc_async(4096, free).unwrap(), first);
        assert_ne!(client.mem_alloc(4096).unwrap(), first);
        client.ctx_synchronize().unwrap();
    }
}

#[test]
fn a_large_allocation_goes_back_when_its_work_is_over() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(256 << 20).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 16).unwrap();
    client.mem_free(at).unwrap();
    assert_eq!(server.count("ReleaseBlock"), 0);
    client.ctx_synchronize().unwrap();
    client.mem_alloc(16).unwrap();
    server.wait_for("ReleaseBlock", 1);
    let names = server.names();
    let unmapped = names.iter().position(|name| *name == "UnmapRange");
    assert!(unmapped.unwrap() < names.iter().position(|name| *name == "ReleaseBlock").unwrap());
}

#[test]
fn a_full_quota_is_first_met_by_what_was_freed_and_then_said() {
    let server = Server::start(Options { memory: 64 << 20, ..Options::default() });
    let client = client(&server);
    let first = client.mem_alloc(40 << 20).unwrap();
    client.memset_d8(Stream::LEGACY, first, 0, 16).unwrap();
    client.mem_free(first).unwrap();
    let second = client.mem_alloc(48 << 20).unwrap();
    assert_eq!(server.count("SynchronizeContext"), 1);
    assert_eq!(client.mem_alloc(48 << 20), Err(CudaError::OUT_OF_MEMORY));
    // A refused allocation harms nothing: a smaller one fits.
    client.mem_alloc(8 << 20).unwrap();
    client.mem_free(second).unwrap();
}

#[test]
fn free_memory_counts_what_the_allocator_holds() {
    let server = Server::start(Options::default());
    let client = client(&server);
    assert_eq!(client.mem_get_info(), Ok((1 << 30, 1 << 30)));
    let at = client.mem_alloc(4096).unwrap();
    assert_eq!(client.mem_get_info(), Ok(((1 << 30) - 4096, 1 << 30)));
    client.mem_free(at).unwrap();
    assert_eq!(client.mem_get_info(), Ok((1 << 30, 1 << 30)));
}

#[test]
fn wrong_frees_are_refused() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let at = client.mem_alloc(4096).unwrap();
    assert_eq!(client.mem_free(floe_abi::DevicePtr(at.0 + 512)), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_free(floe_abi::DevicePtr(0x1234)), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_free(at), Ok(()));
    assert_eq!(client.mem_free(at), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.mem_free(floe_abi::DevicePtr::NULL), Ok(()));
}

#[test]
fn pools_count_what_they_gave() {
    use floe_abi::pool_attribute as ask;
    let server = Server::start(Options::default());
    let client = client(&server);
    let pool = client.device_get_default_mem_pool(floe_abi::Device(0)).unwrap();
    let at = client.mem_alloc_async(5000, Stream::LEGACY).unwrap();
    assert_eq!(client.mem_pool_get_attribute(pool, ask::USED_MEM_CURRENT), Ok(5000));
    client.mem_free_async(at, Stream::LEGACY).unwrap();
    assert_eq!(client.mem_pool_get_attribute(pool, ask::USED_MEM_CURRENT), Ok(0));
    assert_eq!(client.mem_pool_get_attribute(pool, ask::USED_MEM_HIGH), Ok(5000));
    client.mem_pool_set_attribute(pool, ask::RELEASE_THRESHOLD, u64::MAX).unwrap();
    assert_eq!(client.mem_pool_get_attribute(pool, ask::RELEASE_THRESHOLD), Ok(u64::MAX));
    assert_eq!(client.mem_pool_destroy(pool), Err(CudaError::INVALID_VALUE));
}

#[test]
fn a_reset_empties_the_pools() {
    use floe_abi::{Device, pool_attribute as ask};
    let server = Server::start(Options::default());
    let client = client(&server);
    let pool = client.device_get_default_mem_pool(Device(0)).unwrap();
    client.mem_alloc_async(5000, Stream::LEGACY).unwrap();
    client.device_primary_ctx_reset(Device(0)).unwrap();
    assert_eq!(client.mem_pool_get_attribute(pool, ask::USED_MEM_CURRENT), Ok(0));
}

/// As on a GPU (docs/facts/device-memory.md): in steps of 32 MiB, until the program synchronizes.
#[test]
fn a_pool_says_what_a_driver_would_reserve() {
    let server = Server::start(Options::default());
    let client = client(&server);
    let pool = client.device_get_default_mem_pool(Device(0)).unwrap();
    let stream = client.stream_create(0).unwrap();
    let says = |attribute: u32| client.mem_pool_get_attribute(pool, attribute).unwrap() >> 10;
    let all = || {
        [
            pool_attribute::USED_MEM_CURRENT,
            pool_attribute::USED_MEM_HIGH,
            pool_attribute::RESERVED_MEM_CURRENT,
            pool_attribute::RESERVED_MEM_HIGH,
        ]
        .map(says)
    };
    let at = client.mem_alloc_async(1 << 20, stream).unwrap();
    assert_eq!(all(), [1024, 1024, 32 << 10, 32 << 10]);
    client.mem_free_async(at, stream).unwrap();
    assert_eq!(all(), [0, 1024, 32 << 10, 32 << 10]);
    client.mem_pool_trim_to(pool, 0).unwrap();
    assert_eq!(says(pool_attribute::RESERVED_MEM_CURRENT), 32 << 10, "it may be in use");
    client.stream_synchronize(stream).unwrap();
    assert_eq!(all(), [0, 1024, 0, 32 << 10]);
    for attribute in [pool_attribute::USED_MEM_HIGH, pool_attribute::RESERVED_MEM_HIGH] {
        assert_eq!(client.mem_pool_set_attribute(pool, attribute, 1), Err(CudaError::INVALID_VALUE));
        client.mem_pool_set_attribute(pool, attribute, 0).unwrap();
    }
    client.mem_pool_set_attribute(pool, pool_attribute::RELEASE_THRESHOLD, u64::MAX).unwrap();
    let at = client.mem_alloc_async(40 << 20, stream).unwrap();
    client.mem_free_async(at, stream).unwrap();
    client.ctx_synchronize().unwrap();
    assert_eq!(all(), [0, 40 << 10, 64 << 10, 64 << 10]);
    client.mem_pool_trim_to(pool, 0).unwrap();
    assert_eq!(all(), [0, 40 << 10, 0, 64 << 10]);
    // An event that is known to be over is synchronized with, too.
    client.mem_pool_set_attribute(pool, pool_attribute::RELEASE_THRESHOLD, 0).unwrap();
    let (at, event) = (client.mem_alloc_async(1 << 20, stream).unwrap(), client.event_create(0).unwrap());
    client.mem_free_async(at, stream).unwrap();
    client.event_record(event, stream).unwrap();
    while client.event_query(event) == Err(CudaError::NOT_READY) {}
    assert_eq!(says(pool_attribute::RESERVED_MEM_CURRENT), 32 << 10);
    client.event_synchronize(event).unwrap();
    assert_eq!(says(pool_attribute::RESERVED_MEM_CURRENT), 0);
}
