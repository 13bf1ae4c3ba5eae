//! The launcher in the hands of a daemon that was taken over: requests that it must not obey, and ends. Shell scripts stand in
//! workers' places, and no process changes its user.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn ids(text: &str) -> Ids {
    text.parse().unwrap()
}

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// A launcher of ids 5000 and 5001, whose executable does what the variable `DO` says.
struct Stage {
    daemon: Option<OwnedFd>,
    /// The daemon's life, as a socket that closes.
    life: Option<OwnedFd>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    folder: TempDir,
}

/// A process that it was asked to start.
struct Started {
    control: OwnedFd,
    output: UnixStream,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("worker");
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = {SWEEP} ]; then echo \"$2\" >> {}; exit; fi\neval \"$DO\"\n",
            folder.path().join("swept").display()
        );
        // Not through a descriptor of this process, which a child of another test could hold open while it is run.
        std::fs::write(folder.path().join("text"), text).unwrap();
        std::fs::set_permissions(folder.path().join("text"), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(
            std::process::Command::new("cp")
                .arg("-p")
                .arg(folder.path().join("text"))
                .arg(&script)
                .status()
                .unwrap()
                .success()
        );
        let launcher = Launcher::of_this_user(ids("5000-5002"), script);
        let ((daemon, its), (life, watched)) = (pair(), pair());
        let thread = std::thread::spawn(move || launcher.serve(&its, &watched));
        Self { daemon: Some(daemon), life: Some(life), thread: Some(thread), folder }
    }

    fn daemon(&self) -> &OwnedFd {
        self.daemon.as_ref().unwrap()
    }

    fn raw(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        send(self.daemon(), bytes, descriptors, SendFlags::empty()).unwrap();
    }

    /// Sends these bytes with the descriptors of a request.
    fn send(&self, bytes: &[u8]) -> Started {
        let (control, its) = pair();
        let (output, inner) = UnixStream::pair().unwrap();
        self.raw(bytes, &[inner.as_fd(), inner.as_fd(), inner.as_fd(), its.as_fd()]);
        output.set_read_timeout(Some(PATIENCE)).unwrap();
        Started { control, output }
    }

    fn start(&self, id: u32, script: &str) -> Started {
        let environment = vec![("DO".into(), script.into()), ("PATH".into(), std::env::var_os("PATH").unwrap())];
        self.send(&Request { id, environment }.encode().unwrap())
    }

    /// Whether it still starts what it may.
    fn serves(&self) -> bool {
        let started = self.start(5001, "exit 7");
        started.word().is_some_and(|word| matches!(word, Word::Started(_)))
            && started.word() == Some(Word::Ended(7 << 8))
    }

    fn swept(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("swept")).unwrap_or_default()
    }

    /// Closes the daemon's end and waits for the launcher's.
    fn end(&mut self) -> bool {
        self.daemon = None;
        self.join()
    }

    fn join(&mut self) -> bool {
        self.thread.take().is_none_or(|thread| thread.join().unwrap().is_ok())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.life = None;
        self.end();
    }
}

impl Started {
    /// The next word about it; `None`: there is none any more.
    fn word(&self) -> Option<Word> {
        self.word_with().map(|(word, _)| word)
    }

    fn word_with(&self) -> Option<(Word, Vec<OwnedFd>)> {
        let mut polled = [PollFd::new(&self.control, PollFlags::IN)];
        let patience = rustix::event::Timespec::try_from(PATIENCE).unwrap();
        assert_eq!(poll(&mut polled, Some(&patience)), Ok(1), "it says nothing");
        let mut bytes = [0; 64];
        let (count, descriptors) = receive(&self.control, &mut bytes).unwrap();
        (count > 0).then(|| (Word::decode(&bytes[..count]).unwrap(), descriptors))
    }

    fn process(&self) -> Pid {
        let Some(Word::Started(process)) = self.word() else { panic!("it did not start") };
        Pid::from_raw(process).unwrap()
    }

    fn says(&mut self, bytes: usize) -> String {
        let mut text = vec![0; bytes];
        self.output.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }
}

