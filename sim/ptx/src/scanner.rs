//! The text as a sequence of words, numbers and marks, with the position of each.
//! In goes the text; out come borrowed pieces of it, blanks and comments skipped, and errors that say what was found.
//! It never looks back, never allocates except for an error, and knows no grammar.

use std::borrow::Cow;

use crate::Limits;
use crate::ast::Position;
use crate::error::{ParseError, Problem};

pub(crate) type Result<T> = std::result::Result<T, ParseError>;

/// Number of bytes of the found text that an error shows.
const SHOWN: usize = 40;

/// Reads a text from left to right. Between calls it always stands at the start of a token or at the end.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
    /// One past the last mark taken.
    mark_end: usize,
    /// The remainder of the limits.
    statements_left: usize,
    elements_left: usize,
    limits: Limits,
}

/// Bytes that may stand inside a word.
const WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%');
        byte += 1;
    }
    table
};

pub(crate) fn is_word(byte: u8) -> bool {
    WORD[usize::from(byte)]
}

pub(crate) fn starts_word(byte: u8) -> bool {
    is_word(byte) && !byte.is_ascii_digit()
}

impl<'a> Scanner<'a> {
    /// Starts at byte `at`, which is at `position`, and skips blanks.
    pub(crate) fn new(text: &'a str, at: usize, position: Position, limits: &Limits) -> Result<Self> {
        // Lines and columns are 32-bit; a text of 4 GiB has no business here whatever the caller allows.
        let most = limits.text_bytes.min(u32::MAX as usize);
        if text.len() > most {
            return Err(ParseError { position, problem: Problem::Limit { what: "bytes of text", limit: most as u64 } });
        }
        let column = usize::try_from(position.column).unwrap_or(1).saturating_sub(1);
        let mut scanner = Self {
            text,
            bytes: text.as_bytes(),
            at,
            line: position.line,
            line_start: at.saturating_sub(column),
            mark_end: at,
            statements_left: limits.statements,
            elements_left: limits.elements,
            limits: *limits,
        };
        scanner.blank()?;
        Ok(scanner)
    }

    /// Byte offset of the token that comes next.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// One past the last mark taken, blanks behind it not counted.
    pub(crate) fn mark_end(&self) -> usize {
        self.mark_end
    }

    /// Position of the token that comes next.
    pub(crate) fn position(&self) -> Position {
        self.position_of(self.at)
    }

    /// Position of a byte in the line that is being read.
    fn position_of(&self, at: usize) -> Position {
        let column = at.saturating_sub(self.line_start) + 1;
        Position { line: self.line, column: u32::try_from(column).unwrap_or(u32::MAX) }
    }

    /// The byte that comes next; 0 at the end (a NUL in the text is no token either).
    pub(crate) fn peek(&self) -> u8 {
        self.peek_at(0)
    }

    /// The byte `ahead` bytes further; 0 beyond the end.
    pub(crate) fn peek_at(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Whether the text is read to its end.
    pub(crate) fn at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// A piece of the text by byte offsets, which lie at ASCII characters.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or("")
    }

    /// Moves over `count` bytes that hold no line end, without skipping blanks.
    pub(crate) fn advance(&mut self, count: usize) {
        self.at = (self.at + count).min(self.bytes.len());
    }

