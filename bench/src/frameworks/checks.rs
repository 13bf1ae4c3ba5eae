//! One file of checks, run to its end by one way: `ok NAME`, `FAILED NAME: why`, `value NAME NUMBERS…` come in as lines,
//! an outcome per check goes out. After a failure the remaining checks run in a new process, because a broken CUDA
//! context fails every later check.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::program;

/// Longest silence of a check: compiling and tuning kernels takes more than a minute on a slow machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// The outcome of one check.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub(crate) struct Outcome {
    /// Why it failed; `None` when it did not.
    pub(crate) failure: Option<String>,
    /// The numbers it gave.
    pub(crate) values: Option<Vec<String>>,
}

/// Checks by name.
pub(crate) type Outcomes = BTreeMap<String, Outcome>;

/// The name under which a file's failure to start is reported.
pub(crate) const START: &str = "(start)";

/// Runs a file's checks; `start` makes its command, to which names are added.
///
/// # Errors
/// When no process can be started.
pub(crate) fn run(log: &Path, start: impl Fn() -> Command) -> Result<Outcomes> {
    let mut heard = Heard::default();
    let mut left: Vec<String> = Vec::new();
    loop {
        let mut command = start();
        command.arg("--stop-at-failure").args(&left);
        heard.failed_now = false;
        let ending = program::run(command, log, PATIENCE, |line| heard.take(&line.text))?;
        left = heard.expected.iter().filter(|name| !heard.outcomes.contains_key(*name)).cloned().collect();
        if !heard.failed_now && (!ending.success || !left.is_empty()) {
            // It ended without a word about the check it was in, before its first or after its last one.
            let name = if left.is_empty() { START.to_owned() } else { left.remove(0) };
            let failure = Some(format!("{}: {}", ending.how, ending.said));
            heard.outcomes.insert(name, Outcome { failure, values: None });
        }
        if left.is_empty() {
            return Ok(heard.outcomes);
        }
    }
}

/// Output of one file's processes so far.
#[derive(Debug, Default)]
struct Heard {
    expected: Vec<String>,
    values: BTreeMap<String, Vec<String>>,
    outcomes: Outcomes,
    /// Whether the current process reported a failure.
    failed_now: bool,
}

impl Heard {
    fn take(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "checks" if self.expected.is_empty() => self.expected = rest.split(' ').map(str::to_owned).collect(),
            "value" => {
                let mut words = rest.split(' ').map(str::to_owned);
                let name = words.next().unwrap_or_default();
                self.values.insert(name, words.collect());
            }
            "ok" => {
                let values = self.values.remove(rest);
                self.outcomes.insert(rest.to_owned(), Outcome { failure: None, values });
            }
            "FAILED" => {
                let (name, why) = rest.split_once(": ").unwrap_or((rest, ""));
                self.outcomes.insert(name.to_owned(), Outcome { failure: Some(why.to_owned()), values: None });
                self.failed_now = true;
            }
            // Programs print other things too.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script whose checks are named by its arguments behind the flag.
    fn outcomes(script: &str) -> Outcomes {
        let folder = tempfile::tempdir().expect("a temporary folder");
        run(&folder.path().join("log"), || {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]);
            command
        })
        .expect("sh runs")
    }

    #[test]
    fn values_go_with_their_check() {
        let found = outcomes("echo checks a b; echo value a 0x1p+0 0x2p+0; echo ok a; echo noise; echo ok b");
        assert_eq!(found["a"].values, Some(vec!["0x1p+0".to_owned(), "0x2p+0".to_owned()]));
        assert_eq!(found["b"], Outcome::default());
    }

    #[test]
    fn after_a_failure_the_rest_runs_anew() {
        let script = "shift; echo checks ${*:-a b c}; for n in ${*:-a b c}; do \
                      if [ $n = b ]; then echo FAILED b: broken; exit 1; fi; echo ok $n; done";
        let found = outcomes(script);
        assert_eq!(found["b"].failure.as_deref(), Some("broken"));
        assert_eq!((found["a"].failure.as_ref(), found["c"].failure.as_ref()), (None, None));
    }

    #[test]
    fn a_crash_is_the_failure_of_the_check_it_came_in() {
        let script = "shift; echo checks a b; [ \"$1\" = b ] && echo ok b && exit 0; echo bad >&2; kill -9 $$";
        let found = outcomes(script);
        assert_eq!(found["a"].failure.as_deref(), Some("signal 9: bad"));
        assert_eq!(found["b"], Outcome::default());
    }

    #[test]
    fn a_file_that_never_starts_is_reported() {
        assert_eq!(outcomes("exit 4")[START].failure.as_deref(), Some("exit code 4: "));
    }
}
