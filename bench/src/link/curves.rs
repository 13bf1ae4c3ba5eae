//! Measurements of one way to a GPU: two latencies, four curves, and the rate of its sockets alone.
//! In: JSON lines of a measuring process. Out: the same as data, and the rate of a copy by its size. It judges nothing.

use serde::{Deserialize, Serialize};

use super::raw::Wire;

/// From where to where a copy goes, and in which kind of host memory it begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Copy {
    /// To the device from pinned memory.
    PinnedToDevice,
    /// To the device from ordinary memory.
    PageableToDevice,
    /// From the device to pinned memory.
    PinnedToHost,
    /// From the device to ordinary memory.
    PageableToHost,
}

impl Copy {
    /// All four, as they are drawn.
    pub(crate) const ALL: [Self; 4] =
        [Self::PinnedToDevice, Self::PageableToDevice, Self::PinnedToHost, Self::PageableToHost];

    /// For people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::PinnedToDevice => "to the device, pinned",
            Self::PageableToDevice => "to the device, pageable",
            Self::PinnedToHost => "to the host, pinned",
            Self::PageableToHost => "to the host, pageable",
        }
    }
}

/// The host memory of a step's inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Inputs {
    /// Pinned: nothing is synchronized before the end.
    Pinned,
    /// Ordinary: the program synchronizes behind each.
    Pageable,
}

/// One finding of a measuring process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Finding {
    /// The device, as it calls itself.
    Device {
        /// Its name.
        name: String,
    },
    /// The median time of a launch of an empty kernel and the wait for it, in seconds.
    Launch {
        /// Seconds.
        seconds: f64,
    },
    /// The median time of a step: two inputs, two kernels, one number back.
    Step {
        /// The inputs' memory.
        inputs: Inputs,
        /// Seconds.
        seconds: f64,
    },
    /// The median time of a copy, until its bytes are where they go.
    Copied {
        /// The kind of copy.
        copy: Copy,
        /// Bytes of the copy.
        bytes: u64,
        /// Seconds.
        seconds: f64,
    },
    /// The median time of one of several copies that follow each other without a pause.
    InARow {
        /// The kind of copy.
        copy: Copy,
        /// Bytes of the copy.
        bytes: u64,
        /// Seconds.
        seconds: f64,
    },
    /// Number of connections that carry the session's large copies.
    Connections {
        /// Connections.
        connections: u32,
    },
    /// The median time of a transfer through sockets alone.
    Raw {
        /// Which sockets.
        wire: Wire,
        /// Number of connections at once.
        connections: u32,
        /// Over all of them together.
        bytes: u64,
        /// Seconds.
        seconds: f64,
    },
}

impl Finding {
    /// Whether each way has as many of them.
    pub(crate) fn is_of_copies(&self) -> bool {
        !matches!(self, Self::InARow { .. } | Self::Connections { .. } | Self::Raw { .. })
    }
}

/// Measurements of one way.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Curves {
    /// `native`, `unix`, `tcp` …
    pub(crate) way: String,
    /// The device's name.
    pub(crate) device: String,
    /// Launch and wait, in seconds.
    pub(crate) launch: Option<f64>,
    steps: Vec<Step>,
    points: Vec<Point>,
    /// Copies of which one follows the other without a pause, where its sockets were measured.
    in_a_row: Vec<Point>,
    /// Number of connections that carry its large copies, where its sockets were measured and the number is known.
    connections: Option<u32>,
    /// Its sockets alone, over several numbers of connections.
    pub(crate) raw: Vec<Raw>,
}

/// A step, in seconds.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Serialize)]
struct Step {
    inputs: Inputs,
    seconds: f64,
}

/// One point of a curve.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Serialize)]
pub(crate) struct Point {
    copy: Copy,
    bytes: u64,
    seconds: f64,
}

/// One point of a curve of sockets alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Raw {
    pub(crate) name: String,
    pub(crate) wire: Wire,
    pub(crate) connections: u32,
    pub(crate) bytes: u64,
    seconds: f64,
}

impl Raw {
    /// Bytes per second.
    pub(crate) fn rate(&self) -> f64 {
        rate(self.bytes, self.seconds)
    }
}

impl Curves {
    pub(crate) fn new(way: &str) -> Self {
        Self { way: way.to_owned(), ..Self::default() }
    }

