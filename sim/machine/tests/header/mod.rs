//! The header of a golden PTX file: lines that begin with `//!`, before or between the instructions.
//! The file's text comes in, launch dimensions, argument bytes and expectations go out, or what is wrong with a line.
//! It runs nothing.

use floe_machine::FaultKind;

/// Values of one type, as bytes, with which of them matter.
#[derive(Clone, Debug, Default)]
pub struct Values {
    pub bytes: Vec<u8>,
    kind: String,
    /// Positions written `?`: any value will do.
    any: Vec<bool>,
}

/// One kernel argument, in order.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A device buffer with these contents; the kernel gets its address.
    Buffer(String, Values),
    /// Bytes passed as they are.
    Value(Values),
}

/// Everything a file says about itself.
#[derive(Clone, Debug, Default)]
pub struct Header {
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub cooperative: bool,
    pub arguments: Vec<Argument>,
    pub expected: Vec<(String, Values)>,
    pub printed: Option<String>,
    pub fault: Option<(FaultKind, u32)>,
    pub thread: Option<[u32; 3]>,
    pub refused: Option<(u32, String)>,
    pub failing: Option<String>,
}

impl Values {
    fn size(&self) -> usize {
        match self.kind.as_str() {
            "u8" => 1,
            "u16" => 2,
            "u64" | "s64" | "f64" => 8,
            _ => 4,
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.any.len()
    }

    fn slice<'a>(&self, index: usize, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[index * self.size()..(index + 1) * self.size()]
    }

    /// Whether value `index` of `got` is as expected.
    pub fn agrees(&self, index: usize, got: &[u8]) -> bool {
        self.any[index] || self.slice(index, got) == self.slice(index, &self.bytes)
    }

    /// Value `index` of `bytes` in words.
    pub fn show(&self, index: usize, bytes: &[u8]) -> String {
        let bits = self.slice(index, bytes).iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
        match self.kind.as_str() {
            "f32" => format!("{:?}", f32::from_bits(bits as u32)),
            "f64" => format!("{:?}", f64::from_bits(bits)),
            "s32" => format!("{}", bits as u32 as i32),
            "s64" => format!("{}", bits as i64),
            _ => format!("{bits:#x}"),
        }
    }

    /// Reads `TYPE value…`: a number, `number*count`, `first..end` (end excluded), or `?`.
    fn parse(words: &[&str]) -> Result<Values, String> {
        let (kind, words) = words.split_first().ok_or("a type is missing")?;
        if !["u8", "u16", "u32", "s32", "f32", "u64", "s64", "f64"].contains(kind) {
            return Err(format!("type: {kind}"));
        }
        let mut values = Values { kind: (*kind).to_owned(), ..Values::default() };
        for word in words {
            let (what, count) = match word.split_once('*') {
                Some((what, count)) => (what, number(count)? as usize),
                None => (*word, 1),
            };
            for _ in 0..count {
                values.push(what)?;
            }
        }
        Ok(values)
    }

    fn push(&mut self, word: &str) -> Result<(), String> {
        if let Some((first, end)) = word.split_once("..") {
            for value in number(first)?..number(end)? {
                self.push_bits(value as u64, false);
            }
            return Ok(());
        }
        if word == "?" {
            self.push_bits(0, true);
            return Ok(());
        }
        let real = || word.parse::<f64>().map_err(|error| format!("{word}: {error}"));
        let bits = match self.kind.as_str() {
            "f32" if !word.starts_with("0x") => u64::from((real()? as f32).to_bits()),
            "f64" if !word.starts_with("0x") => real()?.to_bits(),
            _ => number(word)? as u64,
        };
        self.push_bits(bits, false);
        Ok(())
    }

    fn push_bits(&mut self, bits: u64, any: bool) {
        let size = self.size();
        self.bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
        self.any.push(any);
    }
}

fn number(word: &str) -> Result<i128, String> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let magnitude = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let magnitude = magnitude.map_err(|error| format!("{word}: {error}"))?;
    Ok(if negative { -magnitude } else { magnitude })
}

