//! Modules travel once: every later session of the same cache has the modules that a program has sent before.

use std::path::{Path, PathBuf};

use floe_tests::{Floed, Linkage, Statistics, example};

/// A daemon with this cache and at most so many bytes in it.
fn daemon(cache: &Path, limit: &str) -> Floed {
    let cache = cache.display().to_string();
    Floed::start_with(&["--module-cache-limit", limit], &[("FLOE_MODULE_CACHE", &cache)])
}

fn run(daemon: &Floed, name: &str) -> Statistics {
    let outcome = example(name, Linkage::Static, &[]).on(daemon, daemon.unix()).variable("FLOE_STATS", "json").run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    outcome.statistics()
}

fn files(cache: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(cache).expect("the cache is there");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn bytes_in(cache: &Path) -> u64 {
    files(cache).iter().map(|file| file.metadata().expect("a file").len()).sum()
}

#[test]
fn second_start_sends_no_module_bytes_also_to_another_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("modules");
    let first = run(&daemon(&cache, "1G"), "vectorAdd");
    assert!(first.module_bytes_sent > 0 && first.modules_sent > 0, "{first:?}");
    assert_eq!(bytes_in(&cache), first.module_bytes_sent);
    let second = run(&daemon(&cache, "1G"), "vectorAdd");
    assert_eq!((second.module_bytes_sent, second.modules_sent), (0, 0), "{second:?}");
    assert_eq!(second.modules_known, first.modules_sent);
    // Posted copies may wait for room as well, now and then: that is not the modules' doing.
    assert!(second.call.waited <= first.call.waited, "{first:?} {second:?}");
}

#[test]
fn damaged_and_cut_files_are_sent_again_and_never_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("modules");
    let daemon = daemon(&cache, "1G");
    let first = run(&daemon, "vectorAdd");
    let damage: [fn(&mut Vec<u8>); 3] = [|bytes| bytes[40] ^= 1, |bytes| bytes.truncate(100), Vec::clear];
    for damage in damage {
        for file in files(&cache) {
            let mut bytes = std::fs::read(&file).expect("a content");
            damage(&mut bytes);
            std::fs::write(&file, bytes).expect("damaged");
        }
        let again = run(&daemon, "vectorAdd");
        assert_eq!(again.module_bytes_sent, first.module_bytes_sent);
        assert_eq!(run(&daemon, "vectorAdd").module_bytes_sent, 0);
    }
}

#[test]
fn cache_stays_within_its_limit_and_programs_run_whatever_it_has_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("modules");
    let whole = run(&daemon(&cache, "1G"), "sorting").module_bytes_sent;
    let limit = whole + 100;
    let small = daemon(&cache, &limit.to_string());
    for name in ["vectorAdd", "reduction", "sorting", "scan", "vectorAdd"] {
        run(&small, name);
        assert!(bytes_in(&cache) <= limit, "{name}: {} of {limit} bytes", bytes_in(&cache));
    }
    assert!(!files(&cache).is_empty());
}

#[test]
fn without_a_cache_every_start_sends_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("modules");
    let daemon = daemon(&cache, "0");
    let (first, second) = (run(&daemon, "vectorAdd"), run(&daemon, "vectorAdd"));
    assert!(first.module_bytes_sent > 0);
    assert_eq!(first.module_bytes_sent, second.module_bytes_sent);
    assert!(!cache.exists());
}

#[test]
fn programs_that_start_at_once_store_the_same_module_and_all_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("modules");
    let daemon = daemon(&cache, "1G");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| run(&daemon, "reduction"));
        }
    });
    let again = run(&daemon, "reduction");
    assert_eq!(again.module_bytes_sent, 0);
    assert_eq!(files(&cache).len() as u64, again.modules_known);
}

#[test]
fn cache_that_cannot_be_used_costs_time_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a file");
    std::fs::write(&file, b"").expect("written");
    let daemon = daemon(&file, "1G");
    assert_eq!(run(&daemon, "vectorAdd").module_bytes_sent, run(&daemon, "vectorAdd").module_bytes_sent);
}
