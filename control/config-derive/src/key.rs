//! The attribute `#[key(...)]` of a field: what it says, and the code that it becomes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{
    Error, Expr, ExprLit, ExprTuple, Field, GenericArgument, Ident, Lit, LitStr, PathArguments, Result, Type,
};

use crate::quantity::{self, Kind};

/// A field with its attribute.
pub(crate) struct Key {
    pub field: Ident,
    pub ty: Type,
    pub role: Role,
}

/// The kind of a field.
pub(crate) enum Role {
    /// A key.
    Key(Box<Attributes>),
    /// A struct whose keys belong to this section; with `required`, it has no default. If it is also `decisive`, the
    /// keys after it are not read without it.
    Flattened { required: bool, decisive: bool },
    /// No key: its value comes from elsewhere, at first this one or the type's default.
    Skipped(Option<Expr>),
}

/// The content of the attribute.
#[derive(Default)]
pub(crate) struct Attributes {
    pub name: String,
    pub doc: String,
    pub default: Option<String>,
    pub required: bool,
    pub decisive: bool,
    conceal: Vec<Ident>,
    also: Option<Expr>,
    range: Option<(Kind, Expr)>,
    off: bool,
    text: Option<Expr>,
    expected: Option<Expr>,
    pattern: Option<Expr>,
    loose: bool,
    shape: Option<Expr>,
    parse: Option<Expr>,
    each: Option<Expr>,
    what: Option<LitStr>,
    bounded: bool,
    nonempty: bool,
    sections: bool,
    list: bool,
    map: bool,
    pairs: Option<ExprTuple>,
    read: Option<Expr>,
    pub absent: Option<Expr>,
}

impl Key {
    pub fn new(field: &Field) -> Result<Self> {
        let Some(name) = &field.ident else {
            return Err(Error::new_spanned(field, "a section has named fields"));
        };
        let mut attributes = Attributes {
            name: name.to_string().trim_start_matches("r#").to_owned(),
            doc: crate::first_paragraph(&field.attrs),
            ..Attributes::default()
        };
        let (mut flattened, mut skipped) = (false, None);
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("key")) {
            attribute.parse_nested_meta(|meta| {
                let word = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
                match word.as_str() {
                    "flatten" => flattened = true,
                    "skip" if meta.input.peek(syn::Token![=]) => skipped = Some(Some(meta.value()?.parse()?)),
                    "skip" => skipped = Some(None),
                    _ => attributes.set(&word, &meta)?,
                }
                Ok(())
            })?;
        }
        let role = match (flattened, skipped) {
            (true, _) => Role::Flattened { required: attributes.required, decisive: attributes.decisive },
            (_, Some(value)) => Role::Skipped(value),
            _ if !attributes.doc.ends_with('.') => {
                return Err(Error::new_spanned(
                    field,
                    "the doc comment of a key is its text in the reference",
                ));
            }
            _ => Role::Key(Box::new(attributes)),
        };
        Ok(Self { field: name.clone(), ty: field.ty.clone(), role })
    }
}

