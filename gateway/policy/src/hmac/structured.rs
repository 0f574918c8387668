//! Structured fields (RFC 8941), limited to what signatures and digests use: dictionaries of byte sequences
//! and of inner lists of strings, with parameters. Anything else is a parse error.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The maximum number of dictionary members and list items. Each costs a comparison with all others.
const ITEMS_MAX: usize = 64;

/// A bare value without parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BareItem {
    Integer(i64),
    Text(String),
    Token(String),
    Bytes(Vec<u8>),
    Boolean(bool),
}

/// The parameters of an item or a list, in their order.
pub(super) type Parameters = Vec<(String, BareItem)>;

/// The value of a dictionary member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DictionaryMember {
    /// An inner list of strings, each with its parameters, and the list's own parameters.
    List(Vec<(String, Parameters)>, Parameters),
    /// A single value. Its parameters are dropped.
    Item(BareItem),
}

/// Parses a dictionary (3.2); the last of several equal keys counts. Returns `None` if the text is malformed
/// or uses unsupported types.
pub(super) fn dictionary(text: &[u8]) -> Option<Vec<(String, DictionaryMember)>> {
    let mut rest = FieldParser(text.trim_ascii());
    let mut out: Vec<(String, DictionaryMember)> = Vec::new();
    while !rest.0.is_empty() {
        let key = rest.key()?;
        let member = if rest.consume_byte(b'=') {
            rest.member()?
        } else {
            rest.parameters()?;
            DictionaryMember::Item(BareItem::Boolean(true))
        };
        out.retain(|(own, _)| *own != key);
        out.push((key, member));
        rest.skip_blanks();
        if rest.0.is_empty() {
            break;
        }
        // A comma must be followed by another member.
        if !rest.consume_byte(b',') || out.len() == ITEMS_MAX {
            return None;
        }
        rest.skip_blanks();
        if rest.0.is_empty() {
            return None;
        }
    }
    Some(out)
}

/// Serializes an inner list of strings (4.1.1.1), independent of the spaces in the input.
pub(super) fn write_list(items: &[(String, Parameters)], parameters: &Parameters) -> String {
    let mut out = String::from("(");
    for (number, (item, parameters)) in items.iter().enumerate() {
        if number > 0 {
            out.push(' ');
        }
        write_text(item, &mut out);
        write_parameters(parameters, &mut out);
    }
    out.push(')');
    write_parameters(parameters, &mut out);
    out
}

