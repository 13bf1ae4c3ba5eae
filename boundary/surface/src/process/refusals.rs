//! Refusals, kept to explain an error. A program that is refused and takes another way runs right, and sees nothing of
//! it. Lines come in. They go to stderr when the process ends with an error, or at once where `FLOE_LOG` names a level
//! that holds them. It never keeps more than a few lines, nor the same one twice.

use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, Once};

/// When lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Telling {
    /// When the process ends with an error; the default.
    AtFailure = 1,
    /// Each as it comes.
    AtOnce = 2,
    /// Not at all.
    Never = 3,
}

impl Telling {
    /// The setting that a value of `FLOE_LOG` asks for; `None` where it asks for none.
    pub fn of_level(level: &str) -> Option<Self> {
        match level.trim().to_ascii_lowercase().as_str() {
            "error" => Some(Self::Never),
            "warn" | "warning" | "info" | "debug" | "trace" | "1" => Some(Self::AtOnce),
            _ => None,
        }
    }
}

/// Lines that are kept: the first ones, which mostly cause the later ones.
const MOST_LINES: usize = 20;

/// 0 until it is read from the environment or set.
static TELLING: AtomicU8 = AtomicU8::new(0);
static KEPT: Mutex<Kept> = Mutex::new(Kept { lines: Vec::new(), left_out: 0, process: 0 });

#[derive(Debug)]
struct Kept {
    lines: Vec<String>,
    left_out: usize,
    /// A forked child does not write its parent's lines.
    process: u32,
}

/// Says when lines are written: for settings that come from a file.
pub fn tell(telling: Telling) {
    TELLING.store(telling as u8, Ordering::Relaxed);
}

fn telling() -> Telling {
    match TELLING.load(Ordering::Relaxed) {
        1 => Telling::AtFailure,
        2 => Telling::AtOnce,
        3 => Telling::Never,
        _ => {
            let level = std::env::var("FLOE_LOG").unwrap_or_default();
            let telling = Telling::of_level(&level).unwrap_or(Telling::AtFailure);
            tell(telling);
            telling
        }
    }
}

/// Takes what was refused and why, as a sentence without the name of floe before it.
#[cold]
pub fn refused(text: std::fmt::Arguments<'_>) {
    match telling() {
        Telling::Never => {}
        Telling::AtOnce => write(&format!("floe: {text}\n")),
        Telling::AtFailure => keep(format!("floe: {text}\n")),
    }
}

/// As [`refused`], for what is said once in a process however often it happens.
#[cold]
pub fn refused_once(text: std::fmt::Arguments<'_>) {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let line = text.to_string();
    let mut said = floe_lock::lock(&SAID);
    if said.len() < 1000 && !said.contains(&line) {
        refused(text);
        said.push(line);
    }
}

fn keep(line: String) {
    static REGISTERED: Once = Once::new();
    floe_lock::lock(&KEPT).take(line, std::process::id());
    // SAFETY: the function is ours, does not unwind, and stays: the libraries that have it are never unloaded (`nodelete`).
    REGISTERED.call_once(|| unsafe {
        on_exit(at_exit, std::ptr::null_mut());
    });
}

impl Kept {
    fn take(&mut self, line: String, process: u32) {
        if self.process != process {
            *self = Self { lines: Vec::new(), left_out: 0, process };
        }
        if self.lines.contains(&line) {
            return;
        }
        if self.lines.len() == MOST_LINES {
            self.left_out += 1;
        } else {
            self.lines.push(line);
        }
    }

    fn text(&self) -> String {
        let mut text = self.lines.concat();
        if self.left_out > 0 {
            let words = "FLOE_LOG=warn names each as it comes";
            text.push_str(&format!("floe: further refusals: {}\n  {words}\n", self.left_out));
        }
        text
    }
}

unsafe extern "C" {
    /// glibc's `atexit` with the exit code.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

extern "C" fn at_exit(code: c_int, _: *mut c_void) {
    if code == 0 {
        return;
    }
    // A thread that holds the lock while the process ends may never release it.
    let Ok(kept) = KEPT.try_lock() else { return };
    if kept.process == std::process::id() {
        write(&kept.text());
    }
}

fn write(text: &str) {
    // A closed stderr is the program's wish.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_kept_once_each_and_the_rest_is_counted() {
        let mut kept = Kept { lines: Vec::new(), left_out: 0, process: 0 };
        for index in 0..MOST_LINES + 3 {
            kept.take(format!("floe: {index}\n"), 7);
            kept.take("floe: 0\n".to_owned(), 7);
        }
        let text = kept.text();
        assert!(text.starts_with("floe: 0\nfloe: 1\n"), "{text}");
        assert!(text.contains("further refusals: 3\n"), "{text}");
        assert_eq!(text.matches("floe: 0\n").count(), 1);
        kept.take("floe: the child's\n".to_owned(), 8);
        assert_eq!(kept.text(), "floe: the child's\n");
    }

    #[test]
    fn levels_that_hold_refusals_tell_them_at_once() {
        let levels = ["", "error", "warn", "info", "debug"].map(Telling::of_level);
        let once = Some(Telling::AtOnce);
        assert_eq!(levels, [None, Some(Telling::Never), once, once, once]);
    }
}
