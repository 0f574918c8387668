//! `buffer`: bodies that are buffered before they are passed on.

use crate::scalar::quantity;
use crate::section::{Field, Problem, Reader, ScalarError, Section, Shape, Value};
use crate::tree::Scalar;

use super::texts::SIZE_MAX;

/// Whether bodies are buffered before they are passed on. `None`: streamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// The request's (`buffer: {request: true | 10MiB | {memory, file}}`).
    pub request: Option<BufferBounds>,
    /// The response's.
    pub response: Option<BufferBounds>,
}

/// Bodies that are buffered, so that a slow peer does not hold a connection on the other side.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "buffer", own_forms)]
pub struct RouteBuffer {
    /// The request body: `on`, the maximum bytes in total, or a mapping.
    #[key(default = off)]
    pub request: Option<Option<BufferBounds>>,
    /// The response body: `on`, the maximum bytes in total, or a mapping.
    #[key(default = off)]
    pub response: Option<Option<BufferBounds>>,
}

impl RouteBuffer {
    /// Returns the route's effective settings, given the gateway's.
    #[must_use]
    pub fn over(&self, gateway: &Buffer) -> Buffer {
        Buffer {
            request: self.request.unwrap_or(gateway.request),
            response: self.response.unwrap_or(gateway.response),
        }
    }
}

impl Value for RouteBuffer {
    const SHAPE: Shape = Shape::AnyOf(&[
        Shape::Switch,
        Shape::Word(&["request", "response"]),
        Shape::Section(RouteBuffer::SPEC),
    ]);
    const HAS_OFF: bool = true;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        let short = |text: &str| match (text, Scalar::switch_of(text)) {
            (_, Some(on)) => Ok([on, on]),
            ("request", _) => Ok([true, false]),
            ("response", _) => Ok([false, true]),
            _ => Err(ScalarError::new("{} is not `on`, `off`, `request` or `response`")),
        };
        let both = reader.field(field, short)?;
        let [request, response] = both.map(|on| Some(on.then(BufferBounds::default)));
        Some(Self { request, response })
    }
}

/// Bounds of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(noun = "a buffer", own_forms)]
pub struct BufferBounds {
    /// Bytes kept in memory.
    #[key(size = 0..="1GiB", default = "64KiB")]
    pub memory: u64,
    /// Additional bytes in a temporary file.
    ///
    /// Beyond both bounds a request gets 413, and a response is streamed from there on.
    #[key(size = 0..=SIZE_MAX, off, read = size_or_none, default = "1GiB")]
    pub file: u64,
}

impl Value for BufferBounds {
    const SHAPE: Shape = Shape::AnyOf(&[
        Shape::Switch,
        Shape::Size { min: 1, max: SIZE_MAX, off: true },
        Shape::Section(BufferBounds::SPEC),
    ]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            let bounds: Self = reader.section(field)?;
            if bounds.memory == 0 && bounds.file == 0 {
                let message = "this buffer has no capacity in memory or in a file";
                let problem = Problem::error(field.node.at, message);
                reader.problems.push(problem.help(format!("write `{}: off` to disable it", field.key.name)));
            }
            return Some(bounds);
        }
        let usual = Self::default();
        if field.node.scalar().and_then(Scalar::switch) == Some(true) {
            return Some(usual);
        }
        // A single size bounds the whole body. The usual part of it stays in memory.
        let most = reader.field(field, |text| quantity::size(text, 1, SIZE_MAX))?;
        let memory = most.min(usual.memory);
        Some(Self { memory, file: most - memory })
    }
}

/// Reads a size; `off` is 0.
fn size_or_none(reader: &mut Reader, field: Field<'_>) -> Option<u64> {
    reader.number(Some(field)).map(Option::unwrap_or_default)
}
