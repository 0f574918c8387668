//! The configuration's keys as data: each mapping's keys with their meaning, shape and default.
//!
//! One table drives the readers (unknown keys, expected values), the JSON Schema and the reference, so that
//! the three cannot drift apart. The readers alone define what a value *means*.

use std::time::Duration;

mod policies;
mod reachable;
mod settings;

pub(crate) use policies::*;
pub(crate) use settings::*;

pub use reachable::sections;

/// Name of the section at the top level of a file.
pub(crate) const ROOT_NAME: &str = "configuration";

/// The row of a mapping with known keys.
pub struct SectionSpec {
    /// Name of its definition in the schema.
    pub name: &'static str,
    /// The mapping with its article, for messages: "a route".
    pub noun: &'static str,
    /// Its text in the reference.
    pub doc: &'static str,
    /// Its keys, in the order of the reference.
    pub keys: &'static [KeySpec],
    /// Keys that exclude each other.
    pub choice: Choice,
}

/// The rule for keys of a section that exclude each other.
pub enum Choice {
    /// There is none.
    Free,
    /// Exactly one of these keys is required.
    ExactlyOne(&'static [&'static str]),
    /// At most one of these keys is allowed.
    AtMostOne(&'static [&'static str]),
}

/// The row of one key of a mapping.
#[derive(Clone, Copy)]
pub struct KeySpec {
    /// The key.
    pub name: &'static str,
    /// Its text in the reference.
    pub doc: &'static str,
    /// The form of its value.
    pub shape: Shape,
    /// The default, as it would be written.
    pub default: Option<&'static str>,
    /// Whether a mapping without it is an error.
    pub required: bool,
    /// Names of the key in other gateways, and common mistakes.
    pub aliases: &'static [&'static str],
    /// Whether the value is a secret, which the admin API never shows.
    pub secret: bool,
    /// Whether messages show the value.
    pub conceal: Conceal,
}

/// Whether messages about a file hide the value of a key in the lines that they show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conceal {
    /// Messages show it.
    Never,
    /// Messages hide a URL with a user or a password.
    Credentials,
    /// Messages hide it.
    Always,
}

impl KeySpec {
    /// Makes a row without a default.
    #[must_use]
    pub const fn new(name: &'static str, doc: &'static str, shape: Shape) -> Self {
        Self {
            name,
            doc,
            shape,
            default: None,
            required: false,
            aliases: &[],
            secret: false,
            conceal: Conceal::Never,
        }
    }

    /// Sets the default, as it would be written.
    #[must_use]
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// Marks a key that a mapping must have.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Marks a secret. Messages conceal it as well.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self.concealed()
    }

    /// Marks a value that messages hide although the admin API may show it: a hash in whose place a user may
    /// have written the secret, or a field that usually holds one.
    #[must_use]
    pub const fn concealed(mut self) -> Self {
        self.conceal = Conceal::Always;
        self
    }

    /// Marks a URL that may contain a password.
    #[must_use]
    pub const fn may_hold_credentials(mut self) -> Self {
        self.conceal = Conceal::Credentials;
        self
    }

    /// Sets the names of the key in other gateways, and common mistakes.
    #[must_use]
    pub const fn aliases(mut self, names: &'static [&'static str]) -> Self {
        self.aliases = names;
        self
    }
}