fn is_gone(process: Pid) -> bool {
    test_kill_process(process).is_err()
}

#[test]
fn a_process_has_what_the_request_says_and_its_words_come_with_its_pidfd() {
    let stage = Stage::new();
    let mut started = stage.start(5000, "read line; echo $line $#; exit 3");
    let (word, descriptors) = started.word_with().unwrap();
    assert!(matches!(word, Word::Started(_)), "{word:?}");
    let [process] = &descriptors[..] else { panic!("{descriptors:?}") };
    let at = format!("/proc/self/fd/{}", process.as_raw_fd());
    assert!(std::fs::read_link(at).unwrap().to_str().unwrap().contains("pidfd"));
    started.output.write_all(b"hello\n").unwrap();
    assert_eq!(started.says(8), "hello 0\n");
    assert_eq!(started.word(), Some(Word::Ended(3 << 8)));
    assert_eq!(started.word(), None);
}

#[test]
fn a_process_lives_no_longer_than_its_socket_and_than_the_daemons() {
    let mut stage = Stage::new();
    let closed = stage.start(5000, "exec sleep 3600");
    let process = closed.process();
    drop(closed);
    let start = Instant::now();
    while !is_gone(process) {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    let shut = stage.start(5000, "kill -STOP $$; exec sleep 3600");
    assert!(matches!(shut.word(), Some(Word::Started(_))));
    shutdown(&shut.control, Shutdown::Write).unwrap();
    assert_eq!(shut.word().map(status).and_then(|status| status.signal()), Some(9));
    let left = [5000, 5001].map(|id| stage.start(id, "trap '' TERM; exec sleep 3600"));
    let processes = left.each_ref().map(Started::process);
    assert!(stage.end());
    assert!(processes.iter().all(|process| is_gone(*process)));
}

fn status(word: Word) -> ExitStatus {
    let Word::Ended(status) = word else { panic!("{word:?}") };
    ExitStatus::from_raw(status)
}

#[test]
fn an_id_that_is_not_one_of_the_range_is_refused_and_nothing_started() {
    let stage = Stage::new();
    for id in [0, 1, 4999, 5002, u32::MAX] {
        let environment = vec![("DO".into(), "echo there".into())];
        let mut started = stage.send(&Request { id, environment }.encode().unwrap());
        assert_eq!(started.word(), Some(Word::NotStarted(1)), "EPERM for {id}");
        let mut said = String::new();
        started.output.read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
    }
    assert!(stage.serves());
}

#[test]
fn requests_without_their_descriptors_or_too_long_or_of_garbage_start_nothing() {
    let stage = Stage::new();
    let good = Request { id: 5000, environment: vec![("DO".into(), "echo there >&2".into())] }.encode().unwrap();
    let (control, its) = pair();
    let one = its.as_fd();
    for descriptors in [&[][..], &[one], &[one; 2], &[one; 3]] {
        stage.raw(&good, descriptors);
    }
    let variable = [&b"DO=echo there\0"[..], &b"A=1\0".repeat(100)].concat();
    let id = 5000_u32.to_le_bytes();
    let bad: [&[u8]; 8] = [
        &id[..3],
        &[&id[..], b"no equals\0"].concat(),
        &[&id[..], b"=nameless\0"].concat(),
        &[&id[..], b"NO=end"].concat(),
        &[&id[..], b"\0"].concat(),
        &[&id[..], &variable, &variable, &variable].concat(),
        &[&id[..], b"LONG=", &[b'x'; MOST_BYTES], b"\0"].concat(),
        &[0xff; 4096],
    ];
    for bytes in bad {
        let word = stage.send(bytes).word();
        assert!(matches!(word, Some(Word::NotStarted(_))), "{word:?}");
    }
    drop(its);
    assert!(stage.serves());
    shutdown(&control, Shutdown::Write).unwrap();
    let mut bytes = [0; 64];
    assert_eq!(receive(&control, &mut bytes).unwrap().0, 0, "nobody has said a word");
}

#[test]
fn descriptors_that_are_none_of_a_daemons_harm_nobody() {
    let mut stage = Stage::new();
    let other = stage.start(5001, "exec sleep 3600");
    let process = other.process();
    let good = Request { id: 5000, environment: vec![("DO".into(), "exec sleep 3600".into())] }.encode().unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let its_own = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).unwrap();
    // In the control socket's place: a file, another process, the launcher's own socket.
    for control in [file.as_fd(), its_own.as_fd(), stage.daemon().as_fd()] {
        stage.raw(&good, &[file.as_fd(), file.as_fd(), file.as_fd(), control]);
    }
    assert!(stage.serves());
    assert!(!is_gone(process), "another's process was killed");
    // It holds the daemon's end of its socket itself now.
    stage.life = None;
    assert!(stage.join());
    assert!(is_gone(process));
}

