//! Linking: which symbol each name of each module means, and where variables lie.
//! In go parsed modules, out come functions by number, variables with addresses, and the symbols modules share. A weak
//! definition gives way to a strong one, the first of several weak ones is taken.

use std::collections::HashMap;

use floe_ptx::{FunctionKind, Linkage, ScalarType, Space};

use super::unit::{PlacedVariable, Symbol};
use super::{LoadError, Program};

impl Program {
    /// Reads every body, also those no kernel needs.
    ///
    /// # Errors
    /// [`LoadError::Syntax`] where one is not PTX.
    pub fn check(&self) -> Result<(), LoadError> {
        let functions =
            self.units.iter().flat_map(|unit| (0..unit.module().functions.len()).map(move |index| (unit, index)));
        functions.map(|(unit, index)| unit.body(index)).find_map(Result::err).map_or(Ok(()), Err)
    }

    /// Resolves all names and places all variables.
    pub(super) fn link(&mut self, allocate: &mut dyn FnMut(u64, u64) -> Option<u64>) -> Result<(), LoadError> {
        let mut strong = HashMap::new();
        for unit in 0..self.units.len() {
            self.link_functions(unit, &mut strong)?;
            self.link_variables(unit, &mut strong)?;
        }
        for unit in 0..self.units.len() {
            self.link_aliases(unit)?;
            self.check_externals(unit)?;
        }
        for variable in &mut self.variables {
            if !matches!(variable.space, Space::Global | Space::Constant) {
                continue;
            }
            let place = allocate(variable.size.max(1), variable.align.max(1));
            variable.address = place.ok_or_else(|| LoadError::Memory {
                name: variable.name.clone(),
                what: format!("no room for bytes: {}", variable.size),
            })?;
        }
        Ok(())
    }

    fn link_functions(&mut self, unit: usize, strong: &mut HashMap<String, bool>) -> Result<(), LoadError> {
        let prototypes = self.units[unit].prototypes();
        for index in 0..self.units[unit].module().functions.len() {
            let function = &self.units[unit].module().functions[index];
            if function.body.is_none() {
                continue;
            }
            let (name, linkage) = (function.name, self.function_linkage(unit, index, &prototypes));
            let is_kernel = function.kind == FunctionKind::Entry;
            let number = self.functions.len() as u32;
            self.functions.push((unit, index));
            // Kernels are seen from outside whatever is written.
            let linkage = if is_kernel && linkage == Linkage::Internal { Linkage::Visible } else { linkage };
            self.define(unit, name, linkage, Symbol::Function(number), strong)?;
        }
        Ok(())
    }

    /// Linkage of a function: a prototype's where the definition says nothing.
    fn function_linkage(&self, unit: usize, index: usize, prototypes: &HashMap<&str, Linkage>) -> Linkage {
        let function = &self.units[unit].module().functions[index];
        if function.linkage != Linkage::Internal {
            return function.linkage;
        }
        let said = prototypes.get(function.name).copied();
        said.filter(|linkage| *linkage != Linkage::Extern).unwrap_or(Linkage::Internal)
    }

    fn link_variables(&mut self, unit: usize, strong: &mut HashMap<String, bool>) -> Result<(), LoadError> {
        for index in 0..self.units[unit].module().variables.len() {
            let variable = &self.units[unit].module().variables[index];
            let (name, linkage) = (variable.name, variable.linkage);
            if variable.space == Space::Shared
                && (variable.is_open() || linkage == Linkage::Extern)
                && variable.is_open()
            {
                self.units[unit].local.insert(name, Symbol::DynamicShared);
                continue;
            }
            if linkage == Linkage::Extern {
                continue;
            }
            let size = size_of(variable).ok_or_else(|| LoadError::Unsupported {
                function: name.to_owned(),
                line: variable.position.line,
                what: "variable without a usable size".to_owned(),
            })?;
            let placed = PlacedVariable {
                name: name.to_owned(),
                unit,
                index,
                space: variable.space,
                size,
                align: variable.alignment_bytes(),
                address: 0,
                managed: variable.managed,
                is_texture_reference: variable.scalar == ScalarType::TextureReference,
            };
            let number = self.variables.len();
            self.variables.push(placed);
            self.define(unit, name, linkage, Symbol::Variable(number), strong)?;
        }
        Ok(())
    }

