//! The formatting of device `printf`: a C format string and a source of arguments in, bytes out.
//! Conversions are those CUDA documents: flags, width, precision, sizes `h hh l ll`, and `d i u o x X f e E g G a A c s p`.
//! Unknown conversions are printed unchanged. It never reads more arguments than the string asks for.

use crate::fault::FaultKind;

/// Formats; `argument(bytes)` gives the next 4- or 8-byte argument, `string(address)` the bytes of a string.
/// Returns the output and the number of arguments used.
pub(crate) fn format(
    text: &[u8],
    argument: &mut dyn FnMut(u64) -> Result<u64, FaultKind>,
    string: &mut dyn FnMut(u64) -> Result<Vec<u8>, FaultKind>,
) -> Result<(Vec<u8>, u32), FaultKind> {
    let mut output = Vec::with_capacity(text.len() + 16);
    let mut count = 0;
    let mut at = 0;
    while at < text.len() && output.len() < OUTPUT_LIMIT {
        if text[at] != b'%' {
            output.push(text[at]);
            at += 1;
            continue;
        }
        let start = at;
        at += 1;
        let Some(specification) = Specification::parse(text, &mut at, &mut count, argument)? else {
            output.extend_from_slice(&text[start..at]);
            continue;
        };
        if specification.conversion == b'%' {
            output.push(b'%');
            continue;
        }
        count += 1;
        specification.print(&mut output, argument, string)?;
    }
    Ok((output, count))
}

/// A conversion specification.
#[derive(Default)]
struct Specification {
    minus: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    long: bool,
    short: u32,
    conversion: u8,
}

/// Limit on the output of one call: a short text may ask for the same long string again and again. CUDA's buffer for
/// all kernels has as many bytes.
const OUTPUT_LIMIT: usize = 1 << 20;

/// Widest field; wider ones are cut to it.
const WIDTH_LIMIT: usize = 4096;

impl Specification {
    /// Reads what follows a `%`; `None` when it is no specification.
    fn parse(
        text: &[u8],
        at: &mut usize,
        count: &mut u32,
        argument: &mut dyn FnMut(u64) -> Result<u64, FaultKind>,
    ) -> Result<Option<Self>, FaultKind> {
        let mut specification = Self::default();
        while let Some(flag) = text.get(*at) {
            match flag {
                b'-' => specification.minus = true,
                b'+' => specification.plus = true,
                b' ' => specification.space = true,
                b'#' => specification.alternative = true,
                b'0' => specification.zero = true,
                _ => break,
            }
            *at += 1;
        }
        specification.width = match number(text, at, count, argument)? {
            Some(width) if width < 0 => {
                specification.minus = true;
                width.unsigned_abs() as usize
            }
            width => width.unwrap_or(0) as usize,
        }
        .min(WIDTH_LIMIT);
        if text.get(*at) == Some(&b'.') {
            *at += 1;
            let precision = number(text, at, count, argument)?.unwrap_or(0);
            specification.precision = usize::try_from(precision).ok().map(|precision| precision.min(WIDTH_LIMIT));
        }
        while let Some(size) = text.get(*at) {
            match size {
                b'l' | b'j' | b'z' | b't' | b'q' | b'L' => specification.long = true,
                b'h' => specification.short = specification.short.saturating_add(1),
                _ => break,
            }
            *at += 1;
        }
        let Some(conversion) = text.get(*at) else {
            return Ok(None);
        };
        *at += 1;
        specification.conversion = *conversion;
        Ok(b"diuoxXfFeEgGaAcsp%".contains(conversion).then_some(specification))
    }

