//! A daemon for one program: started by `floe run` when no device is named.
//! In: the installation. Out: the address of a daemon. It listens on a Unix socket in a folder of its own.
//! The daemon watches the process it was started for, and ends after it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use floe_session::settings::Level;

use crate::install::Installation;
use crate::servers;

/// The most time until a private daemon listens. Loading a GPU's driver takes up to a few seconds.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The file for a private daemon's log. `None`: the user asked for a log, so it goes to the terminal.
fn log() -> Result<Option<File>> {
    match servers::settings()?.log {
        Some(level) if level > Level::Error => Ok(None),
        _ => tempfile::tempfile().map(Some).context("cannot make a temporary file for the private daemon's log"),
    }
}

/// The daemon's last log line before it ended, without the prefix `floed: `.
fn last_words(log: Option<File>) -> Option<String> {
    let mut log = log?;
    let mut words = String::new();
    log.rewind().and_then(|()| log.read_to_string(&mut words)).ok()?;
    let at = words.rfind("floed: ")?;
    Some(words[at + "floed: ".len()..].trim_end().to_owned())
}

/// Starts `floed --private` for this process, which becomes the program. Returns the path of the daemon's socket: such
/// an address means the best transport that both have.
pub(crate) fn start(installation: &Installation, device_library: Option<&str>) -> Result<String> {
    let mut command = Command::new(installation.executable("floed")?);
    command.arg("--private").arg("--until-exit-of").arg(std::process::id().to_string());
    if let Some(library) = device_library {
        command.arg("--device-library").arg(library);
    }
    let log = log()?;
    let stderr = log.as_ref().map(File::try_clone).transpose()?.map_or_else(Stdio::inherit, Stdio::from);
    let mut daemon = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .context("cannot start the private daemon (floed)")?;
    let output = daemon.stdout.take().expect("its stdout was asked for");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        // After the time limit there is no receiver, and nobody needs the line.
        let _ = sender.send(read.map(|_| line));
    });
    let line = match receiver.recv_timeout(START_LIMIT) {
        Ok(line) => line.context("cannot read the private daemon's first line")?,
        Err(_) => {
            let _ = daemon.kill();
            bail!("the private daemon did not listen within {} s", START_LIMIT.as_secs());
        }
    };
    match line.trim().strip_prefix("ready ") {
        Some(address) => {
            // The started process has forked the daemon and is ending. The program must not inherit it as a child.
            daemon.wait().context("cannot wait for the private daemon's start")?;
            Ok(address.strip_prefix("unix://").unwrap_or(address).to_owned())
        }
        None => {
            daemon.wait().context("cannot wait for the private daemon's end")?;
            let why = last_words(log)
                .unwrap_or_else(|| "it ended without an error message\n  run `floe doctor` to find the cause".into());
            bail!("this machine's device cannot be used: {why}");
        }
    }
}
