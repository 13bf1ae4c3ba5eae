//! The receiving half of a link: frames from the server come in. Replies go to their callers, data into the program's
//! memory, output to its descriptors, host functions to the thread that runs them. Within a large piece it waits for
//! the bytes, else for nothing.

use std::borrow::Cow;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use floe_abi::{CuResult, CudaError};
use floe_transport::{Arrival, Bulk, Frame, LinkError};
use floe_wire::{Decode, Delivery, DeliveryFollows, Ended, Message as _, Progress, Push, Reply};

use super::Shared;
use super::pending::{Answer, Expected, Foretold, Incomplete, Then};
use crate::log::log;

/// Why the link is over.
#[derive(Debug)]
pub(super) struct End {
    /// The error that calls return from now on.
    pub(super) error: CudaError,
    /// For the log.
    pub(super) reason: String,
    /// Whether the server has ended the session and says why.
    pub(super) is_told: bool,
}

impl End {
    /// The server hung up.
    pub(super) fn closed() -> Self {
        Self::because("the server closed it")
    }

    fn because(reason: impl Into<String>) -> Self {
        Self { error: CudaError::DEVICE_UNAVAILABLE, reason: reason.into(), is_told: false }
    }
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> Self {
        Self::because(error.to_string())
    }
}

/// Takes what has arrived to where it belongs.
pub(super) fn take(shared: &Shared, arrival: Arrival<'_>) -> Result<(), End> {
    if !goes_ahead(&arrival) && !shared.bulk.settle() {
        return Err(End::because("it ended with data on the way"));
    }
    match arrival {
        Arrival::Frame(frame) => take_frame(shared, frame),
        Arrival::Bulk(bulk) => take_bulk(shared, bulk),
    }
}

/// Whether it is taken without a wait for the data that were announced: more of them, or that none will come.
fn goes_ahead(arrival: &Arrival<'_>) -> bool {
    matches!(arrival, Arrival::Frame(frame) if [DeliveryFollows::KIND, Ended::KIND].contains(&frame.kind))
}

fn take_frame(shared: &Shared, frame: Frame<'_>) -> Result<(), End> {
    let push = Push::decode(frame.kind, frame.payload).map_err(|error| End::because(error.to_string()))?;
    // A reply says for itself.
    if !matches!(push, Push::Progress(_) | Push::Reply(_)) {
        shared.heard.fetch_add(1, Ordering::AcqRel);
    }
    match push {
        Push::Reply(reply) => answer(shared, &reply).map_err(End::because),
        Push::Delivery(piece) => {
            let taken = shared.pending.deliver(piece.request, piece.offset, piece.bytes);
            taken.then_some(()).ok_or_else(|| unasked(piece.request))
        }
        Push::DeliveryFollows(delivery) => {
            let expected = shared.bulk.expect(shared, frame.sequence, &delivery);
            expected.then_some(()).ok_or_else(|| unasked(delivery.request))
        }
        Push::Output(output) => {
            show(output.fd, output.bytes);
            Ok(())
        }
        Push::RunHostFunction(run) => {
            let arrived = shared.host.arrived(run.function.0, CuResult(run.status).into_result());
            let unknown = || End::because(format!("it ran an unknown host function: {}", run.function.0));
            arrived.then_some(()).ok_or_else(unknown)
        }
        Push::MirrorChanged(changed) => {
            shared.mirrors.apply(changed.at.0, &changed.runs);
            Ok(())
        }
        Push::Progress(pushed) => {
            reached(shared, &pushed);
            Ok(())
        }
        Push::Waiting(_) => Err(End::because("it tells of a wait that is over".to_owned())),
        Push::Migrating(_) => Err(End::because("it tells of a move that nobody asked for here".to_owned())),
        Push::Ended(ended) => {
            let error = CudaError::from_code(ended.status).unwrap_or(CudaError::DEVICE_UNAVAILABLE);
            Err(End { error, reason: floe_wire::printable(ended.detail), is_told: true })
        }
    }
}

/// Takes a large piece of data from the socket straight into the program's memory.
fn take_bulk(shared: &Shared, mut bulk: Bulk<'_>) -> Result<(), End> {
    let head = bulk.hollow()?;
    let piece = Delivery::decode(&head).map_err(|error| End::because(error.to_string()))?;
    let begun = shared.pending.begin_piece(piece.request, piece.offset, bulk.left());
    let target = begun.ok_or_else(|| unasked(piece.request))?;
    let read = target.fill(bulk.left(), &mut |place| bulk.read(place));
    shared.pending.end_piece();
    shared.heard.fetch_add(1, Ordering::AcqRel);
    Ok(read?)
}

/// A stream has come further than the server said when it was asked.
fn reached(shared: &Shared, pushed: &Progress) {
    if let Some(error) = CudaError::from_code(pushed.status) {
        shared.errors.note_of(pushed.sequence, error);
    } else if let Some(progress) = shared.order.progress(pushed.stream.0) {
        shared.order.stream_completed(&progress, pushed.sequence);
    }
}

fn unasked(request: u64) -> End {
    End::because(format!("it sent data nobody asked for, for request: {request}"))
}

