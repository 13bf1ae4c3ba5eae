//! The cache against damaged files, lying workers and other daemons.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn cache(limit: u64) -> (tempfile::TempDir, ModuleCache) {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = ModuleCache::open(&folder.path().join("a/modules"), limit).expect("opened");
    (folder, cache)
}

fn hash_of(bytes: &[u8]) -> Hash {
    *blake3::hash(bytes).as_bytes()
}

fn written(bytes: &[u8]) -> File {
    let memory = memory(bytes.len() as u64).expect("made");
    memory.write_all_at(bytes, 0).expect("written");
    memory
}

fn path(cache: &ModuleCache, hash: &Hash) -> PathBuf {
    cache.folder.join(name_of(hash))
}

fn store(cache: &ModuleCache, bytes: &[u8]) -> Hash {
    let hash = hash_of(bytes);
    assert_eq!(text(cache.store(&hash, bytes.len() as u64, &written(bytes)).expect("stored")), bytes);
    hash
}

fn text(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("readable");
    bytes
}

/// Writes to a file of the cache as only its owner can who makes it writable first.
fn damage(path: &Path, bytes: &[u8]) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("owned");
    std::fs::write(path, bytes).expect("damaged");
}

/// Pretends that a file was used last so many seconds ago.
fn used_ago(path: &Path, seconds: u64) {
    let file = File::open(path).expect("there");
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("owned");
}

#[test]
fn what_was_stored_is_found_by_another_daemon_and_is_its_users_alone_to_read() {
    let (_folder, cache) = cache(1 << 20);
    let hash = store(&cache, b"content");
    let other = ModuleCache::open(&cache.folder, 1 << 20).expect("opened");
    assert_eq!(text(other.find(&hash, 7).expect("found")), b"content");
    assert!(other.find(&hash_of(b"another"), 7).is_none());
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&path(&cache, &hash)), mode(&cache.folder)), (0o400, 0o700));
}

#[test]
fn what_is_given_out_cannot_be_written_through() {
    let (_folder, cache) = cache(1 << 20);
    let hash = store(&cache, b"content");
    let mut found = cache.find(&hash, 7).expect("found");
    assert!(found.write_all(b"CONTENT").is_err() && found.set_len(0).is_err());
    assert_eq!(text(cache.find(&hash, 7).expect("found")), b"content");
}

#[test]
fn each_finder_reads_from_the_start_whatever_others_have_read() {
    let (_folder, cache) = cache(1 << 20);
    let hash = store(&cache, b"content");
    let (first, second) = (cache.find(&hash, 7).expect("found"), cache.find(&hash, 7).expect("found"));
    assert_eq!((text(first), text(second)), (b"content".to_vec(), b"content".to_vec()));
}

#[test]
fn a_wrong_size_finds_nothing_and_removes_nothing() {
    let (_folder, cache) = cache(1 << 20);
    let hash = store(&cache, b"content");
    for bytes in [0, 6, 8, u64::MAX] {
        assert!(cache.find(&hash, bytes).is_none());
    }
    assert!(cache.find(&hash, 7).is_some());
}

#[test]
fn damaged_and_cut_files_are_removed_and_never_given_out() {
    let (_folder, cache) = cache(1 << 20);
    for bytes in [&b"cOntent"[..], b"conten", b"", b"content and more"] {
        let hash = store(&cache, b"content");
        assert!(cache.find(&hash, 7).is_some());
        damage(&path(&cache, &hash), bytes);
        assert!(cache.find(&hash, 7).is_none());
        assert!(!path(&cache, &hash).exists());
    }
}

#[test]
fn a_complaint_removes_a_damaged_file_and_leaves_a_right_one() {
    let (_folder, cache) = cache(1 << 20);
    let hash = store(&cache, b"content");
    assert!(!cache.look_again(&hash));
    assert!(cache.find(&hash, 7).is_some());
    damage(&path(&cache, &hash), b"cOntent");
    assert!(cache.look_again(&hash));
    assert!(!cache.look_again(&hash), "it is gone");
}

