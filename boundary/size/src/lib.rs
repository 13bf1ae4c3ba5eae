//! Numbers as people write them in settings and on command lines: bytes as `8G`, `512 MiB`, `1000MB`, `4294967296`, and parts of
//! a whole as `25%`, `12.5`.
//! In: a text. Out: the number, or nothing where it is none.
//! It has no opinion on which sizes make sense.
#![forbid(unsafe_code)]

/// The bytes that `text` means. `K`, `M`, `G` and `T` are powers of 1024, alone and with `iB` behind them; with `B` alone
/// they are powers of 1000. Case does not matter, nor do spaces around the number. `None` for anything else, also where
/// the number does not fit.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    number.parse::<u64>().ok()?.checked_mul(unit_bytes(unit.trim_start())?)
}

fn unit_bytes(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

/// The thousandths of a whole that `text` means in percent, from 0.1 to 100, with one decimal place at most and with or without
/// its sign. `None` for anything else.
#[must_use]
pub fn thousandths(text: &str) -> Option<u32> {
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str, most: usize| {
        let is_number = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u32>().ok()).flatten()
    };
    let thousandths = digits(whole, 3)? * 10 + digits(tenths, 1)?;
    (1..=1000).contains(&thousandths).then_some(thousandths)
}

/// Thousandths of a whole as people write them: `25%`, `12.5%`.
#[must_use]
pub fn percent(thousandths: u32) -> String {
    match thousandths % 10 {
        0 => format!("{}%", thousandths / 10),
        tenths => format!("{}.{tenths}%", thousandths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_whole_are_read_as_they_are_written() {
        for (text, expected) in
            [("25%", 250), ("25", 250), (" 12.5 % ", 125), ("100%", 1000), ("0.1%", 1), ("007%", 70)]
        {
            assert_eq!(thousandths(text), Some(expected), "{text}");
        }
        for wrong in
            ["", "%", "0", "0%", "100.1", "101%", "-5%", "+5%", "1e2", "12.55%", ".5", "5.", "99999999999", "5 5"]
        {
            assert_eq!(thousandths(wrong), None, "{wrong}");
        }
        assert!((1..=1000).all(|part| thousandths(&percent(part)) == Some(part)));
        assert_eq!((percent(250), percent(125)), ("25%".to_owned(), "12.5%".to_owned()));
    }

    #[test]
    fn letters_are_powers_of_1024_and_b_makes_them_powers_of_1000() {
        for (text, expected) in [("8G", 8 << 30), ("8GiB", 8 << 30), ("512 MiB", 512 << 20), ("3k", 3 << 10)] {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for (text, expected) in [("1000MB", 1_000_000_000), ("2 tb", 2_000_000_000_000), ("7 B", 7), (" 12 ", 12)] {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        assert_eq!(bytes("0"), Some(0));
    }

    #[test]
    fn anything_else_is_no_size() {
        for wrong in ["", "G", "-1", "+1", "1X", "1.5G", "1 G B", "0x10", "99999999999T", "18446744073709551616"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
