//! Reads `buffer`.

use crate::model::{BufferBounds, RouteBuffer};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::{ScalarError, quantity};
use crate::spec::{BUFFER, BUFFER_BOUNDS, SIZE_MAX};
use crate::tree::{NodeKind, Scalar};

const DEFAULT_MEMORY_BYTES: u64 = 64 << 10;
const DEFAULT_FILE_BYTES: u64 = 1 << 30;

const DEFAULT_BOUNDS: BufferBounds = BufferBounds { memory: DEFAULT_MEMORY_BYTES, file: DEFAULT_FILE_BYTES };

pub(super) fn buffer(reader: &mut Reader, field: Field<'_>) -> RouteBuffer {
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        let short = |text: &str| match (text, Scalar::switch_of(text)) {
            (_, Some(on)) => Ok([on, on]),
            ("request", _) => Ok([true, false]),
            ("response", _) => Ok([false, true]),
            _ => Err(ScalarError::new("{} is not `on`, `off`, `request` or `response`")),
        };
        let [request, response] = reader
            .field(field, short)
            .map(|both| both.map(|on| Some(on.then_some(DEFAULT_BOUNDS))))
            .unwrap_or_default();
        return RouteBuffer { request, response };
    }
    let Some(fields) = reader.fields(field.node, &BUFFER) else { return RouteBuffer::default() };
    RouteBuffer {
        request: fields.get("request").map(|field| bounds(reader, field)),
        response: fields.get("response").map(|field| bounds(reader, field)),
    }
}

fn bounds(reader: &mut Reader, field: Field<'_>) -> Option<BufferBounds> {
    if matches!(field.node.kind, NodeKind::Map(_)) {
        let fields = reader.fields(field.node, &BUFFER_BOUNDS)?;
        let mut bounds = DEFAULT_BOUNDS;
        reader.number_into(fields.get("memory"), &mut bounds.memory);
        if let Some(file) = reader.number(fields.get("file")) {
            bounds.file = file.unwrap_or(0);
        }
        if bounds.memory == 0 && bounds.file == 0 {
            let problem = Problem::error(field.node.at, "this buffer has no capacity in memory or in a file");
            reader.problems.push(problem.help(format!("write `{}: off` to disable it", field.key.name)));
        }
        return Some(bounds);
    }
    match field.node.scalar().and_then(Scalar::switch) {
        Some(true) => return Some(DEFAULT_BOUNDS),
        Some(false) => return None,
        None => {}
    }
    // A single size bounds the whole body. Up to `DEFAULT_MEMORY_BYTES` bytes of it stay in memory.
    let most = reader.field(field, |text| quantity::size(text, 1, SIZE_MAX))?;
    let memory = most.min(DEFAULT_MEMORY_BYTES);
    Some(BufferBounds { memory, file: most - memory })
}
