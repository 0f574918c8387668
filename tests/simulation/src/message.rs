//! Heads and framings, as clients and origins of the simulation read and write them. Nothing here is shared
//! with the gateway, so that a mistake in its codec cannot hide behind itself.

use std::fmt::Write;

/// A start line and its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The first line.
    pub start: String,
    /// The fields: names in lower case, and values.
    pub fields: Vec<(String, String)>,
}

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// By a length in bytes.
    Length(usize),
    /// By the last chunk.
    Chunked,
    /// By the end of the stream.
    Close,
}

impl Head {
    /// Parses a head without its last empty line.
    ///
    /// # Errors
    /// Returns a description of the syntax error.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "a head is not text".to_owned())?;
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let mut fields = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| format!("no field: {line:?}"))?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Self { start, fields })
    }

    /// Returns the value of the first field with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns a word of the start line, by its index; empty if there is none.
    #[must_use]
    pub fn word(&self, index: usize) -> &str {
        self.start.split(' ').nth(index).unwrap_or_default()
    }

    /// Returns the status of a response, or 0 if there is none.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or(0)
    }

    /// Returns whether a field's list contains a word.
    #[must_use]
    pub fn lists(&self, name: &str, word: &str) -> bool {
        let mut values = self.fields.iter().filter(|(found, _)| found == name);
        values.any(|(_, value)| value.split(',').any(|item| item.trim().eq_ignore_ascii_case(word)))
    }

    /// Returns the framing of a request.
    ///
    /// # Errors
    /// Returns an error if the framing is ambiguous.
    pub fn request_framing(&self) -> Result<Framing, String> {
        self.framing(Framing::None)
    }

    /// Returns the framing of a response to a request with this method.
    ///
    /// # Errors
    /// Returns an error if the framing is ambiguous.
    pub fn response_framing(&self, method: &str) -> Result<Framing, String> {
        let bodiless = method == "HEAD" || matches!(self.status(), 204 | 304);
        let framing = self.framing(Framing::Close)?;
        Ok(if bodiless { Framing::None } else { framing })
    }

    fn framing(&self, otherwise: Framing) -> Result<Framing, String> {
        let count = |name| self.fields.iter().filter(|(found, _)| found == name).count();
        match (count("transfer-encoding"), count("content-length")) {
            (0, 0) => Ok(otherwise),
            (1, 0) if self.lists("transfer-encoding", "chunked") => Ok(Framing::Chunked),
            (0, 1) => match self.get("content-length").and_then(|length| length.parse().ok()) {
                Some(length) => Ok(Framing::Length(length)),
                None => Err(format!("an unreadable length: {:?}", self.fields)),
            },
            _ => Err(format!("an ambiguous length: {:?}", self.fields)),
        }
    }
}

/// Appends the data as one chunk; appends nothing if there is no data.
pub fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        let mut size = String::new();
        // Writing to a String cannot fail.
        let _ = write!(size, "{:x}\r\n", data.len());
        out.extend_from_slice(size.as_bytes());
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}
