//! Taking an object of APISIX apart, so that nothing in it is passed over.

use serde_json::{Map, Value};

/// An object whose entries are taken out one by one; what is left at the end is refused by name.
pub struct Fields {
    entries: Map<String, Value>,
    /// Where it is: empty, or `upstream/`.
    path: String,
}

impl Fields {
    /// Of an object at this place.
    pub fn new(entries: Map<String, Value>, path: &str) -> Self {
        Self { entries, path: path.to_owned() }
    }

    /// Of a value that is to be an object.
    pub fn of(value: Value, path: &str) -> Result<Self, String> {
        match value {
            Value::Object(entries) => Ok(Self::new(entries, &format!("{path}/"))),
            _ => Err(format!("`{path}` is to be an object")),
        }
    }

    /// Takes an entry out.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.entries.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Looks at an entry.
    pub fn peek(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// Takes a text out.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "a text")),
        }
    }

    /// Takes a whole number out.
    pub fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| self.wrong(key, "a whole number")),
        }
    }

    /// Takes `true` or `false` out.
    pub fn flag(&mut self, key: &str) -> Result<Option<bool>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(self.wrong(key, "`true` or `false`")),
        }
    }

    /// Takes a text out, or a number as one.
    pub fn value(&mut self, key: &str) -> Result<String, String> {
        match self.take(key) {
            Some(Value::String(text)) => Ok(text),
            Some(Value::Number(number)) => Ok(number.to_string()),
            _ => Err(self.wrong(key, "a text")),
        }
    }

    /// The keys that are left.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// A key with its place, as messages have it.
    pub fn place(&self, key: &str) -> String {
        format!("`{}{key}`", self.path)
    }

    /// The same for what is below that key.
    pub fn bare(&self, key: &str) -> String {
        format!("{}{key}", self.path)
    }

    /// Takes a list of texts out.
    pub fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let items = value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
        let texts: Option<Vec<String>> = items.and_then(Iterator::collect);
        let texts = texts.filter(|texts| !texts.is_empty());
        texts.map(Some).ok_or_else(|| self.wrong(key, "a list of texts"))
    }

    /// Takes an entry out that may only say what holds anyway.
    pub fn only(&mut self, key: &str, values: &[Value]) -> Result<(), String> {
        match self.take(key) {
            Some(value) if !values.contains(&value) => {
                let values: Vec<_> = values.iter().map(Value::to_string).collect();
                Err(format!("`{}{key}` can only be {} here, not {value}", self.path, values.join(" or ")))
            }
            _ => Ok(()),
        }
    }

    /// What is said of a value that is of another kind.
    pub fn wrong(&self, key: &str, expected: &str) -> String {
        format!("`{}{key}` is to be {expected}", self.path)
    }

    /// The end: what was not taken out is not known here.
    pub fn end(self) -> Result<(), String> {
        let left: Vec<_> = self.entries.keys().map(|key| format!("`{}{key}`", self.path)).collect();
        match left.len() {
            0 => Ok(()),
            1 => Err(format!(
                "{} has no counterpart in this gateway's APISIX front: /api/v1 has all that it can do",
                left[0]
            )),
            _ => Err(format!(
                "{} have no counterpart in this gateway's APISIX front: /api/v1 has all that it can do",
                left.join(", ")
            )),
        }
    }
}
