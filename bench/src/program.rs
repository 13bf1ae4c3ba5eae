//! One run of a program: started, listened to, and ended when it falls silent.
//! In: a command, how long silence is borne, who hears each line. Out: how it ended, the end of what it said on stderr.
//! It understands no line; every process it starts has a group of its own, so that its children end with it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A line of stdout.
#[derive(Debug)]
pub(crate) struct Heard {
    /// Without its end.
    pub(crate) text: String,
    /// How long after the start it came.
    pub(crate) after: Duration,
    /// Who said it.
    pub(crate) process: u32,
}

/// What the listener wants done after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing.
    None,
    /// The program stands still and reads a line: give it one.
    Go,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    /// Exit code zero, and it was not stopped.
    pub(crate) success: bool,
    /// For people: `exit code 1`, `signal 11`, `silent for 60 s`.
    pub(crate) how: String,
    /// The last lines of stderr.
    pub(crate) said: String,
}

/// Runs a command to its end. `log` takes its stderr.
///
/// # Errors
/// When it does not start or cannot be waited for.
pub(crate) fn run(
    mut command: Command,
    log: &Path,
    patience: Duration,
    mut listen: impl FnMut(&Heard) -> Answer,
) -> Result<Ending> {
    let stderr = File::create(log).with_context(|| format!("the log cannot be written: {}", log.display()))?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).process_group(0);
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("does not start: {command:?}"))?;
    let mut input = child.stdin.take();
    let lines = listen_to(&mut child, start);
    let fell_silent = loop {
        match lines.recv_timeout(patience) {
            Ok(heard) => {
                if listen(&heard) == Answer::Go {
                    go_on(&mut input);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => break true,
        }
    };
    drop(input);
    let status = if fell_silent { None } else { exit_within(&mut child, patience)? };
    if status.is_none() {
        stop(&mut child)?;
    }
    Ok(Ending {
        success: status.is_some_and(|status| status.success()),
        how: status.map_or_else(|| format!("silent for {} s", patience.as_secs()), words),
        said: last_lines(log, 6),
    })
}

fn listen_to(child: &mut Child, start: Instant) -> Receiver<Heard> {
    let output = child.stdout.take().expect("its stdout was asked for");
    let process = child.id();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // A program may print what is no text; a broken pipe is its end.
        while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(Heard { text, after: start.elapsed(), process }).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

fn go_on(input: &mut Option<ChildStdin>) {
    if let Some(pipe) = input {
        // A program that ended meanwhile reads nothing; its end is noticed by the loop.
        let _ = pipe.write_all(b"\n").and_then(|()| pipe.flush());
    }
}

/// Its stdout is closed, so its end is near: waits for it.
fn exit_within(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("a program's end cannot be waited for")? {
            return Ok(Some(status));
        }
        if start.elapsed() > patience {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn stop(child: &mut Child) -> Result<()> {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // It may have ended between the look and now; then there is no group to end.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    child.wait().context("a stopped program cannot be waited for")?;
    Ok(())
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    }
}

/// The last lines of a file, on one line.
fn last_lines(path: &Path, count: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join(" | ")
}

/// Names the log of one run.
pub(crate) fn log_in(folder: &Path, run: &str) -> PathBuf {
    folder.join(format!("{run}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> (Ending, Vec<String>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut heard = Vec::new();
        let ending = run(command, &log_in(folder.path(), "shell"), patience, |line| {
            heard.push(line.text.clone());
            if line.text == "waiting" { Answer::Go } else { Answer::None }
        });
        (ending.expect("sh runs"), heard)
    }

    #[test]
    fn a_program_that_waits_is_answered() {
        let (ending, heard) = shell("echo waiting; read line; echo on", Duration::from_secs(20));
        assert!(ending.success, "{ending:?}");
        assert_eq!(heard, ["waiting", "on"]);
    }

    #[test]
    fn a_failure_says_how_and_what_it_said() {
        let (ending, _) = shell("echo broken >&2; exit 3", Duration::from_secs(20));
        assert!(!ending.success);
        assert_eq!((ending.how.as_str(), ending.said.as_str()), ("exit code 3", "broken"));
    }

    #[test]
    fn a_silent_program_is_stopped_with_its_children() {
        let (ending, _) = shell("sleep 1000 & sleep 1000", Duration::from_millis(200));
        assert_eq!(ending.how, "silent for 0 s");
    }
}