impl Attributes {
    fn set(&mut self, word: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let value = || meta.value()?.parse::<Expr>();
        match word {
            "name" => self.name = meta.value()?.parse::<LitStr>()?.value(),
            "doc" => self.doc = meta.value()?.parse::<LitStr>()?.value(),
            "default" => self.default = Some(written(&value()?)?),
            "required" => self.required = true,
            "decisive" => self.decisive = true,
            "secret" | "concealed" | "may_hold_credentials" => {
                self.conceal.extend(meta.path.get_ident().cloned());
            }
            "also" => self.also = Some(value()?),
            "count" => self.range = Some((Kind::Count, value()?)),
            "size" => self.range = Some((Kind::Size, value()?)),
            "percent" => self.range = Some((Kind::Percent, value()?)),
            "time" => self.range = Some((Kind::Time, value()?)),
            "off" => self.off = true,
            "text" => self.text = Some(value()?),
            "expected" => self.expected = Some(value()?),
            "pattern" => self.pattern = Some(value()?),
            "loose" => self.loose = true,
            "shape" => self.shape = Some(value()?),
            "parse" => self.parse = Some(value()?),
            "each" => self.each = Some(value()?),
            "what" => self.what = Some(meta.value()?.parse()?),
            "bounded" => self.bounded = true,
            "nonempty" => self.nonempty = true,
            "sections" => self.sections = true,
            "list" => self.list = true,
            "map" => self.map = true,
            "pairs" => match value()? {
                Expr::Tuple(pair) => self.pairs = Some(pair),
                other => return Err(Error::new_spanned(other, "expected `(parse_key, parse_value)`")),
            },
            "read" => self.read = Some(value()?),
            "absent" => self.absent = Some(value()?),
            _ => return Err(meta.error("this is no attribute of a key")),
        }
        Ok(())
    }

    /// Returns whether the section has no value without a value of this key.
    pub fn is_essential(&self, ty: &Type) -> bool {
        self.required && argument(ty, &["Option"]).is_none()
    }

