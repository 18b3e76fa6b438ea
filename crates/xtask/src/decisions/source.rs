//! Comments of enum variants, read from the sources of the core. It judges nothing.

use std::collections::BTreeMap;
use syn::parse::{Parse, ParseStream};

/// The variants of every enum of a file with their comments, by the enum's name; those of the list of holds
/// under the name of its macro.
pub struct Docs {
    path: String,
    enums: BTreeMap<String, Vec<(String, String)>>,
}

impl Docs {
    /// Reads a source file.
    pub fn of(path: &str, text: &str) -> Result<Docs, String> {
        let said = |error: syn::Error| format!("{path}: {error}");
        let mut enums = BTreeMap::new();
        for item in syn::parse_file(text).map_err(said)?.items {
            match item {
                syn::Item::Enum(item) => drop(enums.insert(item.ident.to_string(), variants(&item))),
                syn::Item::Macro(item) if item.mac.path.is_ident("data") => {
                    let inner: syn::File = syn::parse2(item.mac.tokens).map_err(said)?;
                    for item in inner.items {
                        if let syn::Item::Enum(item) = item {
                            enums.insert(item.ident.to_string(), variants(&item));
                        }
                    }
                }
                syn::Item::Macro(item) if item.mac.path.is_ident("hold_kinds") => {
                    let Rows(rows) = syn::parse2(item.mac.tokens).map_err(said)?;
                    enums.insert("hold_kinds".to_owned(), rows);
                }
                _ => {}
            }
        }
        Ok(Docs { path: path.to_owned(), enums })
    }

    /// The variants of one enum.
    pub fn of_enum(&self, name: &str) -> Result<&[(String, String)], String> {
        let found = self.enums.get(name).map(Vec::as_slice);
        found.ok_or_else(|| format!("{} has no enum {name}", self.path))
    }

    /// The comment of one variant.
    pub fn variant(&self, name: &str, variant: &str) -> Result<String, String> {
        let found = self.of_enum(name)?.iter().find(|(own, _)| own == variant);
        found.map(|(_, doc)| doc.clone()).ok_or_else(|| format!("{name} has no variant {variant}"))
    }
}

fn variants(item: &syn::ItemEnum) -> Vec<(String, String)> {
    item.variants.iter().map(|variant| (variant.ident.to_string(), doc(&variant.attrs))).collect()
}

/// The comment as one line.
fn doc(attributes: &[syn::Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let value = &attribute.meta.require_name_value().ok()?.value;
        match value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        }
    });
    lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>().join(" ")
}

/// The rows of the list of holds: comment, name, key and answers.
struct Rows(Vec<(String, String)>);

impl Parse for Rows {
    fn parse(input: ParseStream<'_>) -> syn::Result<Rows> {
        let mut rows = Vec::new();
        while !input.is_empty() {
            let comment = doc(&syn::Attribute::parse_outer(input)?);
            let name: syn::Ident = input.parse()?;
            input.parse::<syn::Token![=]>()?;
            input.parse::<syn::LitStr>()?;
            input.parse::<syn::Token![:]>()?;
            let answers;
            syn::bracketed!(answers in input);
            answers.parse_terminated(syn::Ident::parse, syn::Token![,])?;
            input.parse::<syn::Token![;]>()?;
            rows.push((name.to_string(), comment));
        }
        Ok(Rows(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::Docs;

    #[test]
    fn comments_are_found_in_enums_and_in_the_list_of_holds() {
        let text = "enum A { /** One. */ B }
            data! { pub enum C { /// Two
                /// lines.
                D { /// x
                    e: u8 } } }
            hold_kinds! { /// Held.
                E = \"e\": [Retry, Stop]; }";
        let docs = Docs::of("x.rs", text).expect("it parses");
        assert_eq!(docs.variant("C", "D"), Ok("Two lines.".to_owned()));
        assert_eq!(docs.variant("A", "B"), Ok("One.".to_owned()));
        assert_eq!(docs.variant("hold_kinds", "E"), Ok("Held.".to_owned()));
        assert_eq!(docs.variant("C", "Z"), Err("C has no variant Z".to_owned()));
    }
}