#[test]
fn what_a_users_last_process_leaves_is_swept_and_before_that_nothing() {
    let stage = Stage::new();
    let (first, second) = (stage.start(5000, "exec sleep 3600"), stage.start(5000, "exit 0"));
    assert!(matches!((first.word(), second.word()), (Some(Word::Started(_)), Some(Word::Started(_)))));
    assert_eq!(second.word(), Some(Word::Ended(0)));
    assert_eq!(stage.swept(), "");
    shutdown(&first.control, Shutdown::Write).unwrap();
    assert_eq!(first.word().map(status).and_then(|status| status.signal()), Some(9));
    assert_eq!(stage.swept(), "5000\n");
}

#[test]
fn an_executable_that_is_not_there_is_an_error_and_no_end() {
    let launcher = Launcher::of_this_user(ids("5000-5001"), "/nonexistent".into());
    let ((daemon, its), (_life, watched)) = (pair(), pair());
    let thread = std::thread::spawn(move || launcher.serve(&its, &watched));
    let (control, theirs) = pair();
    let file = std::fs::File::open("/dev/null").unwrap();
    let request = Request { id: 5000, environment: vec![] }.encode().unwrap();
    for _ in 0..2 {
        send(&daemon, &request, &[file.as_fd(), file.as_fd(), file.as_fd(), theirs.as_fd()], SendFlags::empty())
            .unwrap();
        let mut bytes = [0; 64];
        let (count, _) = receive(&control, &mut bytes).unwrap();
        assert_eq!(Word::decode(&bytes[..count]), Some(Word::NotStarted(2)), "ENOENT");
    }
    drop(daemon);
    assert!(thread.join().unwrap().is_ok());
}

#[test]
fn ranges_are_of_users_that_nobody_else_can_have_and_say_what_they_are_not() {
    let range = ids("600000-600063");
    assert_eq!((range.to_string().as_str(), range.all().count()), ("600000-600063", 64));
    assert_eq!((range.after(600_000), range.after(600_063)), (600_001, 600_000));
    for (text, why) in [
        ("600000", NotIds::Form),
        ("", NotIds::Form),
        ("-1-5", NotIds::Form),
        ("a-b", NotIds::Form),
        ("600063-600000", NotIds::Order),
        ("600000-600000", NotIds::Few),
        ("0-10", NotIds::System),
        ("999-1001", NotIds::System),
        ("4294967290-4294967294", NotIds::System),
        ("600000-601024", NotIds::Many),
    ] {
        assert_eq!(text.parse::<Ids>(), Err(why), "{text}");
    }
    assert!(range.contains(600_062) && !range.contains(600_063), "the last one is no user's");
}

proptest! {
    #[test]
    fn what_is_no_request_is_refused_and_what_is_one_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(request) = Request::decode(&bytes, ids("1000-1002")) {
            prop_assert!((1000..=1001).contains(&request.id));
            prop_assert_eq!(request.encode(), Ok(bytes));
        }
    }

    #[test]
    fn a_request_comes_as_it_was_made(id in 1000..1010_u32, pairs in prop::collection::vec(("[A-Z_]{1,9}", "[ -~]{0,40}"), 0..20)) {
        let environment = pairs.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let request = Request { id, environment };
        prop_assert_eq!(Request::decode(&request.encode().unwrap(), ids("1000-1010")), Ok(request));
    }
}
