//! Metrics: the title of each in the table, and the bar that it must stay below.
//! In: a metric's name. Out: its row's title and limits. It knows no measurement.

/// A way a program reaches its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// The device's own library in the program's process.
    Native,
    /// floe over rings in shared memory.
    Shm,
    /// floe over a Unix socket.
    Unix,
    /// floe over TCP on the loopback interface.
    Tcp,
}

impl Way {
    /// Its name in tables and options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Shm => "shm",
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        }
    }
}

/// The quantity that a limit bounds, and the unit in which a row's is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Measure {
    /// Time; floe's median divided by native's is limited.
    Ratio,
    /// Time; floe's own time in microseconds is limited.
    Microseconds,
    /// A count of events per unit.
    Count,
    /// MiB beyond native.
    Mebibytes,
    /// Time; floe's own time in microseconds beyond native's is limited.
    MoreMicroseconds,
}

/// The most that something may be.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(crate) struct Limit {
    /// Of this quantity.
    pub(crate) of: Measure,
    /// In its unit.
    pub(crate) most: f64,
}

/// One row: a metric, its title, its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    /// As programs report it.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// What it is printed as, and what its limits bound unless they say otherwise.
    pub(crate) measure: Measure,
    /// The most by each way; none where a row only informs.
    pub(crate) limits: Limits,
}

/// The most a metric may be by each way of floe.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    shm: Option<Limit>,
    unix: Option<Limit>,
    tcp: Option<Limit>,
}

const fn most(of: Measure, most: f64) -> Option<Limit> {
    Some(Limit { of, most })
}

const NONE: Limits = Limits { shm: None, unix: None, tcp: None };

const fn row(name: &'static str, title: &'static str, measure: Measure, unix: f64, tcp: f64) -> Metric {
    closer(name, title, measure, unix, unix, tcp)
}

/// A row whose limit over shared memory is one of its own.
const fn closer(name: &'static str, title: &'static str, measure: Measure, shm: f64, unix: f64, tcp: f64) -> Metric {
    let limits = Limits { shm: most(measure, shm), unix: most(measure, unix), tcp: most(measure, tcp) };
    Metric { name, title, measure, limits }
}

/// A row with a limit over shared memory only.
const fn near(name: &'static str, title: &'static str, measure: Measure, shm: f64) -> Metric {
    Metric { name, title, measure, limits: Limits { shm: most(measure, shm), ..NONE } }
}

/// A copy of 1 MiB: at least 10 GB/s over TCP.
const fn mebibyte(name: &'static str, title: &'static str) -> Metric {
    let limits = Limits { tcp: most(Microseconds, (1 << 20) as f64 / 10e9 * 1e6), ..NONE };
    Metric { name, title, measure: Ratio, limits }
}

/// A reduction of 8 bytes: so many microseconds more than natively on one machine, and twice as many over TCP.
const fn eight_bytes(name: &'static str, title: &'static str) -> Metric {
    Metric { measure: Ratio, ..row(name, title, Measure::MoreMicroseconds, 15.0, 30.0) }
}

const fn told(name: &'static str, title: &'static str) -> Metric {
    Metric { name, title, measure: Measure::Ratio, limits: NONE }
}

/// A row of two GPUs, or of two vGPUs of one: at least 0.95 of native's rate by each way.
const fn peer(name: &'static str, title: &'static str) -> Metric {
    row(name, title, Measure::Ratio, 1.0 / 0.95, 1.0 / 0.95)
}

/// At least 0.98 of native's rate.
const PINNED: f64 = 1.0 / 0.98;
/// At least one and a half times native's rate.
const PAGEABLE: f64 = 1.0 / 1.5;

use Measure::{Count, Mebibytes, Microseconds, Ratio};

