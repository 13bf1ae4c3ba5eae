//! The line between two threads.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
use super::*;
use crate::wire_in::batch::Command;
use std::sync::Arc;

const BYTES: usize = 1 << 20;
const WHILE_HELD: usize = 1 << 30;

fn queue() -> Queue {
    Queue::new(BYTES, WHILE_HELD, Spin::default(), Expected::default())
}

/// A batch of one command.
fn batch(sequence: u64, bytes: usize) -> Batch {
    let mut batch = Batch::default();
    batch.push(Command { sequence, kind: 1, payload: &vec![0; bytes], range: None });
    batch
}

fn sequences(batch: &Batch) -> Vec<u64> {
    batch.commands().map(|command| command.sequence).collect()
}

fn push_small(queue: &Queue, sequence: u64) {
    assert!(queue.push_small(&Command { sequence, kind: 1, payload: &[7; 10], range: None }));
}

#[test]
fn full_queue_holds_the_reader_back_until_commands_are_issued() {
    let queue = Arc::new(queue());
    let filling = Arc::clone(&queue);
    let reader = std::thread::spawn(move || {
        for sequence in 0..3 {
            filling.push(&mut batch(sequence, BYTES)).unwrap();
        }
    });
    let mut issuing = Issuing::default();
    for sequence in 0..3 {
        assert_eq!(sequences(queue.next(&mut issuing).unwrap()), [sequence]);
        assert!(queue.line().batches.is_empty(), "one command fills the queue");
    }
    reader.join().unwrap();
}

#[test]
fn reader_that_is_to_rest_waits_for_no_room() {
    let queue = Arc::new(queue());
    let filling = Arc::clone(&queue);
    let reader =
        std::thread::spawn(move || (0..3).for_each(|sequence| filling.push(&mut batch(sequence, BYTES)).unwrap()));
    while queue.line().batches.is_empty() {
        std::thread::yield_now();
    }
    queue.let_pass(true);
    reader.join().unwrap();
    let mut issuing = Issuing::default();
    for sequence in 0..3 {
        assert_eq!(sequences(queue.next(&mut issuing).unwrap()), [sequence]);
    }
}

#[test]
fn host_function_keeps_the_reader_reading() {
    let queue = queue();
    queue.push(&mut batch(1, BYTES)).unwrap();
    queue.host_function_begins();
    queue.push(&mut batch(2, 10)).unwrap();
    let mut issuing = Issuing::default();
    assert_eq!(sequences(queue.next(&mut issuing).unwrap()), [1]);
    assert_eq!(sequences(queue.next(&mut issuing).unwrap()), [2]);
}

#[test]
fn nothing_that_is_held_fills_the_queue_for_good() {
    let queue = queue();
    queue.host_function_begins();
    queue.line().bytes = WHILE_HELD;
    assert_eq!(queue.push(&mut batch(1, 10)), Err(Overrun));
}

#[test]
fn issued_batch_is_filled_again() {
    let queue = queue();
    let mut issuing = Issuing::default();
    let mut filling = batch(1, 1000);
    let cost = filling.cost();
    queue.push(&mut filling).unwrap();
    assert!(queue.next(&mut issuing).is_some());
    queue.push(&mut filling).unwrap();
    assert!(queue.next(&mut issuing).is_some());
    queue.push(&mut filling).unwrap();
    assert_eq!((filling.cost(), filling.is_empty()), (cost, true));
}

#[test]
fn small_commands_and_batches_come_out_by_their_sequences() {
    let (queue, mut issuing) = (queue(), Issuing::default());
    [1, 2].into_iter().for_each(|sequence| push_small(&queue, sequence));
    queue.push(&mut batch(3, 10)).unwrap();
    push_small(&queue, 4);
    queue.push(&mut batch(5, 10)).unwrap();
    queue.push(&mut batch(6, 10)).unwrap();
    push_small(&queue, 7);
    let mut out = Vec::new();
    while out.len() < 7 {
        out.extend(sequences(queue.next(&mut issuing).unwrap()));
    }
    assert_eq!(out, [1, 2, 3, 4, 5, 6, 7]);
    push_small(&queue, 8);
    queue.close();
    assert!(queue.next(&mut issuing).is_none());
}

#[test]
fn nothing_is_lost_or_overtaken_between_two_threads_and_nobody_sleeps_for_good() {
    const COMMANDS: u64 = 200_000;
    for spin in ["0", "100"] {
        let queue = Arc::new(Queue::new(BYTES, WHILE_HELD, Spin::new(Some(spin)), Expected::default()));
        let filling = Arc::clone(&queue);
        let reader = std::thread::spawn(move || {
            let mut open = Batch::default();
            for sequence in 0..COMMANDS {
                // Bursts of all lengths, a batch now and then, and a stop behind each.
                let burst = sequence % 1009;
                let command = Command { sequence, kind: 1, payload: &sequence.to_le_bytes(), range: None };
                if !open.is_empty() || burst % 97 == 96 || !filling.push_small(&command) {
                    open.push(command);
                }
                if burst % 101 == 100 || burst == 0 {
                    if open.is_empty() {
                        filling.tell_issuer();
                    } else {
                        filling.push(&mut open).unwrap();
                    }
                    if burst == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(50));
                    }
                }
            }
            if open.is_empty() { filling.tell_issuer() } else { filling.push(&mut open).unwrap() }
        });
        let (mut issuing, mut expected) = (Issuing::default(), 0);
        while expected < COMMANDS {
            for command in queue.next(&mut issuing).unwrap().commands() {
                assert_eq!((command.sequence, command.payload), (expected, &expected.to_le_bytes()[..]));
                expected += 1;
            }
        }
        reader.join().unwrap();
    }
}
