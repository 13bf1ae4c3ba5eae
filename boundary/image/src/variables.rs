//! Global variables of a cubin, from its symbol table.
//! In goes a cubin, out come names and sizes of its variables; the host asks for `static` ones too.
//! It reads no initial values and no addresses: these are the loader's business.

use crate::elf::{self, Section};
use crate::error::ImageError;

/// Bytes of a symbol: name (4), info (1), other (1), section (2), value (8), size (8).
const SYMBOL: usize = 24;
/// `STT_OBJECT`, the lower half of info.
const OBJECT: u8 = 1;

/// A global variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its (mangled) name.
    pub name: String,
    /// Bytes.
    pub size: u64,
}

/// The variables of a cubin.
///
/// # Errors
/// A file that is no cubin.
pub fn variables(cubin: &[u8]) -> Result<Vec<Variable>, ImageError> {
    let sections = elf::sections(cubin)?;
    let bytes_of = |name: &[u8]| sections.iter().find(|section| section.name == name).map_or(&[][..], Section::content);
    let (symbols, names) = (bytes_of(b".symtab"), bytes_of(b".strtab"));
    Ok(symbols.chunks_exact(SYMBOL).filter_map(|symbol| variable(symbol, names)).collect())
}

fn variable(symbol: &[u8], names: &[u8]) -> Option<Variable> {
    let info = *symbol.get(4)?;
    let size = u64::from_le_bytes(symbol.get(16..24)?.try_into().ok()?);
    if info & 0xf != OBJECT || size == 0 {
        return None;
    }
    let start = usize::try_from(u32::from_le_bytes(symbol.get(..4)?.try_into().ok()?)).ok()?;
    let name = names.get(start..)?.split(|&byte| byte == 0).next()?;
    Some(Variable { name: String::from_utf8(name.to_vec()).ok()?, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: u32, info: u8, size: u64) -> Vec<u8> {
        let mut bytes = name.to_le_bytes().to_vec();
        bytes.extend([info, 0, 0, 0]);
        bytes.extend([0; 8]);
        bytes.extend(size.to_le_bytes());
        bytes
    }

    #[test]
    fn only_objects_with_a_size_are_variables() {
        let names = b"\0first\0second\0";
        let found = variable(&symbol(1, 0x11, 16), names);
        assert_eq!(found, Some(Variable { name: "first".to_owned(), size: 16 }));
        for other in [symbol(1, 0x12, 16), symbol(1, 0x11, 0), symbol(99, 0x11, 16)] {
            assert_eq!(variable(&other, names), None);
        }
    }

    #[test]
    fn bytes_that_are_no_cubin_are_an_error() {
        assert!(variables(b"not a cubin").is_err());
    }
}