fn answer(shared: &Shared, reply: &Reply<'_>) -> Result<(), String> {
    let unknown = || format!("it answered what nobody asked, request: {}", reply.request);
    let own = || Answer {
        status: reply.status,
        earlier: reply.earlier,
        detail: reply.detail.to_owned(),
        body: reply.body.to_owned(),
    };
    let expected = shared.pending.take(reply.request).ok_or_else(unknown)?;
    // That something is not over tells a program nothing new, and a query finds by itself that it is. A failure it does not find.
    let is_followed = matches!(expected, Expected::Progress(..)) && reply.status == 0 && reply.earlier == 0;
    let is_of_queries = reply.status == CudaError::NOT_READY.code() || is_followed;
    shared.heard.fetch_add(u64::from(!is_of_queries), Ordering::AcqRel);
    match expected {
        Expected::Reply(waiter) => waiter.fill(Ok(own())),
        Expected::Early(waiter, foretold) => {
            let detail = if reply.status == 0 { reply.detail } else { "" };
            note(shared, &Reply { status: 0, detail, ..*reply });
            if let Some(Foretold(check)) = foretold.filter(|_| reply.status == 0)
                && let Err(error) = check(reply.body)
            {
                shared.errors.note_of(reply.request, error);
            }
            waiter.fill(Ok(Answer { earlier: 0, ..own() }));
        }
        Expected::Unwatched => note(shared, reply),
        Expected::Mark(progress, sequence, waiter) => {
            note(shared, reply);
            if reply.status == 0 {
                shared.order.stream_completed(&progress, sequence.unwrap_or(reply.request));
            }
            waiter.fill(Ok(Answer { status: reply.status, ..Answer::default() }));
        }
        Expected::Progress(progress, sequence) => {
            note(shared, reply);
            if reply.status == 0 {
                shared.order.stream_completed(&progress, sequence);
            }
        }
        Expected::Told(progress, Then(then)) => {
            note(shared, reply);
            if reply.status == 0 {
                shared.order.stream_completed(&progress, reply.request);
            }
            then();
        }
        Expected::Delivery(delivery) => finish(shared, reply, &delivery, own)?,
    }
    shared.pending.tell();
    Ok(())
}

fn finish(
    shared: &Shared,
    reply: &Reply<'_>,
    delivery: &Incomplete,
    own: impl FnOnce() -> Answer,
) -> Result<(), String> {
    if reply.status == 0 && delivery.left != 0 {
        // Nobody will answer this request any more but we.
        if let Some(waiter) = &delivery.waiter {
            waiter.fill(Err(CudaError::DEVICE_UNAVAILABLE));
        }
        return Err(format!("it said a copy was complete with bytes missing: {}", delivery.left));
    }
    // Streams run in order: with the copy all work before it is over. Not so when the copy could not be issued.
    if reply.status == 0 {
        shared.order.stream_completed(&delivery.progress, reply.request);
    }
    match &delivery.waiter {
        Some(waiter) => waiter.fill(Ok(own())),
        None => {
            note(shared, reply);
            shared.deliveries.fetch_sub(1, Ordering::AcqRel);
        }
    }
    Ok(())
}

/// A failure nobody waits for, for a later call to report.
fn note(shared: &Shared, reply: &Reply<'_>) {
    for code in [reply.earlier, reply.status] {
        if let Some(error) = CudaError::from_code(code) {
            shared.errors.note_of(reply.request, error);
            super::tell(error, reply.detail);
        }
    }
}

/// Writes what a kernel printed to the program's own descriptors, wherever they lead by now. A CPU device's refusals on
/// its stderr are logged like the client's own.
fn show(fd: u32, bytes: &[u8]) {
    let bytes = if fd == 2 { refusals_taken(bytes) } else { Cow::Borrowed(bytes) };
    if bytes.is_empty() {
        return;
    }
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let fd: BorrowedFd<'_> = if fd == 2 { stderr.as_fd() } else { stdout.as_fd() };
    // A program that closed its output does not want to see it.
    if let Ok(own) = fd.try_clone_to_owned() {
        let _ = File::from(own).write_all(&bytes);
    }
}

/// Takes the lines that begin as the CPU device's refusals do, with those indented below them; the others are left.
fn refusals_taken(bytes: &[u8]) -> Cow<'_, [u8]> {
    const NAME: &[u8] = b"floe: ";
    let lines = || bytes.split_inclusive(|byte| *byte == b'\n');
    if !lines().any(|line| line.starts_with(NAME)) {
        return Cow::Borrowed(bytes);
    }
    let (mut left, mut refusal) = (Vec::new(), String::new());
    for line in lines() {
        let text = String::from_utf8_lossy(line);
        if line.starts_with(NAME) {
            tell_refusal(&std::mem::take(&mut refusal));
            refusal.push_str(&text[NAME.len()..]);
        } else if !refusal.is_empty() && line.starts_with(b"  ") {
            refusal.push_str(&text);
        } else {
            tell_refusal(&std::mem::take(&mut refusal));
            left.extend_from_slice(line);
        }
    }
    tell_refusal(&refusal);
    Cow::Owned(left)
}

fn tell_refusal(text: &str) {
    if !text.is_empty() {
        log!(Warn, "{}", text.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_device_refused_is_kept_apart_from_what_kernels_say() {
        let text = b"a.cu:1: assertion\nfloe: no cubes\n  use squares\n  or lines\nnot floe: this\nfloe: no more\n";
        assert_eq!(*refusals_taken(text), *b"a.cu:1: assertion\nnot floe: this\n");
        assert_eq!(*refusals_taken(b"floe: no cubes\n"), *b"");
        for text in [&b"not floe: this\n  indented\n"[..], b"", b"floe", b"\n"] {
            assert!(matches!(refusals_taken(text), Cow::Borrowed(same) if same == text));
        }
    }
}