    /// Enters a definition; `strong` remembers which exported names have one that is not weak.
    fn define(
        &mut self,
        unit: usize,
        name: &'static str,
        linkage: Linkage,
        symbol: Symbol,
        strong: &mut HashMap<String, bool>,
    ) -> Result<(), LoadError> {
        if linkage == Linkage::Internal {
            self.units[unit].local.insert(name, symbol);
            return Ok(());
        }
        let is_strong = linkage == Linkage::Visible;
        match strong.get(name) {
            Some(true) if is_strong => return Err(LoadError::Duplicate { name: name.to_owned() }),
            Some(true) => return Ok(()),
            Some(false) if !is_strong => return Ok(()),
            _ => {}
        }
        strong.insert(name.to_owned(), is_strong);
        self.exports.insert(name.to_owned(), symbol);
        Ok(())
    }

    fn link_aliases(&mut self, unit: usize) -> Result<(), LoadError> {
        for index in 0..self.units[unit].module().aliases.len() {
            let alias = self.units[unit].module().aliases[index];
            let symbol = self
                .symbol(unit, alias.target)
                .ok_or_else(|| LoadError::Unresolved { name: alias.target.to_owned() })?;
            self.units[unit].local.insert(alias.name, symbol);
            self.exports.entry(alias.name.to_owned()).or_insert(symbol);
        }
        Ok(())
    }

    /// Extern variables must be defined somewhere; extern functions are looked for only where they are called.
    fn check_externals(&self, unit: usize) -> Result<(), LoadError> {
        for variable in &self.units[unit].module().variables {
            if variable.linkage == Linkage::Extern && self.symbol(unit, variable.name).is_none() {
                return Err(LoadError::Unresolved { name: variable.name.to_owned() });
            }
        }
        Ok(())
    }

    /// The meaning of a name in a module.
    pub(crate) fn symbol(&self, unit: usize, name: &str) -> Option<Symbol> {
        self.units[unit].local.get(name).or_else(|| self.exports.get(name)).copied()
    }

    /// A variable by number.
    pub(crate) fn variable(&self, number: usize) -> &PlacedVariable {
        &self.variables[number]
    }

    /// Bytes of an element of an array.
    pub(crate) fn element_size(&self, unit: usize, array: &str) -> Option<i64> {
        let Some(Symbol::Variable(number)) = self.symbol(unit, array) else {
            return None;
        };
        let variable = &self.variables[number];
        let declared = &self.units[variable.unit].module().variables[variable.index];
        i64::try_from(declared.element_size()).ok()
    }

    /// Functions whose address is taken: in an initial value, or as an operand that is no call's target.
    pub(crate) fn addressed_functions(&self) -> &[u32] {
        self.addressed.get_or_init(|| self.find_addressed_functions())
    }

    fn find_addressed_functions(&self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for unit in 0..self.units.len() {
            let mut note = |name: &str| {
                if let Some(Symbol::Function(number)) = self.symbol(unit, name) {
                    numbers.push(number);
                }
            };
            let module = self.units[unit].module();
            for variable in &module.variables {
                if let Some(value) = &variable.initializer {
                    super::initial::symbols(value, &mut note);
                }
            }
            for index in 0..module.functions.len() {
                // A body that is not PTX names no function here; its user gets the error.
                for statement in self.units[unit].body(index).ok().flatten().into_iter().flatten() {
                    if let floe_ptx::Statement::Instruction(instruction) = statement
                        && instruction.opcode.mnemonic() == "mov"
                        && let Some(floe_ptx::Operand::Name(name)) = instruction.operands.get(1)
                    {
                        note(name);
                    }
                }
            }
        }
        numbers.retain(|number| self.function(*number).1.kind == FunctionKind::Function);
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// Bytes of a variable; an open first dimension is as long as the initial value.
fn size_of(variable: &floe_ptx::Variable<'_>) -> Option<u64> {
    if !variable.is_open() {
        return variable.size();
    }
    let Some(floe_ptx::Initializer::List(values)) = &variable.initializer else {
        return None;
    };
    let inner = variable.dimensions.iter().skip(1).try_fold(1_u64, |all, dimension| all.checked_mul((*dimension)?))?;
    inner.checked_mul(variable.element_size())?.checked_mul(values.len() as u64)
}
