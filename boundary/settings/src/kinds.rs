//! Kinds of values: a flag's, variable's or key's text comes in. A typed value goes out, or a reason with advice. A
//! kind is read the same way from all three.

use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::device::{self, GpuAddress};

/// Why a text is not a value of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The reason, such as "not a size".
    pub reason: String,
    /// The part of the text that is wrong.
    pub value: String,
    /// What the user should write instead.
    pub advice: String,
}

impl Wrong {
    pub(crate) fn new(reason: impl Into<String>, value: &str, advice: impl Into<String>) -> Self {
        Self { reason: reason.into(), value: value.to_owned(), advice: advice.into() }
    }
}

/// The form of a setting on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// With a value.
    Single,
    /// With several values between commas, or repeated.
    List,
    /// Without a value, or with `=no`.
    Switch,
}

/// A kind of value.
pub trait Kind {
    /// The type of the value.
    type Value;
    /// Its form on a command line.
    const SHAPE: Shape = Shape::Single;
    /// Whether an empty variable is a value. Otherwise it counts as not set.
    const TAKES_EMPTY: bool = false;
    /// Whether the value is for nobody's eyes.
    const IS_SECRET: bool = false;

    /// The value of a text.
    ///
    /// # Errors
    /// [`Wrong`]: why the text is not a value.
    fn read(text: &str) -> Result<Self::Value, Wrong>;
}

/// A text as it is.
#[derive(Debug)]
pub struct Text;

impl Kind for Text {
    type Value = String;

    fn read(text: &str) -> Result<String, Wrong> {
        Ok(text.to_owned())
    }
}

/// A secret text. An empty one is no value.
#[derive(Debug)]
pub struct Secret;

impl Kind for Secret {
    type Value = String;
    const TAKES_EMPTY: bool = true;
    const IS_SECRET: bool = true;

    fn read(text: &str) -> Result<String, Wrong> {
        Ok(text.trim().to_owned())
    }
}

/// A path.
#[derive(Debug)]
pub struct FilePath;

impl Kind for FilePath {
    type Value = PathBuf;

    fn read(text: &str) -> Result<PathBuf, Wrong> {
        Ok(PathBuf::from(text))
    }
}

/// Yes or no.
#[derive(Debug)]
pub struct Switch;

impl Kind for Switch {
    type Value = bool;
    const SHAPE: Shape = Shape::Switch;

    fn read(text: &str) -> Result<bool, Wrong> {
        match text.trim().to_ascii_lowercase().as_str() {
            "1" | "y" | "yes" | "t" | "true" | "on" => Ok(true),
            "0" | "n" | "no" | "f" | "false" | "off" => Ok(false),
            _ => Err(Wrong::new("not yes or no", text, "write 1 or yes, 0 or no")),
        }
    }
}

/// A number of bytes.
#[derive(Debug)]
pub struct Size;

impl Kind for Size {
    type Value = u64;

    fn read(text: &str) -> Result<u64, Wrong> {
        let wrong = || Wrong::new("not a size", text.trim(), "write it as 8G, 512M or a number of bytes");
        floe_size::bytes(text).ok_or_else(wrong)
    }
}

/// Several of a kind, between commas.
#[derive(Debug)]
pub struct List<K>(PhantomData<K>);

impl<K: Kind> Kind for List<K> {
    type Value = Vec<K::Value>;
    const SHAPE: Shape = Shape::List;

    fn read(text: &str) -> Result<Vec<K::Value>, Wrong> {
        // What stands between two commas is that place's value: leaving it out would move all others.
        let parts: Vec<&str> = text.split(',').collect();
        let last = parts.iter().rposition(|part| !part.trim().is_empty()).map_or(parts.len(), |last| last + 1);
        match parts[last..].len() {
            0 | 1 => parts[..last].iter().map(|part| K::read(part)).collect(),
            _ => Err(Wrong::new("a value is missing between commas", text.trim(), "write a value between two commas")),
        }
    }
}

/// vGPUs of a program.
#[derive(Debug)]
pub struct Devices;

impl Kind for Devices {
    type Value = Vec<GpuAddress>;
    const TAKES_EMPTY: bool = true;

    fn read(text: &str) -> Result<Vec<GpuAddress>, Wrong> {
        let named = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        named.map(|part| GpuAddress::read(part).map_err(|reason| Wrong::new(reason, part, device::FORM))).collect()
    }
}

/// A time in seconds, possibly with a fraction.
#[derive(Debug)]
pub struct Seconds;

impl Kind for Seconds {
    type Value = Duration;

    fn read(text: &str) -> Result<Duration, Wrong> {
        let time = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        time.ok_or_else(|| Wrong::new("not a number of seconds", text, "write 0 or more, as 60 or 0.5"))
    }
}

/// The longest [`Span`] in seconds. A message has 49 days of milliseconds at most.
const LONGEST_SPAN: u64 = 30 * 24 * 60 * 60;

/// A time with its unit: seconds, minutes or hours; 30 days at most.
#[derive(Debug)]
pub struct Span;

impl Kind for Span {
    type Value = Duration;