    fn print(
        &self,
        output: &mut Vec<u8>,
        argument: &mut dyn FnMut(u64) -> Result<u64, FaultKind>,
        string: &mut dyn FnMut(u64) -> Result<Vec<u8>, FaultKind>,
    ) -> Result<(), FaultKind> {
        match self.conversion {
            b'd' | b'i' => {
                let value = self.signed(argument(if self.long { 8 } else { 4 })?);
                self.integer(output, value.unsigned_abs().to_string(), self.sign(value < 0), "");
            }
            b'u' | b'o' | b'x' | b'X' => {
                let value = self.unsigned(argument(if self.long { 8 } else { 4 })?);
                let (digits, prefix) = match self.conversion {
                    b'u' => (value.to_string(), ""),
                    b'o' => (format!("{value:o}"), "0"),
                    b'x' => (format!("{value:x}"), "0x"),
                    _ => (format!("{value:X}"), "0X"),
                };
                let prefix = if self.alternative && value != 0 && self.conversion != b'u' { prefix } else { "" };
                self.integer(output, digits, "", prefix);
            }
            b'p' => {
                let value = argument(8)?;
                let text = if value == 0 { "(nil)".to_owned() } else { format!("{value:#x}") };
                self.pad(output, text.as_bytes());
            }
            b'c' => self.pad(output, &[argument(4)? as u8]),
            b's' => {
                let mut bytes = match argument(8)? {
                    0 => b"(null)".to_vec(),
                    address => string(address)?,
                };
                bytes.truncate(self.precision.unwrap_or(usize::MAX));
                self.pad(output, &bytes);
            }
            _ => self.float(output, f64::from_bits(argument(8)?)),
        }
        Ok(())
    }

    fn signed(&self, bits: u64) -> i64 {
        match (self.long, self.short) {
            (true, _) => bits as i64,
            (false, 0) => i64::from(bits as i32),
            (false, 1) => i64::from(bits as i16),
            _ => i64::from(bits as i8),
        }
    }

    fn unsigned(&self, bits: u64) -> u64 {
        match (self.long, self.short) {
            (true, _) => bits,
            (false, 0) => bits & 0xffff_ffff,
            (false, 1) => bits & 0xffff,
            _ => bits & 0xff,
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            _ => "",
        }
    }

    fn integer(&self, output: &mut Vec<u8>, digits: String, sign: &str, prefix: &str) {
        let mut digits = digits;
        if let Some(precision) = self.precision {
            if precision == 0 && digits == "0" {
                digits.clear();
            }
            digits = format!("{}{digits}", "0".repeat(precision.saturating_sub(digits.len())));
        } else if self.zero && !self.minus {
            let taken = sign.len() + prefix.len() + digits.len();
            digits = format!("{}{digits}", "0".repeat(self.width.saturating_sub(taken)));
        }
        self.pad(output, format!("{sign}{prefix}{digits}").as_bytes());
    }

    fn float(&self, output: &mut Vec<u8>, value: f64) {
        let upper = self.conversion.is_ascii_uppercase();
        let sign = self.sign(value.is_sign_negative());
        if !value.is_finite() {
            let word = if value.is_nan() { "nan" } else { "inf" };
            let word = if upper { word.to_uppercase() } else { word.to_owned() };
            self.pad(output, format!("{sign}{word}").as_bytes());
            return;
        }
        let magnitude = value.abs();
        let precision = self.precision.unwrap_or(6);
        let mut digits = match self.conversion.to_ascii_lowercase() {
            b'f' => fixed(magnitude, precision, self.alternative),
            b'e' => exponential(magnitude, precision, self.alternative),
            b'a' => hexadecimal(magnitude, self.precision),
            _ => general(magnitude, precision, self.alternative),
        };
        if upper {
            digits = digits.to_uppercase();
        }
        if self.zero && !self.minus {
            let taken = sign.len() + digits.len();
            // The zeros of a hexadecimal float stand after its 0x.
            let at = if digits.starts_with("0x") || digits.starts_with("0X") { 2 } else { 0 };
            digits.insert_str(at, &"0".repeat(self.width.saturating_sub(taken)));
        }
        self.pad(output, format!("{sign}{digits}").as_bytes());
    }

    fn pad(&self, output: &mut Vec<u8>, text: &[u8]) {
        let blanks = self.width.saturating_sub(text.len());
        if self.minus {
            output.extend_from_slice(text);
            output.resize(output.len() + blanks, b' ');
        } else {
            output.resize(output.len() + blanks, b' ');
            output.extend_from_slice(text);
        }
    }
}

/// A number or `*`.
fn number(
    text: &[u8],
    at: &mut usize,
    count: &mut u32,
    argument: &mut dyn FnMut(u64) -> Result<u64, FaultKind>,
) -> Result<Option<i64>, FaultKind> {
    if text.get(*at) == Some(&b'*') {
        *at += 1;
        *count += 1;
        return Ok(Some(i64::from(argument(4)? as i32)));
    }
    let mut value = None;
    while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
        let so_far: i64 = value.unwrap_or(0);
        value = Some((so_far * 10 + i64::from(digit - b'0')).min(WIDTH_LIMIT as i64));
        *at += 1;
    }
    Ok(value)
}

