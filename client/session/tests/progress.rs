//! Queries: asked once, then answered from what the server says by itself; and never behind what a program can know.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, Device, Event, Stream, event_flags};
use floe_surface::*;
use floe_wire::{Progress, Request, StreamId};
use scripted::*;

/// A server whose work is not over until `over` says so, with the frame of the last record.
fn slow(over: &Arc<AtomicBool>, recorded: &Arc<AtomicU64>) -> Server {
    let (over, recorded) = (Arc::clone(over), Arc::clone(recorded));
    Server::scripted(move |request, sequence, peer| match request {
        Request::RecordEvent(_) => {
            recorded.store(sequence, Ordering::SeqCst);
            Flow::Usual
        }
        Request::QueryEvent(_) | Request::QueryStream(_) if !over.load(Ordering::SeqCst) => {
            peer.reply_with(sequence, CudaError::NOT_READY.code(), 0, "", &[]);
            Flow::Done
        }
        // Says how far the default stream has come.
        Request::SetCacheConfig(_) => {
            let sequence = recorded.load(Ordering::SeqCst);
            let _ = peer.sender.send(&Progress { stream: StreamId(0), sequence, status: 0 }, |_| ());
            Flow::Usual
        }
        _ => Flow::Usual,
    })
}

fn recorded_event(client: &floe_session::Client) -> Event {
    let at = client.mem_alloc(64).unwrap();
    let event = client.event_create(event_flags::DEFAULT).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 64).unwrap();
    client.event_record(event, Stream::LEGACY).unwrap();
    event
}

#[test]
fn a_loop_of_event_queries_asks_once_and_ends_when_the_server_says_so() {
    let (over, recorded) = Default::default();
    let server = slow(&over, &recorded);
    let client = client(&server);
    let event = recorded_event(client);
    for _ in 0..100 {
        assert_eq!(client.event_query(event), Err(CudaError::NOT_READY));
    }
    assert_eq!(server.count("QueryEvent"), 1);
    client.ctx_set_cache_config(1).unwrap();
    until("the event", || client.event_query(event) != Err(CudaError::NOT_READY));
    assert_eq!(client.event_query(event), Ok(()));
    assert_eq!(server.count("QueryEvent"), 1);
}

#[test]
fn a_loop_of_stream_queries_asks_once() {
    let (over, recorded) = Default::default();
    let server = slow(&over, &recorded);
    let client = client(&server);
    recorded_event(client);
    for _ in 0..100 {
        assert_eq!(client.stream_query(Stream::LEGACY), Err(CudaError::NOT_READY));
    }
    assert_eq!(server.count("QueryStream"), 1);
    client.ctx_set_cache_config(1).unwrap();
    over.store(true, Ordering::SeqCst);
    until("the stream's work", || client.stream_query(Stream::LEGACY) != Err(CudaError::NOT_READY));
    assert!(server.count("QueryStream") <= 2);
}

#[test]
fn after_any_other_answer_a_query_asks_again() {
    let (over, recorded) = Default::default();
    let server = slow(&over, &recorded);
    let client = client(&server);
    let event = recorded_event(client);
    assert_eq!(client.event_query(event), Err(CudaError::NOT_READY));
    // The program learns something that may depend on the event, and nothing was said about the event itself.
    over.store(true, Ordering::SeqCst);
    client.mem_get_info().unwrap();
    assert_eq!(client.event_query(event), Ok(()));
    assert_eq!(server.count("QueryEvent"), 2);
}

/// As `slow`, of events that are followed from their records on. Their numbers go into `followed`; the next setting of a cache has
/// all of them answered.
fn following(over: &Arc<AtomicBool>, followed: &Arc<Mutex<Vec<u64>>>) -> Server {
    let (over, followed) = (Arc::clone(over), Arc::clone(followed));
    Server::scripted(move |request, sequence, peer| match request {
        Request::QueryEvent(_) if !over.load(Ordering::SeqCst) => {
            peer.reply_with(sequence, CudaError::NOT_READY.code(), 0, "", &[]);
            Flow::Done
        }
        Request::SynchronizeEvent(_) => {
            followed.lock().unwrap().push(sequence);
            Flow::Done
        }
        Request::SetCacheConfig(_) => {
            followed.lock().unwrap().drain(..).for_each(|sequence| peer.reply_with(sequence, 0, 0, "", &[]));
            Flow::Usual
        }
        _ => Flow::Usual,
    })
}

