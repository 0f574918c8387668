//! `#[derive(Word)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Result};

/// Implements `Word` and `Value`.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "`Word` is for enums: each variant is a word"));
    };
    let mut words = Vec::new();
    let mut variants = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(variant, "a word has no fields"));
        }
        let mut word = crate::snake_case(&variant.ident.to_string());
        for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("word")) {
            word = attribute.parse_args::<LitStr>()?.value();
        }
        words.push(word);
        variants.push(&variant.ident);
    }
    let name = &input.ident;
    let section = quote!(::tollgate_config::section);
    Ok(quote! {
        #[automatically_derived]
        impl #section::Word for #name {
            const WORDS: &'static [&'static str] = &[#(#words),*];

            fn word(&self) -> &'static str {
                match self {
                    #(Self::#variants => #words,)*
                }
            }

            fn from_word(word: &str) -> ::std::option::Option<Self> {
                match word {
                    #(#words => ::std::option::Option::Some(Self::#variants),)*
                    _ => ::std::option::Option::None,
                }
            }
        }

        #[automatically_derived]
        impl #section::Value for #name {
            const SHAPE: #section::Shape = #section::Shape::Word(<Self as #section::Word>::WORDS);

            fn read(
                reader: &mut #section::Reader,
                field: #section::Field<'_>,
            ) -> ::std::option::Option<Self> {
                reader.word_of(field)
            }
        }
    })
}