    fn read(text: &str) -> Result<Duration, Wrong> {
        let trimmed = text.trim();
        let (number, unit) = match trimmed.char_indices().last() {
            Some((at, 's')) => (&trimmed[..at], 1),
            Some((at, 'm')) => (&trimmed[..at], 60),
            Some((at, 'h')) => (&trimmed[..at], 60 * 60),
            _ => (trimmed, 1),
        };
        let seconds = number.parse().ok().and_then(|number: u64| number.checked_mul(unit));
        let wrong = "write 90 or 90s for seconds, 10m for minutes, 2h for hours, 720h at most";
        let seconds =
            seconds.filter(|seconds| *seconds <= LONGEST_SPAN && number.bytes().all(|byte| byte.is_ascii_digit()));
        seconds.map(Duration::from_secs).ok_or_else(|| Wrong::new("not a time", text, wrong))
    }
}

/// A time in microseconds.
#[derive(Debug)]
pub struct Micros;

impl Kind for Micros {
    type Value = Duration;

    fn read(text: &str) -> Result<Duration, Wrong> {
        let wrong = || Wrong::new("not a number of microseconds", text, "write a whole number from 0 on");
        text.trim().parse().map(Duration::from_micros).map_err(|_| wrong())
    }
}

/// A whole number within bounds.
#[derive(Debug)]
pub struct Count<const LEAST: u32, const MOST: u32>;

impl<const LEAST: u32, const MOST: u32> Kind for Count<LEAST, MOST> {
    type Value = u32;

    fn read(text: &str) -> Result<u32, Wrong> {
        let number = text.trim().parse().ok().filter(|number| (LEAST..=MOST).contains(number));
        let form = if MOST == u32::MAX { format!("from {LEAST} on") } else { format!("from {LEAST} to {MOST}") };
        number.ok_or_else(|| Wrong::new(format!("not a number {form}"), text, format!("write a whole number {form}")))
    }
}

/// A port of this machine's own, or an address with one.
#[derive(Debug)]
pub struct Port;

impl Kind for Port {
    type Value = SocketAddr;

    fn read(text: &str) -> Result<SocketAddr, Wrong> {
        let text = text.trim();
        let own = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let port = text.strip_prefix("localhost:").unwrap_or(text).parse().map(own);
        port.or_else(|_| text.parse()).map_err(|_| {
            Wrong::new("not a port, and no IP address with one", text, "write 9500, 127.0.0.1:9500 or [::1]:9500")
        })
    }
}

/// A compute capability, as major and minor number.
#[derive(Debug)]
pub struct Compute;

impl Kind for Compute {
    type Value = (u32, u32);

    fn read(text: &str) -> Result<(u32, u32), Wrong> {
        let numbers = match text.trim().split_once('.') {
            Some((major, minor)) => major.parse().ok().zip(minor.parse().ok()),
            None => text.trim().parse().ok().map(|number: u32| (number / 10, number % 10)),
        };
        let known = numbers.filter(|(major, minor)| (3..=20).contains(major) && *minor <= 9);
        known.ok_or_else(|| Wrong::new("not a compute capability", text, "write it as 9.0 or 90"))
    }
}

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Something failed.
    Error = 1,
    /// Something is not as the program may expect. By default such lines appear only if the program ends with an error.
    Warn = 2,
    /// Events: connections, module loads, compiler logs.
    Info = 3,
    /// Every message.
    Debug = 4,
}

impl Kind for Level {
    type Value = Self;

    fn read(text: &str) -> Result<Self, Wrong> {
        Ok(match text.trim().to_ascii_lowercase().as_str() {
            "error" => Self::Error,
            "warn" | "warning" => Self::Warn,
            "info" => Self::Info,
            "debug" | "trace" => Self::Debug,
            _ => return Err(Wrong::new("not a level", text, "write error, warn, info or debug")),
        })
    }
}

/// The form of a server's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One object a line, for programs.
    Json,
}

impl Kind for LogFormat {
    type Value = Self;

    fn read(text: &str) -> Result<Self, Wrong> {
        match text.trim() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(Wrong::new("not a form of a log", text, "write text or json")),
        }
    }
}

/// The form of the counters that are printed when the process ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Report {
    /// Not at all.
    #[default]
    None,
    /// As a table, to stderr.
    Text,
    /// As one line of JSON, to stderr.
    Json,
    /// As one line of JSON, to this file.
    JsonFile(PathBuf),
}

impl Kind for Report {
    type Value = Self;
    const SHAPE: Shape = Shape::Switch;

    fn read(text: &str) -> Result<Self, Wrong> {
        let text = text.trim();
        match (text, text.strip_prefix("json:")) {
            ("json", _) => Ok(Self::Json),
            (_, Some(path)) => Ok(Self::JsonFile(path.into())),
            _ => match Switch::read(text) {
                Ok(true) => Ok(Self::Text),
                Ok(false) => Ok(Self::None),
                Err(_) => Err(Wrong::new("not a form of report", text, "write 1 for a table, json, json:FILE or 0")),
            },
        }
    }
}

/// Which driver calls are traced; the surface reads the text itself.
#[derive(Debug)]
pub struct Trace;

