//! `paths` and `errors`: ambiguous bytes of paths, and bodies of the gateway's own error responses.

use crate::scalar::template;
use crate::section::{Field, Problem, Reader, Section, Value, Word, shown};

use super::texts::BODY;

/// How ambiguous bytes of a path are treated.
///
/// `docs/paths.md` explains the rules.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct Paths {
    /// Whether `//` is merged into `/`.
    #[key(default = on)]
    pub merge_slashes: bool,
    /// `%2F` and `%5C`: rejected with 400, or kept as data that does not separate segments.
    #[key(default = reject)]
    pub encoded_slash: EncodedSlash,
    /// `;` and `%3B`: kept as data, or rejected with 400 to protect origins that strip path parameters.
    #[key(
        default = keep,
        also = ["semicolons", "path_parameters", "matrix_parameters"]
    )]
    pub semicolon: Semicolon,
}

/// How `%2F` and `%5C` in a path are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Word)]
pub enum EncodedSlash {
    /// The gateway rejects the request with 400.
    #[default]
    Reject,
    /// They are data: they stay encoded, and do not separate segments.
    Keep,
}

/// How `;` and `%3B` in a path are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Word)]
pub enum Semicolon {
    /// They are data.
    #[default]
    Keep,
    /// The gateway rejects the request with 400.
    Reject,
}

/// Bodies of the gateway's own error responses; `{status}`, `{title}`, `{reason}` and `{request_id}` are
/// filled in.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "errors")]
pub struct ErrorBodies {
    /// For clients that accept JSON.
    #[key(text = BODY, read = error_body)]
    pub json: Option<String>,
    /// For clients that accept HTML.
    #[key(text = BODY, read = error_body)]
    pub html: Option<String>,
    /// For all others.
    #[key(text = BODY, read = error_body)]
    pub text: Option<String>,
}

fn error_body(reader: &mut Reader, field: Field<'_>) -> Option<String> {
    // A body with an expanded variable is not checked, because a message would reveal a part of it.
    let open = field.node.scalar().filter(|scalar| scalar.written.is_none());
    if let Some((word, near)) = open.and_then(|scalar| template::misspelt(&scalar.text)) {
        let message = format!("{} is not filled in", shown(&format!("{{{word}}}")));
        let problem = Problem::warning(field.node.at, message);
        reader.problems.push(problem.help(format!("did you mean `{{{near}}}`?")));
    }
    String::read(reader, field)
}
