//! Kinds of what a program asks of a GPU's compute: a share, a class.
//! In: text. Out: typed values, or a reason with advice.

use crate::kinds::{Kind, Wrong};

/// A part of a GPU, from 0.1 to 100 percent. The value is in thousandths.
#[derive(Debug)]
pub struct Percent;

impl Kind for Percent {
    type Value = u32;

    fn read(text: &str) -> Result<u32, Wrong> {
        let wrong = "write it as 25%, 12.5% or 25: 0.1% to 100%";
        floe_size::thousandths(text).ok_or_else(|| Wrong::new("not a part of a GPU", text, wrong))
    }
}

/// The priority class of a program's vGPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Class {
    /// It takes turns by its share.
    #[default]
    Batch,
    /// It goes first while it is within its share.
    Latency,
}

impl Kind for Class {
    type Value = Self;

    fn read(text: &str) -> Result<Self, Wrong> {
        match text.trim().to_ascii_lowercase().as_str() {
            "batch" => Ok(Self::Batch),
            "latency" => Ok(Self::Latency),
            _ => Err(Wrong::new("not a class", text, "write batch or latency")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_names() {
        assert_eq!((Class::read("Latency"), Class::read("batch")), (Ok(Class::Latency), Ok(Class::Batch)));
        assert!(Class::read("fast").is_err());
    }
}
