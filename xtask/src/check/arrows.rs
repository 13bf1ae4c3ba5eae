//! Which file of a crate uses which: its modules come in, arrows from file to file go out.
//! An arrow is a path that names an item of the other file: in code, or in a private `use`. Re-exports are followed to
//! the item's file and are no arrow of their own. A module that is declared or imported by its name is no arrow either.
//! It never sees what is called as a method of a value alone, since that needs no name.

use std::collections::{BTreeMap, HashSet};

use super::modules::Modules;
use super::syntax::is_generated;

/// A use of another file's item: the line and the path.
pub(crate) type Use = (usize, String);

/// The arrows of a crate, by the files they come from and go to.
pub(crate) type Arrows = BTreeMap<(usize, usize), Vec<Use>>;

/// A question on the way to an answer: a name in a module, and whether it ends its path. Imports may lead in circles.
type Asked = HashSet<(usize, String, bool)>;

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathTarget {
    /// A module.
    Module(usize),
    /// An item that stands in a module.
    Item(usize),
}

/// The arrows between the hand-written files of a crate.
pub(crate) fn arrows(modules: &Modules) -> Arrows {
    let mut arrows = Arrows::new();
    for named in &modules.named {
        let Some(PathTarget::Item(target)) = modules.resolve(named.module, &named.path, &mut Asked::new()) else {
            continue;
        };
        let (from, to) = (modules.modules[named.module].file, modules.modules[target].file);
        if from != to && ![from, to].iter().any(|file| is_generated(&modules.files[*file])) {
            arrows.entry((from, to)).or_default().push((named.line, named.path.join("::")));
        }
    }
    for places in arrows.values_mut() {
        let mut seen = HashSet::new();
        places.retain(|place| seen.insert(place.clone()));
        places.sort();
    }
    arrows
}

impl Modules {
    /// The targets of a path that a module names; none when it leads out of the crate.
    fn resolve(&self, from: usize, path: &[String], asked: &mut Asked) -> Option<PathTarget> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => PathTarget::Module(self.modules[from].root),
            "self" => PathTarget::Module(from),
            "super" => PathTarget::Module(self.modules[from].parent?),
            name => self.find(from, name, rest.is_empty(), asked)?,
        };
        for (place, name) in rest.iter().enumerate() {
            let PathTarget::Module(module) = at else { return Some(at) };
            at = if name == "super" {
                PathTarget::Module(self.modules[module].parent?)
            } else if name == "self" {
                at
            } else {
                let is_last = place + 1 == rest.len();
                match self.find(module, name, is_last, asked) {
                    Some(found) => found,
                    // It comes from another crate and is only passed on.
                    None if self.modules[module].imported.contains_key(name) => return None,
                    None => PathTarget::Item(module),
                }
            };
        }
        Some(at)
    }

    /// The meanings of a name in a module. If it has several, the end of a path is an item, the rest modules.
    fn find(&self, module: usize, name: &str, is_last: bool, asked: &mut Asked) -> Option<PathTarget> {
        if !asked.insert((module, name.to_owned(), is_last)) {
            return None;
        }
        let here = &self.modules[module];
        let child = here.children.get(name).map(|child| PathTarget::Module(*child));
        let item = here.defined.contains(name).then_some(PathTarget::Item(module));
        let imported = here.imported.get(name).into_iter().flatten();
        let imported: Vec<_> = imported.filter_map(|path| self.resolve_import(module, name, path, asked)).collect();
        let is_item = |target: &PathTarget| matches!(target, PathTarget::Item(_));
        let all = item.into_iter().chain(imported).chain(child);
        let found = if is_last {
            let all: Vec<_> = all.collect();
            all.iter().copied().find(is_item).or_else(|| all.first().copied())
        } else {
            let all: Vec<_> = all.collect();
            all.iter().copied().find(|target| !is_item(target)).or_else(|| all.first().copied())
        };
        found
            .or_else(|| here.globs.iter().find_map(|glob| self.find_in_glob(module, glob, name, is_last, asked)))
            .or_else(|| here.maybe.contains(name).then_some(PathTarget::Item(module)))
    }

    /// The targets of an import. `use name::…` of a crate of that name is not the import itself.
    fn resolve_import(&self, module: usize, name: &str, path: &[String], asked: &mut Asked) -> Option<PathTarget> {
        let itself =
            path.first().is_some_and(|first| first == name) && !self.modules[module].children.contains_key(name);
        if itself { None } else { self.resolve(module, path, asked) }
    }

    fn find_in_glob(
        &self,
        module: usize,
        glob: &[String],
        name: &str,
        is_last: bool,
        asked: &mut Asked,
    ) -> Option<PathTarget> {
        match self.resolve(module, glob, asked)? {
            PathTarget::Module(target) if target != module => self.find(target, name, is_last, asked),
            PathTarget::Module(_) | PathTarget::Item(_) => None,
        }
    }
}
