//! Links of device code, against the device in memory, which puts inputs one behind the other.
//! In: messages over a socket pair. Out: the verdict.

use super::*;

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
