//! The page of made-up figures, byte for byte, and the table of the guide.

use std::time::Duration;

use super::*;
use crate::figures::{GpuFigures, LinkFigures, Process, SessionFigures, TurnFigures};
use crate::tally::{Event, MoveFailure, MoveKind, Refusal, SessionEnd, SessionRefusal};

/// A server with an NVIDIA GPU whose name needs escapes, and a CPU device that says nothing of itself.
fn figures() -> Figures {
    let first = GpuFigures {
        index: 0,
        uuid: "GPU-0".into(),
        name: "a \"B\"\\\n2".into(),
        memory: 80,
        used: 10,
        free: 60,
        sessions: vec![("tcp", 2), ("shm", 0)],
        states: SessionFigures { suspended: 1, waiting: 2, moving: 0 },
        turns: TurnFigures {
            promised: 875,
            scheduled: Duration::from_millis(90_500),
            had: Duration::from_secs(88),
            given: 8800,
        },
        links: LinkFigures { received: 1 << 33, sent: 4096, waits: 12 },
        utilization: Some(97),
        memory_utilization: Some(40),
        temperature: Some(61),
        power: Some(350_250),
    };
    let second = GpuFigures { index: 3, uuid: "GPU-3".into(), name: "CPU".into(), ..GpuFigures::default() };
    Figures {
        version: "1.2".into(),
        protocol: 6,
        gpus: vec![first, second],
        session_limit: 64,
        workers: 3,
        process: Process { descriptors: Some(20), descriptor_limit: None, threads: Some(7) },
    }
}

#[test]
fn page_is_openmetrics_byte_for_byte() {
    let tally = Tally::default();
    for event in [
        Event::SessionStarted,
        Event::SessionStarted,
        Event::SessionEnded(SessionEnd::Signal),
        Event::SessionRefused(SessionRefusal::PeerFull),
        Event::Refused(Refusal::NotPermitted),
        Event::MoveBegun(MoveKind::Suspend),
        Event::MoveGivenUp(MoveFailure::NoRoom),
    ] {
        tally.count(event);
    }
    tally.moved(MoveKind::Suspend, Duration::from_millis(250));
    tally.moved(MoveKind::Suspend, Duration::from_secs(100));
    let page = render(&figures(), &tally).expect("text");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/render/golden.txt");
    // To write it anew: FLOE_GOLDEN=1 cargo test -p floe-metrics; then read the difference.
    if std::env::var_os("FLOE_GOLDEN").is_some() {
        std::fs::write(golden, &page).expect("written");
    }
    assert_eq!(page, std::fs::read_to_string(golden).expect("it is there"));
}

#[test]
fn guides_table_is_the_tables() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/monitoring.md");
    let guide = std::fs::read_to_string(guide).expect("it is there");
    let table = crate::page();
    assert!(guide.contains(&table), "write this table into docs/guide/monitoring.md:\n\n{table}");
}

#[test]
fn dashboard_and_alerts_name_only_metrics_that_there_are() {
    let names: Vec<String> = METRICS.iter().map(Metric::full_name).collect();
    for file in ["grafana.json", "alerts.yml"] {
        let text = std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).expect("it is there");
        let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
        let named: Vec<&str> = words
            .filter(|word| ["floe_", "DCGM_", "process_"].iter().any(|prefix| word.starts_with(prefix)))
            .map(|word| word.strip_suffix("_bucket").unwrap_or(word))
            .collect();
        assert!(named.len() > 5, "{file}");
        for name in named {
            assert!(names.iter().any(|known| known == name), "{file} names a metric that is not there: {name}");
        }
    }
}
