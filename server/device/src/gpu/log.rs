//! Logs of compilers and linkers. Texts come in; what of them a caller has room for goes out.

/// A refusal says why even to a program that did not ask for a log.
pub(super) const LEAST_LOG: usize = 4096;

/// The first of so many bytes of a text that end between two characters.
pub(super) fn cut(mut text: String, bytes: usize) -> String {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_cut_between_characters() {
        assert_eq!(cut("aé".into(), 2), "a");
        assert_eq!(cut("aé".into(), 9), "aé");
    }
}
