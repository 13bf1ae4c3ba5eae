//! Measurements of one file: parsed Rust comes in; its size, its functions' sizes and its unsafe code go out. A
//! function counts the lines between its braces, a file the lines of what is not tests. It never measures test code:
//! tables and scripts of tests may be long.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Item, Safety, Signature};

use super::syntax::{attributes, is_test, says};

/// Measurements of a file.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The lines that are not tests.
    pub(crate) lines: usize,
    /// The functions, as `Type::function` where they belong to a type, each with the lines of its body.
    pub(crate) functions: Vec<(String, usize)>,
    /// The first line of unsafe code, or of an `allow` of it, counted from one.
    pub(crate) unsafe_at: Option<usize>,
    /// Whether it begins with `#![forbid(unsafe_code)]`, at least outside of tests.
    pub(crate) forbids_unsafe: bool,
    /// Whether it begins with `#![deny(unsafe_code)]`.
    pub(crate) denies_unsafe: bool,
    /// Whether something else brings its `main`, as the fuzzer does.
    pub(crate) has_no_main: bool,
    /// The types around what is visited.
    types: Vec<String>,
}

impl Facts {
    /// Measures a file.
    pub(crate) fn of(file: &syn::File) -> Self {
        let is_of_tests = |item: &&Item| is_test(attributes(item));
        let length = |span: Span| span.end().line - span.start().line + 1;
        let of_tests: usize = file.items.iter().filter(is_of_tests).map(|item| length(item.span())).sum();
        // The span of a file ends with its last item.
        let last = file.items.last().map_or(0, |item| item.span().end().line);
        let says = |words: &str| file.attrs.iter().any(|attribute| says(attribute, words));
        let mut facts = Self {
            lines: last - of_tests,
            forbids_unsafe: says("forbid(unsafe_code)") || says("cfg_attr(not(test),forbid(unsafe_code))"),
            denies_unsafe: says("deny(unsafe_code)"),
            has_no_main: says("no_main"),
            ..Self::default()
        };
        facts.visit_file(file);
        facts
    }

    fn measure(&mut self, signature: &Signature, body: &Block) {
        let braces = body.brace_token.span;
        let lines = (braces.close().start().line - braces.open().start().line).saturating_sub(1);
        let name: Vec<String> = self.types.last().cloned().into_iter().chain([signature.ident.to_string()]).collect();
        self.functions.push((name.join("::"), lines));
        self.note_safety(signature);
    }

    fn note_safety(&mut self, signature: &Signature) {
        if let Safety::Unsafe(word) = signature.safety {
            self.note_unsafe(word.span);
        }
    }

    fn note_unsafe(&mut self, at: Span) {
        let line = at.start().line;
        self.unsafe_at = Some(self.unsafe_at.map_or(line, |first| first.min(line)));
    }

    /// Notes the word in a macro's arguments.
    fn read_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(word) if word == "unsafe" => self.note_unsafe(word.span()),
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Facts {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(word) = item.unsafety {
            self.note_unsafe(word.span);
        }
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.types.push(name.unwrap_or_else(|| "_".to_owned()));
        visit::visit_item_impl(self, item);
        self.types.pop();
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if let Some(word) = item.unsafety {
            self.note_unsafe(word.span);
        }
        self.types.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.types.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.measure(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        match &item.default {
            Some(body) => self.measure(&item.sig, body),
            None => self.note_safety(&item.sig),
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_foreign_mod(&mut self, item: &'ast syn::ItemForeignMod) {
        if let Some(word) = item.unsafety {
            self.note_unsafe(word.span);
        }
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.note_unsafe(block.unsafe_token.span);
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let allows = attribute.path().is_ident("allow")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("unsafe_code"));
        if allows || attribute.path().is_ident("unsafe") {
            self.note_unsafe(attribute.span());
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.read_tokens(call.tokens.clone());
    }
}
