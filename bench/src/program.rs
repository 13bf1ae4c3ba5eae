//! A running program: it is started, its output is read, and it is ended when it falls silent.
//! In: a command, and a function that gets each line. Out: lines, how the program ended, the last lines of its stderr.
//! It parses no line. Every process it starts has a process group of its own, so that its children end with it.

pub(crate) mod asked;
pub(crate) mod memory;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A line of stdout.
#[derive(Debug)]
pub(crate) struct Heard {
    /// Without its end.
    pub(crate) text: String,
    /// Time between the start and the line.
    pub(crate) after: Duration,
    /// The process that wrote it.
    pub(crate) process: u32,
}

/// An event of a process.
#[derive(Debug)]
pub(crate) enum Event {
    /// It said something.
    Line(Heard),
    /// It will say nothing more.
    End {
        /// The process.
        process: u32,
    },
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

/// A process and what belongs to it. One that is dropped is stopped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    log: PathBuf,
}

impl Process {
    /// Starts a command. `log` takes its stderr; what it says goes to `events`.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn start(mut command: Command, log: &Path, events: Sender<Event>) -> Result<Self> {
        let stderr = File::create(log).with_context(|| format!("the log cannot be written: {}", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).process_group(0);
        let start = Instant::now();
        let mut child = command.spawn().with_context(|| format!("does not start: {command:?}"))?;
        listen_to(&mut child, start, events);
        Ok(Self { input: child.stdin.take(), child, log: log.to_path_buf() })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// It pauses and reads a line: gives it one.
    pub(crate) fn go_on(&mut self) {
        if let Some(pipe) = &mut self.input {
            // A program that ended meanwhile reads nothing; its end is an event of its own.
            let _ = pipe.write_all(b"\n").and_then(|()| pipe.flush());
        }
    }

    /// Its stdout is closed: waits for its end, as long as silence is borne.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub(crate) fn end(mut self, patience: Duration) -> Result<Ending> {
        self.input = None;
        match exit_within(&mut self.child, patience)? {
            Some(status) => Ok(Ending { success: status.success(), how: words(status), said: self.last_words() }),
            None => self.stop(patience),
        }
    }

    /// It has been silent for too long.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub(crate) fn stop(mut self, patience: Duration) -> Result<Ending> {
        kill(&mut self.child)?;
        Ok(Ending { success: false, how: format!("silent for {} s", patience.as_secs()), said: self.last_words() })
    }

    fn last_words(&self) -> String {
        last_lines(&self.log, 6)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // No receiver is left.
            let _ = kill(&mut self.child);
        }
    }
}

/// Runs a command that asks for nothing to its end.
///
/// # Errors
/// When it does not start or cannot be waited for.
pub(crate) fn run(command: Command, log: &Path, patience: Duration, mut listen: impl FnMut(&Heard)) -> Result<Ending> {
    let (sender, events) = channel();
    let process = Process::start(command, log, sender)?;
    loop {
        match events.recv_timeout(patience) {
            Ok(Event::Line(heard)) => listen(&heard),
            Ok(Event::End { .. }) => return process.end(patience),
            Err(_) => return process.stop(patience),
        }
    }
}

fn listen_to(child: &mut Child, start: Instant, events: Sender<Event>) {
    let output = child.stdout.take().expect("its stdout was asked for");
    let process = child.id();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // A program may print what is no text; a broken pipe is its end.
        while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if events.send(Event::Line(Heard { text, after: start.elapsed(), process })).is_err() {
                return;
            }
            line.clear();
        }
        // A receiver that has gone needs no event.
        let _ = events.send(Event::End { process });
    });
}

/// Its end is near: waits for it.
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

fn kill(child: &mut Child) -> Result<()> {
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
        let ending = run(command, &log_in(folder.path(), "shell"), patience, |line| heard.push(line.text.clone()));
        (ending.expect("sh runs"), heard)
    }

    #[test]
    fn every_line_is_heard() {
        let (ending, heard) = shell("echo one; echo two", Duration::from_secs(20));
        assert!(ending.success, "{ending:?}");
        assert_eq!(heard, ["one", "two"]);
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
