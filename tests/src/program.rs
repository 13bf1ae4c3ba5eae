//! A CUDA program that runs under `floe run`, or on the CPU device alone, and its outcome.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::Floed;

/// A program with its arguments and the devices it shall see.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
    alone: bool,
}

/// The outcome of a program.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// All of its stdout.
    pub stdout: String,
    /// All of its stderr.
    pub stderr: String,
}

/// One class of what `FLOE_STATS=json` prints.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Class {
    /// Calls of the class.
    pub made: u64,
    /// Those of them that waited for the server.
    pub waited: u64,
}

macro_rules! statistics {
    ($($name:ident, $add:ident, $words:literal, $what:literal;)*) => {
        /// The counts of one program.
        #[derive(Debug, Clone, Copy, Deserialize)]
        pub struct Statistics {
            /// Answered from what the client knows.
            pub local: Class,
            /// Sent, not waited for.
            pub post: Class,
            /// Sent and waited for.
            pub call: Class,
            /// Waits once a context existed.
            pub waits_with_context: u64,
            $(#[doc = $what] pub $name: u64,)*
        }
    };
}
floe_session::counters!(statistics);

impl Statistics {
    /// The number of the program's waits for the server, from its first call on.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.local.waited + self.post.waited + self.call.waited
    }
}

impl Program {
    /// A program by path.
    #[must_use]
    pub fn new(path: PathBuf, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self { path, arguments, flags: Vec::new(), environment: Vec::new(), alone: false }
    }

    /// On one device of a daemon, at one of its addresses.
    #[must_use]
    pub fn on(mut self, daemon: &Floed, address: &str) -> Self {
        // Some tests count or cut connections: those of the program are all there are.
        self.flags.extend(["--no-check".to_owned(), "--on".to_owned(), format!("{address}:0")]);
        let token = daemon.token_file().display().to_string();
        self.environment.push(("FLOE_TOKEN_FILE".to_owned(), token));
        self
    }

    /// On several GPUs, by their places `ADDRESS:GPU`; TCP places are of this daemon.
    #[must_use]
    pub fn on_each(mut self, daemon: &Floed, places: &[String]) -> Self {
        self.flags.extend(["--no-check".to_owned(), "--on".to_owned(), places.join(",")]);
        let token = daemon.token_file().display().to_string();
        self.environment.push(("FLOE_TOKEN_FILE".to_owned(), token));
        self
    }

    /// On the CPU device with nothing between: its library stands in the place of NVIDIA's.
    #[must_use]
    pub fn on_the_device_library(mut self) -> Self {
        let folder = crate::installation().join("lib/device").display().to_string();
        self.environment.push(("LD_LIBRARY_PATH".to_owned(), folder));
        self.alone = true;
        self
    }

    /// With a flag of `floe run`.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// With an environment variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self) -> Command {
        let mut command = if self.alone {
            Command::new(&self.path)
        } else {
            let mut floe = Command::new(crate::installation().join("bin/floe"));
            floe.arg("run").args(&self.flags).arg("--").arg(&self.path);
            floe
        };
        command.args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When `floe` does not start.
    #[must_use]
    pub fn run(&self) -> Outcome {
        self.command().output().expect("floe runs").into()
    }

    /// Runs it to its end, or ends it by SIGKILL when it takes longer.
    ///
    /// # Panics
    /// When `floe` does not start.
    #[must_use]
    pub fn run_within(&self, time: Duration) -> Outcome {
        let mut command = self.command();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("floe runs");
        let (process, begin) = (child.id(), Instant::now());
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let watching = std::thread::spawn(move || {
            while !seen.load(Ordering::SeqCst) {
                if begin.elapsed() > time {
                    // The process is not reaped before the flag is set.
                    let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut texts = [String::new(), String::new()];
        let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let [of_stdout, of_stderr] = &mut texts;
        std::thread::scope(|scope| {
            scope.spawn(|| stderr.read_to_string(of_stderr));
            // What is no text is compared with nothing.
            let _ = stdout.read_to_string(of_stdout);
        });
        is_over.store(true, Ordering::SeqCst);
        watching.join().expect("it does not panic");
        let [stdout, stderr] = texts;
        Outcome { code: child.wait().expect("it is our child").code(), stdout, stderr }
    }

    /// Starts it; its output goes nowhere.
    ///
    /// # Panics
    /// When `floe` does not start.
    #[must_use]
    pub fn start(&self) -> Child {
        self.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("floe runs")
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Outcome {
    /// The counts the client library printed (run with `FLOE_STATS=json`).
    ///
    /// # Panics
    /// When there is no such line.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let line = self.stderr.lines().find(|line| line.starts_with(r#"{"local":"#));
        let line = line.unwrap_or_else(|| panic!("no statistics in: {}", self.stderr));
        serde_json::from_str(line).unwrap_or_else(|error| panic!("not statistics ({error}): {line}"))
    }
}
