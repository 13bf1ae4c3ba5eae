//! A parsed text of a program, its symbols and its variables.
//! A text comes in; syntax and, on demand, the statements of a function go out. It resolves no name.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use floe_ptx::{Limits, Linkage, Module, ParseError, Space, Statement};

use super::error::LoadError;

/// A function's statements, or where they are no PTX.
type ParsedBody = Result<Vec<Statement<'static>>, ParseError>;

/// A parsed text. The tree borrows from the text; both live and die together. Bodies are read at their first use: modules
/// made from templates hold hundreds of kernels that nobody launches.
pub(crate) struct Unit {
    // Declared first, so dropped first: these borrow from the text.
    module: Module<'static>,
    bodies: Vec<OnceLock<ParsedBody>>,
    lasting: &'static str,
    number: usize,
    /// Symbols of this module alone.
    pub(crate) local: HashMap<&'static str, Symbol>,
    _text: Arc<String>,
}

/// The meaning of a module-scope name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    Function(u32),
    Variable(usize),
    /// `.extern .shared name[]`.
    DynamicShared,
}

/// A module-scope variable.
pub(crate) struct PlacedVariable {
    pub(crate) name: String,
    pub(crate) unit: usize,
    /// Place among the module's variables.
    pub(crate) index: usize,
    pub(crate) space: Space,
    pub(crate) size: u64,
    pub(crate) align: u64,
    /// Device address; 0 for shared variables, which belong to kernels.
    pub(crate) address: u64,
    pub(crate) managed: bool,
    pub(crate) is_texture_reference: bool,
}

impl Unit {
    /// Parses a text.
    pub(crate) fn parse(number: usize, text: Arc<String>) -> Result<Self, LoadError> {
        let plain = text.trim_end_matches('\0');
        // SAFETY: the text is on the heap and never changed while it is shared. The unit's share of it is dropped after
        // the module, which alone borrows from it. `module()` returns references no longer than the unit's. Lowering,
        // which borrows `'static` names from those, does not outlive the program that owns the unit.
        let lasting: &'static str = unsafe { &*std::ptr::from_ref::<str>(plain) };
        let module = floe_ptx::outline(lasting, &Limits::default()).map_err(|error| syntax(number, &error))?;
        let bodies = module.functions.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { module, bodies, lasting, number, local: HashMap::new(), _text: text })
    }

    /// The statements of function `index`; none where it is declared only.
    pub(crate) fn body(&self, index: usize) -> Result<Option<&[Statement<'static>]>, LoadError> {
        let Some(span) = self.module.functions[index].body_span.as_ref() else { return Ok(None) };
        let parsed = self.bodies[index].get_or_init(|| floe_ptx::parse_body(self.lasting, span, &Limits::default()));
        parsed.as_ref().map(|body| Some(body.as_slice())).map_err(|error| syntax(self.number, error))
    }

    pub(crate) fn module(&self) -> &Module<'static> {
        &self.module
    }

    /// Linkages of prototypes: of several for a name, the first that declares one.
    pub(super) fn prototypes(&self) -> HashMap<&'static str, Linkage> {
        let declared = self.module.functions.iter().filter(|function| function.body.is_none());
        let mut prototypes = HashMap::new();
        for function in declared.filter(|function| function.linkage != Linkage::Internal) {
            prototypes.entry(function.name).or_insert(function.linkage);
        }
        prototypes
    }
}

fn syntax(module: usize, error: &ParseError) -> LoadError {
    let (line, column) = (error.position.line, error.position.column);
    LoadError::Syntax { module, line, column, message: error.to_string() }
}
