//! The broker, stepped: honest and lying workers, with a clock that the test moves.

use super::*;

const OWNER: u64 = 1;
const OTHER: u64 = 2;
const THIRD: u64 = 3;
const BYTES: u64 = 1 << 21;

fn import(request: u64, session: u64) -> Import {
    Import { request, session, ticket: 5, proof: [7; 32], kind: Kind::Block, object: 9 }
}

fn granted(importer: u64, request: u64) -> Answer {
    Answer { importer, request, outcome: Ok(BYTES) }
}

fn refused(importer: u64, request: u64) -> Answer {
    Answer { importer, request, outcome: Err(Refused::Unknown) }
}

fn broker() -> (Broker, Instant) {
    let mut broker = Broker::default();
    broker.begin(OWNER, 4);
    broker.begin(OTHER, 0);
    broker.begin(THIRD, 0);
    (broker, Instant::now())
}

fn asked(importer: u64, request: u64) -> Deed {
    Deed::Notify(OWNER, PeerNotice::Asked(Question { importer, import: import(request, OWNER) }))
}

fn passed(importer: u64, request: u64) -> Deed {
    let from = Returned { session: OWNER, kind: Kind::Block, object: 9 };
    Deed::Pass(importer, PeerNotice::Imported { request, bytes: BYTES, gpu: 4, from })
}

fn told_no(importer: u64, request: u64, why: Refused) -> Deed {
    Deed::Notify(importer, PeerNotice::Refused(request, why))
}

/// A session has one import of the owner's.
fn shared() -> (Broker, Instant) {
    let (mut broker, now) = broker();
    assert_eq!(broker.ask(now, OTHER, import(1, OWNER)), [asked(OTHER, 1)]);
    assert_eq!(broker.answer(now, OWNER, granted(OTHER, 1), Came::Memory), [passed(OTHER, 1)]);
    (broker, now)
}

#[test]
fn an_import_goes_to_its_owner_and_the_answer_to_who_asked() {
    let (mut broker, now) = shared();
    let returned = Returned { session: OWNER, kind: Kind::Block, object: 9 };
    let told = Deed::Notify(OWNER, PeerNotice::Returned(OTHER, vec![(Kind::Block, 9)]));
    assert_eq!(broker.returned(OTHER, &[returned]), [told]);
    assert_eq!(broker.ask(now, OTHER, import(2, OWNER)), [asked(OTHER, 2)]);
    assert_eq!(broker.answer(now, OWNER, refused(OTHER, 2), Came::Nothing), [told_no(OTHER, 2, Refused::Unknown)]);
    assert_eq!(broker.ask(now, OTHER, import(3, 77)), [told_no(OTHER, 3, Refused::Unknown)], "no such session");
}

#[test]
fn a_file_goes_only_to_who_asked_for_one() {
    let (mut broker, now) = broker();
    let file = Import { kind: Kind::File, ..import(1, OWNER) };
    broker.ask(now, OTHER, file);
    let deeds = broker.answer(now, OWNER, granted(OTHER, 1), Came::File);
    assert!(matches!(deeds[..], [Deed::Pass(OTHER, _)]), "{deeds:?}");
    broker.ask(now, OTHER, import(2, OWNER));
    let deeds = broker.answer(now, OWNER, granted(OTHER, 2), Came::File);
    assert!(deeds.iter().any(|deed| matches!(deed, Deed::Kill(OWNER, _))), "{deeds:?}");
}

#[test]
fn lying_answers_end_their_worker_and_give_nobody_anything() {
    let kills = |answer, came| {
        let (mut broker, now) = broker();
        broker.ask(now, OTHER, import(1, OWNER));
        let deeds = broker.answer(now, OWNER, answer, came);
        assert!(!deeds.iter().any(|deed| matches!(deed, Deed::Pass(..))), "{deeds:?}");
        deeds.iter().any(|deed| matches!(deed, Deed::Kill(OWNER, _)))
    };
    assert!(kills(granted(OTHER, 2), Came::Memory), "a wrong number");
    assert!(kills(granted(THIRD, 1), Came::Memory), "for somebody else");
    assert!(kills(granted(OTHER, 1), Came::Nothing), "no descriptor");
    assert!(kills(granted(OTHER, 1), Came::Nonsense), "a descriptor of another kind");
    assert!(kills(refused(OTHER, 1), Came::Nonsense), "one with a refusal");
    let (mut broker, now) = shared();
    let twice = broker.answer(now, OWNER, granted(OTHER, 1), Came::Memory);
    assert!(matches!(*twice, [Deed::Kill(OWNER, _)]), "{twice:?}");
    broker.ask(now, OTHER, import(2, OWNER));
    let anothers = broker.answer(now, THIRD, granted(OTHER, 2), Came::Memory);
    assert!(matches!(*anothers, [Deed::Kill(THIRD, _)]), "{anothers:?}");
    assert_eq!(broker.answer(now, OWNER, granted(OTHER, 2), Came::Memory), [passed(OTHER, 2)], "it is not confused");
}

