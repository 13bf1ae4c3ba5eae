//! The TOML file that people write, for all programs: its text comes in, its keys with their lines and values go out.
//! Every program that reads the file refuses a key that no program knows, and a key's old name. It never judges values.

use std::io;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::SettingsError;
use crate::nearest::nearest;
use crate::origin::Origin;
use crate::places::{MACHINE_FILE, configuration_folder};
use crate::source::Source;
use crate::table::{Table, kebab};

/// A file's keys.
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    /// The programs whose settings may be in it.
    known: &'static [Table],
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    section: Option<&'static str>,
    key: String,
    line: usize,
    text: String,
}

impl File {
    /// The named file, else the first one that exists; `None` without one. A program ignores the machine's file if its
    /// user may not read it: the file may be for the server only.
    ///
    /// # Errors
    /// [`SettingsError`] when it cannot be read or understood.
    pub(crate) fn find(
        table: &Table,
        named: Option<(&Origin, &str)>,
        source: &dyn Source,
        known: &'static [Table],
    ) -> Result<Option<Self>, SettingsError> {
        if let Some((origin, path)) = named {
            let path = Path::new(path);
            let text =
                source.file(path).map_err(|error| SettingsError::unreadable(&origin.to_string(), path, &error))?;
            return Self::read(path, &text, known).map(Some);
        }
        for path in [configuration_folder(source).join("floe.toml"), PathBuf::from(MACHINE_FILE)] {
            match source.file(&path) {
                Ok(text) => return Self::read(&path, &text, known).map(Some),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) if is_closed(table, &path, &error) => {}
                Err(error) => return Err(SettingsError::unreadable("settings", &path, &error)),
            }
        }
        Ok(None)
    }

    /// Reads a file's text.
    pub(crate) fn read(path: &Path, text: &str, known: &'static [Table]) -> Result<Self, SettingsError> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let reason = error.message().split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "");
            wrong(path, line, reason, "correct this line".to_owned())
        })?;
        let mut file = Self { path: path.to_path_buf(), known, entries: Vec::new() };
        for (key, value) in table.get_ref() {
            let section = known.iter().find_map(|table| table.section.filter(|name| *name == key.get_ref().as_ref()));
            match (section, value.get_ref()) {
                (Some(section), DeValue::Table(inner)) => file.take_all(text, section, inner)?,
                (Some(section), _) => {
                    let line = line_of(text, key.span().start);
                    return Err(wrong(path, line, format!("not a table: {section}"), format!("write [{section}]")));
                }
                (None, _) => file.take(text, None, key, value)?,
            }
        }
        Ok(file)
    }

    fn take_all(&mut self, text: &str, section: &'static str, table: &DeTable<'_>) -> Result<(), SettingsError> {
        table.iter().try_for_each(|(key, value)| self.take(text, Some(section), key, value))
    }

    fn take(
        &mut self,
        text: &str,
        section: Option<&'static str>,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), SettingsError> {
        let (line, key) = (line_of(text, key.span().start), key.get_ref());
        let full = section.map_or_else(|| key.to_string(), |section| format!("{section}.{key}"));
        if !keys_of(self.known, section).any(|known| known == *key) {
            return Err(wrong(&self.path, line, format!("unknown setting: {full}"), advice(self.known, section, key)));
        }
        let text = text_of(value.get_ref()).ok_or_else(|| {
            wrong(&self.path, line, format!("not a value: {full}"), "write a text or a number".into())
        })?;
        self.entries.push(Entry { section, key: key.to_string(), line, text });
        Ok(())
    }

    /// The text of a key, and its origin.
    pub(crate) fn entry(&self, section: Option<&str>, key: &str) -> Option<(Origin, String)> {
        let entry = self.entries.iter().find(|entry| entry.section == section && entry.key == key)?;
        let key = section.map_or_else(|| key.to_owned(), |section| format!("{section}.{key}"));
        Some((Origin::File { path: self.path.clone(), line: entry.line, key }, entry.text.clone()))
    }
}

fn is_closed(table: &Table, path: &Path, error: &io::Error) -> bool {
    table.section.is_none() && path == Path::new(MACHINE_FILE) && error.kind() == io::ErrorKind::PermissionDenied
}

