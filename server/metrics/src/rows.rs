//! The table of metrics, one row each: name, kind, unit, help, labels, and where its figures come from.
//! In: a scrape. Out: series; and the table of `docs/guide/monitoring.md`, which a test compares.
//! Names are DCGM's where meaning and unit are the same. Else they are floe's own, in base units.

use crate::figures::{Figures, GpuFigures};
use crate::tally::{Event, MoveFailure, MoveKind, PAUSE_BOUNDS, Refusal, SessionEnd, SessionRefusal, Tally};

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gauge,
    Counter,
    Histogram,
    Info,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// A value of a series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
    /// The sum, and counts by upper bound.
    Buckets(f64, Vec<(f64, u64)>),
    Info,
}

/// A label: its name and its value.
pub(crate) type Label = (&'static str, String);

/// A series of a metric.
pub(crate) type Series = (Vec<Label>, Value);

/// All that a page shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scrape<'a> {
    pub(crate) figures: &'a Figures,
    pub(crate) tally: &'a Tally,
}

/// A metric.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Its name without unit and suffix.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The unit, which ends the name.
    pub(crate) unit: Option<&'static str>,
    pub(crate) help: &'static str,
    /// The names of its labels.
    labels: &'static [&'static str],
    pub(crate) series: fn(&Scrape<'_>) -> Vec<Series>,
}

const GPU: &[&str] = &["index", "uuid", "name"];