#[test]
fn an_event_that_was_queried_is_followed_from_its_next_record_and_asked_about_no_more() {
    let (over, followed) = Default::default();
    let server = following(&over, &followed);
    let client = client(&server);
    let event = recorded_event(client);
    assert_eq!(client.event_query(event), Err(CudaError::NOT_READY));
    assert_eq!((server.count("QueryEvent"), server.count("SynchronizeEvent")), (1, 0));
    client.event_record(event, Stream::LEGACY).unwrap();
    for _ in 0..100 {
        assert_eq!(client.event_query(event), Err(CudaError::NOT_READY));
    }
    client.ctx_set_cache_config(1).unwrap();
    until("the event", || client.event_query(event) != Err(CudaError::NOT_READY));
    assert_eq!(client.event_query(event), Ok(()));
    assert_eq!((server.count("QueryEvent"), server.count("SynchronizeEvent")), (1, 1));
    // This record is followed, as the one before was queried; nobody queries it, so the next one is not.
    for _ in 0..2 {
        client.event_record(event, Stream::LEGACY).unwrap();
    }
    client.ctx_set_cache_config(2).unwrap();
    until("the words", || server.count("SetCacheConfig") == 2);
    assert_eq!(server.count("SynchronizeEvent"), 2);
}

#[test]
fn after_any_other_answer_an_event_that_is_followed_is_asked_about() {
    let (over, followed) = Default::default();
    let server = following(&over, &followed);
    let client = client(&server);
    let event = recorded_event(client);
    assert_eq!(client.event_query(event), Err(CudaError::NOT_READY));
    client.event_record(event, Stream::LEGACY).unwrap();
    assert_eq!(client.event_query(event), Err(CudaError::NOT_READY));
    over.store(true, Ordering::SeqCst);
    client.mem_get_info().unwrap();
    assert_eq!(client.event_query(event), Ok(()));
    assert_eq!(server.count("QueryEvent"), 2);
}

#[test]
fn what_is_said_of_one_query_makes_no_other_be_asked_again() {
    let (over, followed) = Default::default();
    let server = following(&over, &followed);
    let client = client(&server);
    let events = [recorded_event(client), recorded_event(client)];
    for event in events.iter().cycle().take(20) {
        assert_eq!(client.event_query(*event), Err(CudaError::NOT_READY));
    }
    assert_eq!(server.count("QueryEvent"), 2);
    for event in events {
        client.event_record(event, Stream::LEGACY).unwrap();
    }
    assert_eq!(client.event_query(events[1]), Err(CudaError::NOT_READY));
    until("both", || followed.lock().unwrap().len() == 2);
    // The word about the first comes alone.
    let both = std::mem::take(&mut *followed.lock().unwrap());
    followed.lock().unwrap().push(both[0]);
    client.ctx_set_cache_config(1).unwrap();
    until("the first", || client.event_query(events[0]) != Err(CudaError::NOT_READY));
    assert_eq!(client.event_query(events[1]), Err(CudaError::NOT_READY));
    assert_eq!(server.count("QueryEvent"), 2);
}

