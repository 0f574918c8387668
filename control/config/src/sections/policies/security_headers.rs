//! `security_headers`: adds response fields that restrict browsers.

use crate::scalar::field as header;
use crate::section::{self, Field, Fields, Reader, Section, Setting, Shape, Text, Value, Word};

static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };

/// Response fields that restrict browsers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// The fields with their values.
    pub fields: Vec<(&'static str, String)>,
    /// Whether they replace fields that the upstream sets.
    pub overwrite: bool,
}

/// Adds response fields that restrict browsers.
#[derive(Clone, Debug, Section)]
#[section(
    name = "security_headers_policy", noun = "`security_headers`", makes = SecurityHeaders, by = security_headers, own_forms
)]
struct SecurityHeadersKeys {
    /// `X-Content-Type-Options: nosniff`.
    #[key(default = on)]
    content_type_options: bool,
    /// `X-Frame-Options`, and `frame-ancestors` if `content_security_policy` is not set.
    #[key(default = deny)]
    frame_options: FrameOptions,
    /// `Referrer-Policy`.
    #[key(off, text = VALUE, parse = header::value, default = "strict-origin-when-cross-origin")]
    referrer_policy: Option<String>,
    /// `Content-Security-Policy`. Default: `frame-ancestors` according to `frame_options`.
    #[key(off, text = VALUE, parse = header::value, also = ["csp"])]
    content_security_policy: Option<Option<String>>,
    /// `Permissions-Policy`.
    #[key(off, text = VALUE, parse = header::value, default = off)]
    permissions_policy: Option<String>,
    /// `Cross-Origin-Opener-Policy`.
    #[key(off, text = VALUE, parse = header::value, default = off, also = ["coop"])]
    opener_policy: Option<String>,
    /// `Cross-Origin-Resource-Policy`.
    #[key(off, text = VALUE, parse = header::value, default = off, also = ["corp"])]
    resource_policy: Option<String>,
    /// Whether they replace fields that the upstream sets.
    #[key(default = off, also = ["override", "replace"])]
    overwrite: bool,
}

/// The pages that may show a response in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Word)]
enum FrameOptions {
    Deny,
    #[word("sameorigin")]
    SameOrigin,
    Off,
}

impl Value for SecurityHeaders {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Switch, Shape::Section(SecurityHeaders::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        match reader.setting(field, Self::SPEC)? {
            Setting::Fields(fields) => Self::read_keys(reader, &fields),
            Setting::On | Setting::Off => section::from_no_key(reader, field),
        }
    }
}

fn security_headers(_: &mut Reader, _: &Fields<'_>, keys: SecurityHeadersKeys) -> Option<SecurityHeaders> {
    let (frame, ancestors) = match keys.frame_options {
        FrameOptions::Deny => (Some("DENY"), Some("frame-ancestors 'none'")),
        FrameOptions::SameOrigin => (Some("SAMEORIGIN"), Some("frame-ancestors 'self'")),
        FrameOptions::Off => (None, None),
    };
    let policy = keys.content_security_policy.unwrap_or_else(|| ancestors.map(str::to_owned));
    let all = [
        ("X-Content-Type-Options", keys.content_type_options.then(|| "nosniff".to_owned())),
        ("X-Frame-Options", frame.map(str::to_owned)),
        ("Referrer-Policy", keys.referrer_policy),
        ("Content-Security-Policy", policy),
        ("Permissions-Policy", keys.permissions_policy),
        ("Cross-Origin-Opener-Policy", keys.opener_policy),
        ("Cross-Origin-Resource-Policy", keys.resource_policy),
    ];
    let fields = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    Some(SecurityHeaders { fields, overwrite: keys.overwrite })
}