/// Every row, in the order of the table.
pub(crate) const METRICS: &[Metric] = &[
    closer("resnet18.step", "ResNet-18 training step, batch 32", Ratio, 1.01, 1.03, 1.06),
    row("encoder.pass", "encoder inference 8×128×512, 6 layers", Ratio, 1.02, 1.03),
    closer("eager.1000", "1,000 small eager operations + synchronize", Ratio, 0.95, 1.00, 1.05),
    row("matmul.8192", "8192³ bf16 matmul", Ratio, 1.005, 1.005),
    row("gpt_bf16.step", "GPT training step, AdamW, bf16", Ratio, 1.02, 1.04),
    row("gpt_fp16.step", "GPT training step, AdamW, fp16 scaled", Ratio, 1.02, 1.04),
    row("encoder.graph", "CUDA graph replay of the encoder", Ratio, 1.02, 1.03),
    row("launch.caller", "launch, back to back, cost to the caller", Microseconds, 0.5, 1.0),
    Metric {
        name: "launch.synchronize",
        title: "launch + synchronize",
        measure: Ratio,
        limits: Limits { shm: most(Ratio, 1.2), unix: most(Microseconds, 25.0), tcp: most(Microseconds, 15.0) },
    },
    closer("sum.item", "x.sum().item()", Ratio, 1.25, 1.8, 2.5),
    row("start.first_result", "PyTorch start to first result, again", Ratio, 1.3, 1.5),
    row("resnet18.waits", "waits per ResNet-18 step", Count, 3.0, 3.0),
    row("encoder.waits", "waits per encoder pass", Count, 2.0, 2.0),
    row("start.module_bytes", "module bytes sent at a second start", Count, 0.0, 0.0),
    row("memory.client", "client memory beyond native", Mebibytes, 64.0, 64.0),
    row("memory.host", "client and worker memory beyond native", Mebibytes, 256.0, 256.0),
    Metric { name: "memory.gpu", title: "GPU memory beyond native", measure: Mebibytes, limits: NONE },
    Metric { name: "gpt_bf16.waits", title: "waits per GPT step, bf16", measure: Count, limits: NONE },
    Metric { name: "gpt_fp16.waits", title: "waits per GPT step, fp16 scaled", measure: Count, limits: NONE },
    told("encoder.alone", "encoder pass + synchronize"),
    told("matmul.alone", "8192³ bf16 matmul + synchronize"),
    told("launch.of_2000", "2,000 launches + synchronize"),
    peer("between.copy.256MB", "copy to another GPU, 256 MiB"),
    peer("between.copy.1GB", "copy to another GPU, 1 GiB"),
    peer("between.read", "kernel reads another GPU's memory, 1 GiB"),
    row("reduce.one.256MB", "all-reduce, 256 MiB, two ranks of a process", Ratio, 1.0 / 0.95, 1.0 / 0.90),
    row("reduce.two.256MB", "all-reduce, 256 MiB, two processes", Ratio, 1.0 / 0.95, 1.0 / 0.90),
    told("reduce.one.1MB", "all-reduce, 1 MiB, two ranks of a process"),
    told("reduce.two.1MB", "all-reduce, 1 MiB, two processes"),
    eight_bytes("reduce.one.8B", "all-reduce, 8 B, two ranks of a process"),
    eight_bytes("reduce.two.8B", "all-reduce, 8 B, two processes"),
    row("ddp_resnet50.step", "ResNet-50 training step by DDP on two GPUs", Ratio, 1.03, 1.03),
    row("ddp_gpt.step", "GPT training step by DDP on two GPUs", Ratio, 1.03, 1.03),
    row("fsdp2_gpt.step", "GPT training step by FSDP2 on two GPUs", Ratio, 1.03, 1.03),
    row("dp_resnet50.step", "ResNet-50 training step by DataParallel on two GPUs", Ratio, 1.03, 1.03),
    Metric {
        name: "servers.part.1GB",
        title: "copy to another server, 1 GiB, in copies from pinned memory",
        measure: Count,
        limits: Limits { tcp: most(Count, 1.0 / 0.85), ..NONE },
    },
    Metric {
        name: "servers.part.256MB",
        title: "copy to another server, 256 MiB, in copies from pinned memory",
        measure: Count,
        limits: NONE,
    },
    told("servers.copy.1GB", "copy to another server, 1 GiB"),
    told("servers.copy.256MB", "copy to another server, 256 MiB"),
    told("between.copy.1MB", "copy to another GPU, 1 MiB"),
    told("between.event", "20 waits for events to and fro between two GPUs"),
    told("event.record", "event record"),
    told("event.query", "event query"),
    told("synchronize.idle", "stream synchronize, idle"),
    told("malloc.free", "cudaMalloc + cudaFree, 1 MB"),
    told("malloc_async.free", "cudaMallocAsync + cudaFreeAsync, 1 MB"),
    told("copy.to_device.pinned.4B", "copy to device, 4 B pinned"),
    told("copy.to_device.pageable.4B", "copy to device, 4 B pageable"),
    near("copy.to_host.pinned.4B", "copy to host, 4 B pinned", Ratio, 1.2),
    near("copy.to_host.pageable.4B", "copy to host, 4 B pageable", Ratio, 1.2),
    near("copy.to_device.pinned.64KB", "copy to device, 64 KiB pinned", Ratio, 1.3),
    near("copy.to_device.pageable.64KB", "copy to device, 64 KiB pageable", Ratio, 1.3),
    near("copy.to_host.pinned.64KB", "copy to host, 64 KiB pinned", Ratio, 1.3),
    near("copy.to_host.pageable.64KB", "copy to host, 64 KiB pageable", Ratio, 1.3),
    mebibyte("copy.to_device.pinned.1MB", "copy to device, 1 MiB pinned"),
    mebibyte("copy.to_device.pageable.1MB", "copy to device, 1 MiB pageable"),
    mebibyte("copy.to_host.pinned.1MB", "copy to host, 1 MiB pinned"),
    mebibyte("copy.to_host.pageable.1MB", "copy to host, 1 MiB pageable"),
    near("copy.to_device.pinned.16MB", "copy to device, 16 MiB pinned", Ratio, PINNED),
    near("copy.to_device.pageable.16MB", "copy to device, 16 MiB pageable", Ratio, PAGEABLE),
    near("copy.to_host.pinned.16MB", "copy to host, 16 MiB pinned", Ratio, PINNED),
    near("copy.to_host.pageable.16MB", "copy to host, 16 MiB pageable", Ratio, PAGEABLE),
    near("copy.to_device.pinned.256MB", "copy to device, 256 MiB pinned", Ratio, PINNED),
    near("copy.to_device.pageable.256MB", "copy to device, 256 MiB pageable", Ratio, PAGEABLE),
    near("copy.to_host.pinned.256MB", "copy to host, 256 MiB pinned", Ratio, PINNED),
    near("copy.to_host.pageable.256MB", "copy to host, 256 MiB pageable", Ratio, PAGEABLE),
];

impl Metric {
    /// The most this way may have.
    pub(crate) fn limit(&self, way: Way) -> Option<Limit> {
        match way {
            Way::Native => None,
            Way::Shm => self.limits.shm,
            Way::Unix => self.limits.unix,
            Way::Tcp => self.limits.tcp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_one_row() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }

    #[test]
    fn native_has_no_limit() {
        assert_eq!(METRICS[0].limit(Way::Native), None);
        assert_eq!(METRICS[0].limit(Way::Tcp), most(Ratio, 1.06));
        assert_eq!(METRICS[0].limit(Way::Shm), most(Ratio, 1.01));
    }
}