/// A thread waits for an event while another one records it, by turns in a stream whose work is never over and in one whose work is
/// over at once.
#[test]
fn what_a_wait_hears_is_of_the_record_that_it_asked_about() {
    const ROUNDS: usize = 400;
    let (mut streams, mut last, mut held) = (Vec::new(), StreamId(0), Vec::new());
    let server = Server::scripted(move |request, sequence, peer| {
        match request {
            Request::CreateStream(message) => streams.push(message.stream),
            Request::RecordEvent(message) => {
                last = message.stream;
                held.drain(..).for_each(|request| peer.reply_with(request, CudaError::NOT_READY.code(), 0, "", &[]));
            }
            Request::SynchronizeEvent(_) if streams.first() == Some(&last) => {
                held.push(sequence);
                return Flow::Done;
            }
            Request::QueryStream(_) => {
                peer.reply_with(sequence, CudaError::NOT_READY.code(), 0, "", &[]);
                return Flow::Done;
            }
            _ => {}
        }
        Flow::Usual
    });
    let client = client(&server);
    let context = client.ctx_get_current().unwrap();
    let event = client.event_create(event_flags::DEFAULT).unwrap();
    let [busy, quick] = [(); 2].map(|()| client.stream_create(1).unwrap());
    let (is_over, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.ctx_set_current(context).unwrap();
            while !is_over.load(Ordering::SeqCst) {
                let _ = client.event_synchronize(event);
                answers.fetch_add(1, Ordering::SeqCst);
            }
        });
        let is_right = |round: usize| {
            for stream in [busy, quick] {
                client.event_record(event, stream).ok()?;
                (0..round % 16).for_each(|_| std::hint::spin_loop());
            }
            // One that began before is over, too.
            let before = answers.load(Ordering::SeqCst);
            until("an answer", || answers.load(Ordering::SeqCst) > before + 1);
            Some(client.stream_query(busy) == Err(CudaError::NOT_READY))
        };
        let wrong = (0..ROUNDS).find(|round| is_right(*round) != Some(true));
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(wrong, None);
    });
}

#[test]
fn an_event_of_which_a_failure_was_said_is_asked_about_again() {
    let asked = AtomicBool::new(false);
    let server = Server::scripted(move |request, sequence, peer| match request {
        Request::QueryEvent(_) if !asked.swap(true, Ordering::SeqCst) => {
            peer.reply_with(sequence, CudaError::NOT_READY.code(), 0, "", &[]);
            Flow::Done
        }
        Request::SynchronizeEvent(_) => {
            peer.reply_with(sequence, CudaError::OUT_OF_MEMORY.code(), 0, "", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let event = recorded_event(client);
    assert_eq!(client.event_query(event), Err(CudaError::NOT_READY));
    client.event_record(event, Stream::LEGACY).unwrap();
    let at = client.mem_alloc(64).unwrap();
    // Another call reports the failure.
    until("the failure", || client.memset_d8(Stream::LEGACY, at, 0, 64) == Err(CudaError::OUT_OF_MEMORY));
    assert_eq!(client.event_query(event), Ok(()));
    assert_eq!(server.count("QueryEvent"), 2);
}

#[test]
fn what_failed_in_a_context_that_has_ended_is_no_error_of_the_next_one() {
    let (mut recorded, mut followed) = (0, 0);
    let fault = CudaError::ILLEGAL_ADDRESS.code();
    let server = Server::scripted(move |request, sequence, peer| {
        match request {
            Request::RecordEvent(_) => recorded = sequence,
            Request::QueryEvent(_) => {
                peer.reply_with(sequence, CudaError::NOT_READY.code(), 0, "", &[]);
                return Flow::Done;
            }
            Request::SynchronizeEvent(_) => {
                followed = sequence;
                return Flow::Done;
            }
            Request::MemoryInfo(_) => {
                peer.reply_with(followed, fault, 0, "", &[]);
                let report = Progress { stream: StreamId(0), sequence: recorded, status: fault };
                peer.sender.send(&report, |_| ()).unwrap();
            }
            _ => {}
        }
        Flow::Usual
    });
    let client = client(&server);
    let event = recorded_event(client);
    assert_eq!(client.event_query(event), Err(CudaError::NOT_READY));
    client.event_record(event, Stream::LEGACY).unwrap();
    client.device_primary_ctx_release(Device(0)).unwrap();
    begun(client).mem_get_info().unwrap();
    assert_eq!((server.count("SynchronizeEvent"), server.count("ResetContext")), (1, 1));
    let at = client.mem_alloc(64).unwrap();
    assert_eq!(client.memset_d8(Stream::LEGACY, at, 0, 64), Ok(()));
}
