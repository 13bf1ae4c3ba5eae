//! A daemon for one program: started by `floe run` when no device is named.
//! In: the installation. Out: the address of a daemon that listens on a Unix socket in a folder of its own.
//! It ends by itself when the program has ended: it watches the process it was started for.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use floe_session::settings::Level;

use crate::install::Installation;
use crate::servers;

/// How long a private daemon may take until it listens: loading a GPU's driver takes up to a few seconds.
const START_LIMIT: Duration = Duration::from_secs(60);

/// What a private daemon says: it is nobody's log, so it goes to the terminal only where that was asked for.
fn log() -> Result<Option<File>> {
    match servers::settings()?.log {
        Some(level) if level > Level::Error => Ok(None),
        _ => tempfile::tempfile().map(Some).context("no temporary file for the words of the private daemon"),
    }
}

/// The last thing it said before it ended, without its name before it.
fn last_words(log: Option<File>) -> Option<String> {
    let mut log = log?;
    let mut words = String::new();
    log.rewind().and_then(|()| log.read_to_string(&mut words)).ok()?;
    let at = words.rfind("floed: ")?;
    Some(words[at + "floed: ".len()..].trim_end().to_owned())
}

/// Starts `floed --private` for the process `floe` is (and the program it becomes); returns its address: the path of its
/// socket, which means the best transport both have.
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
        .context("the private daemon (floed) does not start")?;
    let output = daemon.stdout.take().expect("its stdout was asked for");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        // The receiver is gone when the start took too long; nobody needs the line then.
        let _ = sender.send(read.map(|_| line));
    });
    let line = match receiver.recv_timeout(START_LIMIT) {
        Ok(line) => line.context("the private daemon's first line cannot be read")?,
        Err(_) => {
            let _ = daemon.kill();
            bail!("the private daemon did not listen within {} s", START_LIMIT.as_secs());
        }
    };
    match line.trim().strip_prefix("ready ") {
        Some(address) => {
            // What was started has handed over to a process of its own and is ending; the program must not inherit it.
            daemon.wait().context("the private daemon's start cannot be waited for")?;
            Ok(address.strip_prefix("unix://").unwrap_or(address).to_owned())
        }
        None => {
            daemon.wait().context("the private daemon's end cannot be waited for")?;
            let why =
                last_words(log).unwrap_or_else(|| "it ended without a word\n  `floe doctor` says what is wrong".into());
            bail!("this machine's device cannot be used: {why}");
        }
    }
}
