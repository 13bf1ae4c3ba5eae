//! The thread that receives what the server says. Frames come in; replies, pieces of data, output and host functions go to
//! where they belong. It ends with the link, and it never waits for the program.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_abi::{CuResult, CudaError};
use floe_transport::Receiver;
use floe_wire::{Push, Reply};

use super::Shared;
use super::pending::{Answer, Delivery, Expected};

/// Starts the thread.
pub(super) fn start(mut receiver: Receiver, shared: Arc<Shared>) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("floe-receive".into())
        .spawn(move || {
            let (error, reason) = run(&mut receiver, &shared);
            shared.lose(error, &reason);
        })
        .map(drop)
}

/// Receives until the link is over; returns why.
fn run(receiver: &mut Receiver, shared: &Shared) -> (CudaError, String) {
    let gone = CudaError::DEVICE_UNAVAILABLE;
    loop {
        let frame = match receiver.next() {
            Ok(Some(frame)) => frame,
            Ok(None) => return (gone, "the server closed it".into()),
            Err(error) => return (gone, error.to_string()),
        };
        let push = match Push::decode(frame.kind, frame.payload) {
            Ok(push) => push,
            Err(error) => return (gone, error.to_string()),
        };
        match push {
            Push::Reply(reply) => {
                if let Err(reason) = answer(shared, &reply) {
                    return (gone, reason);
                }
            }
            Push::Delivery(piece) => {
                if !shared.pending.deliver(piece.request, piece.offset, piece.bytes) {
                    let reason = format!("it sent data nobody asked for, for request: {}", piece.request);
                    return (gone, reason);
                }
            }
            Push::Output(output) => show(output.fd, output.bytes),
            Push::RunHostFunction(run) => {
                let status = CuResult(run.status).into_result();
                if !shared.host.arrived(run.function.0, status) {
                    return (gone, format!("it ran an unknown host function: {}", run.function.0));
                }
            }
            Push::Ended(ended) => {
                let error = CudaError::from_code(ended.status).unwrap_or(gone);
                return (error, ended.detail.to_owned());
            }
        }
    }
}

fn answer(shared: &Shared, reply: &Reply<'_>) -> Result<(), String> {
    let unknown = || format!("it answered what nobody asked, request: {}", reply.request);
    let own = || Answer {
        status: reply.status,
        earlier: reply.earlier,
        detail: reply.detail.to_owned(),
        body: reply.body.to_owned(),
    };
    match shared.pending.take(reply.request).ok_or_else(unknown)? {
        Expected::Reply(waiter) => waiter.fill(Ok(own())),
        Expected::Unwatched => note(shared, reply),
        Expected::Delivery(delivery) => finish(shared, reply, &delivery, own)?,
    }
    shared.pending.tell();
    Ok(())
}

fn finish(shared: &Shared, reply: &Reply<'_>, delivery: &Delivery, own: impl FnOnce() -> Answer) -> Result<(), String> {
    if reply.status == 0 && delivery.left != 0 {
        // Nobody will answer this request any more but we.
        if let Some(waiter) = &delivery.waiter {
            waiter.fill(Err(CudaError::DEVICE_UNAVAILABLE));
        }
        return Err(format!("it said a copy was complete with bytes missing: {}", delivery.left));
    }
    // Streams run in order: with the copy all work before it is over. Not so when the copy could not be issued.
    if reply.status == 0 {
        shared.order.stream_completed(&delivery.course, reply.request);
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
            shared.errors.note(error);
            super::tell(error, reply.detail);
        }
    }
}

/// Writes what a kernel printed to the program's own descriptors, wherever they lead by now.
fn show(fd: u32, bytes: &[u8]) {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let fd: BorrowedFd<'_> = if fd == 2 { stderr.as_fd() } else { stdout.as_fd() };
    // A program that closed its output does not want to see it.
    if let Ok(own) = fd.try_clone_to_owned() {
        let _ = File::from(own).write_all(bytes);
    }
}
