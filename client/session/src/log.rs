//! Floe's messages to the user: lines on stderr that begin with `floe: `, up to the level that `FLOE_LOG` names. Text
//! comes in; one write per line goes out, so that lines of several threads do not mix. Warnings wait for the end of the
//! process, and a success drops them, unless the user has named a level. Nothing here fails or allocates when the level
//! is off.

use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

pub use floe_settings::Level;
use floe_surface::refusals::{self, Telling};

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);

/// Sets the level for the process; `None`: nobody has named one.
pub fn set_level(level: Option<Level>) {
    LEVEL.store(level.unwrap_or(Level::Warn) as u8, Ordering::Relaxed);
    refusals::tell(match level {
        None => Telling::AtFailure,
        Some(Level::Error) => Telling::Never,
        Some(_) => Telling::AtOnce,
    });
}

/// Whether lines of this level are written.
pub(crate) fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

/// Writes one line; use the `log!` macro.
pub fn line(level: Level, text: std::fmt::Arguments<'_>) {
    if level == Level::Warn {
        refusals::refused(text);
    } else if enabled(level) {
        // A closed stderr is the program's wish: there is nobody left to tell.
        let _ = std::io::stderr().write_all(format!("floe: {text}\n").as_bytes());
    }
}

/// Writes a formatted line to stderr when the level is on; the text is not formatted otherwise.
macro_rules! log {
    ($level:ident, $($text:tt)*) => {
        if $crate::log::enabled($crate::log::Level::$level) {
            $crate::log::line($crate::log::Level::$level, format_args!($($text)*));
        }
    };
}
pub(crate) use log;

/// Writes a formatted line the first time this place is reached.
macro_rules! log_once {
    ($level:ident, $($text:tt)*) => {{
        static SAID: std::sync::Once = std::sync::Once::new();
        SAID.call_once(|| $crate::log::log!($level, $($text)*));
    }};
}
pub(crate) use log_once;
