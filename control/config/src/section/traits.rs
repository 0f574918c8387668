//! How a type says what it reads: the traits of sections, values and words.

use std::time::Duration;

use crate::model::Percent;
use crate::position::Spanned;
use crate::reader::{Field, Fields, Reader};
use crate::spec::{KeySpec, SectionSpec, Shape, Text};
use crate::tree::Node;

/// A mapping with known keys. [`#[derive(Section)]`](derive@tollgate_config_derive::Section) implements it.
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

/// A fixed set of words. [`#[derive(Word)]`](derive@tollgate_config_derive::Word) implements it for an enum: each variant is a word in
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
        reader.number(Some(field)).flatten().map(Self::from)
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

/// Values whose types say how they are read.
impl Reader {
    /// Reads a section that is written as a mapping.
    pub fn section<T: Section>(&mut self, field: Field<'_>) -> Option<T> {
        let fields = self.fields_of(field, T::SPEC)?;
        T::read_keys(self, &fields)
    }

    /// Reads a word into its type.
    pub fn word_of<T: Word>(&mut self, field: Field<'_>) -> Option<T> {
        self.word(Some(field)).and_then(T::from_word)
    }
}
