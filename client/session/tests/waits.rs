//! Waits of a thread for several streams, of one vGPU or of several: when each is asked about.
//! In: one or two scripted servers. Out: what each was told, and in which order.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use floe_abi::{Context, CudaError, Device, Stream, stream_flags};
use floe_session::Client;
use floe_surface::*;
use floe_wire::Request;
use scripted::*;

const ASKED: &str = "SynchronizeStream";
/// More than a link takes while nobody reads.
const STALLED: usize = 64 << 20;

/// A program with a stream on each of two vGPUs.
struct Two {
    client: &'static Client,
    contexts: Vec<Context>,
    streams: Vec<Stream>,
}

impl Two {
    fn new(servers: [&Server; 2]) -> Self {
        let client = client_with(&servers, &[]);
        client.init(0).unwrap();
        let mut contexts = Vec::new();
        let streams = [0, 1].map(|device| {
            contexts.push(client.device_primary_ctx_retain(Device(device)).unwrap());
            client.ctx_set_current(*contexts.last().unwrap()).unwrap();
            client.stream_create(stream_flags::NON_BLOCKING).unwrap()
        });
        Self { client, contexts, streams: streams.to_vec() }
    }

    /// Puts work on both streams.
    fn work_on_both(&self) {
        self.work(0);
        self.work(1);
    }

    fn work(&self, device: usize) {
        self.client.ctx_set_current(self.contexts[device]).unwrap();
        let at = self.client.mem_alloc(64).unwrap();
        self.client.memset_d8(self.streams[device], at, 0, 64).unwrap();
    }

    fn wait(&self, device: usize) {
        self.client.ctx_set_current(self.contexts[device]).unwrap();
        self.client.stream_synchronize(self.streams[device]).unwrap();
    }
}

#[test]
fn who_waits_for_two_vgpus_by_turns_asks_the_second_with_the_first() {
    let second_asked = Arc::new(AtomicUsize::new(0));
    let (asked, heard) = (Arc::clone(&second_asked), Arc::clone(&second_asked));
    let mut waits = 0;
    // From the second time on, this one's work is over only once the other has been asked.
    let first = Server::scripted(move |request, _, _| {
        if matches!(request, Request::SynchronizeStream(_)) {
            until("the other's question", || heard.load(Ordering::SeqCst) >= waits);
            waits += 1;
        }
        Flow::Usual
    });
    let second = Server::scripted(move |request, _, _| {
        if matches!(request, Request::SynchronizeStream(_)) {
            asked.fetch_add(1, Ordering::SeqCst);
        }
        Flow::Usual
    });
    let program = Two::new([&first, &second]);
    // The first time nobody knows that the program will wait for the second.
    for turn in 0..5 {
        program.work_on_both();
        if turn == 1 {
            second_asked.store(0, Ordering::SeqCst);
        }
        program.wait(0);
        program.wait(1);
    }
    assert_eq!((first.count(ASKED), second.count(ASKED)), (5, 5), "none was asked twice");
}

#[test]
fn a_vgpu_that_is_not_waited_for_is_asked_once() {
    let (first, second) = (Server::scripted(|_, _, _| Flow::Usual), Server::scripted(|_, _, _| Flow::Usual));
    let program = Two::new([&first, &second]);
    program.work(1);
    program.wait(1);
    for _ in 0..5 {
        program.work_on_both();
        program.wait(0);
    }
    program.wait(1);
    assert_eq!(first.count(ASKED), 5);
    assert_eq!(second.count(ASKED), 3, "before, beside the first's wait, and for the work since then");
}

#[test]
fn work_behind_the_question_is_waited_for() {
    let (first, second) = (Server::scripted(|_, _, _| Flow::Usual), Server::scripted(|_, _, _| Flow::Usual));
    let program = Two::new([&first, &second]);
    program.work(1);
    program.wait(1);
    program.work_on_both();
    program.wait(0);
    program.work(1);
    program.wait(1);
    let names = second.names();
    assert_eq!(names.iter().rev().find(|name| [ASKED, "Fill"].contains(*name)), Some(&ASKED), "{names:?}");
    assert_eq!(second.count(ASKED), 3);
}

