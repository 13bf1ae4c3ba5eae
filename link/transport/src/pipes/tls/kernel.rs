//! Records that the system's kernel makes and opens: the socket then carries a link as one in the clear does.
//! In: a socket at the border of two records, and the keys agreed on. Out: a pipe, which another process can go on with.
//! It changes no keys: a connection ends before more is sealed than one key may seal.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use rustix::io::Errno;
use rustls::{CipherSuite, ConnectionTrafficSecrets, ExtractedSecrets};

use crate::error::Failure;
use crate::pipes::pipe::{Pipe, Reach, Slot};
use crate::pipes::socket::Socket;

/// Bytes that one key may seal, counted as [`cost`] does: 2^24 records of the largest size. RFC 8446 (5.5) allows AES-GCM
/// 2^24.5 of them, that is 2^34.5 blocks of 16 bytes.
pub(crate) const SEALED_BY_ONE_KEY: u64 = 1 << 38;
/// The most bytes of a link in one record.
const RECORD: usize = 16 << 10;
/// What a record costs beside its bytes: the block its tag takes, and one that its type and its last bytes may begin.
const BESIDE: usize = 32;
/// How long a socket of this machine may take to connect to another.
const MOST_TIME: Duration = Duration::from_secs(1);
/// Bytes after which it is looked again whether the key may seal more.
const PIECE: usize = 1 << 20;

/// A connected socket whose kernel seals and opens.
#[derive(Debug)]
pub(crate) struct Kernel {
    socket: Socket,
    /// What its key may still seal.
    left: AtomicU64,
    /// Without keys, what is at the socket may be anybody's.
    has_keys: bool,
}

impl Kernel {
    /// Of a socket that has its keys, of which `left` bytes may still be sealed.
    pub(crate) fn new(socket: Arc<OwnedFd>, left: u64) -> Self {
        Self { socket: Socket::new(socket), left: AtomicU64::new(left), has_keys: true }
    }

    /// Bytes the key may still seal.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes what one write costs from what is left; the connection ends where it is more.
    fn spend(&self, bytes: usize) -> Result<(), Failure> {
        let spent = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(cost(bytes)));
        spent.map(drop).map_err(|_| {
            self.end();
            Errno::PIPE.into()
        })
    }
}

/// What a write may cost of a key: its bytes and what each of its records costs beside them. Its last record may end with
/// another write's bytes. One that a signal interrupts makes a record more, for which 2^34.5 blocks are more than 2^34.
fn cost(bytes: usize) -> u64 {
    let records = bytes / RECORD + 2;
    (bytes + records * BESIDE) as u64
}

impl Pipe for Kernel {
    fn write(&self, head: &[u8], tail: &[u8]) -> Result<(), Failure> {
        let (first, rest) = tail.split_at(tail.len().min(PIECE));
        self.spend(head.len() + first.len())?;
        self.socket.write(head, first)?;
        rest.chunks(PIECE).try_for_each(|piece| {
            self.spend(piece.len())?;
            self.socket.write(piece, &[])
        })
    }

    fn write_with(&self, _head: &[u8], _tail: &[u8], _descriptor: BorrowedFd<'_>) -> Result<(), Failure> {
        Err(Errno::OPNOTSUPP.into())
    }

    fn limit_writes(&self, time: Option<Duration>) -> Result<(), Failure> {
        self.socket.limit_writes(time)
    }

    // Without room for what comes beside bytes: then the kernel fails (EIO) at a record that carries none, such as a change of
    // keys or an alert, instead of giving its content for bytes.
    fn read_now(&self, target: &mut [u8], _slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        if self.has_keys { self.socket.read_now(target, None) } else { Ok(Some(0)) }
    }

    fn read(&self, target: &mut [u8], _slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        if self.has_keys { self.socket.read(target, None) } else { Ok(Some(0)) }
    }

    fn wait(&self, time: Option<Duration>) -> Result<bool, Failure> {
        self.socket.wait(time)
    }

    fn end(&self) {
        self.socket.end();
    }

    fn reach(&self) -> Reach {
        Reach::Network
    }
}

/// Suites the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    Aes128,
    Aes256,
    Chacha20,
}

/// The kernel did not take the keys of a connection, against what was tried out: it is not asked again.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

