//! How a section of the configuration is declared, once, and what follows from the declaration.
//!
//! A section is a struct with [`#[derive(Section)]`](derive@Section). Its fields are the keys; the derive makes the
//! reader, the defaults and the rows from which messages, the JSON Schema, the reference and the masking of
//! secrets are made. An enum with [`#[derive(Word)]`](derive@Word) is a fixed set of words. Rules between keys are
//! a function beside the struct. Other crates declare sections in the same way.
//!
//! ```
//! use std::time::Duration;
//! use tollgate_config::section::{Fields, Reader, Section, Word};
//!
//! /// How the cache is filled.
//! #[derive(Clone, Copy, Debug, PartialEq, Word)]
//! enum Fill {
//!     Eager,
//!     Lazy,
//! }
//!
//! /// A cache of responses.
//! #[derive(Clone, Debug, Section)]
//! #[section(check = check)]
//! struct Cache {
//!     /// Maximum number of responses.
//!     #[key(count = 1..=100_000, default = 1000, also = ["max", "entries"])]
//!     size: u32,
//!     /// How long a response is kept.
//!     #[key(time = "1s"..="1d", off, default = "5m")]
//!     age: Option<Duration>,
//!     /// When a response is fetched.
//!     #[key(default = lazy)]
//!     fill: Fill,
//! }
//!
//! /// Reports values that are valid alone but not together.
//! fn check(_reader: &mut Reader, _fields: &Fields<'_>, _cache: &Cache) {}
//!
//! assert_eq!(Cache::default().age, Some(Duration::from_secs(300)));
//! assert_eq!(Cache::SPEC.keys[2].shape.expected(), "`eager` or `lazy`");
//! ```
//!
//! # Attributes of a struct
//!
//! The first paragraph of its doc comment is its text in the reference. `#[section(...)]` may contain:
//!
//! | Attribute | Meaning |
//! |---|---|
//! | `name = "..."` | name of the definition in the schema; default: the struct's, in snake case |
//! | `noun = "..."` | the mapping in messages; default: the name in backquotes |
//! | `exactly_one = [...]`, `at_most_one = [...]` | keys that exclude each other |
//! | `check = f` | calls `f(&mut Reader, &Fields, &mut Self)` at the end |
//! | `switch` | `on` and `off` are values too: the defaults, and `None` of an `Option` around the type |
//! | `off = f` | with `switch`: `off` is a value of the type, the defaults after `f(&mut Self)` |
//! | `own_forms` | [`Value`] is implemented by hand, for short forms |
//! | `makes = T`, `by = f` | the section is read as a `T`, which `f(&mut Reader, &Fields, Self) -> Option<T>` makes |
//!
//! # Attributes of a field
//!
//! The first paragraph of its doc comment is the key's text in the reference. `#[key(...)]` may contain:
//!
//! | Attribute | Meaning |
//! |---|---|
//! | `name = "..."` | the key, if it is not the field's name |
//! | `doc = "..."` | the text in the reference, if it is not the doc comment |
//! | `default = ...` | the default as it is written in a file; without one, `Default` of the type |
//! | `decisive` | with `required`: without a valid value the keys after it are not read |
//! | `absent = value` | the value of a missing key, if that is not its default |
//! | `required` | a mapping without the key is an error; unless the type is an `Option`, the struct has no value then, and no `Default` |
//! | `also = [...]` | names in other gateways, and common mistakes |
//! | `secret`, `concealed`, `may_hold_credentials` | as in [`KeySpec`] |
//! | `count = 1..=9`, `size = 0..="1GiB"`, `percent = 0..=100`, `time = "1ms"..="1h"` | bounds of a quantity |
//! | `off` | `off` is a value too: `None` |
//! | `text = T`, or `expected = "..."`, `pattern = "..."`, `loose` | the [`Text`] that `parse` or `each` parses |
//! | `parse = f` | parses the text |
//! | `each = f`, `what = "..."` | parses each entry of a list; `what` names an entry in messages |
//! | `sections` | a list of sections, or one of them |
//! | `bounded`, `nonempty` | a list of at most 1000 entries, of at least one |
//! | `pairs = (f, g)` | a mapping with the user's own keys; parses keys and values |
//! | `read = f` | reads by `f(&mut Reader, Field) -> Option<T>` |
//! | `list`, `map` | with `read`: the form is a list, or a mapping with the user's own keys |
//! | `shape = S` | the form of the value, if nothing else says it |
//! | `flatten` | the field's type is a section whose keys belong to this one; `required` if it has no `Default` |
//! | `skip`, `skip = value` | no key; the value is the type's default, or this one |
//!
//! Without any of these, the type itself says how it is read: it implements [`Value`]. An `Option` around the type
//! is `None` if the key is missing or `off`; with two of them, the outer one is `None` if the key is missing.

