//! Whether device code can print.
//! In: an image's bytes. Out: whether a kernel of it may print and succeed all the same.
//! `printf` in device code is a call of the driver's function `vprintf`, which cubins and PTX alike name (seen with nvcc 13
//! for sm_90). A failed `assert` names another and ends the context. An image that cannot be read may print.

use memchr::memmem;

use crate::Limits;
use crate::fatbin::{EntryKind, Fatbin, is_container};

/// The driver's function behind `printf`.
const PRINTF: &[u8] = b"vprintf";

/// Whether code of this fat binary, cubin or PTX text may print. It takes as long as it takes to expand what is compressed.
#[must_use]
pub fn may_print(image: &[u8], limits: &Limits) -> bool {
    if is_container(image) { container_may_print(image, limits) } else { names(image) }
}

fn container_may_print(image: &[u8], limits: &Limits) -> bool {
    let Ok(container) = Fatbin::parse(image, limits) else { return true };
    container.entries.iter().any(|entry| match entry.kind {
        EntryKind::Ptx | EntryKind::Cubin => entry.data(limits).map_or(true, |code| names(&code)),
        EntryKind::Other(_) => true,
    })
}

fn names(code: &[u8]) -> bool {
    memmem::find(code, PRINTF).is_some()
}
