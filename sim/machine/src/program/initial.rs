//! Initial values of variables, as bytes in device memory.
//! In go the initialisers of linked modules, with addresses of variables and functions in them, out go writes. A value that
//! has no meaning is an error that names the variable.

use floe_ptx::{Initializer, ScalarType, Space, SymbolAddress};

use super::unit::Symbol;
use super::{LoadError, Program};
use crate::lower::image::Image;
use crate::memory::Memory;

impl Program {
    /// Writes the initial values of all variables; those without one become zero.
    pub(super) fn write_initial_values(&self, memory: &Memory) -> Result<(), LoadError> {
        for variable in &self.variables {
            if !matches!(variable.space, Space::Global | Space::Constant) {
                continue;
            }
            let declared = &self.units[variable.unit].module().variables[variable.index];
            let error = |what: String| LoadError::Memory { name: variable.name.clone(), what };
            let size = usize::try_from(variable.size).map_err(|_| error("too large".to_owned()))?;
            memory.fill(variable.address, 0, 1, size).map_err(|fault| error(fault.to_string()))?;
            let Some(value) = &declared.initializer else { continue };
            let mut dimensions: Vec<u64> = declared.dimensions.iter().map(|size| size.unwrap_or(0)).collect();
            if declared.lanes > 1 {
                dimensions.push(u64::from(declared.lanes));
            }
            let writer = ValueWriter {
                program: self,
                unit: variable.unit,
                scalar: declared.scalar,
                memory,
                address: variable.address,
                size: variable.size,
            };
            writer.write(value, &dimensions, 0).map_err(error)?;
        }
        Ok(())
    }
}

/// Calls `note` with every symbol of a value.
pub(super) fn symbols(value: &Initializer<'_>, note: &mut dyn FnMut(&str)) {
    match value {
        Initializer::Symbol(symbol) => note(symbol.name),
        Initializer::List(values) => values.iter().for_each(|value| symbols(value, note)),
        Initializer::Integer(_) | Initializer::Float(_) => {}
    }
}

/// Writes one variable's value. It holds no copy of the variable, which may be far larger than its value's text.
struct ValueWriter<'a> {
    program: &'a Program,
    unit: usize,
    scalar: ScalarType,
    memory: &'a Memory,
    address: u64,
    size: u64,
}

impl ValueWriter<'_> {
    /// Writes a value of the given dimensions from byte `at` on.
    fn write(&self, value: &Initializer<'_>, dimensions: &[u64], at: u64) -> Result<(), String> {
        let Initializer::List(values) = value else {
            return self.write_scalars(std::slice::from_ref(value), at);
        };
        // A flat list fills nested dimensions in order.
        if !values.iter().any(|value| matches!(value, Initializer::List(_))) {
            return self.write_scalars(values, at);
        }
        let inner = dimensions.get(1..).unwrap_or(&[]);
        let too_large = || "too large".to_owned();
        let elements = inner.iter().try_fold(1_u64, |all, size| all.checked_mul(*size)).ok_or_else(too_large)?;
        let step = elements.checked_mul(u64::from(self.scalar.size())).ok_or_else(too_large)?;
        let mut at = at;
        for value in values {
            self.write(value, inner, at)?;
            at = at.checked_add(step).ok_or_else(too_large)?;
        }
        Ok(())
    }

    /// Writes single values one behind the other.
    fn write_scalars(&self, values: &[Initializer<'_>], at: u64) -> Result<(), String> {
        let size = self.scalar.size() as usize;
        let mut bytes = Vec::with_capacity(values.len() * size);
        for value in values {
            // Types of 16 bytes have values of 8.
            let bits = u128::from(self.scalar_bits(value)?);
            bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
        }
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= self.size);
        end.ok_or("more initial values than elements")?;
        self.memory.write(self.address + at, &bytes).map_err(|fault| fault.to_string())
    }

    fn scalar_bits(&self, value: &Initializer<'_>) -> Result<u64, String> {
        match value {
            Initializer::Integer(number) => Ok(match self.scalar {
                ScalarType::F32 => (number.as_i64() as f32).to_bits().into(),
                ScalarType::F64 => (number.as_i64() as f64).to_bits(),
                _ => number.bits,
            }),
            Initializer::Float(float) => Ok(match self.scalar.size() {
                4 => float.as_f32().to_bits().into(),
                8 => float.as_f64().to_bits(),
                _ => return Err("float in a variable of another type".to_owned()),
            }),
            Initializer::Symbol(symbol) => self.address(symbol),
            Initializer::List(_) => Err("list where a value is wanted".to_owned()),
        }
    }

    fn address(&self, symbol: &SymbolAddress<'_>) -> Result<u64, String> {
        let base = match self.program.symbol(self.unit, symbol.name) {
            Some(Symbol::Function(number)) => Image::function_address(number),
            Some(Symbol::Variable(index)) => {
                let variable = self.program.variable(index);
                if !matches!(variable.space, Space::Global | Space::Constant) {
                    return Err(format!("address of a variable in space {:?}: {}", variable.space, symbol.name));
                }
                variable.address
            }
            Some(Symbol::DynamicShared) | None => return Err(format!("unknown name: {}", symbol.name)),
        };
        let address = base.wrapping_add(symbol.offset.cast_unsigned());
        Ok(match symbol.mask {
            Some(mask) if mask != 0 => (address & mask) >> mask.trailing_zeros(),
            _ => address,
        })
    }
}