#[test]
fn a_liar_who_imports_ends_too() {
    let (mut broker, now) = shared();
    assert!(matches!(*broker.ask(now, OTHER, import(1, OWNER)), [Deed::Kill(OTHER, _)]), "a number again");
    let returned = Returned { session: OWNER, kind: Kind::Block, object: 9 };
    assert!(matches!(*broker.returned(OTHER, &[returned; 2]), [Deed::Kill(OTHER, _)]));
    assert_eq!(broker.returned(THIRD, &[returned]), [], "it has nothing of it");
}

#[test]
fn an_owner_that_answers_nothing_is_asked_a_bounded_number_and_holds_nobody_up() {
    let (mut broker, mut now) = broker();
    for session in 10..10 + OF_EXPORTER as u64 {
        broker.begin(session, 0);
        assert_eq!(broker.ask(now, session, import(1, OWNER)), [asked(session, 1)]);
    }
    assert_eq!(broker.ask(now, OTHER, import(1, OWNER)), [], "it waits for its turn");
    now += PATIENCE;
    // Everybody has given up, and may ask others.
    broker.begin(99, 0);
    let at_other = Deed::Notify(99, PeerNotice::Asked(Question { importer: OTHER, import: import(2, 99) }));
    assert_eq!(broker.ask(now, OTHER, import(2, 99)), [at_other]);
    assert_eq!(broker.ask(now, THIRD, import(1, OWNER)), [], "it is asked nothing more");
    let late = Deed::Notify(OWNER, PeerNotice::Returned(10, vec![(Kind::Block, 9)]));
    assert_eq!(broker.answer(now, OWNER, granted(10, 1), Came::Memory), [asked(THIRD, 1), late]);
    assert_eq!(broker.answer(now, OWNER, refused(11, 1), Came::Nothing), [], "what expired in line is not asked");
}

#[test]
fn who_asks_too_much_or_without_success_is_refused() {
    let (mut broker, now) = broker();
    let ahead = u64::from(OF_IMPORTER);
    (1..=ahead).for_each(|request| assert_eq!(broker.ask(now, OTHER, import(request, OWNER)), [asked(OTHER, request)]));
    let refused_now = [told_no(OTHER, ahead + 1, Refused::NotPermitted)];
    assert_eq!(broker.ask(now, OTHER, import(ahead + 1, OWNER)), refused_now);
    for request in 1..=u64::from(FAILURES) {
        assert_eq!(broker.ask(now, THIRD, import(request, 77)), [told_no(THIRD, request, Refused::Unknown)]);
    }
    let more = u64::from(FAILURES) + 1;
    assert_eq!(broker.ask(now, THIRD, import(more, OWNER)), [told_no(THIRD, more, Refused::NotPermitted)]);
    // Each second one is forgiven, and no more.
    let soon = now + Duration::from_millis(999);
    assert_eq!(broker.ask(soon, THIRD, import(more + 1, OWNER)), [told_no(THIRD, more + 1, Refused::NotPermitted)]);
    let later = now + Duration::from_secs(1);
    assert_eq!(broker.ask(later, THIRD, import(more + 2, OWNER)), [asked(THIRD, more + 2)]);
    assert_eq!(broker.ask(later, THIRD, import(more + 3, OWNER)), [told_no(THIRD, more + 3, Refused::NotPermitted)]);
}

#[test]
fn a_session_shares_with_so_many_others() {
    let (mut broker, now) = broker();
    let last = 100 + PARTNERS as u64;
    for session in 100..last {
        broker.begin(session, 0);
        broker.ask(now, session, import(1, OWNER));
        broker.answer(now, OWNER, granted(session, 1), Came::Memory);
    }
    assert_eq!(broker.ask(now, OTHER, import(1, OWNER)), [told_no(OTHER, 1, Refused::NotPermitted)]);
    assert_eq!(broker.ask(now, 100, import(2, OWNER)), [asked(100, 2)], "who shares already may go on");
    broker.end(101);
    assert_eq!(broker.ask(now, OTHER, import(2, OWNER)), [asked(OTHER, 2)]);
}

