//! Numbers and constant expressions, evaluated while they are read.
//! In goes `0x1F`, `0f3F800000`, `-5`, `(3 + 4) * 2`; out comes a 64-bit integer or a float, by PTX's own rules.
//! Names other than `WARP_SZ` are not constants and are never looked up here.

use crate::ast::{Float, Integer};
use crate::scanner::{Result, Scanner, is_word};

/// A constant expression's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Constant {
    Integer(Integer),
    Float(Float),
}

/// Lanes of a warp: the value of PTX's predefined constant `WARP_SZ`.
const WARP_SIZE: i64 = 32;

/// Binary operators by how tightly they bind; longer spellings stand before their prefixes.
const OPERATORS: [(&str, u8); 18] = [
    ("||", 1),
    ("&&", 2),
    ("==", 6),
    ("!=", 6),
    ("<<", 8),
    (">>", 8),
    ("<=", 7),
    (">=", 7),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("<", 7),
    (">", 7),
    ("+", ADDITIVE),
    ("-", ADDITIVE),
    ("*", 10),
    ("/", 10),
    ("%", 10),
];

/// How tightly `+` and `-` bind.
const ADDITIVE: u8 = 9;

/// Whether a constant can start here; names (other than `WARP_SZ`) are not constants.
pub(crate) fn starts(scanner: &Scanner<'_>) -> bool {
    match scanner.peek() {
        b'0'..=b'9' | b'-' | b'+' | b'~' | b'!' | b'(' => true,
        b'.' => scanner.peek_at(1).is_ascii_digit(),
        b'W' => scanner.word_ahead() == "WARP_SZ",
        _ => false,
    }
}

/// Reads a constant expression.
pub(crate) fn expression(scanner: &mut Scanner<'_>, depth: usize) -> Result<Constant> {
    let first = unary(scanner, depth)?;
    // Nearly every constant is one number; the next byte shows it at once.
    if matches!(scanner.peek(), b',' | b';' | b']' | b'}' | b')' | b'(') {
        return Ok(first);
    }
    let condition = binary(scanner, first, 1, depth)?;
    if !scanner.take(b'?')? {
        return Ok(condition);
    }
    let depth = scanner.deeper(depth)?;
    let yes = expression(scanner, depth)?;
    scanner.expect(b':', "`:` of a conditional expression")?;
    let no = expression(scanner, depth)?;
    Ok(if truth(condition) { yes } else { no })
}

/// Reads `+4`, `-8`, `+-4`, `+4+2*8`, … after a name: the bytes (or elements) added to it. 0 when nothing is added.
pub(crate) fn offset(scanner: &mut Scanner<'_>, depth: usize) -> Result<i64> {
    let mut sum = 0_i64;
    while let mark @ (b'+' | b'-') = scanner.peek() {
        let position = scanner.position();
        scanner.take(mark)?;
        let first = unary(scanner, depth)?;
        let Constant::Integer(term) = binary(scanner, first, ADDITIVE + 1, depth)? else {
            return Err(scanner.value_error(position, "an offset must be an integer, this is a float added with", "+"));
        };
        let term = term.as_i64();
        sum = if mark == b'+' { sum.wrapping_add(term) } else { sum.wrapping_sub(term) };
    }
    Ok(sum)
}

/// Reads an integer that must not be negative: a size, a count, a dimension.
pub(crate) fn unsigned(scanner: &mut Scanner<'_>, expected: &'static str) -> Result<u64> {
    let position = scanner.position();
    let offset = scanner.offset();
    if !starts(scanner) {
        return Err(scanner.unexpected(expected));
    }
    match expression(scanner, 0)? {
        Constant::Integer(value) if value.unsigned || value.as_i64() >= 0 => Ok(value.bits),
        _ => {
            let written = scanner.slice(offset, scanner.offset()).trim_ascii_end();
            Err(scanner.value_error(position, "this must be a whole number, not negative", written))
        }
    }
}

/// As [`unsigned`], at most 32 bits.
pub(crate) fn unsigned32(scanner: &mut Scanner<'_>, expected: &'static str) -> Result<u32> {
    let position = scanner.position();
    let value = unsigned(scanner, expected)?;
    u32::try_from(value).map_err(|_| scanner.value_error(position, "more than 32 bits", &value.to_string()))
}

/// Reads a plain decimal number without signs or operators: version, range count, line.
pub(crate) fn plain(scanner: &mut Scanner<'_>, expected: &'static str) -> Result<u32> {
    let position = scanner.position();
    if !scanner.peek().is_ascii_digit() {
        return Err(scanner.unexpected(expected));
    }
    let word = scanner.word_ahead();
    scanner.advance(word.len());
    scanner.blank()?;
    word.parse().map_err(|_| scanner.value_error(position, expected, word))
}