#[test]
fn a_thread_asks_for_its_own_streams_only() {
    let (first, second) = (Server::scripted(|_, _, _| Flow::Usual), Server::scripted(|_, _, _| Flow::Usual));
    let program = Two::new([&first, &second]);
    program.work_on_both();
    std::thread::scope(|scope| {
        for device in [0, 1] {
            scope.spawn({
                let program = &program;
                move || program.wait(device)
            });
        }
    });
    program.work_on_both();
    std::thread::scope(|scope| scope.spawn(|| program.wait(0)).join().unwrap());
    assert_eq!((first.count(ASKED), second.count(ASKED)), (2, 1));
}

#[test]
fn a_failed_answer_beside_another_wait_is_told_once() {
    let first = Server::scripted(|_, _, _| Flow::Usual);
    let mut asked = 0;
    let second = Server::scripted(move |request, sequence, peer| {
        if !matches!(request, Request::SynchronizeStream(_)) {
            return Flow::Usual;
        }
        asked += 1;
        if asked == 1 {
            return Flow::Usual;
        }
        peer.reply_with(sequence, CudaError::LAUNCH_TIMEOUT.code(), 0, "", &[]);
        Flow::Done
    });
    let program = Two::new([&first, &second]);
    program.work(1);
    program.wait(1);
    program.work_on_both();
    program.wait(0);
    program.client.ctx_set_current(program.contexts[1]).unwrap();
    assert!(program.client.stream_synchronize(program.streams[1]).is_err());
    assert_eq!(second.count(ASKED), 2, "it is not asked again");
}

#[test]
fn a_wait_does_not_stand_where_another_vgpu_takes_nothing() {
    let (release, hold) = mpsc::channel::<()>();
    let first = Server::scripted(|_, _, _| Flow::Usual);
    let mut fills = 0;
    let second = Server::scripted(move |request, _, _| {
        fills += usize::from(matches!(request, Request::Fill(_)));
        if fills == 2 {
            // It reads nothing more until the test says so.
            let _ = hold.recv();
            fills += 1;
        }
        Flow::Usual
    });
    let program = Two::new([&first, &second]);
    program.work(1);
    program.wait(1);
    let at = program.client.mem_alloc(STALLED).unwrap();
    let from = pinned(program.client.mem_alloc_host(STALLED).unwrap(), STALLED);
    program.work_on_both();
    program.client.memcpy_htod_async(at, from, program.streams[1]).unwrap();
    program.wait(0);
    release.send(()).unwrap();
    program.wait(1);
}

/// A program with streams of one vGPU.
struct One<'s> {
    client: &'static Client,
    server: &'s Server,
    streams: Vec<Stream>,
}

impl<'s> One<'s> {
    fn new(server: &'s Server, streams: usize) -> Self {
        let client = client(server);
        let streams = (0..streams).map(|_| client.stream_create(stream_flags::NON_BLOCKING).unwrap()).collect();
        Self { client, server, streams }
    }

    /// Puts work on all streams.
    fn work_on_all(&self) {
        (0..self.streams.len()).for_each(|stream| self.work(stream));
    }

    fn work(&self, stream: usize) {
        let at = self.client.mem_alloc(64).unwrap();
        self.client.memset_d8_async(at, 0, 64, self.streams[stream]).unwrap();
    }

    fn wait(&self, stream: usize) {
        self.client.stream_synchronize(self.streams[stream]).unwrap();
    }

    /// The streams that were asked about so far, by their index among the program's.
    fn asked(&self) -> Vec<usize> {
        let seen = self.server.seen();
        let ids: Vec<u64> = seen
            .iter()
            .filter_map(
                |seen| if let Request::CreateStream(made) = seen.request() { Some(made.stream.0) } else { None },
            )
            .collect();
        let asked = seen.iter().filter_map(|seen| {
            let Request::SynchronizeStream(asked) = seen.request() else { return None };
            ids.iter().position(|id| *id == asked.stream.0)
        });
        asked.collect()
    }
}

