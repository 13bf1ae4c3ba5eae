//! What is measured, what it is called in the table, and the bar it must stay below.
//! In: a metric's name. Out: its row's title and limits. It knows no measurement.

/// A way a program reaches its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// The device's own library in the program's process.
    Native,
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
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        }
    }
}

/// What a limit limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Measure {
    /// Time; floe's median divided by native's is limited.
    Ratio,
    /// Time; floe's own time in microseconds is limited.
    Microseconds,
    /// How often something happens per unit.
    Count,
    /// MiB beyond native.
    Mebibytes,
}

/// One row: a metric, its title, its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    /// As programs report it.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// What its limits limit.
    pub(crate) measure: Measure,
    /// The most over a Unix socket and over TCP; `None` where a row only informs.
    pub(crate) limits: Option<(f64, f64)>,
}

const fn row(name: &'static str, title: &'static str, measure: Measure, unix: f64, tcp: f64) -> Metric {
    Metric { name, title, measure, limits: Some((unix, tcp)) }
}

const fn told(name: &'static str, title: &'static str) -> Metric {
    Metric { name, title, measure: Measure::Ratio, limits: None }
}

use Measure::{Count, Mebibytes, Microseconds, Ratio};

/// Every row, in the order of the table.
pub(crate) const METRICS: &[Metric] = &[
    row("resnet18.step", "ResNet-18 training step, batch 32", Ratio, 1.03, 1.06),
    row("encoder.pass", "encoder inference 8×128×512, 6 layers", Ratio, 1.02, 1.03),
    row("eager.1000", "1,000 small eager operations + synchronize", Ratio, 1.00, 1.05),
    row("matmul.8192", "8192³ bf16 matmul", Ratio, 1.005, 1.005),
    row("gpt_bf16.step", "GPT training step, AdamW, bf16", Ratio, 1.02, 1.04),
    row("gpt_fp16.step", "GPT training step, AdamW, fp16 scaled", Ratio, 1.02, 1.04),
    row("encoder.graph", "CUDA graph replay of the encoder", Ratio, 1.02, 1.03),
    row("launch.caller", "launch, back to back, cost to the caller", Microseconds, 0.5, 1.0),
    row("launch.synchronize", "launch + synchronize", Microseconds, 25.0, 35.0),
    row("sum.item", "x.sum().item()", Ratio, 1.8, 2.5),
    row("start.first_result", "PyTorch start to first result, again", Ratio, 1.3, 1.5),
    row("resnet18.waits", "waits per ResNet-18 step", Count, 3.0, 3.0),
    row("encoder.waits", "waits per encoder pass", Count, 2.0, 2.0),
    row("start.module_bytes", "module bytes sent at a second start", Count, 0.0, 0.0),
    row("memory.client", "client memory beyond native", Mebibytes, 64.0, 64.0),
    row("memory.worker", "worker memory beyond a context", Mebibytes, 256.0, 256.0),
    Metric { name: "memory.gpu", title: "GPU memory beyond native", measure: Mebibytes, limits: None },
    Metric { name: "gpt_bf16.waits", title: "waits per GPT step, bf16", measure: Count, limits: None },
    Metric { name: "gpt_fp16.waits", title: "waits per GPT step, fp16 scaled", measure: Count, limits: None },
    told("encoder.alone", "encoder pass + synchronize"),
    told("matmul.alone", "8192³ bf16 matmul + synchronize"),
    told("launch.of_2000", "2,000 launches + synchronize"),
    told("event.record", "event record"),
    told("event.query", "event query"),
    told("synchronize.idle", "stream synchronize, idle"),
    told("malloc.free", "cudaMalloc + cudaFree, 1 MB"),
    told("malloc_async.free", "cudaMallocAsync + cudaFreeAsync, 1 MB"),
    told("copy.to_device.pinned.4B", "copy to device, 4 B pinned"),
    told("copy.to_device.pageable.4B", "copy to device, 4 B pageable"),
    told("copy.to_host.pinned.4B", "copy to host, 4 B pinned"),
    told("copy.to_host.pageable.4B", "copy to host, 4 B pageable"),
    told("copy.to_device.pinned.64KB", "copy to device, 64 KiB pinned"),
    told("copy.to_device.pageable.64KB", "copy to device, 64 KiB pageable"),
    told("copy.to_host.pinned.64KB", "copy to host, 64 KiB pinned"),
    told("copy.to_host.pageable.64KB", "copy to host, 64 KiB pageable"),
    told("copy.to_device.pinned.1MB", "copy to device, 1 MiB pinned"),
    told("copy.to_device.pageable.1MB", "copy to device, 1 MiB pageable"),
    told("copy.to_host.pinned.1MB", "copy to host, 1 MiB pinned"),
    told("copy.to_host.pageable.1MB", "copy to host, 1 MiB pageable"),
    told("copy.to_device.pinned.16MB", "copy to device, 16 MiB pinned"),
    told("copy.to_device.pageable.16MB", "copy to device, 16 MiB pageable"),
    told("copy.to_host.pinned.16MB", "copy to host, 16 MiB pinned"),
    told("copy.to_host.pageable.16MB", "copy to host, 16 MiB pageable"),
    told("copy.to_device.pinned.256MB", "copy to device, 256 MiB pinned"),
    told("copy.to_device.pageable.256MB", "copy to device, 256 MiB pageable"),
    told("copy.to_host.pinned.256MB", "copy to host, 256 MiB pinned"),
    told("copy.to_host.pageable.256MB", "copy to host, 256 MiB pageable"),
];

impl Metric {
    /// The most this way may have.
    pub(crate) fn limit(&self, way: Way) -> Option<f64> {
        match way {
            Way::Native => None,
            Way::Unix => self.limits.map(|(unix, _)| unix),
            Way::Tcp => self.limits.map(|(_, tcp)| tcp),
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
        assert_eq!(METRICS[0].limit(Way::Tcp), Some(1.06));
    }
}