fn binary(scanner: &mut Scanner<'_>, mut left: Constant, tightest: u8, depth: usize) -> Result<Constant> {
    while let Some((spelling, power)) = operator(scanner) {
        if power < tightest {
            break;
        }
        let position = scanner.position();
        scanner.advance(spelling.len());
        scanner.blank()?;
        let depth = scanner.deeper(depth)?;
        let operand = unary(scanner, depth)?;
        let right = binary(scanner, operand, power + 1, depth)?;
        left = apply(spelling, left, right)
            .ok_or_else(|| scanner.value_error(position, "this operator has no value for these operands", spelling))?;
    }
    Ok(left)
}

fn operator(scanner: &Scanner<'_>) -> Option<(&'static str, u8)> {
    let ahead = [scanner.peek(), scanner.peek_at(1)];
    // `.align 1 %rd4` has a name behind its number.
    if ahead[0] == b'%' && is_word(ahead[1]) {
        return None;
    }
    OPERATORS.into_iter().find(|(spelling, _)| ahead.starts_with(spelling.as_bytes()))
}

fn unary(scanner: &mut Scanner<'_>, depth: usize) -> Result<Constant> {
    let position = scanner.position();
    match scanner.peek() {
        b'0'..=b'9' | b'.' => number(scanner),
        mark @ (b'-' | b'+' | b'~' | b'!') => {
            scanner.take(mark)?;
            let depth = scanner.deeper(depth)?;
            let value = unary(scanner, depth)?;
            prefix(mark, value).ok_or_else(|| scanner.value_error(position, "only integers have this operator", "~"))
        }
        b'(' => parenthesised(scanner, depth),
        _ if scanner.word_ahead() == "WARP_SZ" => {
            scanner.name("a number")?;
            Ok(Constant::Integer(Integer::signed(WARP_SIZE)))
        }
        _ => Err(scanner.unexpected("a number")),
    }
}

/// `(expression)` or a cast: `(.s64) value`, `(.u64) value`.
fn parenthesised(scanner: &mut Scanner<'_>, depth: usize) -> Result<Constant> {
    let depth = scanner.deeper(depth)?;
    scanner.expect(b'(', "`(`")?;
    let cast = match scanner.dotted_ahead() {
        "s64" => Some(false),
        "u64" => Some(true),
        _ => None,
    };
    let Some(unsigned) = cast else {
        let value = expression(scanner, depth)?;
        scanner.expect(b')', "`)`")?;
        return Ok(value);
    };
    scanner.dotted("a type")?;
    scanner.expect(b')', "`)` after the type of a cast")?;
    Ok(match unary(scanner, depth)? {
        Constant::Integer(value) => Constant::Integer(Integer { bits: value.bits, unsigned }),
        Constant::Float(value) => Constant::Integer(truncate(value.as_f64(), unsigned)),
    })
}

/// A float cast to an integer: towards zero, saturating, as Rust's own conversion.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn truncate(value: f64, unsigned: bool) -> Integer {
    let bits = if unsigned { value as u64 } else { (value as i64).cast_unsigned() };
    Integer { bits, unsigned }
}

fn truth(value: Constant) -> bool {
    match value {
        Constant::Integer(value) => value.bits != 0,
        Constant::Float(value) => value.as_f64() != 0.0,
    }
}

fn boolean(value: bool) -> Constant {
    Constant::Integer(Integer::signed(i64::from(value)))
}

fn prefix(mark: u8, value: Constant) -> Option<Constant> {
    const SIGN_32: u32 = 1 << 31;
    const SIGN_64: u64 = 1 << 63;
    Some(match (mark, value) {
        (b'+', value) => value,
        (b'!', value) => boolean(!truth(value)),
        (b'-', Constant::Integer(value)) => Constant::Integer(Integer { bits: value.bits.wrapping_neg(), ..value }),
        (b'-', Constant::Float(Float::Single(bits))) => Constant::Float(Float::Single(bits ^ SIGN_32)),
        (b'-', Constant::Float(Float::Double(bits))) => Constant::Float(Float::Double(bits ^ SIGN_64)),
        (b'~', Constant::Integer(value)) => Constant::Integer(Integer { bits: !value.bits, unsigned: true }),
        _ => return None,
    })
}

fn apply(operator: &str, left: Constant, right: Constant) -> Option<Constant> {
    match operator {
        "&&" => return Some(boolean(truth(left) && truth(right))),
        "||" => return Some(boolean(truth(left) || truth(right))),
        _ => {}
    }
    match (left, right) {
        (Constant::Integer(left), Constant::Integer(right)) => integers(operator, left, right),
        (left, right) => floats(operator, as_float(left), as_float(right)),
    }
}

