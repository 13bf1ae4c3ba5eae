//! Waits that the issuer polls itself, and those that it leaves to the completer.
//! In: waits with nothing, something or much about them. Out: the verdict, by which thread asked the device.

use super::*;

const ISSUER: &str = "floe-issue";
const COMPLETER: &str = "floe-complete";

fn fill(value: u32) -> Fill {
    Fill { stream: StreamId(0), at: DevicePtr(BASE), pitch: 0, element: 4, value, width: 1, height: 1 }
}

fn read(client: &mut Client, bytes: u64) -> Vec<u8> {
    let sent = client.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE), bytes });
    let Some(Got::Delivery { request, bytes, .. }) = client.get() else { panic!("nothing is delivered") };
    assert_eq!(request, sent);
    assert_eq!(client.get(), status(sent, 0));
    bytes
}

#[test]
fn a_wait_with_nothing_behind_it_is_the_issuers() {
    let mut client = Client::new();
    client.memory();
    for value in 1..100 {
        client.send(&fill(value));
        client.ok(&SynchronizeStream { stream: StreamId(0) });
        client.ok(&SynchronizeContext {});
        assert_eq!(read(&mut client, 4), value.to_le_bytes());
    }
    assert_eq!(client.device.asked_by(), [ISSUER]);
}

#[test]
fn what_may_take_a_reader_its_time_is_the_completers() {
    let mut client = Client::new();
    client.memory();
    assert_eq!(read(&mut client, 5000), [0; 5000]);
    // The reply behind it may be either one's.
    assert!(client.device.asked_by().contains(&COMPLETER.to_owned()));
}

#[test]
fn a_long_wait_goes_to_the_completer_and_is_answered() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    client.send(&Fill { stream: StreamId(1), ..fill(1) });
    let held = client.send(&SynchronizeStream { stream: StreamId(1) });
    let began = Instant::now();
    let mut asked = client.device.asked_by();
    while !asked.contains(&COMPLETER.to_owned()) {
        assert!(began.elapsed() < PATIENCE, "the issuer keeps it");
        asked.extend(client.device.asked_by());
    }
    assert!(asked.contains(&ISSUER.to_owned()));
    client.device.release(0);
    assert_eq!(client.get(), status(held, 0));
}

#[test]
fn failure_is_reported_as_ever() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    let held = client.send(&CopyFromDevice { stream: StreamId(1), from: DevicePtr(BASE), bytes: 4 });
    client.device.break_context(700);
    assert_eq!(client.get(), status(held, 700), "nothing is delivered");
}

#[test]
fn box_of_more_small_pieces_than_the_ring_holds_comes_through() {
    let mut client = Client::new();
    client.memory();
    let (width, depth) = (4096, 8192);
    assert!(width * depth > buffer_bytes().download as u64);
    let from = BoxEnd::memory(DevicePtr(BASE), 0, 0);
    let sent = client.send(&CopyBoxFromDevice { stream: StreamId(0), from, width, height: 1, depth });
    let mut bytes = 0;
    while let Some(Got::Delivery { offset, bytes: piece, .. }) = client.get() {
        assert_eq!(offset, bytes);
        bytes += piece.len() as u64;
        if bytes == width * depth {
            break;
        }
    }
    assert_eq!((client.get(), bytes), (status(sent, 0), width * depth));
}
