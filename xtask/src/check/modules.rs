//! The modules of a crate: the roots of its targets come in; modules, their definitions and imports, and every path
//! that their code names go out. Tests are left out, generated code is read for its names. It never expands a macro: a
//! name that stands in a macro's arguments at the place of items may be defined there.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use syn::{Item, UseTree, Visibility};

use super::facts::Facts;
use super::named;
use super::syntax::{self, attributes, is_test};

/// A module: a file, or braces in one.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Its file among the crate's files.
    pub(crate) file: usize,
    /// The module around it; a root has none.
    pub(crate) parent: Option<usize>,
    /// The root that it belongs to.
    pub(crate) root: usize,
    /// The modules in it.
    pub(crate) children: HashMap<String, usize>,
    /// Names that it defines.
    pub(crate) defined: HashSet<String>,
    /// Names that it may define by a macro.
    pub(crate) maybe: HashSet<String>,
    /// Names that it imports, and their sources.
    pub(crate) imported: HashMap<String, Vec<Vec<String>>>,
    /// The modules and enums whose names it imports all.
    pub(crate) globs: Vec<Vec<String>>,
}

/// A path that code names.
#[derive(Debug)]
pub(crate) struct Named {
    /// The module that names it.
    pub(crate) module: usize,
    /// Its segments.
    pub(crate) path: Vec<String>,
    /// The line, counted from one.
    pub(crate) line: usize,
}

/// The modules of one crate.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// The files.
    pub(crate) files: Vec<PathBuf>,
    /// Measurements of each.
    pub(crate) facts: Vec<Facts>,
    /// The modules; each file has one at least.
    pub(crate) modules: Vec<Module>,
    /// Paths that their code names.
    pub(crate) named: Vec<Named>,
}

/// The folder and file in which a module's modules are looked for.
struct ModuleFolder<'a> {
    /// Its file.
    file: &'a Path,
    /// The folder of its modules.
    folder: PathBuf,
}

impl Modules {
    /// Reads a crate.
    ///
    /// # Errors
    /// When one of its files cannot be read or parsed.
    pub(crate) fn read(roots: &[PathBuf]) -> Result<Self> {
        let mut modules = Self::default();
        for root in roots {
            let folder = root.parent().unwrap_or(root).to_path_buf();
            modules.read_file(root, folder, None)?;
        }
        Ok(modules)
    }

    /// Reads a file as a module and gives its index.
    fn read_file(&mut self, file: &Path, folder: PathBuf, parent: Option<usize>) -> Result<usize> {
        let parsed = syntax::parse(file)?;
        self.files.push(file.to_path_buf());
        self.facts.push(Facts::of(&parsed));
        let module = self.add(self.files.len() - 1, parent);
        self.read_items(&parsed.items, module, &ModuleFolder { file, folder })?;
        Ok(module)
    }

    fn add(&mut self, file: usize, parent: Option<usize>) -> usize {
        let index = self.modules.len();
        let root = parent.map_or(index, |parent| self.modules[parent].root);
        self.modules.push(Module { file, parent, root, ..Module::default() });
        index
    }

    fn read_items(&mut self, items: &[Item], module: usize, place: &ModuleFolder) -> Result<()> {
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(child) => self.read_module(child, module, place)?,
                Item::Use(item) => {
                    let is_private = matches!(item.vis, Visibility::Inherited);
                    self.import(&item.tree, &mut Vec::new(), module, is_private);
                }
                _ => {
                    self.define(item, module);
                    self.name(item, module);
                }
            }
        }
        Ok(())
    }

    fn read_module(&mut self, child: &syn::ItemMod, parent: usize, place: &ModuleFolder) -> Result<()> {
        let name = child.ident.to_string();
        let name = name.trim_start_matches("r#");
        let beside = place.file.parent().unwrap_or(place.file);
        let module = if let Some((_, items)) = &child.content {
            let module = self.add(self.modules[parent].file, Some(parent));
            self.read_items(items, module, &ModuleFolder { file: place.file, folder: place.folder.join(name) })?;
            module
        } else if let Some(path) = syntax::path_attribute(&child.attrs) {
            let file = beside.join(path);
            let folder = file.parent().unwrap_or(&file).to_path_buf();
            self.read_file(&file, folder, Some(parent))?
        } else {
            let (flat, folder) = (place.folder.join(format!("{name}.rs")), place.folder.join(name));
            let file = if flat.is_file() { flat } else { folder.join("mod.rs") };
            self.read_file(&file, folder, Some(parent))?
        };
        self.modules[parent].children.insert(name.to_owned(), module);
        Ok(())
    }

    /// Notes what a `use` brings; a private one is used by what stands in the module.
    fn import(&mut self, tree: &UseTree, before: &mut Vec<String>, module: usize, is_private: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before, module, is_private);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, module, is_private);
                }
            }
            UseTree::Glob(_) => self.modules[module].globs.push(before.clone()),
            UseTree::Name(name) => self.import_one(&name.ident, &name.ident, before, module, is_private),
            UseTree::Rename(name) => self.import_one(&name.ident, &name.rename, before, module, is_private),
        }
    }

    fn import_one(&mut self, name: &syn::Ident, new: &syn::Ident, before: &[String], module: usize, is_private: bool) {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_string());
        }
        let new = if new == "self" { path.last().cloned().unwrap_or_default() } else { new.to_string() };
        if is_private {
            let line = name.span().start().line;
            self.named.push(Named { module, path: path.clone(), line });
        }
        self.modules[module].imported.entry(new).or_default().push(path);
    }

    fn define(&mut self, item: &Item, module: usize) {
        let module = &mut self.modules[module];
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(item) => {
                module.maybe.extend(named::words(item.mac.tokens.clone()));
                module.defined.extend(item.ident.as_ref().map(ToString::to_string));
                return;
            }
            _ => return,
        };
        module.defined.insert(name.to_string());
    }

    /// Notes what an item names.
    fn name(&mut self, item: &Item, module: usize) {
        let found = named::in_item(item);
        for tree in &found.imports {
            self.import(tree, &mut Vec::new(), module, true);
        }
        self.named.extend(found.paths.into_iter().map(|(path, line)| Named { module, path, line }));
    }
}
