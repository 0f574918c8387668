//! The tokens of the admin API, and the role of clients without one.

use std::path::PathBuf;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use tollgate_config::{AdminAddress, AdminSettings, AdminToken, ClientCertificateMode, Role, TokenSecret};

/// The access rules of the admin listener. It stores only hashes of the tokens.
#[derive(Debug, Default)]
pub struct AccessRules {
    tokens: Vec<HashedToken>,
    /// The role of every client that reaches the listener without a token; `None` if tokens are configured.
    anonymous: Option<Role>,
    /// Whether that role requires a client certificate on the connection. A connection opened before the
    /// setting changed has none.
    needs_certificate: bool,
    /// The file of the audit log.
    pub audit_log: Option<PathBuf>,
    /// Host names that the listener answers to, besides IP addresses and `localhost`.
    hosts: Vec<String>,
    /// Base of the Prometheus that the dashboard links to.
    pub prometheus: Option<String>,
}

#[derive(Debug)]
struct HashedToken {
    name: String,
    role: Role,
    hash: [u8; 32],
}

impl AccessRules {
    /// Returns the rules that the configuration sets; without an admin listener the default.
    pub fn new(settings: Option<&AdminSettings>) -> Self {
        let Some(settings) = settings else { return Self::default() };
        let AdminSettings { bind, tls, tokens, audit_log, hosts, open: _, prometheus } = settings;
        let needs_certificate = tls
            .as_ref()
            .and_then(|tls| tls.client.as_ref())
            .is_some_and(|it| it.mode == ClientCertificateMode::Required);
        let local = match &bind.value {
            AdminAddress::Tcp(address) | AdminAddress::Udp(address) => address.ip().is_loopback(),
            AdminAddress::Unix(_) => true,
        };
        let (anonymous, needs_certificate) = without_token(!tokens.is_empty(), local, needs_certificate);
        let tokens = tokens.iter().map(HashedToken::new).collect();
        let (audit_log, hosts, prometheus) = (audit_log.clone(), hosts.clone(), prometheus.clone());
        Self { tokens, anonymous, needs_certificate, audit_log, hosts, prometheus }
    }

    /// Returns whether the listener answers to this host name: a configured name, or, without any, every name if a
    /// token is required, since an attacker's page has no token.
    pub fn allows_host(&self, name: &str) -> bool {
        match self.hosts.is_empty() {
            true => self.requires_token() && !name.is_empty(),
            false => self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name)),
        }
    }

    /// Returns whether a token is required.
    pub fn requires_token(&self) -> bool {
        self.anonymous.is_none()
    }

    /// Returns the role of clients without a token.
    pub fn anonymous(&self) -> Option<Role> {
        self.anonymous
    }

    /// Returns whether that role requires a client certificate.
    pub fn needs_certificate(&self) -> bool {
        self.needs_certificate
    }

    /// Returns the name and role of a token. The time it takes reveals nothing about how much of a token was
    /// right: every known hash is compared in constant time.
    pub fn find(&self, token: &[u8]) -> Option<(&str, Role)> {
        let hash = digest(&SHA256, token);
        let mut found = None;
        for known in &self.tokens {
            if verify_slices_are_equal(&known.hash, hash.as_ref()).is_ok() {
                found = Some((known.name.as_str(), known.role));
            }
        }
        found
    }
}

/// Returns the role of clients without a token, and whether it requires a client certificate.
fn without_token(tokens: bool, local: bool, needs_certificate: bool) -> (Option<Role>, bool) {
    match (tokens, local, needs_certificate) {
        (true, ..) => (None, false),
        (false, true, _) => (Some(Role::Admin), false),
        (false, false, true) => (Some(Role::Admin), true),
        // The configuration says `open: on`, or it would have been refused.
        (false, false, false) => (Some(Role::Read), false),
    }
}

impl HashedToken {
    fn new(token: &AdminToken) -> Self {
        let hash = match &token.token {
            TokenSecret::Digest(hash) => hash.0,
            TokenSecret::Plain(text) => {
                let mut hash = [0; 32];
                hash.copy_from_slice(digest(&SHA256, text.reveal().as_bytes()).as_ref());
                hash
            }
        };
        Self { name: token.name.clone(), role: token.role, hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(admin: &str) -> AccessRules {
        let text = format!("listen: 127.0.0.1:0\nroutes: []\nadmin: {admin}\n");
        tollgate_policy::register();
        let loaded = tollgate_config::from_text("t", &text, &|_| None);
        let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
        AccessRules::new(config.admin.as_ref())
    }

    #[test]
    fn a_token_matches_itself_or_its_hash() {
        let access = access(
            "{tokens: {a: {role: write, token: 0123456789abcdef}, \
             b: {role: read, token: \"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}}}",
        );
        assert!(access.requires_token());
        assert_eq!(access.find(b"0123456789abcdef"), Some(("a", Role::Write)));
        // The example of FIPS 180-4.
        assert_eq!(access.find(b"abc"), Some(("b", Role::Read)));
        assert_eq!(access.find(b"0123456789abcde"), None);
        assert_eq!(access.find(b""), None);
        assert!(!format!("{access:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn roles_of_certificates_need_a_certificate() {
        // Whether there are tokens; whether the listener is local; whether it requires certificates.
        for (tokens, local, needs_certificate, opens) in [
            (false, false, true, (Some(Role::Admin), true)),
            (false, true, true, (Some(Role::Admin), false)),
            (false, false, false, (Some(Role::Read), false)),
            (true, false, true, (None, false)),
        ] {
            assert_eq!(
                without_token(tokens, local, needs_certificate),
                opens,
                "{tokens} {local} {needs_certificate}"
            );
        }
    }

    #[test]
    fn without_tokens_it_is_for_this_machine() {
        for (admin, role) in [
            ("127.0.0.1:1", Role::Admin),
            ("\"[::1]:1\"", Role::Admin),
            ("unix:/tmp/a.sock", Role::Admin),
            ("{bind: 0.0.0.0:1, open: on}", Role::Read),
        ] {
            assert_eq!(access(admin).anonymous(), Some(role), "{admin}");
        }
    }
}
