//! Sizes: files, lines and functions that a reader can hold in the head.

use super::tree::{Finding, Tree};
use syn::visit::{self, Visit};

/// Lines of a file above which it is named in a note.
const FILE_LINES_SOFT: usize = 350;
/// Lines of a file above which it is refused.
const FILE_LINES_MAX: usize = 600;
/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Characters of a line.
pub const LINE_CHARS_MAX: usize = 110;
/// What counts as code.
const CODE: [&str; 8] = ["rs", "ts", "mts", "mjs", "js", "cjs", "wit", "css"];

/// Files above the hard limit.
pub fn files(tree: &Tree) -> Vec<Finding> {
    longer_than(tree, FILE_LINES_MAX)
}

/// Files above the soft limit and below the hard one: no failure, but named.
pub fn notes(tree: &Tree) -> Vec<Finding> {
    let hard: Vec<Finding> = longer_than(tree, FILE_LINES_MAX);
    longer_than(tree, FILE_LINES_SOFT)
        .into_iter()
        .filter(|note| !hard.iter().any(|found| found.at == note.at))
        .collect()
}

fn longer_than(tree: &Tree, limit: usize) -> Vec<Finding> {
    // One WIT interface is one file, however many types it mirrors.
    tree.with_extension(&CODE)
        .filter(|(path, _)| !path.ends_with(".wit"))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > limit)
        .map(|(path, lines)| Finding::new(path, format!("has {lines} lines, above {limit}")))
        .collect()
}

/// Lines above the limit.
pub fn lines(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension(&CODE) {
        for (index, line) in text.lines().enumerate() {
            let length = line.chars().count();
            if length > LINE_CHARS_MAX {
                let text = format!("has {length} characters, above {LINE_CHARS_MAX}");
                findings.push(Finding::on_line(path, index + 1, text));
            }
        }
    }
    findings
}

/// Functions above the limit; a file that does not parse is a finding too, since nothing in it was checked.
pub fn functions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension(&["rs"]) {
        match syn::parse_file(text) {
            Ok(file) => {
                let mut long = LongFunctions { path, findings: Vec::new() };
                long.visit_file(&file);
                findings.append(&mut long.findings);
            }
            Err(error) => findings.push(Finding::new(path, format!("does not parse: {error}"))),
        }
    }
    findings
}

struct LongFunctions<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl LongFunctions<'_> {
    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let start = signature.fn_token.span.start().line;
        let lines = body.brace_token.span.close().end().line - start + 1;
        if lines > FUNCTION_LINES_MAX {
            let text = format!("`{}` has {lines} lines, above {FUNCTION_LINES_MAX}", signature.ident);
            self.findings.push(Finding::on_line(self.path, start, text));
        }
    }
}

impl<'ast> Visit<'ast> for LongFunctions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.measure(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;

    fn file_of(lines: usize) -> Tree {
        Tree::of(&[
            ("a.rs", &"// x\n".repeat(lines)),
            ("long.md", &"x\n".repeat(2000)),
            ("t.wit", &"\n".repeat(2000)),
        ])
    }

    #[test]
    fn files_have_a_soft_and_a_hard_limit() {
        let counts = |lines| (super::files(&file_of(lines)).len(), super::notes(&file_of(lines)).len());
        assert_eq!(counts(350), (0, 0));
        assert_eq!(counts(351), (0, 1));
        assert_eq!(counts(600), (0, 1));
        assert_eq!(counts(601), (1, 0));
    }

    #[test]
    fn lines_are_counted_in_characters() {
        let at = |line: String| super::lines(&Tree::of(&[("a.ts", &format!("//\n{line}\n"))]));
        assert!(at("\u{e9}".repeat(110)).is_empty());
        assert_eq!(at("x".repeat(111))[0].at, "a.ts:2");
    }

    #[test]
    fn functions_are_measured_wherever_they_stand() {
        let body = |lines: usize| "\n".repeat(lines - 1);
        let file = |lines| {
            format!(
                "fn a() {{{0}}}\nimpl X {{ fn b() {{{0}}} }}\ntrait T {{ fn c() {{{0}}} fn d(); }}",
                body(lines)
            )
        };
        assert!(super::functions(&Tree::of(&[("a.rs", &file(70))])).is_empty());
        assert_eq!(super::functions(&Tree::of(&[("a.rs", &file(71))])).len(), 3);
        assert_eq!(super::functions(&Tree::of(&[("a.rs", "fn (")])).len(), 1);
    }
}
