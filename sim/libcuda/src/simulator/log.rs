//! What comes in: messages for whoever looks for the reason of an error. What goes out: lines on standard error, where
//! `FLOE_LOG` is set for notes, always for warnings.
//! It never writes to standard output, which belongs to the program.

use std::collections::BTreeSet;
use std::fmt::Arguments;
use std::sync::{Mutex, OnceLock};

use super::lock;

fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os("FLOE_LOG").is_some_and(|value| value != "0" && !value.is_empty()))
}

/// Something of interest to who set `FLOE_LOG`.
pub(crate) fn note(message: Arguments<'_>) {
    if is_on() {
        eprintln!("floe: {message}");
    }
}

/// Something everybody has to know.
pub(crate) fn warn(message: Arguments<'_>) {
    eprintln!("floe: {message}");
}

/// As `warn`, but the same message only once in a process.
pub(crate) fn warn_once(message: Arguments<'_>) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if lock(&SAID).insert(message.to_string()) {
        warn(message);
    }
}
