//! A program's settings, by name. Flags, variables and the file come in; the winning text, its origin and its value go
//! out. A flag wins over a variable, a variable over the file, the file over the default.

use crate::error::SettingsError;
use crate::file::File;
use crate::kinds::{Kind, Wrong};
use crate::origin::Origin;
use crate::source::Source;
use crate::table::{Setting, Table};

/// The settings of one program that were set.
#[derive(Debug)]
pub struct Given {
    found: Vec<(&'static str, Origin, String)>,
}

impl Given {
    /// Gathers flags (by their settings' names), variables and the file, which may hold the keys of all these tables.
    pub(crate) fn of(
        table: &'static Table,
        flags: &[(&'static str, String)],
        source: &dyn Source,
        in_file: &'static [Table],
    ) -> Result<Self, SettingsError> {
        let mut given = Self { found: Vec::new() };
        for setting in table.settings {
            let text = flags.iter().find(|(name, _)| *name == setting.name);
            let flag = text.zip(setting.flag()).map(|((_, text), flag)| (Origin::Flag(flag), text.clone()));
            let found = flag.or_else(|| of_variable(setting, source));
            given.found.extend(found.map(|(origin, text)| (setting.name, origin, text)));
        }
        if table.settings.iter().any(|setting| setting.key().is_some()) {
            let file = File::find(table, given.get("config"), source, in_file)?;
            given.add(table, file.as_ref());
        }
        Ok(given)
    }

    fn add(&mut self, table: &'static Table, file: Option<&File>) {
        for setting in table.settings {
            let entry = file.zip(setting.key()).and_then(|(file, key)| file.entry(table.section, &key));
            if let Some((origin, text)) = entry.filter(|_| self.get(setting.name).is_none()) {
                self.found.push((setting.name, origin, text));
            }
        }
    }

    /// The origin and the text of the setting with this name, if it was set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(&Origin, &str)> {
        self.found.iter().find(|(found, ..)| *found == name).map(|(_, origin, text)| (origin, text.as_str()))
    }

    /// The value of the setting with this name, if it was set.
    ///
    /// # Errors
    /// [`SettingsError::Value`] where it cannot be read.
    pub fn value<K: Kind>(&self, name: &str) -> Result<Option<K::Value>, SettingsError> {
        let Some((origin, text)) = self.get(name) else { return Ok(None) };
        let takes_empty = K::TAKES_EMPTY && !matches!(origin, Origin::Flag(_));
        if text.trim().is_empty() && !takes_empty {
            return Err(SettingsError::Value {
                name: origin.to_string(),
                reason: "has no value".to_owned(),
                value: format!("{text:?}"),
                advice: "omit it, or give it a value".to_owned(),
            });
        }
        read::<K>(&origin.to_string(), text).map(Some)
    }

    pub(crate) fn value_or<K: Kind>(&self, name: &str, default: &str) -> Result<K::Value, SettingsError> {
        self.value::<K>(name)?.map_or_else(|| read::<K>(name, default), Ok)
    }
}

fn of_variable(setting: &'static Setting, source: &dyn Source) -> Option<(Origin, String)> {
    let name = setting.variable()?;
    let text = source.variable(name).filter(|text| setting.takes_empty || !text.trim().is_empty())?;
    Some((Origin::Variable(name), text))
}

fn read<K: Kind>(name: &str, text: &str) -> Result<K::Value, SettingsError> {
    K::read(text).map_err(|Wrong { reason, value, advice }| SettingsError::Value {
        name: name.to_owned(),
        reason,
        value,
        advice,
    })
}

#[cfg(test)]
mod tests;