    /// Returns the row of the table of keys.
    pub fn spec(&self, ty: &Type) -> Result<TokenStream> {
        let (name, doc, shape) = (&self.name, &self.doc, self.shape(ty)?);
        let default = self.default.iter();
        let required = self.required.then(|| quote!(.required()));
        let conceal = self.conceal.iter();
        let also = self.also.iter().map(|also| match also {
            Expr::Array(_) => quote!(&#also),
            also => quote!(#also),
        });
        Ok(quote! {
            ::tollgate_config::section::KeySpec::new(#name, #doc, #shape)
                #(.default(#default))* #required #(.#conceal())* #(.aliases(#also))*
        })
    }

    fn shape(&self, ty: &Type) -> Result<TokenStream> {
        let section = quote!(::tollgate_config::section);
        if let Some(shape) = &self.shape {
            return Ok(quote!({
                const SHAPE: #section::Shape = #shape;
                SHAPE
            }));
        }
        let off = self.off;
        if let Some((kind, range)) = &self.range {
            let (min, max) = quantity::bounds(*kind, range)?;
            let variant = match kind {
                Kind::Count => quote!(Count),
                Kind::Size => quote!(Size),
                Kind::Percent => quote!(Percent),
                Kind::Time => quote!(Time),
            };
            return Ok(quote!(#section::Shape::#variant { min: #min, max: #max, off: #off }));
        }
        let one = match (&self.text, &self.expected) {
            (Some(text), _) => quote!(#section::Shape::Text(&#text)),
            (None, Some(expected)) => {
                let loose = self.loose;
                let pattern = match &self.pattern {
                    Some(pattern) => quote!(::std::option::Option::Some(#pattern)),
                    None => quote!(::std::option::Option::None),
                };
                quote!({
                    static TEXT: #section::Text =
                        #section::Text { expected: #expected, pattern: #pattern, loose: #loose };
                    #section::Shape::Text(&TEXT)
                })
            }
            (None, None) => {
                let mut inner = ty;
                while let Some(next) = argument(inner, &["Option", "Spanned"])
                    .or_else(|| argument(inner, &["Vec"]).filter(|_| self.sections || self.list))
                {
                    inner = next;
                }
                quote!(<#inner as #section::Value>::SHAPE)
            }
        };
        let reference = |shape: TokenStream| quote!({ const SHAPE: &#section::Shape = &#shape; SHAPE });
        let many = self.each.is_some() || self.sections || self.list;
        let shape = match () {
            () if many => {
                let one = reference(one);
                quote!(#section::Shape::OneOrMany(#one))
            }
            () if self.pairs.is_some() || self.map => {
                let one = reference(one);
                quote!(#section::Shape::MapOf(#one))
            }
            () => one,
        };
        Ok(match off {
            true => quote!({
                const SHAPES: &[#section::Shape] = &[#section::Shape::Off, #shape];
                #section::Shape::AnyOf(SHAPES)
            }),
            false => shape,
        })
    }

    /// Returns an expression of type `Option<ty>` that reads the variable `field`.
    pub fn reading(&self, ty: &Type) -> TokenStream {
        let section = quote!(::tollgate_config::section);
        let some = quote!(::std::option::Option::Some);
        let option = argument(ty, &["Option"]);
        if let Some(read) = &self.read {
            return match option {
                Some(_) => quote!(#some(#read(reader, field))),
                None => quote!(#read(reader, field)),
            };
        }
        let inner = option.unwrap_or(ty);
        // Of two options, the outer one says whether the key was given.
        let twice = argument(inner, &["Option"]);
        let wrap = option.map(|_| quote!(.map(::std::option::Option::Some)));
        let what = match &self.what {
            Some(what) => quote!(#what.to_owned()),
            None => {
                let what = format!("an entry of `{}`", self.name);
                quote!(#what.to_owned())
            }
        };
        let (bounded, nonempty) = (self.bounded, self.nonempty);
        if let Some(each) = &self.each {
            let items = quote!(reader.list_items(field, #bounded, #nonempty));
            let spanned = argument(inner, &["Vec"]).and_then(|item| argument(item, &["Spanned"]));
            let list = match spanned {
                Some(_) => quote!({ let items = #items; reader.spanned_each(items, field, &#what, #each) }),
                None => quote!({ let items = #items; reader.each(items, field, &#what, #each) }),
            };
            return quote!(#some(#list) #wrap);
        }
        if self.sections {
            return quote!(#some({
                let items = reader.list_items(field, #bounded, #nonempty);
                items.iter().filter_map(|item| #section::Section::read_section(reader, item)).collect()
            }) #wrap);
        }
        if let Some(pairs) = &self.pairs {
            let (name, value) = (pairs.elems.first(), pairs.elems.iter().nth(1));
            return quote!(#some(reader.pairs(#some(field), #name, #value)) #wrap);
        }
        let Some(parse) = &self.parse else {
            return match twice {
                Some(_) => quote!(<#inner as #section::Value>::read(reader, field) #wrap),
                None => quote!(<#ty as #section::Value>::read(reader, field)),
            };
        };
        let core = twice.unwrap_or(inner);
        let parsed = match argument(core, &["Spanned"]) {
            Some(_) => quote!(reader.spanned(field, #parse)),
            None => quote!(reader.field(field, #parse)),
        };
        let inner_wrap = twice.map(|_| quote!(.map(::std::option::Option::Some)));
        let none = match twice {
            Some(_) => quote!(#some(#some(::std::option::Option::None))),
            None => quote!(#some(::std::option::Option::None)),
        };
        match self.off && option.is_some() {
            true => quote!(if field.is_off() { #none } else { #parsed #inner_wrap #wrap }),
            false => quote!(#parsed #inner_wrap #wrap),
        }
    }
}

/// Returns a default as it is written in a file.
fn written(expression: &Expr) -> Result<String> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.value()),
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => Ok(number.base10_digits().to_owned()),
        Expr::Path(path) => path
            .path
            .get_ident()
            .map(Ident::to_string)
            .ok_or_else(|| Error::new_spanned(path, "expected a word of the configuration")),
        other => Err(Error::new_spanned(other, "expected a default as it is written in a file")),
    }
}

/// Returns whether a type is an option of an option.
pub(crate) fn is_override(ty: &Type) -> bool {
    argument(ty, &["Option"]).is_some_and(|inner| argument(inner, &["Option"]).is_some())
}

/// Returns the type argument of one of these types: `T` of `Option<T>`.
fn argument<'t>(ty: &'t Type, names: &[&str]) -> Option<&'t Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let Some(GenericArgument::Type(inner)) = arguments.args.first() else { return None };
    names.iter().any(|name| last.ident == name).then_some(inner)
}