    /// Skips blanks and comments.
    #[inline]
    pub(crate) fn blank(&mut self) -> Result<()> {
        loop {
            match self.peek() {
                b' ' | b'\t' | b'\r' | 0x0c => self.at += 1,
                b'\n' => self.next_line(),
                b'/' if self.peek_at(1) == b'/' => self.skip_line(),
                b'/' if self.peek_at(1) == b'*' => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn next_line(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
    }

    /// Moves to the end of the line (not over it).
    pub(crate) fn skip_line(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    }

    fn skip_comment(&mut self) -> Result<()> {
        let opened = self.position();
        self.at += 2;
        while !self.at_end() {
            match (self.peek(), self.peek_at(1)) {
                (b'*', b'/') => {
                    self.at += 2;
                    return Ok(());
                }
                (b'\n', _) => self.next_line(),
                _ => self.at += 1,
            }
        }
        Err(self.error_at(opened, "`*/` before the end of the text", "a comment without end".to_owned()))
    }

    /// Takes one byte if it is `mark`.
    #[inline]
    pub(crate) fn take(&mut self, mark: u8) -> Result<bool> {
        if self.peek() != mark || self.at_end() {
            return Ok(false);
        }
        self.at += 1;
        self.mark_end = self.at;
        self.blank()?;
        Ok(true)
    }

    /// Takes one byte that must be `mark`.
    #[inline]
    pub(crate) fn expect(&mut self, mark: u8, expected: &'static str) -> Result<()> {
        if self.take(mark)? { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// The bytes of a word from here on, without moving; empty when no word stands here.
    #[inline]
    pub(crate) fn word_ahead(&self) -> &'a str {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let length = rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
        self.slice(self.at, self.at + length)
    }

    /// Takes a name.
    #[inline]
    pub(crate) fn name(&mut self, expected: &'static str) -> Result<&'a str> {
        if !starts_word(self.peek()) {
            return Err(self.unexpected(expected));
        }
        let word = self.word_ahead();
        // By itself it is the operator.
        if word == "%" {
            return Err(self.unexpected(expected));
        }
        self.at += word.len();
        self.blank()?;
        Ok(word)
    }

    /// Takes `.word` and gives the word, qualifiers (`shared::cta`) included.
    pub(crate) fn dotted(&mut self, expected: &'static str) -> Result<&'a str> {
        if self.peek() != b'.' || !is_word(self.peek_at(1)) {
            return Err(self.unexpected(expected));
        }
        self.at += 1;
        let start = self.at;
        self.at += self.word_ahead().len();
        while self.peek() == b':' && self.peek_at(1) == b':' && is_word(self.peek_at(2)) {
            self.at += 2;
            self.at += self.word_ahead().len();
        }
        let word = self.slice(start, self.at);
        self.blank()?;
        Ok(word)
    }

    /// The word of `.word` without moving; empty when no such thing stands here.
    pub(crate) fn dotted_ahead(&self) -> &'a str {
        if self.peek() != b'.' {
            return "";
        }
        let rest = self.bytes.get(self.at + 1..).unwrap_or(&[]);
        let length = rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
        self.slice(self.at + 1, self.at + 1 + length)
    }

    /// Takes `"…"` and gives what stands between the quotes, escapes as written.
    pub(crate) fn string(&mut self) -> Result<&'a str> {
        let opened = self.position();
        if self.peek() != b'"' {
            return Err(self.unexpected("a string"));
        }
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                b'"' => break,
                b'\\' if self.at + 1 < self.bytes.len() && self.peek_at(1) != b'\n' => self.at += 2,
                b'\n' => return Err(self.unterminated(opened)),
                _ if self.at_end() => return Err(self.unterminated(opened)),
                _ => self.at += 1,
            }
        }
        let text = self.slice(start, self.at);
        self.at += 1;
        self.blank()?;
        Ok(text)
    }

    fn unterminated(&self, opened: Position) -> ParseError {
        self.error_at(opened, "a closing quote on the same line", "a string without end".to_owned())
    }

    /// Moves over `{ … }` with everything in it; comments and strings may hold braces.
    pub(crate) fn skip_braces(&mut self) -> Result<()> {
        let opened = self.position();
        let mut depth = 0_usize;
        loop {
            self.skip_to_mark();
            match self.peek() {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'/' if matches!(self.peek_at(1), b'/' | b'*') => {
                    self.blank()?;
                    continue;
                }
                0 if self.at_end() => {
                    return Err(self.error_at(
                        opened,
                        "`}` before the end of the text",
                        "a `{` without end".to_owned(),
                    ));
                }
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                self.mark_end = self.at;
                return self.blank();
            }
        }
    }

    /// Moves to the next brace, string or slash, counting lines: what reading an outline costs.
    fn skip_to_mark(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let brace = memchr::memchr2(b'{', b'}', rest).unwrap_or(rest.len());
        let plain = rest.get(..brace).unwrap_or(rest);
        let plain = plain.get(..memchr::memchr2(b'"', b'/', plain).unwrap_or(brace)).unwrap_or(plain);
        if let Some(last) = memchr::memrchr(b'\n', plain) {
            let lines = memchr::memchr_iter(b'\n', plain).count();
            self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
            self.line_start = self.at + last + 1;
        }
        self.at += plain.len();
    }

    /// Moves over an instruction from its mnemonic, or from behind it, to its `;`, which is taken.
    pub(crate) fn skip_operands(&mut self) -> Result<()> {
        self.skip_balanced(b";", |scanner| {
            // A space belongs to its mnemonic without a blank; by itself it may begin a declaration.
            let is_glued =
                scanner.at.checked_sub(1).and_then(|at| scanner.bytes.get(at)).is_some_and(|&byte| is_word(byte));
            !is_glued && matches!(scanner.dotted_ahead(), "global" | "const")
        })?;
        self.take(b';').map(drop)
    }

    /// Moves over the parameters of a prototype, which may name any space, or a list of names, to the `;`, which is taken.
    pub(crate) fn skip_prototype(&mut self) -> Result<()> {
        self.skip_balanced(b";", |_| false)?;
        self.take(b';').map(drop)
    }

    /// Moves over a declaration of no memory that is the device's, its `;` included.
    pub(crate) fn skip_declaration(&mut self) -> Result<()> {
        self.skip_balanced(b";", |scanner| matches!(scanner.dotted_ahead(), "global" | "const"))?;
        self.take(b';').map(drop)
    }

    /// Moves over a variable's value, to the `,` or `;` behind it.
    pub(crate) fn skip_value(&mut self) -> Result<()> {
        self.skip_balanced(b",;", |scanner| matches!(scanner.dotted_ahead(), "global" | "const"))
    }

    /// Moves to the first of `ends` that stands in no braces and no parentheses. `is_strange` looks at what begins with a
    /// dot.
    fn skip_balanced(&mut self, ends: &[u8], is_strange: impl Fn(&Self) -> bool) -> Result<()> {
        let mut depth = 0_usize;
        loop {
            let byte = self.peek();
            if depth == 0 && ends.contains(&byte) {
                return Ok(());
            }
            match byte {
                b'{' | b'(' => depth += 1,
                b'}' | b')' if depth > 0 => depth -= 1,
                b'}' | b')' | b';' | b'"' | b'#' | b'\\' | 0 => return Err(self.unexpected("the end of a statement")),
                b'.' if is_strange(self) => return Err(self.unexpected("no declaration here")),
                b' ' | b'\t' | b'\r' | b'\n' | 0x0c | b'/' => {
                    let before = self.at;
                    self.blank()?;
                    if self.at != before {
                        continue;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Counts one statement, declaration or function.
    #[inline]
    pub(crate) fn count_statement(&mut self) -> Result<()> {
        match self.statements_left.checked_sub(1) {
            Some(left) => {
                self.statements_left = left;
                Ok(())
            }
            None => Err(self.limit("statements", self.limits.statements)),
        }
    }

    /// Counts one operand, element or listed name.
    #[inline]
    pub(crate) fn count_element(&mut self) -> Result<()> {
        match self.elements_left.checked_sub(1) {
            Some(left) => {
                self.elements_left = left;
                Ok(())
            }
            None => Err(self.limit("operands and elements", self.limits.elements)),
        }
    }

    /// The depth one level further in.
    pub(crate) fn deeper(&self, depth: usize) -> Result<usize> {
        if depth < self.limits.depth { Ok(depth + 1) } else { Err(self.limit("levels of nesting", self.limits.depth)) }
    }

    fn limit(&self, what: &'static str, limit: usize) -> ParseError {
        ParseError { position: self.position(), problem: Problem::Limit { what, limit: limit as u64 } }
    }

    /// An error about the token that stands here.
    #[cold]
    pub(crate) fn unexpected(&self, expected: impl Into<Cow<'static, str>>) -> ParseError {
        self.error_at(self.position(), expected, self.found())
    }

    /// An error about a value that starts at `position`.
    #[cold]
    pub(crate) fn value_error(&self, position: Position, what: &'static str, value: &str) -> ParseError {
        ParseError { position, problem: Problem::Value { what, value: shorten(value) } }
    }

    fn error_at(&self, position: Position, expected: impl Into<Cow<'static, str>>, found: String) -> ParseError {
        ParseError { position, problem: Problem::Unexpected { expected: expected.into(), found } }
    }

    /// The text here, for a message.
    fn found(&self) -> String {
        if self.at_end() {
            return "the end of the text".to_owned();
        }
        let dot = usize::from(self.peek() == b'.');
        let rest = self.bytes.get(self.at + dot..).unwrap_or(&[]);
        let length = dot + rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
        if length > 0 {
            return format!("`{}`", shorten(self.slice(self.at, self.at + length)));
        }
        let rest = self.text.get(self.at..).unwrap_or("");
        match rest.chars().next() {
            Some(character) if character.is_control() => format!("the character U+{:04X}", u32::from(character)),
            Some(character) => format!("`{character}`"),
            None => "a byte inside a character".to_owned(),
        }
    }
}

/// At most [`SHOWN`] bytes of a piece of text.
fn shorten(text: &str) -> String {
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let end = (0..=SHOWN).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or(""))
}
