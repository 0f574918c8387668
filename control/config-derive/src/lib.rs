//! The derives with which the configuration's sections are declared.
//!
//! A struct with `#[derive(Section)]` is a mapping of the configuration, and each of its fields a key. The derive
//! makes the row of the table of keys, the reader and the default from this one declaration, so a key that no
//! reader reads cannot be written. An enum with `#[derive(Word)]` is a fixed set of words. The module
//! `tollgate_config::section` defines the traits and explains the attributes; the generated code names only
//! items of that module.

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod key;
mod quantity;
mod section;
mod word;

/// Implements `Section`, `Value` and `Default` for a struct whose fields are the keys of a mapping.
#[proc_macro_derive(Section, attributes(section, key))]
pub fn section(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    section::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Implements `Word` and `Value` for an enum without fields: each variant is a word, in snake case.
#[proc_macro_derive(Word, attributes(word))]
pub fn word(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    word::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Returns the first paragraph of the doc comments, on one line.
fn first_paragraph(attributes: &[syn::Attribute]) -> String {
    let mut out = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let syn::Meta::NameValue(pair) = &attribute.meta else { continue };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { continue };
        let text = text.value();
        match text.trim() {
            "" if out.is_empty() => {}
            "" => break,
            line if out.is_empty() => out.push_str(line),
            line => {
                out.push(' ');
                out.push_str(line);
            }
        }
    }
    out
}

/// Converts the name of a type or variant to snake case.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
