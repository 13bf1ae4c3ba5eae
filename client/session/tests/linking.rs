//! Links of device code: what travels of their inputs, against a server that keeps what it was sent.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail")]

mod scripted;

use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, jit_input};
use floe_surface::link::LinkInput;
use floe_surface::*;
use floe_wire::{Field, LinkLibraryReply, ReadLinkedReply, Request};
use scripted::*;

fn input(kind: u32, name: &str, bytes: &[u8]) -> LinkInput {
    LinkInput { kind, name: name.to_owned(), bytes: bytes.to_vec(), options: vec![(7, 3)] }
}

fn body<'a>(reply: &impl Field<'a>) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply.write(&mut bytes);
    bytes
}

/// A server that lacks everything that came in no part of the same link, and links to `image`, which it gives in `pieces`
/// from number `first` on.
fn linker(image: &'static [u8], pieces: usize, first: usize) -> Server {
    let (parts, read) = (Arc::<Mutex<Vec<u64>>>::default(), Mutex::new(first));
    Server::scripted(move |request, sequence, peer| {
        match request {
            Request::LibraryPart(part) => parts.lock().unwrap().push(part.library.0),
            Request::LinkLibrary(link) => {
                assert_eq!(link.inputs.len(), link.contents.len());
                assert_eq!((link.inputs[0].kind, link.inputs[0].name, link.inputs[0].options.len()), (1, "first", 1));
                let here = parts.lock().unwrap().iter().filter(|id| **id == link.library.0).count();
                let missing = if here == 0 { vec![0, 1] } else { vec![] };
                let bytes = if here == 0 { 0 } else { image.len() as u64 };
                peer.reply_with(sequence, 0, 0, "", &body(&LinkLibraryReply { missing, bytes, info: "done" }));
            }
            Request::ReadLinked(_) => {
                let mut read = read.lock().unwrap();
                let piece = image.chunks(image.len().div_ceil(pieces)).nth(*read).unwrap_or_default();
                *read += 1;
                peer.reply_with(sequence, 0, 0, "", &body(&ReadLinkedReply { bytes: piece }));
            }
            _ => return Flow::Usual,
        }
        Flow::Done
    })
}

#[test]
fn inputs_follow_where_the_server_lacks_them_and_the_image_comes_in_pieces() {
    let server = linker(b"the linked image", 3, 0);
    let client = client(&server);
    let inputs = [input(jit_input::PTX, "first", b".version"), input(jit_input::OBJECT, "second", &[1; 100])];
    let image = client.link(&inputs, &mut JitOptions::none()).unwrap();
    assert_eq!(image, b"the linked image");
    let expected =
        ["LinkLibrary", "LibraryPart", "LibraryPart", "LinkLibrary", "ReadLinked", "ReadLinked", "ReadLinked"];
    assert_eq!(server.names(), expected);
}

#[test]
fn an_image_that_does_not_come_whole_is_none() {
    let server = linker(b"the linked image", 3, 2);
    let client = client(&server);
    let inputs = [input(jit_input::PTX, "first", b".version"), input(jit_input::PTX, "second", b".version")];
    assert_eq!(client.link(&inputs, &mut JitOptions::none()), Err(CudaError::UNKNOWN));
    assert_eq!(server.count("ReadLinked"), 2);
}

#[test]
fn a_refusal_is_the_linkers_own() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::LinkLibrary(_) => {
            peer.reply_with(sequence, CudaError::INVALID_PTX.code(), 0, "line 3: no", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let refused = client.link(&[input(jit_input::PTX, "first", b"?")], &mut JitOptions::none());
    assert_eq!(refused, Err(CudaError::INVALID_PTX));
    assert_eq!(client.link(&[], &mut JitOptions::none()), Err(CudaError::INVALID_PTX));
}