    /// Takes a finding in.
    pub(crate) fn take(&mut self, finding: Finding) {
        match finding {
            Finding::Device { name } => self.device = name,
            Finding::Launch { seconds } => self.launch = Some(seconds),
            Finding::Step { inputs, seconds } => self.steps.push(Step { inputs, seconds }),
            Finding::Copied { copy, bytes, seconds } => self.points.push(Point { copy, bytes, seconds }),
            Finding::InARow { copy, bytes, seconds } => self.in_a_row.push(Point { copy, bytes, seconds }),
            Finding::Connections { connections } => self.connections = Some(connections),
            Finding::Raw { wire, connections, bytes, seconds } => {
                let name = wire.name(connections);
                self.raw.push(Raw { name, wire, connections, bytes, seconds });
            }
        }
    }

    /// Seconds of a step, where it was measured.
    pub(crate) fn step(&self, inputs: Inputs) -> Option<f64> {
        self.steps.iter().find(|step| step.inputs == inputs).map(|step| step.seconds)
    }

    /// Sizes in bytes and bytes per second of one kind of copy, by size.
    pub(crate) fn rates(&self, copy: Copy) -> Vec<(u64, f64)> {
        rates(&self.points, copy)
    }

    /// The same of copies in a row.
    pub(crate) fn rates_in_a_row(&self, copy: Copy) -> Vec<(u64, f64)> {
        rates(&self.in_a_row, copy)
    }

    /// Seconds of a copy of some size, where it was measured.
    pub(crate) fn seconds(&self, copy: Copy, bytes: u64) -> Option<f64> {
        self.points.iter().find(|point| point.copy == copy && point.bytes == bytes).map(|point| point.seconds)
    }

    /// Its sockets alone, over as many connections as carry its large copies.
    pub(crate) fn ceiling(&self) -> impl Iterator<Item = &Raw> {
        self.raw.iter().filter(|raw| Some(raw.connections) == self.connections)
    }

    /// Whether its sockets were measured, but not how many the session has.
    pub(crate) fn lacks_ceiling(&self) -> bool {
        self.connections.is_none() && !self.raw.is_empty()
    }

    /// All sizes that were measured, once each.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.points.iter().map(|point| point.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// Sizes in bytes and bytes per second of one kind of copy, by size.
fn rates(points: &[Point], copy: Copy) -> Vec<(u64, f64)> {
    let of_kind = points.iter().filter(|point| point.copy == copy);
    let mut rates: Vec<(u64, f64)> = of_kind.map(|point| (point.bytes, rate(point.bytes, point.seconds))).collect();
    rates.sort_by_key(|(bytes, _)| *bytes);
    rates
}

/// Bytes per second.
#[allow(clippy::cast_precision_loss, reason = "a size is far below 2^52")]
fn rate(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / seconds
}

/// A number of bytes with a binary unit: sizes here are powers of two.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_a_process_become_curves() {
        let mut curves = Curves::new("tcp");
        for line in [
            r#"{"kind":"device","name":"CPU"}"#,
            r#"{"kind":"launch","seconds":2e-5}"#,
            r#"{"kind":"copied","copy":"pinned-to-host","bytes":2048,"seconds":1e-6}"#,
            r#"{"kind":"copied","copy":"pinned-to-host","bytes":4,"seconds":1e-6}"#,
        ] {
            curves.take(serde_json::from_str(line).expect("a finding"));
        }
        assert_eq!((curves.device.as_str(), curves.launch), ("CPU", Some(2e-5)));
        assert_eq!(curves.rates(Copy::PinnedToHost).iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>(), [4, 2048]);
        assert_eq!(curves.seconds(Copy::PinnedToHost, 4), Some(1e-6));
        assert_eq!((curves.rates(Copy::PageableToHost), curves.sizes()), (vec![], vec![4, 2048]));
    }

    #[test]
    fn sockets_alone_are_the_ceiling_with_as_many_connections_as_the_session_has() {
        let mut curves = Curves::new("tcp");
        for line in [
            r#"{"kind":"raw","wire":"tcp","connections":1,"bytes":65536,"seconds":2.0}"#,
            r#"{"kind":"raw","wire":"tcp","connections":2,"bytes":65536,"seconds":1.0}"#,
        ] {
            curves.take(serde_json::from_str(line).expect("a finding"));
        }
        assert!(curves.lacks_ceiling() && curves.ceiling().count() == 0, "not known yet: {curves:?}");
        curves.take(serde_json::from_str(r#"{"kind":"connections","connections":2}"#).expect("a finding"));
        assert_eq!(curves.ceiling().map(|raw| (raw.bytes, raw.rate())).collect::<Vec<_>>(), [(65536, 65536.0)]);
        assert!(!curves.lacks_ceiling() && !Curves::new("native").lacks_ceiling());
        assert!(curves.sizes().is_empty(), "sizes are those of copies");
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!([4, 1024, 4 << 20, 1 << 30].map(size), ["4 B", "1 KiB", "4 MiB", "1 GiB"].map(str::to_owned));
    }
}
