//! `buffer`.

use crate::model::{Buffer, BufferBounds};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::quantity;
use crate::spec::{BUFFER, BUFFER_BOUNDS, SIZE_MAX};
use crate::tree::{Kind, Scalar};

const MEMORY: u64 = 64 << 10;
const FILE: u64 = 1 << 30;

pub(super) fn buffer(reader: &mut Reader, field: Field<'_>) -> Buffer {
    let Some(fields) = reader.fields(field.node, &BUFFER) else { return Buffer::default() };
    Buffer {
        request: fields.get("request").and_then(|field| bounds(reader, field)),
        response: fields.get("response").and_then(|field| bounds(reader, field)),
    }
}

fn bounds(reader: &mut Reader, field: Field<'_>) -> Option<BufferBounds> {
    if matches!(field.node.kind, Kind::Map(_)) {
        let fields = reader.fields(field.node, &BUFFER_BOUNDS)?;
        let mut bounds = BufferBounds { memory: MEMORY, file: FILE };
        reader.number_into(fields.get("memory"), &mut bounds.memory);
        if let Some(file) = reader.number(fields.get("file")) {
            bounds.file = file.unwrap_or(0);
        }
        if bounds.memory == 0 && bounds.file == 0 {
            let problem =
                Problem::error(field.node.at, "this buffer has no room in memory and none in a file");
            reader.problems.push(problem.help(format!("write `{}: off` for none", field.key.name)));
        }
        return Some(bounds);
    }
    match field.node.scalar().and_then(Scalar::switch) {
        Some(true) => return Some(BufferBounds { memory: MEMORY, file: FILE }),
        Some(false) => return None,
        None => {}
    }
    // One size bounds the whole; the usual share of it stays in memory.
    let most = reader.field(field, |text| quantity::size(text, 1, SIZE_MAX))?;
    let memory = most.min(MEMORY);
    Some(BufferBounds { memory, file: most - memory })
}
