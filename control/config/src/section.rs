//! How a section of the configuration is declared, once, and what follows from the declaration.
//!
//! A section is a struct with [`#[derive(Section)]`](derive@Section). Its fields are the keys; the derive makes the
//! reader, the defaults and the rows from which messages, the JSON Schema, the reference and the masking of secrets are
//! made. An enum with [`#[derive(Word)]`](derive@Word) is a fixed set of words. Rules between keys are a function next
//! to the struct. Other crates declare sections in the same way.
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
//! | `flatten` | the field's type is a section whose keys belong to this one; `required` if it has no `Default`, and `decisive` as above |
//! | `skip`, `skip = value` | no key; the value is the type's default, or this one |
//!
//! Without any of these, the type itself says how it is read: it implements [`Value`]. An `Option` around the type
//! is `None` if the key is missing or `off`; with two of them, the outer one is `None` if the key is missing.

mod support;
mod traits;

pub use self::support::{concatenated, count, default, default_of, from_no_key, from_one_key, parsed};
pub use self::traits::{OrOff, Section, Value, Word};
pub use crate::problem::Problem;
pub use crate::read::service_url;
pub use crate::reader::{Field, Fields, Reader, Setting, one_or_many};
pub use crate::scalar::ScalarError;
pub use crate::scalar::address::upstream as upstream_name;
pub use crate::scalar::status::range as status_range;
pub use crate::scalar::{field as header, pattern, quantity, replacement, value_template};
pub use crate::sections::condition::{
    VALUE_SHAPE as CONDITION, headers as header_conditions, query as query_conditions,
};
pub use crate::sections::consumers::{CERTIFICATE_NAME, PASSWORD_HASH, certificate_name};
pub use crate::sections::respond::json;
pub use crate::sections::texts::{HEADER_NAME, PEM, UPSTREAM_NAME, URL};
pub use crate::sections::tls::pem;
pub use crate::sections::{ADDRESSES, addresses};
pub use crate::spec::{Choice, Conceal, KeySpec, SectionSpec, Shape, Text, names, sections};
pub use crate::tree::{MappingEntry, Node, NodeKind, Scalar, shown};
pub use tollgate_config_derive::{Section, Word};