fn fixed(value: f64, precision: usize, point: bool) -> String {
    let dot = if point && precision == 0 { "." } else { "" };
    format!("{value:.precision$}{dot}")
}

fn exponential(value: f64, precision: usize, point: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let dot = if point && precision == 0 { "." } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{dot}e{sign}{:02}", exponent.abs())
}

fn general(value: f64, precision: usize, keep_zeros: bool) -> String {
    let precision = precision.max(1);
    let text = format!("{value:.*e}", precision - 1);
    let exponent: i64 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let plain = exponent >= -4 && exponent < precision as i64;
    let text = if plain {
        fixed(value, (precision as i64 - 1 - exponent) as usize, false)
    } else {
        exponential(value, precision - 1, false)
    };
    if keep_zeros {
        return text;
    }
    let (mantissa, tail) = text.split_once('e').map_or((text.as_str(), String::new()), |(m, e)| (m, format!("e{e}")));
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    format!("{mantissa}{tail}")
}

fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    let bits = value.to_bits();
    if value == 0.0 {
        let zeros = precision.unwrap_or(0);
        return if zeros == 0 { "0x0p+0".to_owned() } else { format!("0x0.{}p+0", "0".repeat(zeros)) };
    }
    let mut exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mut lead = 1_u64;
    let mut fraction = bits & ((1 << 52) - 1);
    if exponent == -1023 {
        exponent = -1022;
        lead = 0;
    }
    let digits = precision.unwrap_or(13).min(13);
    let cut = 4 * (13 - digits as u32);
    if cut > 0 {
        let whole = (lead << 52) | fraction;
        let half = 1_u64 << (cut - 1);
        let odd = (whole >> cut) & 1;
        let rounded = (whole + half - 1 + odd) >> cut << cut;
        lead = rounded >> 52;
        fraction = rounded & ((1 << 52) - 1);
    }
    let mut tail = format!("{fraction:013x}");
    tail.truncate(digits);
    if precision.is_none() {
        tail = tail.trim_end_matches('0').to_owned();
    }
    let dot = if tail.is_empty() { "" } else { "." };
    format!("0x{lead}{dot}{tail}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::format;

    fn printed(text: &str, arguments: &[u64]) -> String {
        let mut rest = arguments.iter();
        let mut next = |_| Ok(*rest.next().expect("an argument"));
        let (bytes, _) = format(text.as_bytes(), &mut next, &mut |_| Ok(b"word".to_vec())).expect("formats");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn integers_take_width_precision_and_flags() {
        assert_eq!(printed("[%5d|%-5d|%05d|%+d]", &[42, 42, u64::from((-42_i32) as u32), 7]), "[   42|42   |-0042|+7]");
        assert_eq!(printed("%u %x %#X %o %lld", &[u64::MAX, 255, 255, 8, u64::MAX]), "4294967295 ff 0XFF 10 -1");
        assert_eq!(printed("%.3d|%hhd|%*d", &[7, 0x1ff, 4, 1]), "007|-1|   1");
    }

    #[test]
    fn floats_print_as_c_does() {
        let bits = |value: f64| value.to_bits();
        assert_eq!(printed("%f %.2f %8.3f|", &[bits(1.5), bits(2.675), bits(-3.24159)]), "1.500000 2.67   -3.242|");
        assert_eq!(printed("%e %.0e %E", &[bits(12345.678), bits(5.0), bits(1e-7)]), "1.234568e+04 5e+00 1.000000E-07");
        assert_eq!(
            printed("%g %g %g %g", &[bits(100000.0), bits(1e6), bits(0.0001), bits(0.5)]),
            "100000 1e+06 0.0001 0.5"
        );
        assert_eq!(printed("%f %f", &[bits(f64::INFINITY), bits(-f64::NAN)]), "inf -nan");
        assert_eq!(printed("%a %a", &[bits(1.0), bits(0.1)]), "0x1p+0 0x1.999999999999ap-4");
    }

    #[test]
    fn strings_characters_and_the_unknown() {
        assert_eq!(printed("%s|%6s|%-6s|%.2s|%c|%%|%p", &[1, 1, 1, 1, 65, 4096]), "word|  word|word  |wo|A|%|0x1000");
        assert_eq!(printed("%y 5%", &[]), "%y 5%");
    }
}