impl Suite {
    pub(super) fn of(suite: CipherSuite) -> Option<Self> {
        match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(Self::Aes128),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(Self::Aes256),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Self::Chacha20),
            _ => None,
        }
    }

    /// Whether this kernel makes records of the suite, as it was seen to do on a socket of its own. Where there was no such
    /// socket to be had, it is tried out again.
    fn is_known(self) -> Result<(), Errno> {
        static KNOWN: [OnceLock<Result<(), Errno>>; 3] = [const { OnceLock::new() }; 3];
        let known = &KNOWN[self as usize];
        if let Some(known) = known.get() {
            return *known;
        }
        let outcome = self.try_out();
        match outcome {
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::TIMEDOUT) => outcome,
            _ => *known.get_or_init(|| outcome),
        }
    }

    fn try_out(self) -> Result<(), Errno> {
        let made = || -> std::io::Result<_> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let stream = TcpStream::connect_timeout(&listener.local_addr()?, MOST_TIME)?;
            Ok((listener, stream))
        };
        let (_listener, stream) = made().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let socket = stream.into();
        prepare(&socket)?;
        give(&socket, &self.nobodys_keys())
    }

    /// Keys that nothing is sealed with.
    fn nobodys_keys(self) -> ExtractedSecrets {
        let key = [0; 32];
        let iv = || [0; 12].into();
        let secrets = || match self {
            Self::Aes128 => ConnectionTrafficSecrets::Aes128Gcm { key: key.into(), iv: iv() },
            Self::Aes256 => ConnectionTrafficSecrets::Aes256Gcm { key: key.into(), iv: iv() },
            Self::Chacha20 => ConnectionTrafficSecrets::Chacha20Poly1305 { key: key.into(), iv: iv() },
        };
        ExtractedSecrets { tx: (0, secrets()), rx: (0, secrets()) }
    }
}

/// Why the kernel makes no records of the suite that this build prefers; `Ok`: it does.
pub(super) fn ask() -> Result<(), Errno> {
    Suite::Aes256.is_known()
}

/// Has a socket ready for keys; whoever gives it none goes on with it as before.
pub(super) fn is_ready(socket: &OwnedFd, suite: Suite) -> bool {
    // First the socket itself: where there is no such kernel, nothing else is touched.
    !HAS_FAILED.load(Ordering::Relaxed) && prepare(socket).is_ok() && suite.is_known().is_ok()
}

fn prepare(socket: &OwnedFd) -> Result<(), Errno> {
    setsockopt(socket, sockopt::TcpUlp::default(), b"tls").map_err(errno)
}

/// Gives keys to a socket that is ready. Where the kernel does not take them, the connection ends, and nothing that has come to
/// the socket is read: they are nowhere else.
pub(super) fn take_over(socket: Arc<OwnedFd>, secrets: Option<ExtractedSecrets>) -> Kernel {
    let has_keys = secrets.is_some_and(|secrets| give(&socket, &secrets).is_ok());
    let kernel = Kernel { has_keys, ..Kernel::new(socket, SEALED_BY_ONE_KEY) };
    if !has_keys {
        HAS_FAILED.store(true, Ordering::Relaxed);
        kernel.end();
    }
    kernel
}

fn give(socket: &OwnedFd, secrets: &ExtractedSecrets) -> Result<(), Errno> {
    let info = |(sequence, secrets): &(u64, _)| in_kernels_words(*sequence, secrets).ok_or(Errno::NOPROTOOPT);
    let (to_send, to_receive) = (info(&secrets.tx)?, info(&secrets.rx)?);
    setsockopt(socket, sockopt::TcpTlsTx, &to_send).map_err(errno)?;
    setsockopt(socket, sockopt::TcpTlsRx, &to_receive).map_err(errno)
}

fn errno(error: nix::Error) -> Errno {
    Errno::from_raw_os_error(error as i32)
}