fn wrong(path: &Path, line: usize, reason: String, advice: String) -> SettingsError {
    SettingsError::File { path: path.to_path_buf(), line, reason, advice }
}

fn keys_of(known: &'static [Table], section: Option<&str>) -> impl Iterator<Item = String> {
    let tables = known.iter().filter(move |table| table.section == section);
    tables.flat_map(|table| table.settings).filter_map(crate::Setting::key)
}

/// The advice for an unknown key.
fn advice(known: &'static [Table], section: Option<&'static str>, key: &str) -> String {
    let dashed = kebab(key);
    if keys_of(known, section).any(|known| known == dashed) {
        return format!("write it with dashes: {dashed}");
    }
    match known
        .iter()
        .find(|table| table.section != section && keys_of(known, table.section).any(|known| known == dashed))
    {
        Some(Table { section: Some(other), .. }) => format!("write {dashed} under [{other}]"),
        Some(_) => format!("write {dashed} at the top of the file, before [server]"),
        None => match nearest(&dashed, keys_of(known, section)) {
            Some(known) => format!("did you mean: {known}"),
            None => "floe --help and floed --help list the settings".to_owned(),
        },
    }
}

/// A value in the form of a command line.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(i64::from_str_radix(number.as_str(), number.radix()).ok()?.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(is_on) => Some(if *is_on { "yes" } else { "no" }.to_owned()),
        DeValue::Array(parts) => {
            let parts: Option<Vec<String>> = parts.iter().map(|part| text_of(part.get_ref())).collect();
            Some(parts?.join(","))
        }
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{CLIENT, SERVER};

    static TABLES: [Table; 2] = [CLIENT, SERVER];

    fn error(text: &str) -> String {
        File::read(Path::new("/f.toml"), text, &TABLES).expect_err("it is wrong").to_string()
    }

    #[test]
    fn values_are_texts_of_their_keys_and_lines() {
        let text = "devices = ['a:0', 'b:1']\nstats = true\n[server]\ngrace = 0.5\nmax-sessions = 3\n";
        let file = File::read(Path::new("/f.toml"), text, &TABLES).expect("it is right");
        let of = |section, key| file.entry(section, key).map(|(origin, text)| (origin.to_string(), text));
        assert_eq!(of(None, "devices"), Some(("/f.toml:1: devices".into(), "a:0,b:1".into())));
        assert_eq!(of(None, "stats").map(|(_, text)| text), Some("yes".into()));
        assert_eq!(of(Some("server"), "grace"), Some(("/f.toml:4: server.grace".into(), "0.5".into())));
        assert_eq!(of(Some("server"), "max-sessions").map(|(_, text)| text), Some("3".into()));
        assert_eq!(of(None, "grace"), None);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
        assert_eq!(
            error("stats = 1\n\ndevises = []\n"),
            "/f.toml:3: unknown setting: devises\n  did you mean: devices"
        );
        assert_eq!(
            error("[server]\nlissten = 'a'"),
            "/f.toml:2: unknown setting: server.lissten\n  did you mean: listen"
        );
        assert!(error("zzzz = 1").ends_with("floe --help and floed --help list the settings"));
    }

    #[test]
    fn an_old_name_is_refused_with_the_new_one() {
        let expected = "/f.toml:1: unknown setting: token_file\n  write it with dashes: token-file";
        assert_eq!(error("token_file = '/t'"), expected);
    }

    #[test]
    fn a_key_of_the_other_program_is_sent_to_its_place() {
        assert!(error("listen = 'h'").ends_with("write listen under [server]"));
        assert!(error("[server]\ndevices = []").ends_with("write devices at the top of the file, before [server]"));
    }

    #[test]
    fn what_is_no_value_and_what_does_not_parse_have_their_lines() {
        assert!(error("\n[stats]\na = 1").starts_with("/f.toml:2: not a value: stats"));
        assert!(error("server = 3").starts_with("/f.toml:1: not a table: server"));
        assert!(error("stats = 1\n[[[\n").starts_with("/f.toml:2: "));
    }
}
