//! The names of all variables that code may have, whichever of its parts a device runs.
//! In: an image's bytes. Out: names, of which a driver knows some. Nothing is said of sizes or places.
//! Texts are read by the parser of the CPU device. Of one that it refuses nobody knows the variables, which is an error.

use std::collections::BTreeSet;

use crate::fatbin::{EntryKind, Fatbin, is_container};
use crate::{ImageError, Limits, declarations, linked, variables};

/// The names of variables in a fat binary, cubin or PTX text.
///
/// # Errors
/// An image that cannot be read, or is over a limit.
pub fn names_of_variables(image: &[u8], limits: &Limits) -> Result<BTreeSet<String>, ImageError> {
    let mut names = BTreeSet::new();
    if !is_container(image) {
        add(image, &mut names)?;
        return Ok(names);
    }
    for entry in &Fatbin::parse(image, limits)?.entries {
        if matches!(entry.kind, EntryKind::Ptx | EntryKind::Cubin) {
            add(&entry.data(limits)?, &mut names)?;
        }
    }
    Ok(names)
}

fn add(code: &[u8], names: &mut BTreeSet<String>) -> Result<(), ImageError> {
    if !code.starts_with(b"\x7fELF") {
        return add_declared(code, names);
    }
    match linked::texts(code) {
        Some(texts) => texts.into_iter().try_for_each(|text| add_declared(text, names)),
        None => {
            names.extend(variables(code)?.into_iter().map(|variable| variable.name));
            Ok(())
        }
    }
}

fn add_declared(text: &[u8], names: &mut BTreeSet<String>) -> Result<(), ImageError> {
    names.extend(declarations::names(text).ok_or(ImageError::Undeclared)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_of_a_text_are_found_and_nothing_else() {
        let text = ".version 7.0\n.target sm_75\n.visible .global .align 4 .u32 count;\n.global .align 8 .b8 table[64] = {1, 2};\n\
                    .const .f32 _scale = 0f3F800000;\n.visible .global .attribute(.managed) .u64 $shared$1;\n\
                    .visible .entry k()\n{\n\t.reg .b32 %r<2>;\n\tld.global.u32 %r1, [count];\n\t.shared .u32 no;\n}\n";
        let limits = Limits { image_bytes: 1 << 20, entry_bytes: 1 << 20, entries: 4 };
        let names = names_of_variables(text.as_bytes(), &limits).unwrap_or_default();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["$shared$1", "_scale", "count", "table"]);
    }

    #[test]
    fn no_spelling_hides_a_name_and_a_text_that_is_none_is_an_error() {
        let text = ".version 8.0\n.target sm_90\n.address_size 64\n/*c*/ .global .u32 one, two;\n.visible .global\n.u32\nthree;\n\
                    .const .u32 four; .global .u32 five;\n";
        let limits = Limits { image_bytes: 1 << 20, entry_bytes: 1 << 20, entries: 4 };
        let sorted =
            |image: &[u8]| names_of_variables(image, &limits).map(|names| names.into_iter().collect::<Vec<_>>());
        assert_eq!(sorted(text.as_bytes()).unwrap_or_default(), ["five", "four", "one", "three", "two"]);
        let linked = crate::linked_image(&[text.as_bytes()]);
        assert_eq!(sorted(&linked).unwrap_or_default(), ["five", "four", "one", "three", "two"]);
        assert!(sorted(b".version 8.0\n.target sm_90\n.global .u32 @;").is_err());
    }
}