/// A key as the kernel wants it. It has the suites in TLS 1.2's words, where the first four bytes of an AES nonce are called
/// salt.
fn in_kernels_words(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<sockopt::TlsCryptoInfo> {
    let rec_seq = sequence.to_be_bytes();
    let info = |cipher_type| libc::tls_crypto_info { version: libc::TLS_1_3_VERSION, cipher_type };
    Some(match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
            let (salt, iv) = iv.as_ref().split_first_chunk()?;
            sockopt::TlsCryptoInfo::Aes128Gcm(libc::tls12_crypto_info_aes_gcm_128 {
                info: info(libc::TLS_CIPHER_AES_GCM_128),
                iv: iv.try_into().ok()?,
                key: *key.as_ref().first_chunk()?,
                salt: *salt,
                rec_seq,
            })
        }
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
            let (salt, iv) = iv.as_ref().split_first_chunk()?;
            sockopt::TlsCryptoInfo::Aes256Gcm(libc::tls12_crypto_info_aes_gcm_256 {
                info: info(libc::TLS_CIPHER_AES_GCM_256),
                iv: iv.try_into().ok()?,
                key: *key.as_ref().first_chunk()?,
                salt: *salt,
                rec_seq,
            })
        }
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            sockopt::TlsCryptoInfo::Chacha20Poly1305(libc::tls12_crypto_info_chacha20_poly1305 {
                info: info(libc::TLS_CIPHER_CHACHA20_POLY1305),
                iv: iv.as_ref().try_into().ok()?,
                key: key.as_ref().try_into().ok()?,
                salt: [],
                rec_seq,
            })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A socket that says it is sealed, and its peer.
    fn kernel(left: u64) -> (Kernel, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Kernel::new(Arc::new(ours.into()), left), theirs)
    }

    #[test]
    fn no_key_seals_more_blocks_than_it_may() {
        for bytes in [1, 15, 16, 17, 100, 4096, RECORD - 1, RECORD] {
            // The bytes with their type, and the block behind which the tag is hidden.
            let blocks = (bytes as u64 + 1).div_ceil(16) + 1;
            assert!(16 * blocks <= cost(bytes), "{bytes} bytes: {blocks} blocks, counted as {} bytes", cost(bytes));
        }
        let most = u128::from(SEALED_BY_ONE_KEY / 16);
        assert!(most * most <= 1 << (2 * 34 + 1), "2^34.5 blocks, squared");
    }

    #[test]
    fn a_connection_ends_before_its_key_has_sealed_more_than_it_may() {
        let (kernel, mut peer) = kernel(3 * cost(1000) + 10);
        for _ in 0..3 {
            kernel.write(&[1; 400], &[2; 600]).unwrap();
        }
        assert_eq!(kernel.left(), 10);
        assert_eq!(kernel.write(&[], &[3]), Err(Errno::PIPE.into()), "what a record costs beside its byte is too much");
        let mut carried = Vec::new();
        peer.read_to_end(&mut carried).unwrap();
        assert_eq!(carried.len(), 3000);
    }

    #[test]
    fn a_large_write_ends_at_the_bound_too() {
        let (kernel, mut peer) = kernel(5 * cost(PIECE));
        let carried = std::thread::spawn(move || std::io::copy(&mut peer, &mut std::io::sink()).unwrap());
        assert_eq!(kernel.write(&[], &vec![7; 6 * PIECE]), Err(Errno::PIPE.into()));
        assert_eq!(carried.join().unwrap(), 5 * PIECE as u64);
    }

    #[test]
    fn keys_and_counts_reach_the_kernel_whole() {
        let numbers: [u8; 44] = std::array::from_fn(|index| u8::try_from(index).unwrap());
        let (iv, key): ([u8; 12], [u8; 32]) = (numbers[32..].try_into().unwrap(), numbers[..32].try_into().unwrap());
        let secrets = ConnectionTrafficSecrets::Aes256Gcm { key: key.into(), iv: iv.into() };
        let Some(sockopt::TlsCryptoInfo::Aes256Gcm(info)) = in_kernels_words(0x0102, &secrets) else { panic!() };
        assert_eq!((info.key, info.salt.as_slice(), info.iv.as_slice()), (key, &iv[..4], &iv[4..]));
        assert_eq!((info.rec_seq, info.info.version), ([0, 0, 0, 0, 0, 0, 1, 2], 0x0304));
        let secrets = ConnectionTrafficSecrets::Chacha20Poly1305 { key: key.into(), iv: iv.into() };
        let Some(sockopt::TlsCryptoInfo::Chacha20Poly1305(info)) = in_kernels_words(7, &secrets) else { panic!() };
        assert_eq!((info.key, info.iv, info.rec_seq[7]), (key, iv, 7));
    }

    #[test]
    fn bytes_go_between_two_kernels_in_every_suite_they_have() {
        for suite in [Suite::Aes128, Suite::Aes256, Suite::Chacha20] {
            if let Err(error) = suite.is_known() {
                eprintln!("skipped: this kernel makes no records in {suite:?}: {error}");
                continue;
            }
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let [near, far] = [near, listener.accept().unwrap().0].map(|stream| {
                let socket = OwnedFd::from(stream);
                prepare(&socket).unwrap();
                give(&socket, &suite.nobodys_keys()).unwrap();
                Kernel::new(Arc::new(socket), SEALED_BY_ONE_KEY)
            });
            near.write(b"sealed", b" and opened").unwrap();
            let mut came = [0; 100];
            let count = far.read(&mut came, None).unwrap().unwrap();
            assert_eq!(&came[..count], b"sealed and opened", "{suite:?}");
        }
    }

    #[test]
    fn a_connection_whose_keys_the_kernel_does_not_take_ends_and_it_is_not_asked_again() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let kernel = take_over(Arc::new(ours.into()), Some(Suite::Aes256.nobodys_keys()));
        assert!(kernel.write(b"in the clear", &[]).is_err());
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
        assert!(HAS_FAILED.load(Ordering::Relaxed));
    }

    #[test]
    fn what_has_come_to_a_connection_without_its_keys_is_not_taken_for_the_peers_words() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"anybody's, and in the clear").unwrap();
        let kernel = take_over(Arc::new(ours.into()), Some(Suite::Aes256.nobodys_keys()));
        assert_eq!(kernel.read_now(&mut [0; 100], None), Ok(Some(0)));
        assert_eq!(kernel.read(&mut [0; 100], None), Ok(Some(0)));
    }

    #[test]
    fn a_socket_that_no_kernel_seals_stays_as_it_is() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let ours = OwnedFd::from(ours);
        assert!(!is_ready(&ours, Suite::Aes256), "there is no TLS on Unix sockets");
        Socket::new(Arc::new(ours)).write(b"clear", &[]).unwrap();
        let mut clear = [0; 5];
        theirs.read_exact(&mut clear).unwrap();
        assert_eq!(&clear, b"clear");
    }
}
