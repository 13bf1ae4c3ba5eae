//! The form of the daemon's log: lines of text, or one JSON object each, on stderr, from a level on.
//! In: the daemon's words, and entries of sessions and their workers. Out: lines. Characters that could move a cursor, turn
//! text around or begin another line are escaped in both forms, whoever said them. Where systemd's journal reads stderr, lines of
//! text begin with their level, as sd-daemon(3) has it.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Once;

use floe_settings::LogFormat;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// The program of a line.
const DAEMON: &str = "floed";
const WORKER: &str = "floe-worker";

/// Bytes that a line of JSON has beside its words: names of fields, time, level, program, session.
pub(super) const JSON_BYTES: usize = 160;

/// From here on this process logs in this form what is of this level or a more urgent one. The first call counts.
pub(crate) fn start(format: LogFormat, level: floe_settings::Level) {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // Another subscriber of this process, such as a test's, stays.
        let _ = tracing::subscriber::set_global_default(subscriber(format, level, is_journals(), std::io::stderr));
    });
}

/// Whether systemd's journal reads this process's stderr: `JOURNAL_STREAM` names its device and inode (systemd.exec(5)). A process
/// whose stderr leads elsewhere may have inherited the variable.
fn is_journals() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let stderr = rustix::fs::fstat(std::io::stderr());
    stderr.is_ok_and(|stderr| named == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}

fn subscriber<W>(
    format: LogFormat,
    level: floe_settings::Level,
    has_levels: bool,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // A daemon whose stderr is closed continues without a log.
    let built = tracing_subscriber::fmt().log_internal_errors(false).with_max_level(filter(level)).with_writer(writer);
    match format {
        LogFormat::Text => Box::new(built.event_format(Plain { has_levels }).finish()),
        LogFormat::Json => {
            let json = built.json().flatten_event(true).with_target(false);
            Box::new(json.with_current_span(false).with_span_list(false).finish())
        }
    }
}

fn filter(level: floe_settings::Level) -> LevelFilter {
    match level {
        floe_settings::Level::Error => LevelFilter::ERROR,
        floe_settings::Level::Warn => LevelFilter::WARN,
        floe_settings::Level::Info => LevelFilter::INFO,
        floe_settings::Level::Debug => LevelFilter::DEBUG,
    }
}

/// Logs a line for the operator.
pub(crate) fn log(words: fmt::Arguments<'_>) {
    write(Level::INFO, DAEMON, None, &words.to_string());
}

/// Logs a line that the operator should act on.
pub(crate) fn warn(words: fmt::Arguments<'_>) {
    write(Level::WARN, DAEMON, None, &words.to_string());
}

/// Says why this process ends, in the form of its log, or as text before it has one.
pub fn log_failure(error: &dyn fmt::Display) {
    if tracing::dispatcher::has_been_set() {
        write(Level::ERROR, DAEMON, None, &error.to_string());
    } else {
        let level = if is_journals() { prefix(Level::ERROR) } else { "" };
        eprintln!("{level}{DAEMON}: {}", escaped(&error.to_string()).replace('\n', &format!("\n{level}")));
    }
}

/// Logs an entry about a session or from its worker, with its program before it.
pub(super) fn entry(entry: &str) {
    let line = entry.trim_end_matches('\n');
    let (level, program, words) = match line.split_once(": ") {
        Some((WORKER, words)) => (Level::WARN, WORKER, words),
        Some((DAEMON, words)) => (Level::INFO, DAEMON, words),
        _ => (Level::INFO, DAEMON, line),
    };
    write(level, program, session_of(words), words);
}

/// The number of the session that an entry is about.
fn session_of(words: &str) -> Option<u64> {
    let rest = words.strip_prefix("session ")?;
    rest.split(|next: char| !next.is_ascii_digit()).next()?.parse().ok()
}

fn write(level: Level, program: &str, session: Option<u64>, words: &str) {
    let words = escaped(words);
    match level {
        Level::ERROR => tracing::error!(program, session, "{words}"),
        Level::WARN => tracing::warn!(program, session, "{words}"),
        Level::INFO => tracing::info!(program, session, "{words}"),
        _ => tracing::debug!(program, session, "{words}"),
    }
}

/// Words without characters that a terminal obeys, but for ends of lines.
fn escaped(words: &str) -> String {
    let mut escaped = String::with_capacity(words.len());
    for character in words.chars() {
        if character == '\n' || floe_wire::is_plain(character) {
            escaped.push(character);
        } else {
            let _ = write!(escaped, "{}", character.escape_unicode());
        }
    }
    escaped
}

/// `floed: words`, as people read it, or with its level before each line.
struct Plain {
    has_levels: bool,
}

/// A level as sd-daemon(3) writes it, which the journal takes off the line.
fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut said = Said { program: DAEMON.to_owned(), words: String::new() };
        event.record(&mut said);
        let mut lines = said.words.split('\n');
        let level = if self.has_levels { prefix(*event.metadata().level()) } else { "" };
        write!(writer, "{level}{}: {}", said.program, lines.next().unwrap_or_default())?;
        for line in lines {
            // What is not indented begins an entry of its own.
            let indent = if line.starts_with(' ') { "" } else { "  " };
            write!(writer, "\n{level}{indent}{line}")?;
        }
        writeln!(writer)
    }
}

