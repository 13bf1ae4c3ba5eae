//! A program that runs on until its stdin ends, and answers a line on it with what it did since the line before.
//! In: a command. Out: its answers, and its last line. It knows no measurement.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The running program. One that is dropped is ended.
#[derive(Debug)]
pub(crate) struct Asked {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// What a program did since it was last asked.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Done {
    /// Kernels, or steps of a training, that were over.
    pub(crate) kernels: u64,
    /// How long this took.
    pub(crate) seconds: f64,
    /// What a launch cost its caller, in nanoseconds.
    pub(crate) posting_ns: f64,
    /// Half of its calls for an answer took less, in milliseconds.
    pub(crate) p50_ms: f64,
    /// 99 of 100 took less.
    pub(crate) p99_ms: f64,
    /// The longest time between two steps.
    pub(crate) longest_ms: f64,
    /// The part of the GPU's time that the server says it had, where turns were taken.
    #[serde(skip)]
    pub(crate) had: Option<f64>,
}

impl Done {
    /// Kernels a second.
    #[allow(clippy::cast_precision_loss, reason = "a count of seconds' work is far below 2^52")]
    pub(crate) fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.kernels as f64 / self.seconds } else { 0.0 }
    }
}

impl Asked {
    /// Starts it, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start, or says something else.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("does not start: {command:?}"))?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().context("its stdout was asked for")?);
        let mut program = Self { process, input, output };
        let first = program.line()?;
        if first == "ready" { Ok(program) } else { bail!("it does not begin: {first:?}: {command:?}") }
    }

    /// What it did since it was last asked.
    ///
    /// # Errors
    /// When it has ended, or says something else.
    pub(crate) fn ask(&mut self) -> Result<Done> {
        self.request()?;
        self.done()
    }

    /// Asks it; [`Asked::done`] takes the answer. So several can be asked in the same moment.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn request(&mut self) -> Result<()> {
        let input = self.input.as_mut().context("it was ended")?;
        input.write_all(b"\n").context("it is over")
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// When it says something else.
    pub(crate) fn done(&mut self) -> Result<Done> {
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("it says something else: {line:?}"))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("it says nothing")?;
        Ok(line.trim().to_owned())
    }

    /// Ends its stdin; gives its last line.
    ///
    /// # Errors
    /// When it does not end well.
    pub(crate) fn end(mut self) -> Result<String> {
        drop(self.input.take());
        let last = self.line()?;
        let status = self.process.wait().context("it does not end")?;
        if status.success() { Ok(last) } else { bail!("it failed: {last}, {status}") }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // It has ended, or nobody wants it any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Asked> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Asked::start(command)
    }

    #[test]
    fn a_program_answers_each_line_and_has_a_last_word() {
        let mut program = shell("echo ready; while read x; do echo '{\"kernels\":6,\"seconds\":2}'; done; echo right")
            .expect("sh runs");
        for _ in 0..2 {
            assert_eq!(program.ask().expect("it answers").rate(), 3.0);
        }
        assert_eq!(program.end().expect("it ends"), "right");
    }

    #[test]
    fn a_program_that_fails_or_says_something_else_is_an_error() {
        assert!(shell("echo broken").is_err());
        let failed = shell("echo ready; read x; echo wrong; exit 1").expect("sh runs").end();
        assert!(failed.expect_err("it fails").to_string().starts_with("it failed: wrong"));
        assert!(shell("echo ready; read x; echo wrong").expect("sh runs").ask().is_err());
    }
}
