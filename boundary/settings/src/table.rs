//! Rows of settings as data: name, variable, reach, form, default and help. A table holds the rows of one program.
//! It never finds values.

use crate::kinds::Shape;

/// One setting of a program.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The field that holds its value.
    pub name: &'static str,
    /// The environment variable; empty without one.
    pub variable: &'static str,
    /// Its key and flag, if any.
    pub reach: Reach,
    /// The value's placeholder in help.
    pub form: &'static str,
    /// The default, or what holds if it is not set.
    pub default: &'static str,
    /// Its help, in at most 25 words.
    pub help: &'static str,
    /// Its form on a command line.
    pub shape: Shape,
    /// Whether an empty variable is a value. Otherwise it counts as not set.
    pub takes_empty: bool,
    /// Whether the value is for nobody's eyes.
    pub is_secret: bool,
}

/// The ways to set a setting besides its variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// By a flag and by a key, both of its name.
    All,
    /// By a key of its name.
    Key,
    /// By a key of its name, and by a flag of another name.
    KeyAndFlag(&'static str),
    /// By a flag of its name.
    Flag,
    /// By its variable alone.
    Variable,
}

impl Setting {
    /// The flag, without its dashes.
    #[must_use]
    pub fn flag(&self) -> Option<String> {
        match self.reach {
            Reach::All | Reach::Flag => Some(kebab(self.name)),
            Reach::KeyAndFlag(flag) => Some(flag.to_owned()),
            Reach::Key | Reach::Variable => None,
        }
    }

    /// The key in the TOML file.
    #[must_use]
    pub fn key(&self) -> Option<String> {
        matches!(self.reach, Reach::All | Reach::Key | Reach::KeyAndFlag(_)).then(|| kebab(self.name))
    }

    /// The environment variable.
    #[must_use]
    pub fn variable(&self) -> Option<&'static str> {
        Some(self.variable).filter(|name| !name.is_empty())
    }
}

/// Keys and flags are written with dashes.
pub(crate) fn kebab(name: &str) -> String {
    name.replace('_', "-")
}

/// The settings of one program.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The program that reads them, in words.
    pub program: &'static str,
    /// The TOML table that holds its keys; `None` for the top of the file.
    pub section: Option<&'static str>,
    /// The rows.
    pub settings: &'static [Setting],
}

impl Table {
    /// The rows whose flag, key or field has this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }
}
