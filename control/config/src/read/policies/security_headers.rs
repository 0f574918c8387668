//! Reads `security_headers`.

use super::shared::is_off;
use crate::model::SecurityHeaders;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::field as header;
use crate::spec::SECURITY_HEADERS_POLICY;

pub(super) fn security_headers(reader: &mut Reader, field: Field<'_>) -> Option<SecurityHeaders> {
    let setting = reader.setting(field, &SECURITY_HEADERS_POLICY)?;
    let fields = setting.fields();
    let get = |name| fields.and_then(|fields: &Fields<'_>| fields.get(name));
    let mut out = SecurityHeaders::default();
    let mut sniffs_not = true;
    reader.switch(get("content_type_options"), &mut sniffs_not);
    let frame = reader.word(get("frame_options")).unwrap_or("deny");
    let (frame, ancestors) = match frame {
        "deny" => (Some("DENY"), Some("frame-ancestors 'none'")),
        "sameorigin" => (Some("SAMEORIGIN"), Some("frame-ancestors 'self'")),
        _ => (None, None),
    };
    let mut value = |name, default: Option<&str>| match get(name) {
        None => default.map(str::to_owned),
        Some(field) if is_off(field) => None,
        Some(field) => reader.field(field, header::value),
    };
    let all = [
        ("X-Content-Type-Options", sniffs_not.then(|| "nosniff".to_owned())),
        ("X-Frame-Options", frame.map(str::to_owned)),
        ("Referrer-Policy", value("referrer_policy", Some("strict-origin-when-cross-origin"))),
        ("Content-Security-Policy", value("content_security_policy", ancestors)),
        ("Permissions-Policy", value("permissions_policy", None)),
        ("Cross-Origin-Opener-Policy", value("opener_policy", None)),
        ("Cross-Origin-Resource-Policy", value("resource_policy", None)),
    ];
    out.fields = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    reader.switch(get("overwrite"), &mut out.overwrite);
    Some(out)
}
