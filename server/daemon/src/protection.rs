//! The sandbox of workers on this machine, as the operator sees it.
//! In: a worker's report from inside its sandbox. Out: text for the log, at the start and with each session.
//! It refuses no session: the worker does, if its sandbox is incomplete and required.

use std::path::Path;
use std::process::{Command, Stdio};

use floe_worker::contract::Demand;
pub use floe_worker::contract::{Protection, Standing};

use crate::error::DaemonError;

/// Starts a worker that enters its sandbox and reports which parts hold.
///
/// # Errors
/// When the worker does not start, or its answer cannot be read.
pub fn of_workers(worker: &Path, library: &str) -> Result<Protection, DaemonError> {
    let failed = |source| DaemonError::Worker { path: worker.to_path_buf(), source };
    let mut command = Command::new(worker);
    let output = command.args(["--check-sandbox", library]).stdin(Stdio::null()).output().map_err(failed)?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    serde_json::from_slice(&output.stdout).map_err(|_| failed(std::io::Error::other(words)))
}

/// The operator's warning about the workers' sandbox; `None`: it is complete.
pub(crate) fn words(worker: &Path, library: &str, demand: Demand) -> Result<Option<String>, DaemonError> {
    if demand == Demand::Off {
        return Ok(Some("workers run without a sandbox (--no-sandbox)".to_owned()));
    }
    judge(&of_workers(worker, library)?.missing, demand)
}

/// A text that names the missing parts, or an error if all are required.
fn judge(missing: &[String], demand: Demand) -> Result<Option<String>, DaemonError> {
    match demand {
        _ if missing.is_empty() => Ok(None),
        Demand::Required => Err(DaemonError::Unprotected(missing.join("; "))),
        Demand::Off | Demand::Usual => Ok(Some(format!("workers' sandbox is incomplete: {}", missing.join("; ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_a_warning_or_no_server_where_all_of_it_is_required() {
        let missing = ["Landlock".to_owned(), "seccomp".to_owned()];
        let warned = judge(&missing, Demand::Usual).expect("a server");
        assert_eq!(warned.as_deref(), Some("workers' sandbox is incomplete: Landlock; seccomp"));
        let refused = judge(&missing, Demand::Required);
        assert!(
            matches!(&refused, Err(DaemonError::Unprotected(words)) if words == "Landlock; seccomp"),
            "{refused:?}"
        );
        for demand in [Demand::Usual, Demand::Required] {
            assert_eq!(judge(&[], demand).expect("a server"), None);
        }
    }
}
