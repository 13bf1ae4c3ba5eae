//! A relay before a server whose connections are cut after so many bytes, wherever that is.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Its address for clients.
pub struct Relay {
    pub address: String,
    cuts: Arc<AtomicUsize>,
    _folder: tempfile::TempDir,
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

impl Relay {
    /// Every connection to `server` but the first ends when fewer bytes than `most` have passed in one direction.
    pub fn start(server: &str, most: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("relay.sock");
        let (listener, address) = (UnixListener::bind(&path).expect("listens"), format!("unix://{}", path.display()));
        let (server, cuts) = (server.trim_start_matches("unix://").to_owned(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&cuts);
        std::thread::spawn(move || {
            let mut random = Random(7);
            // Without a session nobody reconnects.
            let mut left = 2 * most;
            for near in listener.incoming().flatten() {
                if let Ok(far) = UnixStream::connect(&server) {
                    pass(near, far, left, &counted);
                }
                left = random.below(most);
            }
        });
        Self { address, cuts, _folder: folder }
    }

    /// The number of connections that were cut.
    pub fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

/// Passes bytes in both directions until one has had so many.
fn pass(near: UnixStream, far: UnixStream, most: usize, cuts: &Arc<AtomicUsize>) {
    let pair = || (near.try_clone().expect("cloned"), far.try_clone().expect("cloned"));
    let ((one, other), (from, to)) = (pair(), pair());
    for (mut from, mut to) in [(one, other), (to, from)] {
        let cuts = Arc::clone(cuts);
        std::thread::spawn(move || {
            let (mut left, mut buffer) = (most, vec![0; 64 << 10]);
            while left > 0 {
                let room = left.min(buffer.len());
                match from.read(&mut buffer[..room]) {
                    Ok(count) if count > 0 && to.write_all(&buffer[..count]).is_ok() => left -= count,
                    _ => break,
                }
            }
            cuts.fetch_add(usize::from(left == 0), Ordering::SeqCst);
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}
