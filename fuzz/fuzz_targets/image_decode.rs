//! Any bytes as the image of a session. What decodes must encode to the same bytes, and its messages must be those of recipes.
#![no_main]

use floe_wire::{Image, Recipe, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Image::decode(bytes) else { return };
    assert_eq!(image.encode(), bytes);
    let _ = image.contents().expect("every entry was decoded before");
    for entry in &image.entries {
        let request = Request::decode(entry.kind, &entry.payload).expect("it was decoded before");
        assert_ne!(request.recipe(), Recipe::None);
        request.names(&mut |_| ());
    }
});