#[test]
fn the_end_of_a_session_is_told_to_its_partners_and_to_those_who_wait_for_it() {
    let (mut broker, now) = shared();
    broker.ask(now, THIRD, import(1, OWNER));
    let deeds = broker.end(OWNER);
    assert_eq!(deeds, [told_no(THIRD, 1, Refused::Unknown), Deed::Notify(OTHER, PeerNotice::Over(OWNER))]);
    let returned = Returned { session: OWNER, kind: Kind::Block, object: 9 };
    assert_eq!(broker.returned(OTHER, &[returned]), [], "nobody is left who pays for it");
    assert_eq!(broker.ask(now, OTHER, import(2, OWNER)), [told_no(OTHER, 2, Refused::Unknown)]);
    assert_eq!(broker.end(OTHER), []);
}

#[test]
fn what_was_exported_to_a_session_that_ended_meanwhile_is_taken_back() {
    let (mut broker, now) = shared();
    broker.ask(now, OTHER, import(2, OWNER));
    assert_eq!(broker.end(OTHER), [Deed::Notify(OWNER, PeerNotice::Over(OTHER))]);
    let back = Deed::Notify(OWNER, PeerNotice::Returned(OTHER, vec![(Kind::Block, 9)]));
    assert_eq!(broker.answer(now, OWNER, granted(OTHER, 2), Came::Memory), [back]);
}

#[test]
fn a_session_imports_from_itself() {
    let (mut broker, now) = broker();
    assert_eq!(broker.ask(now, OWNER, import(1, OWNER)), [asked(OWNER, 1)]);
    assert_eq!(broker.answer(now, OWNER, granted(OWNER, 1), Came::Memory), [passed(OWNER, 1)]);
    assert_eq!(broker.end(OWNER), []);
}

#[test]
fn a_target_takes_the_sessions_number_and_nobody_is_told_that_anything_is_over() {
    let (mut broker, now) = (Broker::default(), Instant::now());
    broker.begin(OWNER, 0);
    broker.begin(OTHER, 1);
    // The target of the session's move imports what the session has.
    for request in 1..=3 {
        broker.ask(now, OTHER, import(request, OWNER));
        let deeds = broker.answer(now, OWNER, granted(OTHER, request), Came::Memory);
        assert!(matches!(&*deeds, [Deed::Pass(OTHER, _)]), "{deeds:?}");
    }
    assert!(!broker.has_partners(OWNER, OTHER) && broker.has_partners(OWNER, THIRD));
    broker.succeed(OWNER, OTHER);
    assert_eq!(broker.end(OTHER), [], "the worker that had it");
    let last = import(3, THIRD);
    assert!(matches!(&*broker.ask(now, OWNER, last), [Deed::Kill(OWNER, _)]), "its numbers go on");
    let gone = Returned { session: OWNER, kind: Kind::Block, object: 9 };
    assert_eq!(broker.returned(OWNER, &[gone]), [], "what it had of itself");
    // It is a session as any other, on its new GPU.
    broker.begin(THIRD, 0);
    broker.ask(now, THIRD, import(1, OWNER));
    let deeds = broker.answer(now, OWNER, granted(THIRD, 1), Came::Memory);
    assert!(matches!(&*deeds, [Deed::Pass(THIRD, PeerNotice::Imported { gpu: 1, .. })]), "{deeds:?}");
}

#[test]
fn whoever_asks_a_session_for_something_or_is_asked_by_it_is_its_partner() {
    let (mut broker, now) = (Broker::default(), Instant::now());
    for session in [OWNER, OTHER, THIRD] {
        broker.begin(session, 0);
    }
    assert!(!broker.has_partners(OWNER, OWNER) && !broker.has_partners(OTHER, OTHER));
    broker.ask(now, OTHER, import(1, OWNER));
    assert!(broker.has_partners(OWNER, OWNER) && broker.has_partners(OTHER, OTHER), "it is asked");
    broker.answer(now, OWNER, refused(OTHER, 1), Came::Nothing);
    assert!(!broker.has_partners(OWNER, OWNER) && !broker.has_partners(OTHER, OTHER));
}