impl Kind for Trace {
    type Value = String;

    fn read(text: &str) -> Result<String, Wrong> {
        let is_known = matches!(text, "0" | "1" | "failures" | "calls");
        is_known.then(|| text.to_owned()).ok_or_else(|| {
            Wrong::new("not a kind of trace", text, "write failures, calls (all of them, also by 1) or 0")
        })
    }
}

/// Where NCCL runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nccl {
    /// Beside the GPUs where vGPUs are on several servers, or on one that has NCCL and is reached through a network; else in
    /// the program.
    #[default]
    Auto,
    /// In the program.
    Own,
    /// Beside the GPUs.
    Forwarded,
}

impl Kind for Nccl {
    type Value = Self;

    fn read(text: &str) -> Result<Self, Wrong> {
        match text {
            "auto" => Ok(Self::Auto),
            "own" => Ok(Self::Own),
            "forwarded" => Ok(Self::Forwarded),
            _ => Err(Wrong::new("not where NCCL runs", text, "write auto, own or forwarded")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_know_yes_and_no_and_nothing_else() {
        assert_eq!(["1", "yes", "On", "true"].map(Switch::read), [Ok(true), Ok(true), Ok(true), Ok(true)]);
        assert_eq!(["0", "no", "OFF", "false"].map(Switch::read), [Ok(false), Ok(false), Ok(false), Ok(false)]);
        assert_eq!(Switch::read("maybe").expect_err("neither").reason, "not yes or no");
    }

    #[test]
    fn a_port_alone_is_this_machines_own() {
        let read = |text| Port::read(text).map(|address| address.to_string());
        assert_eq!(
            ["9500", " localhost:9500 ", "127.0.0.1:9500"].map(|text| read(text).expect("read")),
            ["127.0.0.1:9500"; 3]
        );
        assert_eq!(read("[::1]:9500").as_deref(), Ok("[::1]:9500"));
        assert_eq!(read("0.0.0.0:0").as_deref(), Ok("0.0.0.0:0"));
        for text in ["gpu-server:9500", ":9500", "65536", "127.0.0.1", "http://127.0.0.1:9500", ""] {
            assert_eq!(Port::read(text).expect_err("neither").value, text);
        }
    }

    #[test]
    fn reports_are_read() {
        let read = |text| Report::read(text).map_err(|wrong| wrong.reason);
        assert_eq!([read("1"), read("0"), read("json")], [Ok(Report::Text), Ok(Report::None), Ok(Report::Json)]);
        assert_eq!(read("json:/x"), Ok(Report::JsonFile("/x".into())));
        assert_eq!(read("jsn"), Err("not a form of report".to_owned()));
    }

    #[test]
    fn a_span_has_a_unit_or_is_one_of_seconds() {
        let read = |text| Span::read(text).ok().map(|time| time.as_secs());
        assert_eq!(["0", "90", " 90s", "10m", "720h"].map(read), [0, 90, 90, 600, 2_592_000].map(Some));
        assert_eq!(["", "m", "-1s", "+1", "1.5h", "10 m", "1d", "99999999999999999999h", "ä"].map(read), [None; 9]);
        assert_eq!(["721h", "2592001", "18446744073709551615"].map(read), [None; 3], "no clock has such a time");
    }

    #[test]
    fn times_are_seconds_and_not_negative() {
        assert_eq!(
            ["0", "0.25", "90"].map(|text| Seconds::read(text).ok().map(|time| time.as_millis())),
            [Some(0), Some(250), Some(90_000)]
        );
        assert!(["-1", "inf", "a minute"].iter().all(|text| Seconds::read(text).is_err()));
    }

    #[test]
    fn numbers_have_bounds_that_the_error_names() {
        assert_eq!(Count::<0, 8>::read(" 8 "), Ok(8));
        assert_eq!(Count::<0, 8>::read("9").expect_err("too many").reason, "not a number from 0 to 8");
        assert_eq!(Count::<1, { u32::MAX }>::read("0").expect_err("too few").advice, "write a whole number from 1 on");
    }

    #[test]
    fn lists_stand_between_commas_and_name_the_part_that_is_wrong() {
        assert_eq!(List::<Size>::read("8GiB, 512 MiB"), Ok(vec![8 << 30, 512 << 20]));
        assert_eq!(List::<Size>::read("1G, lots").expect_err("no size").value, "lots");
        assert_eq!(List::<Size>::read("1G,"), Ok(vec![1 << 30]));
        assert!(["8G,,4G", ",8G", ",", "8G,,", " "].iter().all(|text| List::<Size>::read(text).is_err()));
        assert_eq!(Devices::read("a:1,").map(|places| places.len()), Ok(1));
        assert_eq!(Devices::read("a:1, :2").expect_err("no server").value, ":2");
    }

    #[test]
    fn compute_capability_is_read_with_and_without_a_point() {
        assert_eq!(["8.6", "120"].map(Compute::read), [Ok((8, 6)), Ok((12, 0))]);
        assert!(["x", "2.0", "9.10"].iter().all(|text| Compute::read(text).is_err()));
    }
}
