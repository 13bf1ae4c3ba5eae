//! The names of all variables that code may have, whichever of its parts a device runs.
//! In: an image's bytes. Out: names, of which a driver knows some. Nothing is said of sizes or places.
//! Texts are searched line by line, as compilers write them: a declaration begins its line.

use std::collections::BTreeSet;

use crate::fatbin::{EntryKind, Fatbin, is_container};
use crate::{ImageError, Limits, variables};

/// Words that may come before a declaration's state space.
const LINKAGE: [&str; 4] = [".visible", ".extern", ".weak", ".common"];
/// The state spaces of variables that a host can name.
const SPACES: [&str; 2] = [".global", ".const"];

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
    if code.starts_with(b"\x7fELF") {
        names.extend(variables(code)?.into_iter().map(|variable| variable.name));
    } else {
        names.extend(String::from_utf8_lossy(code).lines().filter_map(declared).map(str::to_owned));
    }
    Ok(())
}

/// The variable that a line declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| LINKAGE.contains(word));
    SPACES.contains(&words.next()?).then_some(())?;
    let is_name = |word: &&str| word.starts_with(|first: char| first.is_alphabetic() || "_$%".contains(first));
    let name = words.find(is_name)?.split(['[', '=', ';', ',']).next()?;
    (!name.is_empty()).then_some(name)
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
}
