//! Reads a dictionary of Structured Fields (RFC 9651, 4.2.2), as targeted cache fields are (RFC 9213, 2.1).
//!
//! It distinguishes booleans, integers, and the strings and tokens in which directives name fields. Everything else is
//! checked against the grammar, because one mistake makes the whole field invalid.

/// A member of a dictionary, without its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    pub key: &'a [u8],
    pub value: Value<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Boolean(bool),
    Integer(i64),
    /// A token, or the content of a string, with its escapes.
    Text(&'a [u8]),
    /// A decimal, bytes, a date, a display string or a list.
    Other,
}

/// Parses a dictionary. Of members with one key, the last one counts. `None`: it is malformed.
pub(crate) fn dictionary(text: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut reader = Reader { rest: trim_start(text, b" ") };
    let mut members: Vec<Member<'_>> = Vec::new();
    while !reader.rest.is_empty() {
        let key = reader.key()?;
        let value = if reader.eat(b'=') { reader.item_or_list()? } else { Value::Boolean(true) };
        reader.parameters()?;
        members.retain(|member| member.key != key);
        members.push(Member { key, value });
        reader.rest = trim_start(reader.rest, b" \t");
        if reader.rest.is_empty() {
            break;
        }
        reader.expect(b',')?;
        reader.rest = trim_start(reader.rest, b" \t");
        // A comma at the end is a mistake.
        if reader.rest.is_empty() {
            return None;
        }
    }
    Some(members)
}

fn trim_start<'a>(text: &'a [u8], blanks: &[u8]) -> &'a [u8] {
    let start = text.iter().position(|byte| !blanks.contains(byte)).unwrap_or(text.len());
    &text[start..]
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn eat(&mut self, byte: u8) -> bool {
        let rest = self.rest.strip_prefix(&[byte]);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }

    /// Takes the bytes for which `is_part` holds.
    fn take(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !is_part(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        if !matches!(self.rest.first(), Some(b'a'..=b'z' | b'*')) {
            return None;
        }
        Some(self.take(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*')))
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eat(b';') {
            self.rest = trim_start(self.rest, b" ");
            self.key()?;
            if self.eat(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn item_or_list(&mut self) -> Option<Value<'a>> {
        if !self.eat(b'(') {
            return self.bare_item();
        }
        loop {
            self.rest = trim_start(self.rest, b" ");
            if self.eat(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.rest.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn bare_item(&mut self) -> Option<Value<'a>> {
        match self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => {
                self.expect(b'?')?;
                let value = self.eat(b'1');
                if !value {
                    self.expect(b'0')?;
                }
                Some(Value::Boolean(value))
            }
            b':' => {
                self.expect(b':')?;
                self.take(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
                self.expect(b':')?;
                Some(Value::Other)
            }
            b'@' => {
                self.expect(b'@')?;
                matches!(self.number()?, Value::Integer(_)).then_some(Value::Other)
            }
            b'%' => {
                self.expect(b'%')?;
                self.string().map(|_| Value::Other)
            }
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                let is_part = |byte| matches!(byte, b':' | b'/') || tollgate_http::is_token(&[byte]);
                Some(Value::Text(self.take(is_part)))
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value<'a>> {
        let is_negative = self.eat(b'-');
        let digits = self.take(|byte| byte.is_ascii_digit());
        if digits.is_empty() {
            return None;
        }
        if self.eat(b'.') {
            let fraction = self.take(|byte| byte.is_ascii_digit());
            return (digits.len() <= 12 && (1..=3).contains(&fraction.len())).then_some(Value::Other);
        }
        if digits.len() > 15 {
            return None;
        }
        let value = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(if is_negative { -value } else { value }))
    }

    fn string(&mut self) -> Option<Value<'a>> {
        self.expect(b'"')?;
        let text = self.rest;
        loop {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return Some(Value::Text(&text[..text.len() - rest.len() - 1])),
                b'\\' if matches!(rest.first(), Some(b'"' | b'\\')) => self.rest = &rest[1..],
                b'\\' => return None,
                0x20..=0x7e => {}
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dictionaries() {
        let member = |key: &'static str, value| Member { key: key.as_bytes(), value };
        for (text, expected) in [
            ("", vec![]),
            ("max-age=60", vec![member("max-age", Value::Integer(60))]),
            (
                "a,b=?0 ,\tc=?1",
                vec![
                    member("a", Value::Boolean(true)),
                    member("b", Value::Boolean(false)),
                    member("c", Value::Boolean(true)),
                ],
            ),
            ("a=1, b, a=-2", vec![member("b", Value::Boolean(true)), member("a", Value::Integer(-2))]),
            (
                "a;x=1;y, b=(1 \"c\";q tok);z",
                vec![member("a", Value::Boolean(true)), member("b", Value::Other)],
            ),
            (
                "a=1.5, b=:aGk=:, c=\"x\\\"\", d=tok/en, e=@12, f=%\"x\"",
                vec![
                    member("a", Value::Other),
                    member("b", Value::Other),
                    member("c", Value::Text(b"x\\\"")),
                    member("d", Value::Text(b"tok/en")),
                    member("e", Value::Other),
                    member("f", Value::Other),
                ],
            ),
        ] {
            assert_eq!(dictionary(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [
            "Max-Age=60",
            "max-age=",
            "max-age =60",
            "a,",
            "a,,b",
            "a b",
            "a=1234567890123456",
            "a=1.",
            "a=\"x",
            "a=?2",
            "a=(1",
            "a=(1,2)",
            "a=(\"x\"y)",
            "=1",
            "a=;",
            "a;",
            "a=1.2345",
            "&",
        ] {
            assert_eq!(dictionary(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = dictionary(&bytes);
        }

        #[test]
        fn nearly_valid_text_does_not_panic(text in "[a-c=,; \"?1:@%().*-]{0,30}") {
            let _ = dictionary(text.as_bytes());
        }
    }
}