fn write_parameters(parameters: &Parameters, out: &mut String) {
    for (key, value) in parameters {
        out.push(';');
        out.push_str(key);
        // Writing to a string cannot fail.
        let _ = match value {
            BareItem::Boolean(true) => Ok(()),
            BareItem::Boolean(false) => out.write_str("=?0"),
            BareItem::Integer(number) => write!(out, "={number}"),
            BareItem::Token(token) => write!(out, "={token}"),
            BareItem::Bytes(bytes) => write!(out, "=:{}:", STANDARD.encode(bytes)),
            BareItem::Text(text) => {
                out.push('=');
                write_text(text, out);
                Ok(())
            }
        };
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// The unparsed rest of the input.
struct FieldParser<'t>(&'t [u8]);

impl FieldParser<'_> {
    fn consume_byte(&mut self, byte: u8) -> bool {
        let Some(rest) = self.0.strip_prefix(&[byte]) else { return false };
        self.0 = rest;
        true
    }

    fn skip_blanks(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }

    /// Takes the longest prefix whose bytes fit.
    fn take(&mut self, fits: impl Fn(u8) -> bool) -> String {
        let count = self.0.iter().position(|byte| !fits(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        String::from_utf8_lossy(taken).into_owned()
    }

    fn key(&mut self) -> Option<String> {
        self.0.first().filter(|byte| byte.is_ascii_lowercase() || **byte == b'*')?;
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte);
        Some(self.take(inner))
    }

    fn member(&mut self) -> Option<DictionaryMember> {
        if !self.consume_byte(b'(') {
            let item = self.bare()?;
            self.parameters()?;
            return Some(DictionaryMember::Item(item));
        }
        let mut items = Vec::new();
        loop {
            self.take(|byte| byte == b' ');
            if self.consume_byte(b')') {
                return Some(DictionaryMember::List(items, self.parameters()?));
            }
            let BareItem::Text(item) = self.bare()? else { return None };
            items.push((item, self.parameters()?));
            if items.len() > ITEMS_MAX || !matches!(self.0.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<Parameters> {
        let mut out = Parameters::new();
        while self.consume_byte(b';') {
            self.take(|byte| byte == b' ');
            let key = self.key()?;
            let value = if self.consume_byte(b'=') { self.bare()? } else { BareItem::Boolean(true) };
            out.retain(|(own, _)| *own != key);
            out.push((key, value));
            if out.len() > ITEMS_MAX {
                return None;
            }
        }
        Some(out)
    }

    fn bare(&mut self) -> Option<BareItem> {
        match self.0.first()? {
            b'"' => self.text().map(BareItem::Text),
            b':' => {
                self.consume_byte(b':');
                let encoded = self.take(|byte| byte != b':');
                let bytes = STANDARD.decode(encoded).ok()?;
                self.consume_byte(b':').then_some(BareItem::Bytes(bytes))
            }
            b'?' => {
                self.consume_byte(b'?');
                let is = self.consume_byte(b'1');
                (is || self.consume_byte(b'0')).then_some(BareItem::Boolean(is))
            }
            b'-' | b'0'..=b'9' => {
                let negative = self.consume_byte(b'-');
                let digits = self.take(|byte| byte.is_ascii_digit());
                let number: i64 = digits.parse().ok().filter(|_| digits.len() <= 15)?;
                // A number with a fraction is a decimal, which no supported field uses.
                (!self.0.starts_with(b".")).then_some(BareItem::Integer(if negative {
                    -number
                } else {
                    number
                }))
            }
            byte if byte.is_ascii_alphabetic() || *byte == b'*' => {
                let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
                Some(BareItem::Token(self.take(inner)))
            }
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        let mut out = String::new();
        let mut bytes = self.0.iter().enumerate().skip(1);
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.0 = &self.0[at + 1..];
                    return Some(out);
                }
                b'\\' => match bytes.next()?.1 {
                    escaped @ (b'"' | b'\\') => out.push(char::from(*escaped)),
                    _ => return None,
                },
                b' '..=b'~' => out.push(char::from(*byte)),
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_read_and_lists_written() {
        let text = r#"sig=( "@method"  "x\"y\\";sf );created=-5;keyid="k";t=a/b;b=:AQ==:;n=?0;y, two;q=1 ,  three=:AQI=:"#;
        let all = dictionary(text.as_bytes()).expect("a dictionary");
        assert_eq!(all.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["sig", "two", "three"]);
        let DictionaryMember::List(items, parameters) = &all[0].1 else { panic!("{all:?}") };
        assert_eq!(
            write_list(items, parameters),
            r#"("@method" "x\"y\\";sf);created=-5;keyid="k";t=a/b;b=:AQ==:;n=?0;y"#
        );
        assert_eq!(all[2].1, DictionaryMember::Item(BareItem::Bytes(vec![1, 2])));
        assert_eq!(dictionary(b"a=1, a=2").expect("one").len(), 1, "the last one counts");
        assert_eq!(dictionary(b"").expect("none").len(), 0);
    }

    #[test]
    fn malformed_structured_fields() {
        for text in [
            "a=",
            "a=1,",
            "a=1,,b=2",
            "A=1",
            "a=(1)",
            "a=(\"b\"",
            "a=(\"b\"\"c\")",
            "a=\"b",
            "a=\"\u{e9}\"",
            "a=:A:",
            "a=:AQ==",
            "a=1.5",
            "a=?2",
            "a=1234567890123456",
            "a=(\"b\");",
            "a=\"\\n\"",
            "a b",
            "1=2",
            "a=@",
        ] {
            assert_eq!(dictionary(text.as_bytes()), None, "{text}");
        }
        assert_eq!(dictionary(vec!["a"; 2000].join(",").as_bytes()).map(|all| all.len()), Some(1));
        let many: Vec<String> = (0..1000).map(|n| format!("a{n}")).collect();
        assert_eq!(dictionary(many.join(",").as_bytes()), None, "too many");
        assert_eq!(dictionary(format!("a=({})", "\"b\" ".repeat(1000)).as_bytes()), None);
    }
}
