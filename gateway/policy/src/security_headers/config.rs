//! The settings of `security_headers`.

use std::sync::Arc;

use tollgate_config::section::{KeySpec, Section, Word, header};

use super::SecurityHeaderRules;
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};

/// Adds response fields that restrict browsers.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "security_headers_policy", noun = "`security_headers`", switch)]
pub(crate) struct SecurityHeaderSettings {
    /// `X-Content-Type-Options: nosniff`.
    #[key(default = on)]
    content_type_options: bool,
    /// `X-Frame-Options`, and `frame-ancestors` if `content_security_policy` is not set.
    #[key(default = deny)]
    frame_options: FrameOptions,
    /// `Referrer-Policy`.
    #[key(expected = "a value", loose, off, parse = header::value, default = "strict-origin-when-cross-origin")]
    referrer_policy: Option<String>,
    /// `Content-Security-Policy`. Default: `frame-ancestors` according to `frame_options`.
    #[key(expected = "a value", loose, off, parse = header::value, also = ["csp"])]
    content_security_policy: Option<Option<String>>,
    /// `Permissions-Policy`.
    #[key(expected = "a value", loose, off, parse = header::value, default = off)]
    permissions_policy: Option<String>,
    /// `Cross-Origin-Opener-Policy`.
    #[key(expected = "a value", loose, off, parse = header::value, default = off, also = ["coop"])]
    opener_policy: Option<String>,
    /// `Cross-Origin-Resource-Policy`.
    #[key(expected = "a value", loose, off, parse = header::value, default = off, also = ["corp"])]
    resource_policy: Option<String>,
    /// Whether they replace fields that the upstream sets.
    #[key(default = off, also = ["override", "replace"])]
    overwrite: bool,
}

/// `frame_options`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
enum FrameOptions {
    Deny,
    Sameorigin,
    Off,
}

impl PolicyConfig for SecurityHeaderSettings {
    const KEY: KeySpec =
        policy_key::<Self>("security_headers", "Adds response fields that restrict browsers.")
            .aliases(&["secure_headers", "helmet"]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let (frame, ancestors) = match self.frame_options {
            FrameOptions::Deny => (Some("DENY"), Some("frame-ancestors 'none'")),
            FrameOptions::Sameorigin => (Some("SAMEORIGIN"), Some("frame-ancestors 'self'")),
            FrameOptions::Off => (None, None),
        };
        let owned = |value: Option<&str>| value.map(str::to_owned);
        let security = self.content_security_policy.clone().unwrap_or_else(|| owned(ancestors));
        let all = [
            ("X-Content-Type-Options", owned(self.content_type_options.then_some("nosniff"))),
            ("X-Frame-Options", owned(frame)),
            ("Referrer-Policy", self.referrer_policy.clone()),
            ("Content-Security-Policy", security),
            ("Permissions-Policy", self.permissions_policy.clone()),
            ("Cross-Origin-Opener-Policy", self.opener_policy.clone()),
            ("Cross-Origin-Resource-Policy", self.resource_policy.clone()),
        ];
        let fields = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        Arc::new(SecurityHeaderRules { fields, overwrite: self.overwrite })
    }
}
