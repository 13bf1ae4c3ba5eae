//! Links of device code, against the device in memory, which puts inputs one behind the other; and texts that a link
//! compiles once, which are kept as machine code.
//! In: messages over a socket pair. Out: the verdict.

use std::collections::HashMap;

use super::*;
use crate::issue::cache::tests::believing_daemon;

const TEXT: &[u8] = b"kernel k 8";

fn input<'a>(kind: u32, name: &'a str) -> LinkInput<'a> {
    LinkInput { kind, name, options: vec![] }
}

fn link<'a>(id: u64, inputs: Vec<LinkInput<'a>>, contents: Vec<Content<'a>>) -> LinkLibrary<'a> {
    LinkLibrary { library: LibraryId(id), inputs, contents, options: vec![], log_bytes: 100 }
}

#[test]
fn inputs_come_as_a_librarys_contents_do_and_the_image_is_read_back() {
    let mut client = Client::new();
    let hashes = [hash_of(b"first"), hash_of(b"second")];
    let contents = vec![content(b"first", &hashes[0]), content(b"second", &hashes[1])];
    let inputs = vec![input(1, "a"), input(3, "b")];
    let reply = client.ok(&link(5, inputs.clone(), contents.clone()));
    assert_eq!(LinkLibrary::decode_reply(&reply).unwrap().missing, [0, 1]);
    client.send(&LibraryPart { library: LibraryId(6), content: 0, bytes: b"first" });
    client.send(&LibraryPart { library: LibraryId(6), content: 1, bytes: b"second" });
    let reply = client.ok(&link(6, inputs, contents));
    let said = LinkLibrary::decode_reply(&reply).unwrap();
    assert_eq!((said.missing, said.bytes, said.info), (vec![], 11, "linked: 2"));
    let image = client.ok(&ReadLinked { library: LibraryId(6) });
    assert_eq!(ReadLinked::decode_reply(&image).unwrap().bytes, b"firstsecond");
    let words = client.break_with(&ReadLinked { library: LibraryId(6) });
    assert!(words.ends_with("no linked image has the id: 6"), "{words}");
}

#[test]
fn a_link_that_fails_says_why_and_ends_nothing() {
    let mut client = Client::new();
    let hash = hash_of(b"bad one");
    client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"bad one" });
    let sent = client.send(&link(1, vec![input(1, "mine")], vec![content(b"bad one", &hash)]));
    let Some(Got::Reply { request, status, detail, .. }) = client.get() else { panic!("no reply") };
    assert_eq!((request, status, detail.as_str()), (sent, 218, "mine is bad"));
    client.ok(&SynchronizeContext {});
}

#[test]
fn inputs_that_cannot_be_violate_the_protocol() {
    let hash = hash_of(b"text");
    let text = || vec![content(b"text", &hash)];
    for (message, expected) in [
        (link(1, vec![input(6, "a")], text()), "unknown kind of input for a link: 6"),
        (link(1, vec![input(2, "a")], text()), "not a whole fat binary: 4 bytes"),
        (link(1, vec![input(1, "a\0b")], text()), "the name of an input has a NUL in it"),
        (link(1, vec![], text()), "0 inputs of a link with contents: 1"),
    ] {
        let mut client = Client::new();
        client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"text" });
        let words = client.break_with(&message);
        assert!(words.ends_with(expected), "{words}");
    }
}

/// A session of a device with a compiler, with a cache.
fn client(memory: u64) -> Client {
    let device = Arc::new(Fake::default());
    device.have_a_compiler();
    Client::planned(UnixStream::pair().unwrap(), device, |plan| {
        plan.memory = memory;
        plan.cache = Some(believing_daemon(HashMap::new()));
    })
}

fn send_and_load(client: &mut Client, library: u64, bytes: &[u8], at_once: bool) {
    let hash = hash_of(bytes);
    client.send(&LibraryPart { library: LibraryId(library), content: 0, bytes });
    client.ok(&LoadLibrary { contents: vec![content(bytes, &hash)], at_once, ..text(LibraryId(library)) });
}

fn find(client: &mut Client, library: u64, kernel: u64) {
    client.ok(&FindKernel { library: LibraryId(library), name: "k", kernel: KernelId(kernel) });
}

#[test]
fn a_text_is_compiled_once() {
    let mut client = client(0);
    for (library, at_once) in [(1, false), (2, false), (3, true)] {
        send_and_load(&mut client, library, TEXT, at_once);
        find(&mut client, library, library);
    }
    assert_eq!(client.device.compiled(), (Some(1), [3, 0]), "machine code was kept");
    let other = b"kernel k 16";
    send_and_load(&mut client, 4, other, false);
    assert_eq!(client.device.compiled(), (Some(2), [4, 0]));
}

#[test]
fn what_a_compiler_cannot_make_is_the_drivers_to_load_and_to_refuse() {
    let mut client = client(0);
    send_and_load(&mut client, 1, b"kernel k 8\n// kernel uncompilable", false);
    find(&mut client, 1, 1);
    send_and_load(&mut client, 2, b"kernel k 8\n// kernel uncompilable", true);
    assert_eq!(client.device.compiled(), (Some(2), [0, 2]));
    let wrong = b"uncompilable";
    let hash = hash_of(wrong);
    client.send(&LibraryPart { library: LibraryId(3), content: 0, bytes: wrong });
    let sent = client.send(&LoadLibrary { contents: vec![content(wrong, &hash)], at_once: true, ..text(LibraryId(3)) });
    let Some(Got::Reply { request, status, detail, .. }) = client.get() else { panic!("no reply") };
    assert_eq!((request, status, detail.as_str()), (sent, 218, "line 1: uncompilable"));
}

#[test]
fn variables_and_options_beyond_the_machine_code_leave_a_text_to_the_driver() {
    let mut client = client(0);
    send_and_load(&mut client, 1, b"kernel k 8\n.visible .global .align 8 .b8 v[8];", false);
    find(&mut client, 1, 1);
    let hash = hash_of(TEXT);
    client.send(&LibraryPart { library: LibraryId(2), content: 0, bytes: TEXT });
    let options = vec![JitOption { option: 9, value: 80 }];
    client.ok(&LoadLibrary { contents: vec![content(TEXT, &hash)], options, at_once: true, ..text(LibraryId(2)) });
    assert_eq!(client.device.compiled(), (Some(0), [0, 2]));
}

#[test]
fn machine_code_that_does_not_load_leaves_its_text_to_the_driver() {
    let mut client = client(0);
    client.device.compile_wrongly();
    for library in 1..3 {
        send_and_load(&mut client, library, TEXT, library == 1);
        find(&mut client, library, library);
    }
    assert_eq!(client.device.compiled(), (Some(1), [2, 2]));
}

#[test]
fn machine_code_whose_demand_is_unknown_is_not_loaded_where_memory_is_counted() {
    // The header without sections is no cubin that can be understood.
    let mut client = client(1 << 20);
    let text = b".version 8.0\n.target sm_80\n.address_size 64\n// kernel k 8";
    send_and_load(&mut client, 1, text, false);
    find(&mut client, 1, 1);
    assert_eq!(client.device.compiled(), (Some(1), [0, 1]));
}