/// The form of a value. Bounds are inclusive; with `off`, the word `off` is a value too.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the fields are bounds, and `off`")]
pub enum Shape {
    /// `on` or `off`.
    Switch,
    /// Bytes.
    Size { min: u64, max: u64, off: bool },
    /// A time with default bounds, or `off`.
    Duration,
    /// A time within bounds.
    Time { min: Duration, max: Duration, off: bool },
    /// A percentage with up to ten decimals, with or without a percent sign, or a fraction.
    Percent { min: u64, max: u64, off: bool },
    /// A whole number.
    Count { min: u64, max: u64, off: bool },
    /// `off`.
    Off,
    /// A bare port in place of an address. It is accepted, but not listed in messages.
    Port,
    /// One of a fixed set of words.
    Word(&'static [&'static str]),
    /// A text.
    Text(&'static Text),
    /// A mapping with known keys.
    Section(&'static SectionSpec),
    /// A mapping whose keys the program registers.
    Registered(fn() -> &'static SectionSpec),
    /// A single value or a list of values.
    OneOrMany(&'static Shape),
    /// A list.
    ListOf(&'static Shape),
    /// A mapping with the user's own keys.
    MapOf(&'static Shape),
    /// One of several shapes.
    AnyOf(&'static [Shape]),
    /// Any YAML value.
    Anything,
}

/// A kind of text.
pub struct Text {
    /// The description after "expected" in messages: "an address such as `127.0.0.1:8080`".
    pub expected: &'static str,
    /// A pattern (ECMA 262) that every valid text matches; the reader is stricter.
    pub pattern: Option<&'static str>,
    /// Whether an unquoted number or `true` is accepted as text.
    pub loose: bool,
}

impl Shape {
    /// Returns the description after "expected" in messages.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Shape::Switch => "`on` or `off`".to_owned(),
            Shape::Off => "`off`".to_owned(),
            Shape::Port => "a port".to_owned(),
            Shape::Size { min, max, off } => {
                let or = if *off { ", or `off`" } else { "" };
                let such = if *min > 64 << 10 { "512MiB" } else { "64KiB" };
                format!("a size from {} to {}, such as `{such}`{or}", size(*min), size(*max))
            }
            Shape::Duration => "a duration such as `250ms`, `5s` or `1m30s`, or `off`".to_owned(),
            Shape::Time { min, max, off } => {
                let or = if *off { ", or `off`" } else { "" };
                format!("a duration from {} to {}, such as `250ms` or `5s`{or}", time(*min), time(*max))
            }
            Shape::Percent { min, max, off } => {
                let or = if *off { ", or `off`" } else { "" };
                format!("a percentage from {min} to {max}, such as `20%`, `0.5%` or `1/1000`{or}")
            }
            Shape::Count { min, max, off } => {
                let or = if *off { ", or `off`" } else { "" };
                if *max == u64::MAX {
                    format!("a whole number, at least {min}{or}")
                } else {
                    format!("a whole number from {min} to {max}{or}")
                }
            }
            Shape::Word(words) => any_of(words.iter().map(|word| format!("`{word}`"))),
            Shape::Text(text) => text.expected.to_owned(),
            Shape::Section(section) => format!("a mapping with {}", names(section)),
            Shape::Registered(section) => format!("a mapping with {}", names(section())),
            Shape::OneOrMany(shape) => format!("{}, or a list of such", shape.expected()),
            Shape::ListOf(shape) => format!("a list, each entry {}", shape.expected()),
            Shape::MapOf(shape) => format!("a mapping of names, each to {}", shape.expected()),
            Shape::AnyOf(shapes) => {
                any_of(shapes.iter().filter(|shape| !matches!(shape, Shape::Port)).map(Shape::expected))
            }
            Shape::Anything => "any value".to_owned(),
        }
    }
}

impl Shape {
    /// Works like [`Shape::expected`], for an invalid single value: the forms of lists and mappings are left
    /// out.
    #[must_use]
    pub fn expected_scalar(&self) -> String {
        match self {
            Shape::OneOrMany(inner) => inner.expected_scalar(),
            Shape::AnyOf(shapes) => {
                let single = |shape: &&Shape| {
                    use Shape::{ListOf, MapOf, Port, Registered, Section};
                    !matches!(shape, Port | Section(_) | Registered(_) | ListOf(_) | MapOf(_))
                };
                any_of(shapes.iter().filter(single).map(Shape::expected_scalar))
            }
            other => other.expected(),
        }
    }
}

impl Shape {
    /// Returns the shape of each entry of a list or mapping; any other shape is returned as it is.
    #[must_use]
    pub const fn one(&'static self) -> &'static Self {
        match self {
            Shape::OneOrMany(one) | Shape::ListOf(one) | Shape::MapOf(one) => one,
            _ => self,
        }
    }

    /// Returns whether `off` is a value.
    #[must_use]
    pub fn has_off(&self) -> bool {
        match self {
            Shape::Switch | Shape::Off | Shape::Duration => true,
            Shape::Size { off, .. }
            | Shape::Time { off, .. }
            | Shape::Percent { off, .. }
            | Shape::Count { off, .. } => *off,
            Shape::AnyOf(shapes) => shapes.iter().any(Shape::has_off),
            _ => false,
        }
    }
}

/// Lists the keys of a section, for "expected".
#[must_use]
pub fn names(section: &SectionSpec) -> String {
    any_of(section.keys.iter().map(|key| format!("`{}`", key.name)))
}

/// Joins items as "a, b or c".
pub(crate) fn any_of(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

fn time(time: Duration) -> String {
    let (seconds, millis) = (time.as_secs(), time.as_millis());
    match seconds {
        0 => format!("{millis}ms"),
        _ if seconds.is_multiple_of(86_400) => format!("{}d", seconds / 86_400),
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}