/// Integers as ptxas 13.0 evaluates them: unsigned when either side is, shifts by the left side's type. Only a shift by 64
/// or more is refused here, where ptxas lets the machine it runs on decide.
fn integers(operator: &str, left: Integer, right: Integer) -> Option<Constant> {
    let unsigned = left.unsigned || right.unsigned;
    let (a, b) = (left.bits, right.bits);
    let (x, y) = (left.as_i64(), right.as_i64());
    let less = if unsigned { a < b } else { x < y };
    let distance = u32::try_from(b).ok().filter(|&distance| distance < u64::BITS);
    let bits = match operator {
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" if unsigned => a.checked_div(b)?,
        "/" => x.checked_div(y)?.cast_unsigned(),
        // Always unsigned, whatever the operands: -7 % 3 is 0.
        "%" => return Some(Constant::Integer(Integer { bits: a.checked_rem(b)?, unsigned: true })),
        "&" => a & b,
        "|" => a | b,
        "^" => a ^ b,
        "<<" => return Some(Constant::Integer(Integer { bits: a << distance?, ..left })),
        ">>" if left.unsigned => return Some(Constant::Integer(Integer { bits: a >> distance?, ..left })),
        ">>" => return Some(Constant::Integer(Integer::signed(x >> distance?))),
        "<" => return Some(boolean(less)),
        ">=" => return Some(boolean(!less)),
        ">" => return Some(boolean(!less && a != b)),
        "<=" => return Some(boolean(less || a == b)),
        "==" => return Some(boolean(a == b)),
        "!=" => return Some(boolean(a != b)),
        _ => return None,
    };
    Some(Constant::Integer(Integer { bits, unsigned }))
}

/// The value as a double; an integer rounds to nearest even, as C's conversion does.
#[allow(clippy::cast_precision_loss)]
fn as_float(value: Constant) -> f64 {
    match value {
        Constant::Float(value) => value.as_f64(),
        Constant::Integer(value) if value.unsigned => value.bits as f64,
        Constant::Integer(value) => value.as_i64() as f64,
    }
}

// An exact comparison is what a constant expression's `==` asks for.
#[allow(clippy::float_cmp)]
fn floats(operator: &str, left: f64, right: f64) -> Option<Constant> {
    let value = match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        "<" => return Some(boolean(left < right)),
        "<=" => return Some(boolean(left <= right)),
        ">" => return Some(boolean(left > right)),
        ">=" => return Some(boolean(left >= right)),
        "==" => return Some(boolean(left == right)),
        "!=" => return Some(boolean(left != right)),
        _ => return None,
    };
    Some(Constant::Float(Float::Double(value.to_bits())))
}

/// Reads one number without sign.
fn number(scanner: &mut Scanner<'_>) -> Result<Constant> {
    let position = scanner.position();
    let word = number_word(scanner);
    let value = decode(word).ok_or_else(|| scanner.value_error(position, "not a number of PTX", word))?;
    if matches!(scanner.peek(), b'_' | b'$') {
        return Err(scanner.unexpected("the end of a number"));
    }
    scanner.blank()?;
    Ok(value)
}

/// The bytes of a number: letters, digits and points, and the sign of a decimal exponent.
fn number_word<'a>(scanner: &mut Scanner<'a>) -> &'a str {
    let start = scanner.offset();
    let prefixed = scanner.peek() == b'0' && scanner.peek_at(1).is_ascii_alphabetic();
    loop {
        let byte = scanner.peek();
        if byte.is_ascii_alphanumeric() || (byte == b'.' && !prefixed) {
            scanner.advance(1);
            let exponent = matches!(byte, b'e' | b'E') && !prefixed;
            if exponent && matches!(scanner.peek(), b'+' | b'-') {
                scanner.advance(1);
            }
        } else {
            return scanner.slice(start, scanner.offset());
        }
    }
}

fn decode(word: &str) -> Option<Constant> {
    let bytes = word.as_bytes();
    let digits = word.get(2..).unwrap_or("");
    match (bytes.first()?, bytes.get(1).copied().unwrap_or(0)) {
        (b'0', b'f' | b'F') => hexadecimal(digits, 8)
            .and_then(|bits| u32::try_from(bits).ok())
            .map(|bits| Constant::Float(Float::Single(bits))),
        (b'0', b'd' | b'D') => hexadecimal(digits, 16).map(|bits| Constant::Float(Float::Double(bits))),
        (b'0', b'x' | b'X') => integer(digits, 16),
        (b'0', b'b' | b'B') => integer(digits, 2),
        _ if word.contains(['.', 'e', 'E']) => decimal_float(word),
        (b'0', b'0'..=b'9') => integer(word.get(1..)?, 8),
        _ => integer(word, 10),
    }
}

/// Exactly `count` hexadecimal digits.
fn hexadecimal(digits: &str, count: usize) -> Option<u64> {
    let whole = digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if whole { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// Digits and an optional `U`. Without it a value beyond `.s64` is unsigned too, as PTX says.
fn integer(word: &str, radix: u32) -> Option<Constant> {
    let digits = word.strip_suffix('U').unwrap_or(word);
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let bits = u64::from_str_radix(digits, radix).ok()?;
    let unsigned = digits.len() != word.len() || bits >> 63 == 1;
    Some(Constant::Integer(Integer { bits, unsigned }))
}

fn decimal_float(word: &str) -> Option<Constant> {
    let written = word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    let value: f64 = if written { word.parse().ok()? } else { return None };
    Some(Constant::Float(Float::Double(value.to_bits())))
}