use std::time::Duration;

use crate::model::Percent;
use crate::position::{At, Spanned};
use crate::tree::Scalar as TreeScalar;

pub use crate::problem::Problem;
pub use crate::read::json;
pub use crate::read::service_url;
pub use crate::reader::{Field, Fields, Reader, Setting, one_or_many};
pub use crate::scalar::ScalarError;
pub use crate::scalar::address::upstream as upstream_name;
pub use crate::scalar::{field as header, pattern, quantity, replacement, value_template};
pub use crate::sections::consumers::{CERTIFICATE_NAME, certificate_name};
pub use crate::sections::texts::{HEADER_NAME, PEM, UPSTREAM_NAME, URL};
pub use crate::sections::tls::pem;
pub use crate::sections::{ADDRESSES, addresses};
pub use crate::spec::{Choice, Conceal, KeySpec, SectionSpec, Shape, Text, names, sections};
pub use crate::tree::{MappingEntry, Node, NodeKind, Scalar, shown};
pub use tollgate_config_derive::{Section, Word};

/// A mapping with known keys. [`#[derive(Section)]`](derive@Section) implements it.
pub trait Section: Sized {
    /// The rows of its keys.
    const KEYS: &'static [KeySpec];
    /// Its row in the table.
    const SPEC: &'static SectionSpec;

    /// Reads the keys of a mapping. Returns `None` if a required key has no valid value; the problem has been
    /// reported.
    fn read_keys(reader: &mut Reader, fields: &Fields<'_>) -> Option<Self>;

    /// Reads a mapping that has no key, such as an entry of a list.
    fn read_section(reader: &mut Reader, node: &Node) -> Option<Self> {
        let fields = reader.fields(node, Self::SPEC)?;
        Self::read_keys(reader, &fields)
    }
}

/// A type of values that a key can have.
pub trait Value: Sized {
    /// The form of the values, unless the key gives bounds.
    const SHAPE: Shape;
    /// Whether `off` is a value of the type itself, so that an `Option` around it does not become `None`.
    const HAS_OFF: bool = false;

    /// Reads the value of a key. Returns `None` after a problem, which has been reported.
    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self>;
}

/// A fixed set of words. [`#[derive(Word)]`](derive@Word) implements it for an enum: each variant is a word in
/// snake case, or the one of its attribute `#[word("...")]`.
pub trait Word: Sized {
    /// The words, in the order of messages.
    const WORDS: &'static [&'static str];

    /// Returns the word.
    fn word(&self) -> &'static str;

    /// Returns the value of a word.
    fn from_word(word: &str) -> Option<Self>;
}

impl Value for bool {
    const SHAPE: Shape = Shape::Switch;
    const HAS_OFF: bool = true;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        reader.read_switch(field)
    }
}

impl Value for Duration {
    const SHAPE: Shape = Shape::Duration;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        reader.duration(Some(field)).flatten()
    }
}

/// A text of any content.
impl Value for String {
    const SHAPE: Shape = Shape::Text(&Text { expected: "a text", pattern: None, loose: true });

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        reader.field(field, |text| Ok(text.to_owned()))
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            const SHAPE: Shape = Shape::Count { min: 0, max: <$number>::MAX as u64, off: false };

            fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
                reader.number(Some(field)).flatten().and_then(|number| Self::try_from(number).ok())
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, usize);

impl Value for Percent {
    const SHAPE: Shape = Shape::Percent { min: 0, max: 100, off: false };

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        reader.number(Some(field)).flatten().and_then(|number| Self::try_from(number).ok())
    }
}

