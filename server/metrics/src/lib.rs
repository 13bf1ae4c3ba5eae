//! The figures of a server, on an HTTP port of their own.
//! In: events that are counted, a [`Source`] of all other figures, a listener. Out: OpenMetrics at `/metrics`, `/healthz`
//! and `/readyz`. One thread serves all peers, none of whom has proved who it is.
//! It never sees a session, and never has the daemon wait: the daemon counts, and answers the pulse when it comes by.
#![forbid(unsafe_code)]

mod crowd;
mod figures;
mod http;
mod port;
mod pulse;
mod render;
mod rows;
mod tally;
mod visitor;

pub use figures::{Figures, GpuFigures, LinkFigures, Process, SessionFigures, TurnFigures};
pub use port::{Limits, Port, Source};
pub use pulse::Pulse;
pub use rows::page;
pub use tally::{Event, MoveFailure, MoveKind, Refusal, SessionEnd, SessionRefusal, Tally};
