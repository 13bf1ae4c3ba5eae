//! The page of figures. In: a scrape. Out: OpenMetrics 1.0, always in the same order.
//! It reads nothing, and has no state: a metric is registered for its page only.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::figures::Figures;
use crate::rows::{Kind, METRICS, Metric, Scrape, Series, Value};
use crate::tally::Tally;

/// The type of a page.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The series of every metric, in the table's order.
#[derive(Debug)]
struct Page(Vec<(&'static Metric, Vec<Series>)>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (metric, series) in &self.0 {
            let unit = metric.unit.map(|unit| Unit::Other(unit.to_owned()));
            let mut family = encoder.encode_descriptor(metric.name, metric.help, unit.as_ref(), kind(metric.kind))?;
            for (labels, value) in series {
                match value {
                    // Its labels are its value.
                    Value::Info => family.encode_info(labels)?,
                    value if labels.is_empty() => write(&mut family, metric.kind, value)?,
                    value => write(&mut family.encode_family(labels)?, metric.kind, value)?,
                }
            }
        }
        Ok(())
    }
}

fn kind(kind: Kind) -> MetricType {
    match kind {
        Kind::Gauge => MetricType::Gauge,
        Kind::Counter => MetricType::Counter,
        Kind::Histogram => MetricType::Histogram,
        Kind::Info => MetricType::Info,
    }
}

fn write(to: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    match (value, kind) {
        (Value::Whole(count), Kind::Counter) => to.encode_counter::<NoLabelSet, _, f64>(count, None),
        (Value::Whole(value), _) => to.encode_gauge(value),
        (Value::Real(count), Kind::Counter) => to.encode_counter::<NoLabelSet, _, f64>(count, None),
        (Value::Real(value), _) => to.encode_gauge(value),
        (Value::Buckets(sum, buckets), _) => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            to.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
        }
        (Value::Info, _) => Ok(()),
    }
}

/// The page of these figures.
pub(crate) fn render(figures: &Figures, tally: &Tally) -> Result<String, fmt::Error> {
    let scrape = Scrape { figures, tally };
    let series = METRICS.iter().map(|metric| (metric, (metric.series)(&scrape))).collect();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page(series)));
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry)?;
    Ok(page)
}

#[cfg(test)]
mod tests;
