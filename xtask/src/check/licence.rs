//! Licences as crates declare them: an SPDX expression and the names that are allowed come in, yes or no goes out.
//! A name that is not understood is not allowed. It never reads a licence's text.

use std::collections::BTreeSet;

/// Whether an expression can be fulfilled by allowed licences alone; `/` is an old way to write OR.
pub(crate) fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed, is_broken_off: false };
    let answer = reader.any();
    answer && reader.words.is_empty() && !reader.is_broken_off
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a BTreeSet<String>,
    /// Whether a name was missing.
    is_broken_off: bool,
}

impl Reader<'_> {
    /// Takes the next word if it is this one.
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }

    /// The next word, whatever it is.
    fn next(&mut self) -> Option<String> {
        let Some((word, rest)) = self.words.split_first() else {
            self.is_broken_off = true;
            return None;
        };
        self.words = rest;
        Some((*word).to_owned())
    }

    fn any(&mut self) -> bool {
        let mut answer = self.all();
        while self.takes("OR") {
            answer |= self.all();
        }
        answer
    }

    fn all(&mut self) -> bool {
        let mut answer = self.one();
        while self.takes("AND") {
            answer &= self.one();
        }
        answer
    }

    fn one(&mut self) -> bool {
        if self.takes("(") {
            let answer = self.any();
            return self.takes(")") && answer;
        }
        let Some(name) = self.next() else { return false };
        let name = if self.takes("WITH") {
            let Some(exception) = self.next() else { return false };
            format!("{name} WITH {exception}")
        } else {
            name
        };
        self.allowed.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_allowed_where_allowed_licences_fulfil_it() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
        for expression in
            ["MIT", "MIT/GPL-2.0", "GPL-2.0 OR (MIT AND ISC)", "GPL-2.0 OR Apache-2.0 WITH LLVM-exception"]
        {
            assert!(is_allowed(expression, &allowed), "{expression}");
        }
        for expression in ["", "GPL-2.0", "MIT AND GPL-2.0", "Apache-2.0", "(MIT", "MIT)", "MIT ISC", "MIT OR", "AND"] {
            assert!(!is_allowed(expression, &allowed), "{expression}");
        }
    }
}