impl Metric {
    const fn gauge(name: &'static str, help: &'static str, series: fn(&Scrape<'_>) -> Vec<Series>) -> Self {
        Self { name, kind: Kind::Gauge, unit: None, help, labels: &[], series }
    }

    const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        series: fn(&Scrape<'_>) -> Vec<Series>,
    ) -> Self {
        Self { name, kind: Kind::Counter, unit: None, help, labels, series }
    }

    const fn of_gpu(mut self, unit: Option<&'static str>) -> Self {
        (self.unit, self.labels) = (unit, GPU);
        self
    }

    /// The name of its series.
    pub(crate) fn full_name(&self) -> String {
        let unit = self.unit.map_or_else(String::new, |unit| format!("_{unit}"));
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{unit}{suffix}", self.name)
    }
}

/// All metrics, in the page's order.
pub(crate) static METRICS: &[Metric] = &[
    Metric {
        name: "floe_build",
        kind: Kind::Info,
        unit: None,
        help: "The release that serves, and its protocol.",
        labels: &["version", "protocol"],
        series: |scrape| {
            let Figures { version, protocol, .. } = scrape.figures;
            vec![(vec![("version", version.clone()), ("protocol", protocol.to_string())], Value::Info)]
        },
    },
    Metric::gauge("floe_gpu_memory_total", "Memory of a GPU.", |scrape| gpus(scrape, |gpu| whole(gpu.memory)))
        .of_gpu(Some("bytes")),
    Metric::gauge(
        "floe_gpu_memory_used",
        "Memory that a GPU's sessions have taken, as their workers report it.",
        |scrape| gpus(scrape, |gpu| whole(gpu.used)),
    )
    .of_gpu(Some("bytes")),
    Metric::gauge(
        "floe_gpu_memory_free",
        "Memory of a GPU that is free for sessions, as floe gpus shows it.",
        |scrape| gpus(scrape, |gpu| whole(gpu.free)),
    )
    .of_gpu(Some("bytes")),
    Metric {
        name: "floe_sessions",
        kind: Kind::Gauge,
        unit: None,
        help: "Sessions of a GPU, by the transport of their commands. Suspended ones count for the GPU that they had.",
        labels: &["index", "uuid", "name", "transport"],
        series: by_transport,
    },
    Metric::gauge(
        "floe_sessions_suspended",
        "Sessions that wait in host memory, by the GPU that they had.",
        |scrape| gpus(scrape, |gpu| whole(gpu.states.suspended)),
    )
    .of_gpu(None),
    Metric::gauge("floe_sessions_waiting", "Sessions that wait for their client to reconnect.", |scrape| {
        gpus(scrape, |gpu| whole(gpu.states.waiting))
    })
    .of_gpu(None),
    Metric::gauge("floe_sessions_moving", "Sessions that move, are being suspended or resumed.", |scrape| {
        gpus(scrape, |gpu| whole(gpu.states.moving))
    })
    .of_gpu(None),
    Metric::gauge(
        "floe_gpu_share_promised",
        "Part of a GPU's time that its sessions were promised (--share), from 0 to 1.",
        |scrape| gpus(scrape, |gpu| Some(Value::Real(f64::from(gpu.turns.promised) / 1e3))),
    )
    .of_gpu(Some("ratio")),
    Metric::counter("floe_gpu_scheduled", &[], "Time for which sessions took turns on a GPU.", |scrape| {
        gpus(scrape, |gpu| Some(Value::Real(gpu.turns.scheduled.as_secs_f64())))
    })
    .of_gpu(Some("seconds")),
    Metric::counter(
        "floe_gpu_turns_had",
        &[],
        "Time of it for which a session had the GPU: the sum of what floe ps shows as had, also of sessions that have ended.",
        |scrape| gpus(scrape, |gpu| Some(Value::Real(gpu.turns.had.as_secs_f64()))),
    )
    .of_gpu(Some("seconds")),
    Metric::counter("floe_gpu_turns", &[], "Turns that were given on a GPU.", |scrape| {
        gpus(scrape, |gpu| whole(gpu.turns.given))
    })
    .of_gpu(None),
    Metric::counter(
        "floe_gpu_link_received",
        &[],
        "What clients sent to a GPU's sessions over their links: the sum of what floe ps shows, also of sessions that have ended.",
        |scrape| gpus(scrape, |gpu| whole(gpu.links.received)),
    )
    .of_gpu(Some("bytes")),
    Metric::counter(
        "floe_gpu_link_sent",
        &[],
        "What a GPU's sessions sent to their clients over their links, likewise.",
        |scrape| gpus(scrape, |gpu| whole(gpu.links.sent)),
    )
    .of_gpu(Some("bytes")),
    Metric::counter("floe_gpu_waits", &[], "Requests of a GPU's sessions that were answered, likewise.", |scrape| {
        gpus(scrape, |gpu| whole(gpu.links.waits))
    })
    .of_gpu(None),
    Metric::gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization in percent. NVIDIA's GPUs only.", |scrape| {
        gpus(scrape, |gpu| gpu.utilization.map(Value::Whole))
    })
    .of_gpu(None),
    Metric::gauge("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization in percent. NVIDIA's GPUs only.", |scrape| {
        gpus(scrape, |gpu| gpu.memory_utilization.map(Value::Whole))
    })
    .of_gpu(None),
    Metric::gauge("DCGM_FI_DEV_GPU_TEMP", "GPU temperature in degrees Celsius. NVIDIA's GPUs only.", |scrape| {
        gpus(scrape, |gpu| gpu.temperature.map(Value::Whole))
    })
    .of_gpu(None),
    Metric::gauge("DCGM_FI_DEV_POWER_USAGE", "Power draw in watts. NVIDIA's GPUs only.", |scrape| {
        gpus(scrape, |gpu| gpu.power.map(watts))
    })
    .of_gpu(None),
    Metric::gauge("floe_session_limit", "Most sessions at once (--max-sessions).", |scrape| {
        one(Some(scrape.figures.session_limit))
    }),
    Metric::gauge("floe_workers", "Worker processes: one per session, and another one while it moves.", |scrape| {
        one(Some(scrape.figures.workers))
    }),
    Metric::counter("floe_sessions_started", &[], "Sessions that got a worker.", |scrape| {
        one(Some(scrape.tally.of(Event::SessionStarted)))
    }),
    Metric::counter("floe_sessions_ended", &["reason"], "Sessions that have ended.", |scrape| {
        reasons("reason", SessionEnd::ALL, SessionEnd::label, |end| scrape.tally.of(Event::SessionEnded(end)))
    }),
    Metric::counter("floe_sessions_refused", &["reason"], "Sessions that were refused.", |scrape| {
        let count = |why| scrape.tally.of(Event::SessionRefused(why));
        reasons("reason", SessionRefusal::ALL, SessionRefusal::label, count)
    }),
    Metric::counter(
        "floe_connections_refused",
        &["reason"],
        "Connections that ended without what they came for. not_permitted counts wrong tokens.",
        |scrape| reasons("reason", Refusal::ALL, Refusal::label, |why| scrape.tally.of(Event::Refused(why))),
    ),
    Metric::counter("floe_moves_begun", &["kind"], "Moves of sessions that have begun.", |scrape| {
        reasons("kind", MoveKind::ALL, MoveKind::label, |kind| scrape.tally.of(Event::MoveBegun(kind)))
    }),
    Metric::counter("floe_moves_done", &["kind"], "Moves of sessions that are done.", |scrape| {
        reasons("kind", MoveKind::ALL, MoveKind::label, |kind| scrape.tally.of(Event::MoveDone(kind)))
    }),
    Metric::counter("floe_moves_given_up", &["reason"], "Moves that were given up: the session stayed.", |scrape| {
        let count = |why| scrape.tally.of(Event::MoveGivenUp(why));
        reasons("reason", MoveFailure::ALL, MoveFailure::label, count)
    }),
    Metric {
        name: "floe_move_pause",
        kind: Kind::Histogram,
        unit: Some("seconds"),
        help: "How long a program was paused by a move that is done, the last time.",
        labels: &[],
        series: pauses,
    },
    Metric::gauge("process_open_fds", "Open descriptors of floed.", |scrape| one(scrape.figures.process.descriptors)),
    Metric::gauge("process_max_fds", "Most descriptors that floed may have.", |scrape| {
        one(scrape.figures.process.descriptor_limit)
    }),
    Metric::gauge("process_threads", "Threads of floed.", |scrape| one(scrape.figures.process.threads)),
];

