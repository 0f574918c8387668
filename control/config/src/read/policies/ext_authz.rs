//! Reads `ext_authz`.

use std::time::Duration;

use super::shared::{body, identity, url};
use crate::model::ExtAuthz;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::{ScalarError, field as header};
use crate::sections::consumers::texts;
use crate::sections::policies::own_header;
use crate::sections::tls::pem;
use crate::spec::{EXT_AUTHZ_BODY, EXT_AUTHZ_POLICY};

pub(super) fn ext_authz(reader: &mut Reader, field: Field<'_>) -> Option<ExtAuthz> {
    let fields = reader.fields(field.node, &EXT_AUTHZ_POLICY)?;
    let url = reader.field(fields.get("url")?, base)?;
    let mut name = |name| fields.get(name).and_then(|field| reader.field(field, header::name));
    let (consumer, groups) = (name("consumer"), name("groups"));
    let text = |text: &str| Ok(text.to_owned());
    let mut out = ExtAuthz {
        url,
        timeout: Duration::from_secs(1),
        fail_open: false,
        reserved: texts(reader, fields.get("reserved_headers"), own_header),
        context: reader.pairs(fields.get("context"), text, text),
        body: fields.get("body").and_then(|field| body(reader, field, &EXT_AUTHZ_BODY)),
        consumer,
        groups,
        identity: identity(reader, &fields),
        ca: fields.get("ca").and_then(|field| pem(reader, field)),
    };
    reader.time_into(fields.get("timeout"), &mut out.timeout);
    reader.switch(fields.get("fail_open"), &mut out.fail_open);
    if let Some(field) = fields.get("groups").filter(|_| out.consumer.is_none()) {
        let problem = Problem::error(field.at, "`groups` needs `consumer`");
        reader.problems.push(problem.help("groups belong to a consumer"));
    }
    Some(out)
}

/// Parses a URL to which the method's path is appended.
fn base(text: &str) -> Result<String, ScalarError> {
    match text.contains('?') {
        true => {
            Err(ScalarError::new("{} has a query")
                .help("the method's path is added to it: `http://host:port`"))
        }
        false => url(text),
    }
}