#[test]
fn who_has_waited_for_two_streams_asks_for_the_others_with_the_second() {
    let server = Server::scripted(|_, _, _| Flow::Usual);
    let program = One::new(&server, 6);
    program.work_on_all();
    (0..6).for_each(|stream| program.wait(stream));
    assert_eq!(program.asked(), [0, 2, 3, 4, 5, 1], "the one that is waited for last, so that all leave at once");
    // From then on with the first.
    program.work_on_all();
    (0..6).for_each(|stream| program.wait(stream));
    assert_eq!(program.asked()[6..], [1, 2, 3, 4, 5, 0]);
}

/// The server answers the second stream's question last, as it came: then the other answers are here.
#[test]
fn answers_that_come_with_the_second_streams_are_not_waited_for() {
    let server = Server::scripted(|_, _, _| Flow::Usual);
    let program = One::new(&server, 6);
    let waits = || program.client.statistics().waited.iter().sum::<u64>();
    for expected in [2, 1] {
        program.work_on_all();
        let before = waits();
        (0..6).for_each(|stream| counted(program.client, |_| program.wait(stream)));
        assert_eq!(waits() - before, expected, "for the first and the second, then for the first");
    }
}

#[test]
fn a_stream_with_new_work_is_asked_about_again() {
    let server = Server::scripted(|_, _, _| Flow::Usual);
    let program = One::new(&server, 3);
    program.work_on_all();
    program.wait(0);
    program.wait(1);
    program.work(2);
    program.wait(2);
    assert_eq!(program.asked(), [0, 2, 1, 2]);
}

#[test]
fn a_stream_that_is_not_waited_for_is_asked_about_once() {
    let server = Server::scripted(|_, _, _| Flow::Usual);
    let program = One::new(&server, 3);
    for _ in 0..5 {
        program.work_on_all();
        program.wait(0);
        program.wait(1);
    }
    assert_eq!(program.asked().iter().filter(|stream| **stream == 2).count(), 1);
}

#[test]
fn who_waits_for_one_stream_asks_about_no_other() {
    let server = Server::scripted(|_, _, _| Flow::Usual);
    let program = One::new(&server, 3);
    for _ in 0..5 {
        program.work_on_all();
        program.wait(1);
    }
    assert_eq!(program.asked(), [1; 5]);
}

/// A question about it would be work of its own, for which other streams wait.
#[test]
fn the_default_stream_is_asked_about_by_its_own_wait_only() {
    let server = Server::scripted(|_, _, _| Flow::Usual);
    let program = One::new(&server, 2);
    let at = program.client.mem_alloc(64).unwrap();
    for _ in 0..3 {
        program.work_on_all();
        program.client.memset_d8_async(at, 0, 64, Stream::LEGACY).unwrap();
        program.wait(0);
        program.wait(1);
        assert_eq!(server.count(ASKED), program.asked().len(), "the program's streams alone");
        program.client.memset_d8_async(at, 0, 64, Stream::LEGACY).unwrap();
        program.client.ctx_synchronize().unwrap();
    }
}

#[test]
fn a_failed_answer_beside_a_wait_for_the_same_vgpu_is_told_once() {
    let mut asked = 0;
    let server = Server::scripted(move |request, sequence, peer| {
        asked += usize::from(matches!(request, Request::SynchronizeStream(_)));
        if !matches!(request, Request::SynchronizeStream(_)) || asked != 2 {
            return Flow::Usual;
        }
        peer.reply_with(sequence, CudaError::LAUNCH_TIMEOUT.code(), 0, "", &[]);
        Flow::Done
    });
    let program = One::new(&server, 3);
    program.work_on_all();
    program.wait(0);
    // The answer about the third stream is here before the second's, which reports it.
    let waited = program.client.stream_synchronize(program.streams[1]);
    assert_eq!(waited, Err(CudaError::LAUNCH_TIMEOUT));
    assert_eq!(program.asked(), [0, 2, 1]);
}