fn dimensions(word: &str) -> Result<[u32; 3], String> {
    let mut result = [1; 3];
    for (slot, part) in result.iter_mut().zip(word.split(',')) {
        *slot = number(part)? as u32;
    }
    Ok(result)
}

fn fault_kind(name: &str) -> Result<FaultKind, String> {
    Ok(match name {
        "illegal-address" => FaultKind::IllegalAddress,
        "misaligned" => FaultKind::Misaligned,
        "assert" => FaultKind::Assert,
        "trap" => FaultKind::Trap,
        "illegal-instruction" => FaultKind::IllegalInstruction,
        "invalid-pc" => FaultKind::InvalidProgramCounter,
        "invalid-space" => FaultKind::InvalidAddressSpace,
        "stack-overflow" => FaultKind::StackOverflow,
        "deadlock" => FaultKind::Deadlock,
        _ => return Err(format!("fault: {name}")),
    })
}

impl Header {
    /// Reads the header lines of a file.
    pub fn parse(text: &str) -> Result<Header, String> {
        let mut header = Header { grid: [1; 3], block: [1; 3], ..Header::default() };
        for (index, line) in text.lines().enumerate() {
            // Marks a line of the text itself, so that expectations need no counting.
            if let Some((_, mark)) = line.split_once("//<") {
                header.mark(mark.trim(), index as u32 + 1)?;
            }
            if let Some(rest) = line.trim_start().strip_prefix("//!") {
                header.line(rest.trim()).map_err(|error| format!("line {}: {error}", index + 1))?;
            }
        }
        let checks = !header.expected.is_empty() || header.printed.is_some();
        if !checks && header.fault.is_none() && header.refused.is_none() {
            return Err("nothing to check".to_owned());
        }
        Ok(header)
    }

    fn mark(&mut self, mark: &str, line: u32) -> Result<(), String> {
        match mark.split_once(' ') {
            Some(("fault", kind)) => self.fault = Some((fault_kind(kind)?, line)),
            Some(("refused", what)) => self.refused = Some((line, what.to_owned())),
            _ => return Err(format!("mark: {mark}")),
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["launch", kernel, ref rest @ ..] => {
                self.kernel = kernel.to_owned();
                self.launch(rest)?;
            }
            ["buffer", name, ref rest @ ..] => {
                self.arguments.push(Argument::Buffer(name.to_owned(), Values::parse(rest)?));
            }
            ["value", ref rest @ ..] => self.arguments.push(Argument::Value(Values::parse(rest)?)),
            ["expect", name, ref rest @ ..] => self.expect(name, Values::parse(rest)?),
            ["print", ..] => {
                let text = line["print".len()..].trim().trim_matches('"').replace("\\n", "\n");
                self.printed = Some(self.printed.take().unwrap_or_default() + &text);
            }
            ["fault", kind] => self.fault = Some((fault_kind(kind)?, 0)),
            ["thread", thread] => {
                let [x, y, z] = dimensions(thread)?;
                let given = thread.split(',').count();
                self.thread = Some([x, if given > 1 { y } else { 0 }, if given > 2 { z } else { 0 }]);
            }
            ["failing", ..] => self.failing = Some(line["failing".len()..].trim().to_owned()),
            ["about", ..] => {}
            _ => return Err(format!("directive: {line}")),
        }
        Ok(())
    }

    fn launch(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            [] => Ok(()),
            ["cooperative", rest @ ..] => {
                self.cooperative = true;
                self.launch(rest)
            }
            [what, value, rest @ ..] => {
                match *what {
                    "grid" => self.grid = dimensions(value)?,
                    "block" => self.block = dimensions(value)?,
                    "shared" => self.shared = number(value)? as u32,
                    _ => return Err(format!("launch: {what}")),
                }
                self.launch(rest)
            }
            _ => Err(format!("launch: {words:?}")),
        }
    }

    /// Several lines for one buffer follow each other.
    fn expect(&mut self, name: &str, values: Values) {
        match self.expected.iter_mut().find(|(other, _)| other == name) {
            Some((_, before)) => {
                before.bytes.extend(values.bytes);
                before.any.extend(values.any);
            }
            None => self.expected.push((name.to_owned(), values)),
        }
    }
}
