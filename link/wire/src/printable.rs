//! Makes a peer's words safe for terminals and logs.
//! In: text from the wire. Out: one line of bounded length, without escape sequences or characters that reorder text.

/// The most characters of a peer's sentence that are shown.
pub const MOST_WORDS: usize = 200;

/// A peer's sentence on one line, at most [`MOST_WORDS`] characters of it.
#[must_use]
pub fn printable(words: &str) -> String {
    printable_within(MOST_WORDS, words)
}

/// At most so many characters of a peer's words, on one line.
#[must_use]
pub fn printable_within(characters: usize, words: &str) -> String {
    words.chars().take(characters).map(shown).collect()
}

fn shown(character: char) -> char {
    match character {
        '\n' | '\r' | '\t' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        other if is_plain(other) => other,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// Whether a terminal shows a character and does nothing else with it: it ends no line, moves no cursor and turns no text.
#[must_use]
pub fn is_plain(character: char) -> bool {
    !character.is_control() && !turns_text(character) && !matches!(character, '\u{2028}' | '\u{2029}')
}

/// Whether a character reorders the text around it, or is invisible.
fn turns_text(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_words_are_one_line_that_moves_no_cursor_and_turns_no_text() {
        let words = "a\u{1b}[2Jb\nc\r\u{9b}d\u{202e}e\u{2028}f\u{2066}g\u{200f}h\u{61c}ü\u{7}";
        assert_eq!(printable(words), "a\u{fffd}[2Jb c \u{fffd}d\u{fffd}e f\u{fffd}g\u{fffd}h\u{fffd}ü\u{fffd}");
    }

    #[test]
    fn a_peers_words_are_not_without_end() {
        assert_eq!(printable(&"ü".repeat(1 << 20)), "ü".repeat(MOST_WORDS));
        assert_eq!(printable_within(3, "abcd"), "abc");
    }
}
