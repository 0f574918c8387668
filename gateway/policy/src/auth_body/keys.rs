//! The settings that `forward_auth` and `ext_authz` share.

use tollgate_config::section::{Field, Fields, Problem, Reader, Section, Shape, Value, quantity};

use super::AuthBody;

/// The request's body, for the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(name = "forward_auth_body", noun = "`body`", own_forms)]
pub(crate) struct AuthBodySettings {
    /// Maximum bytes of the body that are read for the service.
    #[key(
        size = 1..="16MiB", required, also = ["max_request_bytes", "max_body_size", "max_size", "size", "limit"],
    )]
    max: usize,
    /// Whether the service gets the beginning of a larger body; otherwise such a request is rejected (413).
    #[key(default = off, also = ["allow_partial_message", "allow_partial"])]
    partial: bool,
}

/// The request's body, for the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(name = "ext_authz_body", noun = "`body`", own_forms)]
pub(crate) struct AuthBodyOrBytesSettings {
    /// Maximum bytes of the body that are read for the service.
    #[key(
        size = 1..="16MiB", required, also = ["max_request_bytes", "max_body_size", "max_size", "size", "limit"],
    )]
    max: usize,
    /// Whether the service gets the beginning of a larger body; otherwise such a request is rejected (413).
    #[key(default = off, also = ["allow_partial_message", "allow_partial"])]
    partial: bool,
    /// Whether the body is always sent in `raw_body`. By default a UTF-8 body is in `body`, and any other in
    /// `raw_body`.
    #[key(default = off, also = ["pack_as_bytes"])]
    as_bytes: bool,
}

const LIMIT: Shape = Shape::Size { min: 1, max: 16 << 20, off: true };

/// A mapping, or the maximum size.
impl Value for AuthBodySettings {
    const SHAPE: Shape = Shape::AnyOf(&[LIMIT, Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            let fields = reader.fields(field.node, Self::SPEC)?;
            return Self::read_keys(reader, &fields);
        }
        let max = reader.field(field, |text| quantity::size(text, 1, 16 << 20))?;
        Some(Self { max: usize::try_from(max).ok()?, partial: false })
    }
}

/// A mapping, or the maximum size.
impl Value for AuthBodyOrBytesSettings {
    const SHAPE: Shape = Shape::AnyOf(&[LIMIT, Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            let fields = reader.fields(field.node, Self::SPEC)?;
            return Self::read_keys(reader, &fields);
        }
        let AuthBodySettings { max, partial } = AuthBodySettings::read(reader, field)?;
        Some(Self { max, partial, as_bytes: false })
    }
}

impl AuthBodySettings {
    pub fn compile(self) -> AuthBody {
        AuthBody { max: self.max, partial: self.partial, as_bytes: false }
    }
}

impl AuthBodyOrBytesSettings {
    pub fn compile(self) -> AuthBody {
        AuthBody { max: self.max, partial: self.partial, as_bytes: self.as_bytes }
    }
}

/// Reports groups without a consumer.
pub(crate) fn check_groups(reader: &mut Reader, fields: &Fields<'_>, consumer: Option<&str>) {
    if let Some(field) = fields.get("groups").filter(|_| consumer.is_none()) {
        let problem = Problem::error(field.at, "`groups` needs `consumer`");
        reader.problems.push(problem.help("groups belong to a consumer"));
    }
}
