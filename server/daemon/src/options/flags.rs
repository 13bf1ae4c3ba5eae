//! Flags of a command line, made from a table of settings.
//! In: a table, and clap's matches. Out: clap's arguments with their help; the flags that were given, by setting.
//! It reads no value. The reader of settings does, so that an error is the same for flags, variables and keys.

use clap::{Arg, ArgAction, ArgMatches, Command};
use floe_settings::{Setting, Shape, Table};

/// A flag that was given: its setting's name, and its text.
pub type Given = (&'static str, String);

/// Adds the flags of a table to a command.
#[must_use]
pub fn add(command: Command, table: &'static Table) -> Command {
    command.args(table.settings.iter().filter_map(argument))
}

fn argument(setting: &'static Setting) -> Option<Arg> {
    let flag = setting.flag()?;
    let variable = setting.variable().map_or_else(String::new, |name| format!("{name}; "));
    let help = format!("{} [{variable}default: {}]", setting.help, setting.default);
    let argument = Arg::new(setting.name).long(flag).help(help);
    Some(match setting.shape {
        Shape::Single => argument.value_name(setting.form),
        Shape::List => argument.value_name(setting.form).action(ArgAction::Append),
        Shape::Switch => {
            let form = if setting.form.is_empty() { "no" } else { setting.form };
            argument.value_name(form).num_args(0..=1).require_equals(true).default_missing_value("1")
        }
    })
}

/// The flags of a table that were given.
#[must_use]
pub fn given(table: &'static Table, matches: &ArgMatches) -> Vec<Given> {
    let with_flag = table.settings.iter().filter(|setting| setting.flag().is_some());
    let text = |setting: &'static Setting| {
        let texts = matches.get_many::<String>(setting.name)?.cloned().collect::<Vec<_>>();
        Some((setting.name, texts.join(",")))
    };
    with_flag.filter_map(text).collect()
}

/// Makes the type of a table's flags, which a command flattens into its own.
#[macro_export]
macro_rules! flags_of_table {
    ($(#[$doc:meta])* $name:ident, $table:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default)]
        pub struct $name(pub Vec<$crate::flags::Given>);

        impl clap::FromArgMatches for $name {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                Ok(Self($crate::flags::given(&$table, matches)))
            }

            fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
                self.0 = $crate::flags::given(&$table, matches);
                Ok(())
            }
        }

        impl clap::Args for $name {
            fn augment_args(command: clap::Command) -> clap::Command {
                $crate::flags::add(command, &$table)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                $crate::flags::add(command, &$table)
            }
        }
    };
}
pub use flags_of_table as of_table;