/// The fields of an event that a line of text has.
struct Said {
    program: String,
    words: String,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "program" {
            value.clone_into(&mut self.program);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.words = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use floe_lock::lock;

    use super::*;

    /// Bytes that were written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: floe_settings::Level, say: impl FnOnce()) -> String {
        logged_to(format, level, false, say)
    }

    fn logged_to(format: LogFormat, level: floe_settings::Level, has_levels: bool, say: impl FnOnce()) -> String {
        let written = Written::default();
        let to = written.clone();
        tracing::subscriber::with_default(subscriber(format, level, has_levels, move || to.clone()), say);
        let bytes = lock(&written.0).clone();
        String::from_utf8(bytes).expect("text")
    }

    fn say_all() {
        log(format_args!("listening"));
        warn(format_args!("WARNING: look\n  do this"));
        entry("floe-worker: session 7: it failed: 3\n");
        entry("floe-worker: session 7:     as follows\n");
        entry("floed: session 12 ended: exit status: 1\n");
    }

    #[test]
    fn text_has_the_program_before_each_line() {
        let text = logged(LogFormat::Text, floe_settings::Level::Info, say_all);
        let lines = [
            "floed: listening",
            "floed: WARNING: look",
            "  do this",
            "floe-worker: session 7: it failed: 3",
            "floe-worker: session 7:     as follows",
            "floed: session 12 ended: exit status: 1",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn text_for_the_journal_has_the_level_before_each_line() {
        let say = || {
            say_all();
            write(Level::ERROR, DAEMON, None, "ends\n  start it again");
            write(Level::DEBUG, DAEMON, None, "x\n<0>forged");
        };
        let text = logged_to(LogFormat::Text, floe_settings::Level::Debug, true, say);
        let lines = [
            "<6>floed: listening",
            "<4>floed: WARNING: look",
            "<4>  do this",
            "<4>floe-worker: session 7: it failed: 3",
            "<4>floe-worker: session 7:     as follows",
            "<6>floed: session 12 ended: exit status: 1",
            "<3>floed: ends",
            "<3>  start it again",
            "<7>floed: x",
            "<7>  <0>forged",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn json_has_an_object_for_each_entry_with_level_program_and_session() {
        let text = logged(LogFormat::Json, floe_settings::Level::Info, say_all);
        let objects: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        let field = |index: usize, name: &str| objects[index].get(name).cloned().unwrap_or_default();
        let told = |index| [field(index, "level"), field(index, "program"), field(index, "session")];
        assert_eq!(objects.len(), 5);
        let wanted = |level: &str, program: &str, session: Option<u64>| [level.into(), program.into(), session.into()];
        let wanted: [[serde_json::Value; 3]; 4] = [
            wanted("INFO", "floed", None),
            wanted("WARN", "floe-worker", Some(7)),
            wanted("WARN", "floe-worker", Some(7)),
            wanted("INFO", "floed", Some(12)),
        ];
        assert_eq!([0, 2, 3, 4].map(told), wanted);
        assert_eq!(field(1, "message"), "WARNING: look\n  do this");
        assert!(objects.iter().all(|object| object["timestamp"].as_str().is_some_and(|time| time.ends_with('Z'))));
    }

    #[test]
    fn less_urgent_lines_than_the_level_are_left_out() {
        let count = |level| logged(LogFormat::Text, level, say_all).matches("floe").count();
        use floe_settings::Level::{Debug, Error, Info, Warn};
        assert_eq!([Error, Warn, Info, Debug].map(count), [0, 3, 5, 5]);
    }

    #[test]
    fn hostile_words_begin_no_line_and_reach_no_terminal_in_either_form() {
        let hostile = "x\u{1b}[2J\r\u{9b}\u{202e}\nfloed: forged\n{\"level\":\"ERROR\"}";
        let say = || log(format_args!("{hostile}"));
        let text = logged(LogFormat::Text, floe_settings::Level::Info, say);
        assert_eq!(text, "floed: x\\u{1b}[2J\\u{d}\\u{9b}\\u{202e}\n  floed: forged\n  {\"level\":\"ERROR\"}\n");
        let json = logged(LogFormat::Json, floe_settings::Level::Info, say);
        assert!(json.lines().count() == 1 && json.chars().all(|one| one == '\n' || floe_wire::is_plain(one)), "{json}");
        let object: serde_json::Value = serde_json::from_str(&json).expect("one object");
        assert_eq!(object["level"], "INFO");
    }

    #[test]
    fn a_line_of_json_has_no_more_beside_its_words_than_is_counted() {
        let words = format!("session {}: x", u64::MAX);
        let json = logged(LogFormat::Json, floe_settings::Level::Info, || entry(&format!("floe-worker: {words}\n")));
        assert!(json.len() <= words.len() + JSON_BYTES, "{}: {json}", json.len() - words.len());
    }
}