#[test]
fn memory_with_another_hash_is_not_kept() {
    let (_folder, cache) = cache(1 << 20);
    let hash = hash_of(b"content");
    assert!(cache.store(&hash, 7, &written(b"cOntent")).is_err());
    assert_eq!(std::fs::read_dir(&cache.folder).expect("readable").count(), 0, "a draft is left");
    assert!(cache.store(&hash, 7, &written(b"content")).is_ok());
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    let (_folder, cache) = cache(4 * BLOCK);
    let hashes: Vec<Hash> = (0..4_u8).map(|byte| store(&cache, &[byte; 20])).collect();
    for (hash, seconds) in hashes.iter().zip([400, 300, 200, 100]) {
        used_ago(&path(&cache, hash), seconds);
    }
    // Found, so used now.
    assert!(cache.find(&hashes[0], 20).is_some());
    store(&cache, &[9; 20]);
    let found: Vec<bool> = hashes.iter().map(|hash| cache.find(hash, 20).is_some()).collect();
    assert_eq!(found, [true, false, false, true]);
}

#[test]
fn small_files_do_not_outgrow_the_limit() {
    let (_folder, cache) = cache(8 * BLOCK);
    for byte in 0..100_u8 {
        store(&cache, &[byte]);
        cache.note(&[byte; 32], &hash_of(&[byte]), 1).expect("noted");
        assert!(std::fs::read_dir(&cache.folder).expect("readable").count() <= 8);
    }
}

#[test]
fn an_evicted_content_stays_for_who_has_it() {
    let (_folder, cache) = cache(BLOCK);
    let hash = store(&cache, &[1; 20]);
    let held = cache.find(&hash, 20).expect("found");
    store(&cache, &[2; 20]);
    assert!(cache.find(&hash, 20).is_none());
    assert_eq!(text(held), [1; 20]);
}

#[test]
fn what_is_over_the_limit_is_not_kept() {
    let (_folder, cache) = cache(20);
    let refused = cache.store(&hash_of(&[1; 21]), 21, &written(&[1; 21])).map(|_| ()).expect_err("too large");
    assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn unfinished_files_of_daemons_that_died_are_removed_after_a_while() {
    let (_folder, cache) = cache(1 << 20);
    let [old, new] = ["1-1", "2-1"].map(|name| cache.folder.join(format!("{UNFINISHED}{name}")));
    std::fs::write(&old, b"half").expect("written");
    std::fs::write(&new, b"half").expect("written");
    used_ago(&old, 7200);
    store(&cache, b"content");
    assert!(!old.exists() && new.exists());
}

#[test]
fn sessions_that_store_the_same_at_once_do_not_meet() {
    let (_folder, cache) = cache(1 << 20);
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let hash = hash_of(&bytes);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    if let Some(found) = cache.find(&hash, bytes.len() as u64) {
                        assert_eq!(text(found), bytes);
                    }
                    store(&cache, &bytes);
                }
            });
        }
    });
    assert_eq!(cache.files().expect("readable").len(), 1);
}

#[test]
fn folder_that_others_may_write_to_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("owned");
    let refused = ModuleCache::open(folder.path(), 1).expect_err("refused");
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_note_is_found_until_it_was_used_least_and_a_damaged_one_is_none() {
    let (_folder, cache) = cache(3 * BLOCK);
    let place = |name: &Hash| cache.folder.join(note_of(name));
    let (first, second, code) = ([1; 32], [2; 32], store(&cache, b"code"));
    cache.note(&first, &code, 4).expect("noted");
    cache.note(&second, &code, 4).expect("noted");
    let other = ModuleCache::open(&cache.folder, 3 * BLOCK).expect("opened");
    assert_eq!(other.noted(&first), Some((code, 4)));
    assert!(cache.find(&first, 40).is_none(), "a note is no content");
    damage(&place(&second), &[7; 39]);
    assert_eq!(cache.noted(&second), None);
    used_ago(&place(&first), 60);
    cache.note(&second, &code, 5).expect("noted again");
    cache.note(&[3; 32], &code, 6).expect("noted");
    assert_eq!(cache.noted(&first), None, "it was evicted");
    assert_eq!((cache.noted(&second), cache.noted(&[3; 32])), (Some((code, 5)), Some((code, 6))));
}
