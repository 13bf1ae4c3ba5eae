//! The page of settings: the tables come in, Markdown goes out. All rows are from the tables.

use std::fmt::Write as _;

use crate::driver::DRIVER_VARIABLES;
use crate::table::{Setting, Table};
use crate::tables::{CLIENT, CPU_DEVICE, SERVER};

const HEAD: &str = "\
# Settings

<!-- made by `cargo xtask gen` from boundary/settings/src/tables.rs; edit that -->

A flag wins over an environment variable, a variable over the TOML file, the file over the default.

The file is the one that `FLOE_CONFIG` (of a server also `--config`) names. Otherwise it is `$XDG_CONFIG_HOME/floe/floe.toml`, or `~/.config/floe/floe.toml` if that variable is not set, or else `/etc/floe/floe.toml`. Programs ignore the last one if their user may not read it. Keys of programs stand at its top, those of a server under `[server]`.

No key and no value is ignored silently. A program refuses a key that it does not know and a value that it cannot read. It names file and line, and says what to write instead. `floe doctor` and `floed` name `FLOE_…` variables that no program reads. An empty variable counts as not set, except that an empty `FLOE_DEVICES` names no device and an empty `FLOE_TOKEN` no token.

A switch is written alone on a command line (`--no-rings`), or with `=no` against what the environment or the file say. Elsewhere it is `1`, `yes`, `true`, `on`, or `0`, `no`, `false`, `off`. Sizes are bytes, or have K, M, G, T (powers of 1024).
";

const RCUDA: &str = "\
`RCUDA_DEVICE_COUNT` and `RCUDA_DEVICE_j=HOST[@PORT][:GPU]` name devices where neither `--on` nor `FLOE_DEVICES` does.
";

const DRIVER: &str = "\
## Of the CUDA driver

`CUDA_VISIBLE_DEVICES` selects among a program's vGPUs, as CUDA does among GPUs. Of the driver's other variables, a worker gets those that change how the driver works. It gets none that changes what the driver may touch or what others notice. The client names those that are not honoured, as any other [refusal](decisions/0016-refusals.md).

| variable | honoured |
|---|---|
";

/// The whole page.
#[must_use]
pub fn page() -> String {
    let mut out = HEAD.to_owned();
    section(&mut out, "Of programs", &CLIENT);
    let _ = write!(out, "\n{RCUDA}");
    section(&mut out, "Of servers", &SERVER);
    section(&mut out, "Of CPU devices", &CPU_DEVICE);
    let _ = write!(out, "\n{DRIVER}");
    for variable in DRIVER_VARIABLES {
        let words = variable.refusal.map_or_else(|| "yes".to_owned(), |why| format!("no: {why}"));
        let _ = writeln!(out, "| `{}` | {words} |", variable.name);
    }
    out
}

fn section(out: &mut String, title: &str, table: &Table) {
    let _ = write!(out, "\n## {title}\n\nFor {}.\n\n", table.program);
    let has_keys = table.settings.iter().any(|setting| setting.key().is_some());
    out.push_str(if has_keys { "| key | variable | flag " } else { "| variable " });
    out.push_str("| default | meaning |\n");
    out.push_str(if has_keys { "|---|---|---|---|---|\n" } else { "|---|---|---|\n" });
    for setting in table.settings {
        if has_keys {
            let _ = write!(out, "| {} | {} | {} ", code(setting.key()), code(setting.variable()), code(flag(setting)));
        } else {
            let _ = write!(out, "| {} ", code(setting.variable()));
        }
        let _ = writeln!(out, "| {} | {} |", setting.default, setting.help);
    }
}

fn flag(setting: &Setting) -> Option<String> {
    let form = if setting.form.is_empty() || setting.shape == crate::Shape::Switch { "" } else { setting.form };
    setting.flag().map(|flag| format!("--{flag} {form}").trim_end().to_owned())
}

fn code(text: Option<impl std::fmt::Display>) -> String {
    text.map_or_else(|| "–".to_owned(), |text| format!("`{text}`"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_made_from_the_tables_as_they_are() {
        let present = include_str!("../../../docs/settings.md");
        assert!(present == super::page(), "docs/settings.md is stale\n  run: cargo xtask gen");
    }
}
