//! The circles of one crate, for people: a crate comes in, text goes out that says which files and which lines make them.
//! It counts files, for a file is what is read in one piece. It never says which arrow is the wrong one.

use std::fmt::Write;
use std::path::Path;

use super::arrows::{Arrows, Use, arrows};
use super::circles;
use super::crates::Crate;
use super::modules::Modules;

/// The files of a crate that stand in circles.
#[derive(Debug)]
pub(crate) struct Tangle {
    /// The files' names, from the crate's folder.
    files: Vec<String>,
    arrows: Arrows,
    groups: Vec<Vec<usize>>,
}

impl Tangle {
    /// Finds the circles of a crate's library and programs.
    pub(crate) fn of(repository: &Path, of: &Crate, modules: &Modules) -> Self {
        let folder = repository.join(&of.folder);
        let name = |file: &std::path::PathBuf| file.strip_prefix(&folder).unwrap_or(file).display().to_string();
        let arrows = arrows(modules);
        let groups = circles::groups(&arrows.keys().copied().collect::<Vec<_>>());
        Self { files: modules.files.iter().map(name).collect(), arrows, groups }
    }

    /// The number of files in the largest circle; zero when there is none.
    pub(crate) fn largest(&self) -> usize {
        self.groups.first().map_or(0, Vec::len)
    }

    /// The sizes of all circles.
    pub(crate) fn sizes(&self) -> String {
        let sizes: Vec<_> = self.groups.iter().map(|group| group.len().to_string()).collect();
        if sizes.is_empty() { "none".to_owned() } else { sizes.join(", ") }
    }

    /// The files of the largest circle, and a shortest way around.
    pub(crate) fn largest_told(&self) -> String {
        let Some(group) = self.groups.first() else { return String::new() };
        let mut text = format!("files: {}\n", self.names(group).join(", "));
        let _ = writeln!(text, "a shortest way around: {}", self.around(group));
        text
    }

    /// All circles, with each arrow's places.
    pub(crate) fn told(&self) -> String {
        let mut text = format!("files in circles: {}\n", self.sizes());
        for (number, group) in (1..).zip(&self.groups) {
            let _ = writeln!(text, "\ncircle {number}, files: {}", group.len());
            for name in self.names(group) {
                let _ = writeln!(text, "  {name}");
            }
            let _ = writeln!(text, "a shortest way around: {}\narrows:", self.around(group));
            for ((from, to), places) in &self.arrows {
                if !group.contains(from) || !group.contains(to) {
                    continue;
                }
                let _ = writeln!(text, "  {} -> {}", self.files[*from], self.files[*to]);
                for (line, path) in places.iter().filter(|place| !is_brought(place, places)) {
                    let _ = writeln!(text, "    {}:{line} {path}", self.files[*from]);
                }
            }
        }
        text
    }

    fn names(&self, group: &[usize]) -> Vec<&str> {
        group.iter().map(|file| self.files[*file].as_str()).collect()
    }

    fn around(&self, group: &[usize]) -> String {
        let arrows: Vec<_> = self.arrows.keys().copied().collect();
        self.names(&circles::shortest(group, &arrows)).join(" -> ")
    }
}

/// Whether another place of the same arrow, an import, brought the name that a path begins with.
fn is_brought(place: &Use, places: &[Use]) -> bool {
    let first = place.1.split("::").next();
    places.iter().any(|(_, path)| *path != place.1 && path.rsplit("::").next() == first)
}
