//! Names on pages: Markdown comes in, missing paths and names go out. In backticks: paths of the repository, `path:
//! function`, and names of code. In links: relative addresses. It leaves the history in CHANGELOG.md as it is, and the
//! tests that docs/promises.md names to `tests/tests/promises.rs`.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::tree::Tree;

/// Pages about the past.
const HISTORY: &str = "CHANGELOG.md";
/// Pages with a test of their own for the tests that they name.
const PROMISES: &str = "docs/promises.md";
/// Pages that name the code of others: facts about CUDA, and sources of tests.
const OF_OTHERS: [&str; 2] = ["docs/facts/", "/tests/"];
/// Files in which the names of code are looked for.
const CODE: [&str; 8] = [".rs", ".toml", ".c", ".cu", ".h", ".py", ".ptx", ".txt"];
/// The ends of paths that are paths also without a folder in front.
const SOURCES: [&str; 4] = [".rs", ".cu", ".ptx", ".md"];

/// A missing name of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The page.
    pub(crate) page: String,
    /// The line, counted from one.
    pub(crate) line: usize,
    /// The name.
    pub(crate) what: String,
}

/// The missing names of a repository's pages.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn missing(repository: &Path, tree: &Tree) -> Result<Vec<Missing>> {
    let known = Known::read(repository, tree)?;
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|name| name.ends_with(".md") && *name != HISTORY) {
        let text = read(repository, page)?;
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            if is_code {
                continue;
            }
            let problems = spans(line).filter_map(|span| known.problem(page, span));
            let problems: Vec<_> = problems.chain(links(line).filter_map(|link| known.broken(page, link))).collect();
            found.extend(problems.into_iter().map(|what| Missing { page: page.clone(), line: number, what }));
        }
    }
    Ok(found)
}

fn read(repository: &Path, name: &str) -> Result<String> {
    let bytes = fs::read(repository.join(name)).with_context(|| format!("cannot read: {name}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The addresses of a line's links.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(address, _)| address))
}

/// Names that a page may use.
struct Known<'a> {
    tree: &'a Tree,
    /// The folders and files that the root holds.
    top: HashSet<&'a str>,
    /// Each word of the code, but for comments that fill their line.
    words: HashSet<String>,
    repository: &'a Path,
}

impl<'a> Known<'a> {
    fn read(repository: &'a Path, tree: &'a Tree) -> Result<Self> {
        let mut words = HashSet::new();
        for name in tree.files.iter().filter(|name| CODE.iter().any(|end| name.ends_with(end))) {
            for line in read(repository, name)?.lines().filter(|line| !line.trim_start().starts_with("//")) {
                words.extend(line.split(|sign| !is_word(sign)).map(str::to_owned));
            }
        }
        let top = tree.files.iter().filter_map(|name| name.split('/').next()).collect();
        Ok(Self { tree, top, words, repository })
    }

    /// The fault of a code span.
    fn problem(&self, page: &str, span: &str) -> Option<String> {
        if let Some((path, name)) = span.split_once(".rs:") {
            return if page == PROMISES {
                None
            } else {
                self.function_problem(page, &format!("{path}.rs"), name.trim())
            };
        }
        let is_path = |sign: char| is_word(sign) || "/.-".contains(sign);
        let name = span.strip_suffix("()").unwrap_or(span);
        if span.chars().all(is_path) && self.looks_like_path(span) {
            (!self.has_path(page, span)).then(|| span.to_owned())
        } else if !name.is_empty() && name.chars().all(|sign| is_word(sign) || sign == ':') && is_name(span) {
            let last = name.rsplit("::").next().unwrap_or(name);
            let is_known = || self.words.contains(last) || self.words.iter().any(|word| word.contains(last));
            (!OF_OTHERS.iter().any(|of| page.contains(of)) && !is_known()).then(|| span.to_owned())
        } else {
            None
        }
    }

    fn function_problem(&self, page: &str, path: &str, name: &str) -> Option<String> {
        let Some(file) = self.find(page, path) else { return Some(path.to_owned()) };
        let is_line = !name.is_empty() && name.chars().all(|sign| sign.is_ascii_digit());
        let name = name.rsplit("::").next().unwrap_or(name).trim_end_matches("()");
        let has = read(self.repository, file).is_ok_and(|text| text.contains(&format!("fn {name}")));
        (!is_line && !has).then(|| format!("{path}: {name}"))
    }

    fn looks_like_path(&self, span: &str) -> bool {
        let first = span.split('/').next().unwrap_or(span);
        let in_repository = span.contains('/') && self.top.contains(first);
        in_repository || SOURCES.iter().any(|end| span.ends_with(end) && span.len() > end.len())
    }

    fn has_path(&self, page: &str, span: &str) -> bool {
        let span = span.trim_end_matches('/');
        let beside = self.repository.join(page).parent().is_some_and(|folder| folder.join(span).exists());
        beside || self.find(page, span).is_some() || self.tree.folders.iter().any(|(name, _)| name == span)
    }

    /// The file that a page means: by its path from the root or from the page, or by the end of a path.
    fn find(&self, page: &str, path: &str) -> Option<&'a String> {
        let folder = page.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let (beside, end) = (format!("{folder}{path}"), format!("/{path}"));
        let files = || self.tree.files.iter();
        files().find(|name| *name == path || **name == beside).or_else(|| files().find(|name| name.ends_with(&end)))
    }

    /// The fault of a link's address.
    fn broken(&self, page: &str, address: &str) -> Option<String> {
        let path = address.split('#').next().unwrap_or(address);
        if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
            return None;
        }
        let folder = self.repository.join(page).parent().map(Path::to_path_buf)?;
        (!folder.join(path).exists()).then(|| address.to_owned())
    }
}

fn is_word(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

/// Whether a span is a name of code and not a word or a value: `a::b`, `a_b()`, `a_b`, `AaBb`.
fn is_name(span: &str) -> bool {
    let has_lower = span.chars().any(|sign| sign.is_ascii_lowercase());
    let humps = span.chars().filter(char::is_ascii_uppercase).count();
    let is_type = span.starts_with(|first: char| first.is_ascii_uppercase()) && humps > 1;
    has_lower && (span.contains("::") || span.ends_with("()") || span.contains('_') || is_type)
}
