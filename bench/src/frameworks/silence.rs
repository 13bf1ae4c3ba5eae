//! Whether a program that runs right through floe is as silent as natively: what it wrote to its stderr comes in by both ways, the
//! first line that only floe's run has goes out. Numbers in a line do not count: they are times, addresses and process ids.

use std::collections::BTreeSet;

/// The name under which it is reported.
pub(super) const NAME: &str = "(stderr)";

/// How many lines only floe's run has, and the first of them.
pub(super) fn broken(native: &str, floe: &str) -> Option<String> {
    let usual: BTreeSet<String> = native.lines().map(without_numbers).collect();
    let added: Vec<&str> = floe.lines().filter(|line| !usual.contains(&without_numbers(line))).collect();
    let first = added.first()?;
    Some(format!("{} lines that native does not write, the first: {}", added.len(), first.trim()))
}

/// A line with `#` for each word that has a digit.
fn without_numbers(line: &str) -> String {
    let mut masked = String::new();
    for word in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let (digits, end) = word.split_at(word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).len());
        masked.push_str(if digits.contains(|c: char| c.is_ascii_digit()) { "#" } else { digits });
        masked.push_str(end);
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::broken;

    #[test]
    fn lines_that_native_has_too_are_no_finding_whatever_their_numbers() {
        assert_eq!(broken("[17] took 0.5 s at 0x7f00\nW1129 slow\n", "W1130 slow\n[18] took 1.25 s at 0xaa\n"), None);
        assert_eq!(broken("", ""), None);
    }

    #[test]
    fn the_first_line_of_ours_is_told_with_their_number() {
        let found = broken("warned\n", "warned\nfloe: a\nfloe: b\n");
        assert_eq!(found.as_deref(), Some("2 lines that native does not write, the first: floe: a"));
    }
}
