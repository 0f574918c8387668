//! `#[derive(Section)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{Data, DeriveInput, Error, Expr, Fields, Ident, LitStr, Result, Type};

use crate::key::{Attributes, Key, Role, is_override};

/// The content of `#[section(...)]`.
#[derive(Default)]
struct Container {
    name: Option<LitStr>,
    noun: Option<LitStr>,
    choice: Option<TokenStream>,
    check: Option<Expr>,
    /// Whether `on` and `off` are values too.
    switch: bool,
    /// Changes the defaults to the value of `off`.
    off: Option<Expr>,
    /// Whether `Value` is implemented by hand, for short forms.
    own_forms: bool,
    /// The type that is made of the keys, and the function that makes it.
    makes: Option<Type>,
    by: Option<Expr>,
}

impl Container {
    fn new(input: &DeriveInput) -> Result<Self> {
        let mut out = Self::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("section")) {
            attribute.parse_nested_meta(|meta| {
                let choice = |variant: TokenStream| -> Result<TokenStream> {
                    let names = meta.value()?.parse::<Expr>()?;
                    Ok(quote!(::tollgate_config::section::Choice::#variant(&#names)))
                };
                let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                match word.as_str() {
                    "name" => out.name = Some(meta.value()?.parse()?),
                    "noun" => out.noun = Some(meta.value()?.parse()?),
                    "exactly_one" => out.choice = Some(choice(quote!(ExactlyOne))?),
                    "at_most_one" => out.choice = Some(choice(quote!(AtMostOne))?),
                    "check" => out.check = Some(meta.value()?.parse()?),
                    "switch" => out.switch = true,
                    "off" => out.off = Some(meta.value()?.parse()?),
                    "own_forms" => out.own_forms = true,
                    "makes" => out.makes = Some(meta.value()?.parse()?),
                    "by" => out.by = Some(meta.value()?.parse()?),
                    _ => return Err(meta.error("this is no attribute of a section")),
                }
                Ok(())
            })?;
        }
        Ok(out)
    }
}

/// Implements `Section`, and `Value` and `Default` where they follow from the declaration.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "`Section` is for structs: each field is a key"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, "a section has named fields"));
    };
    let container = Container::new(input)?;
    let keys = fields.named.iter().map(Key::new).collect::<Result<Vec<_>>>()?;
    let section = section_impl(input, &container, &keys)?;
    let value = value_impl(input, &container);
    let default = default_impl(input, &keys);
    let made = made_impl(input, &container)?;
    Ok(quote!(const _: () = { #section #value #default #made };))
}

fn section_impl(input: &DeriveInput, container: &Container, keys: &[Key]) -> Result<TokenStream> {
    let ident = &input.ident;
    let section = quote!(::tollgate_config::section);
    let name = container.name.as_ref().map_or_else(|| crate::snake_case(&ident.to_string()), LitStr::value);
    let noun = container.noun.as_ref().map_or_else(|| format!("`{name}`"), LitStr::value);
    let doc = crate::first_paragraph(&input.attrs);
    let choice = container.choice.clone().unwrap_or_else(|| quote!(#section::Choice::Free));
    let rows = rows(keys)?;
    let defaults = match has_default(keys) {
        true => quote!(let defaults = <Self as ::std::default::Default>::default();),
        false => TokenStream::new(),
    };
    let readings = keys.iter().map(|key| reading(key, has_default(keys)));
    let values = keys.iter().map(|key| {
        let (field, variable) = (&key.field, variable(key));
        match &key.role {
            Role::Key(attributes) if attributes.is_essential(&key.ty) => quote!(#field: #variable?),
            Role::Flattened { required: true, .. } => quote!(#field: #variable?),
            _ => quote!(#field: #variable),
        }
    });
    let check = container.check.iter().map(|check| quote!(#check(reader, fields, &mut out);));
    Ok(quote! {
        static SPEC: #section::SectionSpec = #section::SectionSpec {
            name: #name,
            noun: #noun,
            doc: #doc,
            choice: #choice,
            keys: <#ident as #section::Section>::KEYS,
        };

        #[automatically_derived]
        impl #section::Section for #ident {
            const KEYS: &'static [#section::KeySpec] = #rows;
            const SPEC: &'static #section::SectionSpec = &SPEC;

            fn read_keys(
                reader: &mut #section::Reader,
                fields: &#section::Fields<'_>,
            ) -> ::std::option::Option<Self> {
                #defaults
                #(#readings)*
                #[allow(unused_mut)]
                let mut out = Self { #(#values),* };
                #(#check)*
                ::std::option::Option::Some(out)
            }
        }
    })
}

/// Returns the rows of the table of keys. Flattened structs add theirs at their place.
fn rows(keys: &[Key]) -> Result<TokenStream> {
    let section = quote!(::tollgate_config::section);
    let mut parts = Vec::new();
    let mut run = Vec::new();
    for key in keys {
        match &key.role {
            Role::Key(attributes) => run.push(attributes.spec(&key.ty)?),
            Role::Flattened { .. } => {
                let (ty, before) = (&key.ty, std::mem::take(&mut run));
                parts.push(quote!(&[#(#before),*]));
                parts.push(quote!(<#ty as #section::Section>::KEYS));
            }
            Role::Skipped(_) => {}
        }
    }
    if parts.is_empty() {
        return Ok(quote!(&[#(#run),*]));
    }
    parts.push(quote!(&[#(#run),*]));
    Ok(quote!({
        const PARTS: &[&[#section::KeySpec]] = &[#(#parts),*];
        const ROWS: [#section::KeySpec; #section::count(PARTS)] = #section::concatenated(PARTS);
        &ROWS
    }))
}

/// Returns the variable of a field's value. The field's own name could collide with a function of the user.
fn variable(key: &Key) -> Ident {
    format_ident!("value_of_{}", key.field)
}

/// Returns a statement that binds a field's value to its variable.
fn reading(key: &Key, has_default: bool) -> TokenStream {
    let section = quote!(::tollgate_config::section);
    let (field, ty) = (&key.field, &key.ty);
    let default = match (has_default, &key.role) {
        (_, Role::Skipped(Some(value))) => quote!(#value),
        (true, _) => quote!(defaults.#field),
        (false, Role::Key(attributes)) => default_value(attributes, key),
        (false, _) => quote!(<#ty as ::std::default::Default>::default()),
    };
    let variable = variable(key);
    match &key.role {
        Role::Skipped(_) => quote!(let #variable: #ty = #default;),
        Role::Flattened { required: false, .. } => quote! {
            let #variable: #ty = <#ty as #section::Section>::read_keys(reader, fields).unwrap_or(#default);
        },
        Role::Flattened { decisive: true, .. } => quote! {
            let #variable = ::std::option::Option::Some(
                <#ty as #section::Section>::read_keys(reader, fields)?
            );
        },
        Role::Flattened { .. } => {
            quote!(let #variable = <#ty as #section::Section>::read_keys(reader, fields);)
        }
        Role::Key(attributes) => {
            let (name, reading) = (&attributes.name, attributes.reading(ty));
            match attributes.is_essential(ty) {
                true if attributes.decisive => quote! {
                    let #variable: ::std::option::Option<#ty> = match fields.get(#name) {
                        ::std::option::Option::Some(field) => #reading,
                        ::std::option::Option::None => ::std::option::Option::None,
                    };
                    let #variable = ::std::option::Option::Some(#variable?);
                },
                true => quote! {
                    let #variable: ::std::option::Option<#ty> = match fields.get(#name) {
                        ::std::option::Option::Some(field) => #reading,
                        ::std::option::Option::None => ::std::option::Option::None,
                    };
                },
                false => quote! {
                    let #variable: ::std::option::Option<#ty> = match fields.get(#name) {
                        ::std::option::Option::Some(field) => #reading,
                        ::std::option::Option::None => ::std::option::Option::None,
                    };
                    let #variable: #ty = match #variable {
                        ::std::option::Option::Some(value) => value,
                        ::std::option::Option::None => #default,
                    };
                },
            }
        }
    }
}

/// Returns an expression for the default of a key, which is read as it is written.
fn default_value(attributes: &Attributes, key: &Key) -> TokenStream {
    let section = quote!(::tollgate_config::section);
    let ty = &key.ty;
    if let Some(absent) = &attributes.absent {
        return quote!(#absent);
    }
    // Of two options, the outer one is `None`: the default in the table is the one of an outer level.
    if attributes.default.is_none() || is_override(ty) {
        return quote!(<#ty as ::std::default::Default>::default());
    }
    let (name, reading) = (&attributes.name, attributes.reading(ty));
    quote! {
        #section::default_of(<Self as #section::Section>::KEYS, #name, |reader, field| -> ::std::option::Option<#ty> {
            #reading
        })
    }
}

fn has_default(keys: &[Key]) -> bool {
    !keys.iter().any(|key| match &key.role {
        Role::Key(attributes) => attributes.is_essential(&key.ty),
        Role::Flattened { required, .. } => *required,
        Role::Skipped(_) => false,
    })
}

fn default_impl(input: &DeriveInput, keys: &[Key]) -> Option<TokenStream> {
    let ident = &input.ident;
    let values = keys.iter().map(|key| {
        let (field, ty) = (&key.field, &key.ty);
        let value = match &key.role {
            Role::Key(attributes) => default_value(attributes, key),
            Role::Skipped(Some(value)) => quote!(#value),
            _ => quote!(<#ty as ::std::default::Default>::default()),
        };
        quote!(#field: #value)
    });
    has_default(keys).then(|| {
        quote! {
            #[automatically_derived]
            impl ::std::default::Default for #ident {
                fn default() -> Self {
                    static DEFAULT: ::std::sync::LazyLock<#ident> =
                        ::std::sync::LazyLock::new(<#ident as Defaults>::make);
                    DEFAULT.clone()
                }
            }

            /// Reads the defaults as they are written.
            trait Defaults {
                fn make() -> Self;
            }

            impl Defaults for #ident {
                fn make() -> Self {
                    Self { #(#values),* }
                }
            }
        }
    })
}

/// Implements `Section` and `Value` for the type that is made of the keys.
fn made_impl(input: &DeriveInput, container: &Container) -> Result<Option<TokenStream>> {
    let (ident, section) = (&input.ident, quote!(::tollgate_config::section));
    let (made, by) = match (&container.makes, &container.by) {
        (Some(made), Some(by)) => (made, by),
        (None, None) => return Ok(None),
        _ => return Err(Error::new_spanned(ident, "`makes = Type` needs `by = function`, and the reverse")),
    };
    let value = value_of(&quote!(#made), container);
    Ok(Some(quote! {
        #[automatically_derived]
        impl #section::Section for #made {
            const KEYS: &'static [#section::KeySpec] = <#ident as #section::Section>::KEYS;
            const SPEC: &'static #section::SectionSpec = <#ident as #section::Section>::SPEC;

            fn read_keys(
                reader: &mut #section::Reader,
                fields: &#section::Fields<'_>,
            ) -> ::std::option::Option<Self> {
                let keys = <#ident as #section::Section>::read_keys(reader, fields)?;
                #by(reader, fields, keys)
            }
        }

        #value
    }))
}

fn value_impl(input: &DeriveInput, container: &Container) -> Option<TokenStream> {
    match container.makes {
        Some(_) => None,
        None => value_of(&input.ident.to_token_stream(), container),
    }
}

/// Implements `Value` for a section that is written as a mapping, or as `on` and `off`.
fn value_of(ident: &TokenStream, container: &Container) -> Option<TokenStream> {
    let section = quote!(::tollgate_config::section);
    let off = match &container.off {
        Some(off) => quote!({
            let mut out = <Self as ::std::default::Default>::default();
            let off: fn(&mut Self) = #off;
            off(&mut out);
            ::std::option::Option::Some(out)
        }),
        None => quote!(::std::option::Option::None),
    };
    let has_off = container.off.is_some();
    let (shape, body) = match container.switch {
        true => (
            quote!({
                const SHAPES: &[#section::Shape] =
                    &[#section::Shape::Switch, #section::Shape::Section(<#ident as #section::Section>::SPEC)];
                #section::Shape::AnyOf(SHAPES)
            }),
            quote!(match reader.setting(field, <Self as #section::Section>::SPEC)? {
                #section::Setting::Fields(fields) => <Self as #section::Section>::read_keys(reader, &fields),
                #section::Setting::On => {
                    ::std::option::Option::Some(<Self as ::std::default::Default>::default())
                }
                #section::Setting::Off => #off,
            }),
        ),
        false => (
            quote!(#section::Shape::Section(<#ident as #section::Section>::SPEC)),
            quote!(reader.section(field)),
        ),
    };
    (!container.own_forms).then(|| {
        quote! {
            #[automatically_derived]
            impl #section::Value for #ident {
                const SHAPE: #section::Shape = #shape;
                const HAS_OFF: bool = #has_off;

                fn read(
                    reader: &mut #section::Reader,
                    field: #section::Field<'_>,
                ) -> ::std::option::Option<Self> {
                    #body
                }
            }
        }
    })
}
