//! Workers that lie, flood, hang and forge: shell scripts in a worker's place.

use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use super::*;

/// A process that does this in a worker's place.
fn worker(script: &str) -> Worker {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Worker::of(Process::Own(shell.spawn().expect("sh runs")), None).expect("it is watched")
}

/// Its reports, and why it ended.
fn follow(script: &str) -> (Vec<Report>, Option<String>) {
    let (reports, all) = channel();
    let end =
        worker(script).follow(7, Duration::ZERO, |_| true, move |report| reports.send(report).expect("heard"), None);
    (all.iter().collect(), end.why)
}

/// How a worker that runs this ended.
fn kind(script: &str) -> SessionEnd {
    worker(script).follow(7, Duration::ZERO, |_| true, |_| (), None).kind
}

#[test]
fn ends_are_of_a_kind_each_whatever_a_worker_says_of_them() {
    assert_eq!(kind("exit 0"), SessionEnd::ClientLeft);
    assert_eq!(kind(r#"echo '{"ended":"client_left"}'; exit 1"#), SessionEnd::Reported);
    assert_eq!(kind("echo nonsense; exec sleep 3600"), SessionEnd::Misbehaved);
    assert_eq!(kind(&format!("exit {STUCK}")), SessionEnd::Misbehaved);
    assert_eq!(kind("kill -SEGV $$"), SessionEnd::Signal);
    assert_eq!(kind("exit 1"), SessionEnd::Failed);
}

/// A worker's socket on which nothing comes, and the time at which the worker is to be killed.
struct Silent(std::os::unix::net::UnixStream, Instant);

impl Ear for Silent {
    fn watched(&self) -> [(BorrowedFd<'_>, PollFlags); 2] {
        [(self.0.as_fd(), PollFlags::IN); 2]
    }

    fn attend(&self) -> Result<u32, &'static str> {
        Ok(0)
    }

    fn due(&self) -> Option<Instant> {
        Some(self.1)
    }
}

#[test]
fn a_worker_whose_session_was_ended_is_killed_whatever_it_does() {
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let ear = Silent(ours, Instant::now() + Duration::from_millis(20));
    for script in ["trap '' TERM; exec sleep 3600", r#"while :; do echo '{"used":5}'; sleep 0.001; done"#] {
        let end = worker(script).follow(7, Duration::ZERO, |_| true, |_| (), Some(&ear));
        assert_eq!(end.kind, SessionEnd::Signal, "{script}: {end:?}");
    }
}

#[test]
fn reports_are_handed_on_and_the_last_says_why() {
    let (reports, why) = follow(r#"printf '"ready"\n{"used":5}\n{"ended":"of itself"}\n'; exit 1"#);
    assert_eq!(reports, [Report::Ready, Report::Used(5), Report::Ended("of itself".into())]);
    assert_eq!(why.as_deref(), Some("of itself"));
    assert_eq!(follow("exit 0"), (vec![], None));
}

#[test]
fn a_worker_that_reports_what_is_none_or_too_long_or_without_end_is_killed() {
    for (script, expected) in [
        ("echo nonsense; exec sleep 3600", "cannot be parsed"),
        ("head -c 100000 /dev/zero; echo; exec sleep 3600", "too long"),
        (r#"while :; do echo '{"used":5}'; done"#, "too many"),
    ] {
        let why = follow(script).1.expect("it did not leave");
        assert!(why.starts_with("its worker was killed: ") && why.contains(expected), "{why}");
    }
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let mut lines = {
        let mut worker = worker("head -c 50000000 /dev/zero");
        Lines::of(worker.process.take_output().expect("pipes").0, REPORT_BYTES)
    };
    while lines.read(|line| assert!(line.bytes.len() <= REPORT_BYTES)) {}
}

#[test]
fn a_process_that_a_worker_left_behind_with_its_pipes_keeps_nobody_up() {
    let (_, why) = follow(r#"(while :; do echo x >&2 || exit; done) & echo '{"ended":"its own"}'; exit 1"#);
    assert_eq!(why.as_deref(), Some("its own"));
}

#[test]
fn no_line_of_a_worker_looks_like_the_daemons_or_another_sessions() {
    let shown = |line: &str| entry(7, line);
    assert_eq!(shown("floe-worker: session 7: word"), "floe-worker: session 7: word\n");
    assert_eq!(shown("    more of it"), "floe-worker: session 7:     more of it\n");
    assert_eq!(shown("floed: session 8 ended"), "floe-worker: session 7: floed: session 8 ended\n");
    assert_eq!(shown("floe-worker: session 8: x"), "floe-worker: session 7: floe-worker: session 8: x\n");
    assert_eq!(shown(" floed: \u{1b}[2Jx\rfloed: y"), "floe-worker: session 7:  floed: \u{fffd}[2Jx\u{fffd}floed: y\n");
    let words = r#"{"ended":"a\nfloed: session 8 ended\u001b[2J"}"#;
    let (_, why) = follow(&format!("echo '{}'; exit 1", words.replace('\\', r"\\")));
    assert_eq!(why.as_deref(), Some("a\n    floed: session 8 ended\u{fffd}[2J"));
}

#[test]
fn a_worker_is_given_its_grace_and_a_farewell_however_often_it_says_the_same() {
    let (start, grace) = (Instant::now(), Duration::from_secs(60));
    let mut due = Due::new(grace);
    assert_eq!(due.at(), None);
    due.breaks(Some(start));
    due.breaks(Some(start + grace));
    assert_eq!(due.at(), Some(start + grace + FAREWELL));
    due.breaks(None);
    assert_eq!(due.at(), None);
    due.ends(start);
    due.ends(start + grace);
    due.breaks(Some(start));
    assert_eq!(due.at(), Some(start + FAREWELL));
}

#[test]
fn a_worker_that_says_that_it_ended_and_stays_is_killed() {
    let (reports, all) = channel();
    let worker = worker(r#"trap '' TERM; echo '{"ended":"so it says"}'; while :; do sleep 1; done"#);
    let (began, ender) = (Instant::now(), worker.ender());
    let why =
        worker.follow(7, Duration::from_secs(3600), |_| true, move |report| reports.send(report).expect("heard"), None);
    assert_eq!(why.why.as_deref(), Some("its worker was killed: it did not end by itself in time"));
    assert!(began.elapsed() >= FAREWELL);
    assert_eq!(all.iter().collect::<Vec<_>>(), [Report::Ended("so it says".into())]);
    // It has ended, and no process that has its id now gets this signal.
    ender.kill();
}

#[test]
fn a_worker_is_gone_with_its_handle() {
    let worker = worker("exec sleep 3600");
    let process = format!("/proc/{}", worker.id());
    assert!(std::path::Path::new(&process).exists());
    drop(worker);
    assert!(!std::path::Path::new(&process).exists());
}

#[test]
fn a_worker_that_floods_the_log_is_not_read_faster_than_it_may_write_and_still_ends() {
    let mut lines = 0;
    let script = r#"(while :; do echo flood >&2 || exit; done) & sleep 1; kill $!; echo '{"ended":"its own"}'; exit 1"#;
    let start = Instant::now();
    let say = |_: &str| {
        lines += 1;
        false
    };
    let why = worker(script).follow(7, Duration::ZERO, say, |_| (), None).why;
    assert_eq!(why.as_deref(), Some("its own"));
    // Chunks of 4 KiB, each of some 680 lines, and a pause behind each.
    let chunks = 2 + usize::try_from(start.elapsed().as_millis() / PAUSE.as_millis()).expect("not for ever");
    assert!(lines <= (chunks + 64) * 700, "{lines} lines in {chunks} pauses");
}
