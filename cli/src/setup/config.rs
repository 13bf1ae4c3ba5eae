//! `floe config show`: every setting's value, and where it comes from.
//! In: the tables of settings, this process's environment, the TOML file. Out: rows. A secret's value is not shown.

use std::process::ExitCode;

use anyhow::Result;
use floe_settings::{
    CLIENT, CPU_DEVICE, ClientSettings, CpuDeviceSettings, Given, SERVER, ServerSettings, Source, Table,
};
use serde::Serialize;

use crate::table;

/// Flags of `floe config`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Show the settings of programs, of a server that is started here, and of CPU devices
    Show(Show),
}

/// Flags of `floe config show`.
#[derive(Debug, clap::Args)]
struct Show {
    /// Show where each value comes from: the default, a variable, or a line of the file
    #[arg(long)]
    origin: bool,
    /// Print JSON, with origins
    #[arg(long)]
    json: bool,
}

/// A setting.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    /// Its key in the file, with the table before it, else its variable.
    setting: String,
    /// As it was written; the default in words where it was not set.
    value: String,
    /// `default`, the variable, or file, line and key.
    origin: String,
}

/// Shows them.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let What::Show(show) = &arguments.what;
    let rows = rows(&floe_settings::ProcessSource)?;
    let headings = ["SETTING", "VALUE", "ORIGIN"];
    let count = if show.origin { headings.len() } else { headings.len() - 1 };
    table::print(&rows, show.json, &headings[..count], |row| {
        [&row.setting, &row.value, &row.origin].into_iter().take(count).cloned().collect()
    })?;
    Ok(ExitCode::SUCCESS)
}

/// All settings. A value that its program would refuse is refused here with the same words.
fn rows(source: &dyn Source) -> Result<Vec<Row>> {
    let given = |table: &'static Table| Given::gather(table, &[], source);
    let (client, server, device) = (given(&CLIENT)?, given(&SERVER)?, given(&CPU_DEVICE)?);
    ClientSettings::read(&client)?;
    ServerSettings::read(&server)?;
    CpuDeviceSettings::read(&device)?;
    Ok([(&CLIENT, client), (&SERVER, server), (&CPU_DEVICE, device)].into_iter().flat_map(of_table).collect())
}

fn of_table((table, given): (&'static Table, Given)) -> impl Iterator<Item = Row> {
    table.settings.iter().map(move |setting| {
        let key = setting.key().map(|key| table.section.map_or(key.clone(), |section| format!("{section}.{key}")));
        // A variable that two tables share is told apart by its table.
        let variable = || match (table.section, setting.variable) {
            (Some(section), variable) => format!("{section}: {variable}"),
            (None, variable) => variable.to_owned(),
        };
        let (value, origin) = match given.get(setting.name) {
            Some((origin, _)) if setting.is_secret => ("(not shown)".to_owned(), origin.to_string()),
            Some((origin, text)) => (floe_wire::printable(text), origin.to_string()),
            None => (setting.default.to_owned(), "default".to_owned()),
        };
        Row { setting: key.unwrap_or_else(variable), value, origin }
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// An environment and a file.
    #[derive(Debug)]
    struct Here;

    impl Source for Here {
        fn variable(&self, name: &str) -> Option<String> {
            match name {
                "HOME" => Some("/home/ada".to_owned()),
                "FLOE_TOKEN" => Some("do not tell".to_owned()),
                "FLOE_GRACE" => Some("7".to_owned()),
                "FLOE_LOG" => Some("info".to_owned()),
                _ => None,
            }
        }

        fn file(&self, path: &Path) -> std::io::Result<String> {
            let text = "devices = [\"gpu1:0\", \"gpu1:1\"]\n\n[server]\ngrace = 9\nmax-sessions = 3\n";
            let is_ours = path == Path::new("/home/ada/.config/floe/floe.toml");
            is_ours.then(|| text.to_owned()).ok_or_else(|| std::io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn each_setting_has_the_value_and_the_origin_that_win() {
        let rows = rows(&Here).expect("read");
        let file = "/home/ada/.config/floe/floe.toml";
        for (setting, value, origin) in [
            ("devices", "gpu1:0,gpu1:1", format!("{file}:1: devices")),
            ("server.grace", "7", "FLOE_GRACE".to_owned()),
            ("server.max-sessions", "3", format!("{file}:5: server.max-sessions")),
            ("server.host-memory", "4G", "default".to_owned()),
            ("token", "(not shown)", "FLOE_TOKEN".to_owned()),
            ("log", "info", "FLOE_LOG".to_owned()),
            ("server: FLOE_LOG", "info", "FLOE_LOG".to_owned()),
            ("FLOE_CPU_DEVICES", "1", "default".to_owned()),
        ] {
            let wanted = Row { setting: setting.to_owned(), value: value.to_owned(), origin };
            assert_eq!(rows.iter().find(|row| row.setting == setting), Some(&wanted));
        }
        let all: usize = [CLIENT, SERVER, CPU_DEVICE].iter().map(|table| table.settings.len()).sum();
        let names: std::collections::BTreeSet<_> = rows.iter().map(|row| &row.setting).collect();
        assert_eq!((rows.len(), names.len()), (all, all), "each once, and no two by one name");
        assert!(rows.iter().all(|row| !row.value.contains("do not tell")));
    }

    /// A value that nobody can read.
    #[derive(Debug)]
    struct Wrong;

    impl Source for Wrong {
        fn variable(&self, name: &str) -> Option<String> {
            (name == "FLOE_MAX_SESSIONS").then(|| "many".to_owned())
        }

        fn file(&self, _: &Path) -> std::io::Result<String> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn a_value_that_its_program_refuses_is_refused() {
        let words = rows(&Wrong).expect_err("no number").to_string();
        assert!(words.starts_with("FLOE_MAX_SESSIONS: ") && words.contains("many"), "{words}");
    }
}
