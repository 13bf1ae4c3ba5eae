//! The audit log: one line of JSON for each admission, refusal, move and end.
//! In: events with their user and peer, the time. Out: lines at the end of a file, whole or counted as lost.
//! A peer that is refused again and again has a share of lines; what is left out, the next line counts.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use floe_lock::lock;
use serde::Serialize;

use crate::file::FileError;

/// Refusals of one peer, and of all, that are written in a minute.
const REFUSALS: (u32, u32) = (60, 600);
const MINUTE: Duration = Duration::from_secs(60);

/// Whose an event is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Whose {
    /// The user's name; empty where the server knows none.
    pub user: String,
    /// Host and address, or process.
    pub peer: String,
    /// The number of the user's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whose share of lines its refusals take: a peer as the server's limits count it.
    #[serde(skip)]
    pub share: String,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<'a> {
    /// A session began.
    Admitted {
        /// Its number.
        session: u64,
        /// The GPU's index.
        gpu: u32,
        /// Its quota in bytes; 0 for none.
        memory: u64,
        /// Whether the quota is a guarantee.
        guaranteed: bool,
        /// The program's name, as it says.
        program: &'a str,
    },
    /// A request was refused.
    Refused {
        /// Why.
        why: &'a str,
    },
    /// A move is over: a session has moved, was suspended or resumed, or stays.
    Moved {
        /// The session's number.
        session: u64,
        /// What was done, from where to where, and how that ended.
        what: &'a str,
    },
    /// A session ended.
    Ended {
        /// Its number.
        session: u64,
        /// How long it lived.
        seconds: u64,
        /// Why; `None`: its client left.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<&'a str>,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    event: &'a Event<'a>,
    #[serde(flatten)]
    whose: &'a Whose,
    /// Refusals that were left out before this line.
    #[serde(skip_serializing_if = "is_none")]
    left_out: u64,
    /// Lines that could not be written before this one.
    #[serde(skip_serializing_if = "is_none")]
    lost: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// The log, or none.
#[derive(Debug, Default)]
pub struct Audit {
    path: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    refusals: Refusals,
    lost: u64,
    /// Whether the last line is cut.
    is_cut: bool,
}

impl Audit {
    /// Opens the log at the end of a file, which it makes for its owner alone.
    ///
    /// # Errors
    /// [`FileError::Unwritable`].
    pub fn open(path: Option<&Path>) -> Result<Self, FileError> {
        let file = path.map(append).transpose()?;
        let is_cut = file.as_ref().is_some_and(ends_cut);
        Ok(Self { path: path.map(Path::to_path_buf), state: Mutex::new(State { file, is_cut, ..State::default() }) })
    }

    /// Whether there is a log.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.path.is_some()
    }

    /// Opens the file again, which may have been moved away.
    ///
    /// # Errors
    /// [`FileError::Unwritable`]: it goes on with the file that it has.
    pub fn reopen(&self) -> Result<(), FileError> {
        let Some(path) = &self.path else { return Ok(()) };
        let file = append(path)?;
        let mut state = lock(&self.state);
        (state.is_cut, state.file) = (ends_cut(&file), Some(file));
        Ok(())
    }

    /// Writes an event. A line that cannot be written is counted in the next one.
    ///
    /// # Errors
    /// [`FileError::Unwritable`], for the first of several lines that are lost.
    pub fn write(&self, whose: &Whose, event: &Event<'_>, now: Instant) -> Result<(), FileError> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut state = lock(&self.state);
        if matches!(event, Event::Refused { .. }) && !state.refusals.permits(whose, now) {
            return Ok(());
        }
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let (left_out, lost) = (state.refusals.left_out, state.lost);
        let mut text = if state.is_cut { vec![b'\n'] } else { Vec::new() };
        let made = serde_json::to_writer(&mut text, &Line { time, event, whose, left_out, lost });
        text.push(b'\n');
        let State { file: Some(file), .. } = &mut *state else { return Ok(()) };
        let written = made.map_err(std::io::Error::other).and_then(|()| file.write_all(&text));
        match written {
            Ok(()) => {
                (state.refusals.left_out, state.lost, state.is_cut) = (0, 0, false);
                Ok(())
            }
            Err(source) => {
                (state.lost, state.is_cut) = (lost + 1, true);
                if lost == 0 { Err(FileError::Unwritable { path: path.clone(), source }) } else { Ok(()) }
            }
        }
    }
}

fn append(path: &Path) -> Result<File, FileError> {
    // What cannot be read is written all the same. A pipe that nobody reads loses lines, and holds up no admission.
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = |reads| {
        let mut options = OpenOptions::new();
        options.read(reads).append(true).create(true).mode(0o600).custom_flags(no_wait).open(path)
    };
    let file = opened(true).or_else(|_| opened(false));
    file.map_err(|source| FileError::Unwritable { path: path.to_path_buf(), source })
}

/// Whether the last line of a file is cut: the disk was full, or the machine went down.
fn ends_cut(file: &File) -> bool {
    let mut last = [b'\n'];
    let end = file.metadata().map_or(0, |metadata| metadata.len());
    end > 0 && file.read_exact_at(&mut last, end - 1).is_ok() && last != *b"\n"
}

/// The refusals of a minute.
#[derive(Debug, Default)]
struct Refusals {
    since: Option<Instant>,
    all: u32,
    each: BTreeMap<String, u32>,
    left_out: u64,
}

