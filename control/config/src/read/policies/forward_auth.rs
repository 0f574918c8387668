//! Reads `forward_auth`.

use std::time::Duration;

use super::shared::{body, identity, url};
use crate::model::ForwardAuth;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::field as header;
use crate::sections::consumers::texts;
use crate::sections::policies::own_header;
use crate::sections::tls::pem;
use crate::spec::{FORWARD_AUTH_BODY, FORWARD_AUTH_POLICY};

pub(super) fn forward_auth(reader: &mut Reader, field: Field<'_>) -> Option<ForwardAuth> {
    let fields = reader.fields(field.node, &FORWARD_AUTH_POLICY)?;
    let url = reader.field(fields.get("url")?, url)?;
    let mut name = |name| fields.get(name).and_then(|field| reader.field(field, header::name));
    let (consumer, groups) = (name("consumer"), name("groups"));
    let mut out = ForwardAuth {
        url,
        timeout: Duration::from_secs(1),
        request_headers: fields.get("request_headers").map(|field| texts(reader, Some(field), header::name)),
        response_headers: texts(reader, fields.get("response_headers"), own_header),
        body: fields.get("body").and_then(|field| body(reader, field, &FORWARD_AUTH_BODY)),
        consumer,
        groups,
        identity: identity(reader, &fields),
        ca: fields.get("ca").and_then(|field| pem(reader, field)),
    };
    reader.time_into(fields.get("timeout"), &mut out.timeout);
    if let Some(field) = fields.get("groups").filter(|_| out.consumer.is_none()) {
        let problem = Problem::error(field.at, "`groups` needs `consumer`");
        reader.problems.push(problem.help("groups belong to a consumer"));
    }
    Some(out)
}
