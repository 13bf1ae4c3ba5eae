//! A session that takes turns. In: commands and the daemon's orders. Out: what is issued when, and what the daemon hears.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::daemon::turn_notices::{TurnEnds, TurnEvent, TurnOrder, TurnReport, TurnSaid, Word};

struct Daemon {
    orders: Sender<TurnEvent>,
    reports: Receiver<TurnReport>,
}

impl Daemon {
    fn orders(&self, number: u64, word: Word) {
        self.orders.send(TurnEvent::Ordered(TurnOrder { number, word })).unwrap();
    }

    fn hears(&self) -> (u64, TurnSaid) {
        let report = self.reports.recv_timeout(PATIENCE).unwrap();
        (report.order, report.said)
    }
}

fn taking_turns() -> (Client, Daemon) {
    let (orders, events) = channel();
    let (said, reports) = channel();
    let report = Box::new(move |report| _ = said.send(report));
    let ends = TurnEnds { events: (orders.clone(), events), report };
    let change = |plan: &mut Plan| plan.turns = Some(ends);
    let mut client = Client::planned(UnixStream::pair().unwrap(), Arc::new(Fake::default()), change);
    client.memory();
    (client, Daemon { orders, reports })
}

fn fill(stream: u64, value: u32) -> Fill {
    Fill { stream: StreamId(stream), at: DevicePtr(BASE), pitch: 0, element: 4, value, width: 1, height: 1 }
}

const GO: Word = Word::Go { others_wait: false, brief: false };
const REST: TurnSaid = TurnSaid::Rests { wants: false };

#[test]
fn a_session_without_a_turn_issues_nothing_and_says_that_it_has_commands() {
    let (mut client, daemon) = taking_turns();
    daemon.orders(1, Word::Stop);
    assert_eq!(daemon.hears(), (1, REST));
    let asked = client.send(&MemoryInfo {});
    assert_eq!(daemon.hears(), (1, TurnSaid::Wants));
    // An order that says the same is answered again, and the commands are known.
    daemon.orders(2, Word::Stop);
    assert_eq!(daemon.hears(), (2, TurnSaid::Rests { wants: true }));
    assert!(client.link.receive(Some(Instant::now())).is_err(), "it is not answered");
    daemon.orders(3, GO);
    assert!(matches!(client.get(), Some(Got::Reply { request, status: 0, .. }) if request == asked));
    // Commands come in their order again.
    for value in 1..100 {
        client.send(&fill(0, value));
        client.ok(&SynchronizeStream { stream: StreamId(0) });
    }
}

#[test]
fn a_turn_is_over_when_what_is_in_flight_is() {
    let (mut client, daemon) = taking_turns();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    client.send(&fill(1, 7));
    client.ok(&MemoryInfo {});
    daemon.orders(1, Word::Stop);
    // It has stopped when commands wait, and says later only that its turn is over.
    let said = loop {
        client.send(&fill(1, 8));
        if let Ok(report) = daemon.reports.recv_timeout(Duration::from_millis(20)) {
            break report;
        }
    };
    assert_eq!((said.order, said.said), (1, TurnSaid::Wants));
    client.device.release(0);
    assert_eq!(daemon.hears(), (1, TurnSaid::Rests { wants: true }));
}

#[test]
fn a_turn_without_work_is_given_back_and_asked_for_again() {
    let (mut client, daemon) = taking_turns();
    for (order, others_wait) in [(1, true), (2, false)] {
        daemon.orders(order, Word::Go { others_wait, brief: false });
        assert_eq!(daemon.hears(), (order, REST));
        client.send(&fill(0, 1));
        assert_eq!(daemon.hears(), (order, TurnSaid::Wants));
    }
    daemon.orders(3, Word::Free);
    client.ok(&SynchronizeStream { stream: StreamId(0) });
}

/// Work behind what the client has to let go is not waited for, and is not over either.
#[test]
fn a_host_function_in_flight_keeps_nobody_waiting() {
    let (mut client, daemon) = taking_turns();
    client.send(&HostFunction { stream: StreamId(0), function: FunctionId(9) });
    assert_eq!(client.get(), Some(Got::RunHostFunction(9)));
    daemon.orders(1, Word::Stop);
    assert_eq!(daemon.hears(), (1, TurnSaid::Holds));
    daemon.orders(2, Word::Stop);
    assert_eq!(daemon.hears(), (2, TurnSaid::Holds));
    // Its end reaches the stream without a turn.
    client.send(&HostFunctionDone { function: FunctionId(9) });
    assert_eq!(daemon.hears(), (2, REST));
    let asked = client.send(&SynchronizeStream { stream: StreamId(0) });
    assert_eq!(daemon.hears(), (2, TurnSaid::Wants));
    daemon.orders(3, Word::Go { others_wait: true, brief: false });
    loop {
        match client.get() {
            Some(Got::Reply { request, status: 0, .. }) if request == asked => break,
            Some(Got::Progress(..)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_session_whose_turn_others_wait_for_does_all_that_it_is_told_to() {
    let (mut client, daemon) = taking_turns();
    daemon.orders(1, Word::Go { others_wait: true, brief: false });
    for value in 0..2000 {
        client.send(&fill(0, value));
    }
    let (mut order, asked) = (1, client.send(&SynchronizeStream { stream: StreamId(0) }));
    loop {
        // It may have rested meanwhile.
        if daemon.reports.try_recv().is_ok_and(|report| report.order == order) {
            order += 1;
            daemon.orders(order, Word::Go { others_wait: true, brief: false });
        }
        let Ok(Some(frame)) = client.link.receive(Some(Instant::now() + Duration::from_millis(20))) else { continue };
        if matches!(Push::decode(frame.kind, frame.payload), Ok(Push::Reply(Reply { request, .. })) if request == asked)
        {
            break;
        }
    }
    daemon.orders(order + 1, Word::Free);
    client.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE), bytes: 4 });
    assert!(matches!(client.get(), Some(Got::Delivery { bytes, .. }) if bytes == 1999_u32.to_le_bytes()));
}

/// However the thread that issues is delayed, each stop is answered.
#[test]
fn orders_in_quick_succession_are_all_obeyed() {
    let (mut client, daemon) = taking_turns();
    for order in 0..500 {
        daemon.orders(3 * order + 1, Word::Stop);
        daemon.orders(3 * order + 2, GO);
        daemon.orders(3 * order + 3, Word::Stop);
        while daemon.hears().0 != 3 * order + 3 {}
    }
    daemon.orders(9000, Word::Free);
    client.ok(&SynchronizeStream { stream: StreamId(0) });
}

#[test]
fn a_session_without_a_turn_ends_with_its_client() {
    let (mut client, daemon) = taking_turns();
    daemon.orders(1, Word::Stop);
    assert_eq!(daemon.hears(), (1, REST));
    client.send(&fill(0, 1));
    assert_eq!(daemon.hears(), (1, TurnSaid::Wants));
    let worker = client.worker.take().unwrap();
    drop(client);
    assert_eq!(worker.join().unwrap(), Ending::ClientLeft);
}
