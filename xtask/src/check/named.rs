//! The paths that an item names: parsed Rust comes in, segments with their lines go out.
//! Arguments of macros are read as words with `::` between them, for they need not be Rust.
//! It never follows a path, and leaves out what is compiled for tests only.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, UseTree};

use super::syntax::{attributes, is_test};

/// Names in an item.
#[derive(Default)]
pub(crate) struct Found {
    /// Paths, each with its line.
    pub(crate) paths: Vec<(Vec<String>, usize)>,
    /// Imports inside functions.
    pub(crate) imports: Vec<UseTree>,
}

/// Finds the names in an item.
pub(crate) fn in_item(item: &Item) -> Found {
    let mut found = Found::default();
    found.visit_item(item);
    found
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.imports.push(item.tree.clone());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (None, Some(first)) = (path.leading_colon, path.segments.first()) {
            let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.paths.push((segments, first.ident.span().start().line));
        }
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.read_tokens(call.tokens.clone());
    }
}

impl Found {
    /// Reads what need not be Rust: `word`, `word::word`, `$crate::word`; not the names of fields and methods.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut before) = (Vec::new(), 0, [' ', ' ']);
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if before != [':', ':'] {
                        self.end_path(&mut path, line);
                    }
                    if path.is_empty() {
                        line = word.span().start().line;
                    }
                    // A name behind a single point is a field or a method; behind two points it ends a range.
                    if before[1] != '.' || before[0] == '.' {
                        path.push(word.to_string());
                    }
                    before = ['a', 'a'];
                }
                TokenTree::Punct(sign) => before = [before[1], sign.as_char()],
                TokenTree::Group(group) => {
                    self.end_path(&mut path, line);
                    self.read_tokens(group.stream());
                    before = [' ', ' '];
                }
                TokenTree::Literal(_) => before = [' ', ' '],
            }
        }
        self.end_path(&mut path, line);
    }

    fn end_path(&mut self, path: &mut Vec<String>, line: usize) {
        if !path.is_empty() {
            self.paths.push((std::mem::take(path), line));
        }
    }
}

/// All words of a macro's arguments.
pub(crate) fn words(tokens: TokenStream) -> Vec<String> {
    let words = |token| match token {
        TokenTree::Ident(word) => vec![word.to_string()],
        TokenTree::Group(group) => words(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => Vec::new(),
    };
    tokens.into_iter().flat_map(words).collect()
}
