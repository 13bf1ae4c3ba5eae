//! Links of device code that the program has begun. Inputs and options come in one by one and are kept here. All of
//! them go to the implementation at once, and the program keeps the image until it ends the link. Nothing here reads an
//! input.

use floe_lock::lock;

use crate::arguments::jit::JitOptions;
use floe_abi::{CudaError, CudaResult, LinkState, jit_input};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The most bytes of one link's inputs together; the largest library of device code is 130 MiB.
const MOST_BYTES: usize = 512 << 20;
/// The most inputs of one link.
const MOST_INPUTS: usize = 4096;

/// One input of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInput {
    /// One of `jit_input`.
    pub kind: u32,
    /// Its name in messages.
    pub name: String,
    /// All of it; of PTX without the NUL.
    pub bytes: Vec<u8>,
    /// Options for this input alone, with plain values.
    pub options: Vec<(u32, u64)>,
}

/// A link that was begun.
#[derive(Debug, Default)]
pub(crate) struct Link {
    options: JitOptions,
    inputs: Vec<LinkInput>,
    image: Option<Box<[u8]>>,
}

#[derive(Default)]
struct Links {
    last: u64,
    by_state: HashMap<u64, Arc<Mutex<Link>>>,
}

static LINKS: Mutex<Option<Links>> = Mutex::new(None);

/// Handles of links start here, which tells them from other handles.
const FIRST: u64 = 0x4c49_0000_0000;

/// Begins a link.
pub(crate) fn begin(options: JitOptions) -> LinkState {
    let mut links = lock(&LINKS);
    let links = links.get_or_insert_default();
    links.last += 1;
    let state = FIRST + links.last * 16;
    links.by_state.insert(state, Arc::new(Mutex::new(Link { options, ..Link::default() })));
    LinkState(state)
}

/// The link of a state.
///
/// # Errors
/// INVALID_HANDLE.
pub(crate) fn find(state: LinkState) -> CudaResult<Arc<Mutex<Link>>> {
    let links = lock(&LINKS);
    links.as_ref().and_then(|links| links.by_state.get(&state.0).cloned()).ok_or(CudaError::INVALID_HANDLE)
}

/// Ends a link.
///
/// # Errors
/// INVALID_HANDLE.
pub(crate) fn end(state: LinkState) -> CudaResult<()> {
    let mut links = lock(&LINKS);
    let ended = links.as_mut().and_then(|links| links.by_state.remove(&state.0));
    ended.map(drop).ok_or(CudaError::INVALID_HANDLE)
}

/// One more input for a link.
///
/// # Errors
/// INVALID_VALUE for a kind CUDA does not name, no bytes, and a link that is complete; OUT_OF_MEMORY beyond what is kept.
pub(crate) fn add(link: &Mutex<Link>, input: LinkInput) -> CudaResult<()> {
    let mut link = lock(link);
    if input.kind > jit_input::NVVM || input.bytes.is_empty() || link.image.is_some() {
        return Err(CudaError::INVALID_VALUE);
    }
    let held: usize = link.inputs.iter().map(|input| input.bytes.len()).sum();
    if held.saturating_add(input.bytes.len()) > MOST_BYTES || link.inputs.len() >= MOST_INPUTS {
        return Err(CudaError::OUT_OF_MEMORY);
    }
    link.inputs.push(input);
    Ok(())
}

/// Address and bytes of the image, which `make` makes at the first time.
///
/// # Errors
/// INVALID_VALUE without inputs, else what `make` answers; it is asked again the next time then.
pub(crate) fn complete(
    link: &Mutex<Link>,
    make: impl FnOnce(&[LinkInput], &mut JitOptions) -> CudaResult<Vec<u8>>,
) -> CudaResult<(u64, usize)> {
    let mut link = lock(link);
    let Link { options, inputs, image } = &mut *link;
    if image.is_none() {
        if inputs.is_empty() {
            return Err(CudaError::INVALID_VALUE);
        }
        *image = Some(make(inputs, options)?.into_boxed_slice());
        inputs.clear();
    }
    let image = image.as_ref().ok_or(CudaError::UNKNOWN)?;
    Ok((image.as_ptr() as u64, image.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(kind: u32, bytes: &[u8]) -> LinkInput {
        LinkInput { kind, name: "one".to_owned(), bytes: bytes.to_vec(), options: Vec::new() }
    }

    #[test]
    fn inputs_arrive_together_and_the_image_does_not_move() {
        let state = begin(JitOptions::none());
        let link = find(state).expect("begun");
        add(&link, input(jit_input::PTX, b"first")).expect("kept");
        add(&link, input(jit_input::CUBIN, b"second")).expect("kept");
        let failed = complete(&link, |inputs, _| {
            assert_eq!(inputs.len(), 2);
            Err(CudaError::INVALID_PTX)
        });
        assert_eq!(failed, Err(CudaError::INVALID_PTX));
        let made = complete(&link, |inputs, _| Ok(inputs.iter().flat_map(|input| input.bytes.clone()).collect()));
        assert_eq!(made.map(|(_, bytes)| bytes), Ok(11));
        assert_eq!(complete(&link, |_, _| Err(CudaError::UNKNOWN)), made, "made once");
        assert_eq!(add(&link, input(jit_input::PTX, b"late")), Err(CudaError::INVALID_VALUE));
        end(state).expect("begun");
        assert_eq!(end(state), Err(CudaError::INVALID_HANDLE));
        assert_eq!(find(state).err(), Some(CudaError::INVALID_HANDLE));
    }

    #[test]
    fn kinds_that_are_no_input_are_refused() {
        let state = begin(JitOptions::none());
        let link = find(state).expect("begun");
        assert_eq!(add(&link, input(6, b"what")), Err(CudaError::INVALID_VALUE));
        assert_eq!(add(&link, input(jit_input::PTX, b"")), Err(CudaError::INVALID_VALUE));
        assert_eq!(complete(&link, |_, _| Ok(vec![1])), Err(CudaError::INVALID_VALUE));
        end(state).expect("begun");
    }
}