#[allow(clippy::unnecessary_wraps, reason = "a figure of a GPU may be unknown; this one is not")]
fn whole(value: u64) -> Option<Value> {
    Some(Value::Whole(value))
}

fn watts(milliwatts: u64) -> Value {
    // No GPU draws 4 MW.
    Value::Real(f64::from(u32::try_from(milliwatts).unwrap_or(u32::MAX)) / 1e3)
}

fn one(value: Option<u64>) -> Vec<Series> {
    value.map(|value| (Vec::new(), Value::Whole(value))).into_iter().collect()
}

fn labels_of(gpu: &GpuFigures) -> Vec<Label> {
    vec![("index", gpu.index.to_string()), ("uuid", gpu.uuid.clone()), ("name", gpu.name.clone())]
}

fn gpus(scrape: &Scrape<'_>, value: impl Fn(&GpuFigures) -> Option<Value>) -> Vec<Series> {
    scrape.figures.gpus.iter().filter_map(|gpu| Some((labels_of(gpu), value(gpu)?))).collect()
}

fn by_transport(scrape: &Scrape<'_>) -> Vec<Series> {
    let of_gpu = |gpu: &GpuFigures| {
        let labels = labels_of(gpu);
        let series = gpu.sessions.iter().map(move |(transport, count)| {
            let transport = ("transport", (*transport).to_owned());
            (labels.iter().cloned().chain([transport]).collect(), Value::Whole(*count))
        });
        series.collect::<Vec<_>>()
    };
    scrape.figures.gpus.iter().flat_map(of_gpu).collect()
}

fn reasons<T: Copy>(
    name: &'static str,
    all: &[T],
    label: impl Fn(T) -> &'static str,
    count: impl Fn(T) -> u64,
) -> Vec<Series> {
    all.iter().map(|&one| (vec![(name, label(one).to_owned())], Value::Whole(count(one)))).collect()
}

fn pauses(scrape: &Scrape<'_>) -> Vec<Series> {
    let pauses = scrape.tally.pauses();
    let bounds = PAUSE_BOUNDS.into_iter().chain([f64::INFINITY]);
    vec![(Vec::new(), Value::Buckets(pauses.sum, bounds.zip(pauses.counts).collect()))]
}

/// The table of metrics, as a page's rows.
#[must_use]
pub fn page() -> String {
    let row = |metric: &Metric| {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        format!("| `{}` | {} | {labels} | {} |\n", metric.full_name(), metric.kind.word(), metric.help)
    };
    let rows: String = METRICS.iter().map(row).collect();
    format!("| metric | kind | labels | meaning |\n|---|---|---|---|\n{rows}")
}
