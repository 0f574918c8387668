//! Compiles a line's layout: text with `{field}` in it, as the configuration gives it.

use std::fmt;

use super::field::Field;
use super::headers::NamedField;

/// A compiled template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(pub(super) Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplatePart {
    Literal(Box<[u8]>),
    Field(Field),
    NamedField(NamedField),
}

impl TemplatePart {
    /// Returns the part for a name between braces.
    pub(super) fn named(name: &str) -> Option<Self> {
        Field::named(name).map(Self::Field).or_else(|| NamedField::parse(name).map(Self::NamedField))
    }

    /// Returns whether the part reads the response head.
    pub(super) fn reads_response_head(&self) -> bool {
        matches!(self, Self::NamedField(named) if named.reads_response_head())
    }
}

impl Template {
    /// Compiles a template. `{name}` is replaced by a [`Field`], or by a header or cookie (`header.NAME`,
    /// `response_header.NAME`, `cookie.NAME`); `{{` and `}}` are plain braces. The log adds the line feed.
    ///
    /// # Errors
    /// Fails on an unknown field, an unbalanced brace, or a control character other than a tab, because
    /// readers split the log into lines.
    pub fn compile(source: &str) -> Result<Template, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut characters = source.char_indices().peekable();
        while let Some((offset, character)) = characters.next() {
            let next = characters.peek().map(|&(_, next)| next);
            match character {
                '{' | '}' if next == Some(character) => {
                    characters.next();
                    literal.push(character);
                }
                '}' => return Err(TemplateError { offset, problem: TemplateProblem::Unopened }),
                '{' => {
                    let Some(length) = source[offset..].find('}') else {
                        return Err(TemplateError { offset, problem: TemplateProblem::Unclosed });
                    };
                    let name = &source[offset + 1..offset + length];
                    let Some(part) = TemplatePart::named(name) else {
                        return Err(TemplateError {
                            offset,
                            problem: TemplateProblem::Unknown(name.to_owned()),
                        });
                    };
                    push_literal(&mut parts, &mut literal);
                    parts.push(part);
                    while characters.next_if(|&(at, _)| at <= offset + length).is_some() {}
                }
                _ if character.is_control() && character != '\t' => {
                    return Err(TemplateError { offset, problem: TemplateProblem::Control });
                }
                _ => literal.push(character),
            }
        }
        push_literal(&mut parts, &mut literal);
        Ok(Template(parts))
    }
}

fn push_literal(parts: &mut Vec<TemplatePart>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(TemplatePart::Literal(std::mem::take(literal).into_bytes().into()));
    }
}

/// Why a template does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    offset: usize,
    problem: TemplateProblem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplateProblem {
    Unopened,
    Unclosed,
    Unknown(String),
    Control,
}

impl TemplateError {
    /// Returns the position of the problem in the template, in bytes from its start.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the name between the braces if no field has it, so that a caller can suggest one.
    #[must_use]
    pub fn unknown_field(&self) -> Option<&str> {
        match &self.problem {
            TemplateProblem::Unknown(name) => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            TemplateProblem::Unopened => f.write_str("`}` closes nothing; write `}}` for a plain brace"),
            TemplateProblem::Unclosed => f.write_str("`{` is never closed; write `{{` for a plain brace"),
            TemplateProblem::Control => {
                f.write_str("a log line cannot hold a line break or control character")
            }
            TemplateProblem::Unknown(name) => {
                write!(f, "there is no field `{}`; fields are ", name.escape_debug())?;
                for (index, field) in Field::ALL.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", field.name())?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn literal(text: &str) -> TemplatePart {
        TemplatePart::Literal(text.as_bytes().into())
    }

    #[test]
    fn parts() {
        let cases = [
            ("", vec![]),
            ("plain", vec![literal("plain")]),
            ("{status}", vec![TemplatePart::Field(Field::Status)]),
            ("é {{x}}\t{method}{path}!", {
                vec![
                    literal("é {x}\t"),
                    TemplatePart::Field(Field::Method),
                    TemplatePart::Field(Field::Path),
                    literal("!"),
                ]
            }),
        ];
        for (source, parts) in cases {
            assert_eq!(Template::compile(source), Ok(Template(parts)), "{source}");
        }
    }

    #[test]
    fn problems_say_where_and_what() {
        let cases = [
            ("a {colour}", 2, "no field `colour`; fields are time, "),
            ("a {status", 2, "never closed"),
            ("a } b", 2, "closes nothing"),
            ("a\nb", 1, "line break"),
            ("{}", 0, "no field ``"),
        ];
        for (source, offset, words) in cases {
            let error = Template::compile(source).unwrap_err();
            assert_eq!(error.offset(), offset, "{source}");
            assert!(error.to_string().contains(words), "{error}");
        }
        assert_eq!(Template::compile("{colour}").unwrap_err().unknown_field(), Some("colour"));
    }

    /// The configuration checks templates first; its own tests read the same table.
    #[test]
    fn templates_are_read_as_the_configuration_reads_them() {
        let table: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/templates.json")).unwrap();
        let of = |key: &str| table[key].as_array().unwrap().iter();
        assert!(of("fields").eq(Field::ALL.iter().map(|field| field.name())));
        for case in of("split") {
            let source = case["template"].as_str().unwrap();
            let pieces = case["pieces"].as_array().unwrap().iter();
            let parts = pieces.map(|piece| match piece["field"].as_str() {
                Some(name) => TemplatePart::named(name).unwrap(),
                None => literal(piece["text"].as_str().unwrap()),
            });
            assert_eq!(Template::compile(source), Ok(Template(parts.collect())), "{source}");
        }
        for case in of("refused") {
            let source = case["template"].as_str().unwrap();
            let offset = Template::compile(source).unwrap_err().offset();
            let at = source[..offset].chars().count();
            assert_eq!(case["at"].as_u64(), Some(at as u64), "{source}");
        }
    }

    proptest! {
        #[test]
        fn any_text_compiles_or_is_refused(source: String) {
            if let Err(error) = Template::compile(&source) {
                prop_assert!(error.offset() < source.len());
            }
        }
    }
}