/// The forms of a value that may also be `off`, where that is no value of its type.
pub trait OrOff: Value {
    /// `off`, and the forms of the value.
    const OR_OFF: Shape = Shape::AnyOf(Self::OR_OFF_FORMS);
    #[doc(hidden)]
    const OR_OFF_FORMS: &'static [Shape] = &[Shape::Off, Self::SHAPE];
}

impl<T: Value> OrOff for T {}

/// The value, or `None` for `off` if the key has it.
impl<T: Value> Value for Option<T> {
    const SHAPE: Shape = T::SHAPE;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        match !T::HAS_OFF && field.is_off() && field.key.shape.has_off() {
            true => Some(None),
            false => T::read(reader, field).map(Some),
        }
    }
}

/// The value and its source position.
impl<T: Value> Value for Spanned<T> {
    const SHAPE: Shape = T::SHAPE;
    const HAS_OFF: bool = T::HAS_OFF;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        T::read(reader, field).map(|value| Self { value, at: field.node.at })
    }
}

/// Reads a value as the mapping that has only this key. A short form calls it after it has checked the value.
pub fn from_one_key<S: Section>(reader: &mut Reader, key: &str, node: &Node) -> Option<S> {
    let entry = MappingEntry { key: key.to_owned(), at: node.at, value: node.clone() };
    S::read_section(reader, &Node { at: node.at, kind: NodeKind::Map(vec![entry]) })
}

/// Reads a mapping without keys, for the short form `on`.
pub fn from_no_key<S: Section>(reader: &mut Reader, field: Field<'_>) -> Option<S> {
    S::read_section(reader, &Node { at: field.node.at, kind: NodeKind::Map(Vec::new()) })
}

/// Returns the default of a key, for a short form that does not have the key.
pub fn default<S: Section, T: Value>(name: &str) -> T {
    default_of(S::KEYS, name, T::read)
}

/// Returns the tree of a YAML text, as far as it can be parsed. For tests.
#[doc(hidden)]
#[must_use]
pub fn parsed(text: &str) -> Option<Node> {
    crate::parse::parse(0, text).root
}

/// Reads the default of a key by `read`. For generated code.
///
/// # Panics
/// If the default is not valid. A test reads every default.
#[doc(hidden)]
pub fn default_of<T>(
    keys: &'static [KeySpec],
    name: &str,
    read: impl FnOnce(&mut Reader, Field<'_>) -> Option<T>,
) -> T {
    let key = keys.iter().find(|key| key.name == name);
    let mut reader = Reader { problems: Vec::new(), complete: true };
    let value = key.and_then(|key| {
        let text = key.default?;
        let is_flow = text.starts_with(['[', '{']) && !matches!(key.shape, Shape::Text(_));
        let node = match is_flow {
            true => crate::parse::parse(0, text).root?,
            false => {
                let scalar = TreeScalar { text: text.to_owned(), quoted: false, written: None };
                Node { at: At::default(), kind: NodeKind::Scalar(scalar) }
            }
        };
        read(&mut reader, Field { key, at: At::default(), node: &node })
    });
    match value {
        Some(value) if reader.problems.is_empty() => value,
        _ => panic!("the default of `{name}` is not valid: {:?}", reader.problems),
    }
}

/// Returns how many rows there are in all parts. For generated code.
#[doc(hidden)]
#[must_use]
pub const fn count(parts: &[&[KeySpec]]) -> usize {
    let (mut sum, mut i) = (0, 0);
    while i < parts.len() {
        sum += parts[i].len();
        i += 1;
    }
    sum
}

/// Returns the rows of all parts, one after the other. For generated code.
#[doc(hidden)]
#[must_use]
pub const fn concatenated<const N: usize>(parts: &[&[KeySpec]]) -> [KeySpec; N] {
    let mut out = [KeySpec::new("", "", Shape::Anything); N];
    let (mut filled, mut i) = (0, 0);
    while i < parts.len() {
        let mut j = 0;
        while j < parts[i].len() {
            out[filled] = parts[i][j];
            filled += 1;
            j += 1;
        }
        i += 1;
    }
    out
}