impl Refusals {
    /// Whether one more is written. A peer's address, port and process change as it likes, and do not count.
    fn permits(&mut self, whose: &Whose, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= MINUTE) {
            (self.since, self.all) = (Some(now), 0);
            self.each.clear();
        }
        let its = self.each.get(&whose.share).copied().unwrap_or(0);
        if its >= REFUSALS.0 || self.all >= REFUSALS.1 {
            self.left_out += 1;
            return false;
        }
        self.each.insert(whose.share.clone(), its + 1);
        self.all += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(user: &str) -> Whose {
        Whose { user: user.into(), peer: "192.0.2.1:7".into(), token: None, share: user.into() }
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).expect("written");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn each_event_is_a_line_of_json_whatever_its_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let (audit, now) = (Audit::open(Some(&path)).expect("opened"), Instant::now());
        let program = "a\"\n{\u{1b}";
        let admitted = Event::Admitted { session: 7, gpu: 1, memory: 5, guaranteed: true, program };
        for event in [admitted, Event::Ended { session: 7, seconds: 3, why: None }] {
            audit.write(&whose("alice"), &event, now).expect("written");
        }
        let lines = lines(&path);
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["event"], &lines[0]["program"]), (&"admitted".into(), &program.into()));
        assert_eq!((&lines[0]["user"], &lines[1]["seconds"]), (&"alice".into(), &3.into()));
        assert!(lines[1].get("why").is_none() && lines[1].get("left_out").is_none());
        assert!(lines[0]["time"].as_str().is_some_and(|time| time.ends_with('Z')));
    }

    #[test]
    fn who_is_refused_all_the_time_has_a_share_and_hides_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let (audit, now) = (Audit::open(Some(&path)).expect("opened"), Instant::now());
        let refused = Event::Refused { why: "no" };
        for _ in 0..1000 {
            audit.write(&whose("mallory"), &refused, now).expect("written");
        }
        audit.write(&whose("alice"), &refused, now).expect("written");
        let lines = lines(&path);
        assert_eq!(lines.len(), 61);
        assert_eq!((&lines[60]["user"], &lines[60]["left_out"]), (&"alice".into(), &940.into()));
        audit.write(&whose("mallory"), &refused, now + MINUTE).expect("written");
        assert_eq!(self::lines(&path).len(), 62);
        let mut refusals = Refusals::default();
        let strangers = (0..1000_u32).map(|host| Whose { share: format!("192.0.{host}"), ..Whose::default() });
        assert_eq!(strangers.filter(|whose| refusals.permits(whose, now)).count(), 600);
        assert_eq!(refusals.each.len(), 600);
    }

    #[test]
    fn lines_that_cannot_be_written_are_told_once_and_counted() {
        let audit = Audit::open(Some(Path::new("/dev/full"))).expect("opened");
        let (event, now) = (Event::Moved { session: 1, what: "" }, Instant::now());
        assert!(audit.write(&whose("alice"), &event, now).is_err());
        assert!(audit.write(&whose("alice"), &event, now).is_ok(), "told already");
        assert_eq!(lock(&audit.state).lost, 2);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        lock(&audit.state).file = Some(append(&path).expect("opened"));
        audit.write(&whose("alice"), &event, now).expect("written");
        let text = std::fs::read_to_string(&path).expect("written");
        assert!(text.starts_with('\n') && text.contains("\"lost\":2"), "{text}");
        assert!(Audit::open(Some(Path::new("/nonexistent/audit"))).is_err());
    }

    #[test]
    fn a_pipe_that_nobody_reads_loses_lines_and_holds_up_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo runs").success());
        let audit = Audit::open(Some(&path)).expect("opened");
        let long = "x".repeat(4096);
        let event = Event::Moved { session: 1, what: &long };
        let told = (0..1000).filter(|_| audit.write(&whose("alice"), &event, Instant::now()).is_err()).count();
        assert_eq!(told, 1);
        assert!(lock(&audit.state).lost > 900);
    }

    #[test]
    fn behind_a_cut_line_a_new_one_begins_also_where_the_file_is_opened_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let cut = || File::options().append(true).open(&path).and_then(|mut file| file.write_all(b"{\"time\":\"2026-"));
        let event = Event::Moved { session: 1, what: "" };
        let good = || {
            let text = std::fs::read_to_string(&path).expect("written");
            text.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).count()
        };
        std::fs::write(&path, "").expect("written");
        cut().expect("written");
        let audit = Audit::open(Some(&path)).expect("opened");
        audit.write(&whose("alice"), &event, Instant::now()).expect("written");
        assert_eq!(good(), 1);
        cut().expect("written");
        audit.reopen().expect("opened");
        audit.write(&whose("alice"), &event, Instant::now()).expect("written");
        audit.reopen().expect("opened");
        audit.write(&whose("alice"), &event, Instant::now()).expect("written");
        assert_eq!((good(), std::fs::read_to_string(&path).expect("written").lines().count()), (3, 5));
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, old) = (folder.path().join("audit"), folder.path().join("old"));
        let (audit, event) = (Audit::open(Some(&path)).expect("opened"), Event::Moved { session: 1, what: "" });
        let write = || audit.write(&whose("alice"), &event, Instant::now()).expect("written");
        write();
        std::fs::rename(&path, &old).expect("moved");
        write();
        audit.reopen().expect("opened");
        write();
        assert_eq!((lines(&old).len(), lines(&path).len()), (2, 1));
    }
}
