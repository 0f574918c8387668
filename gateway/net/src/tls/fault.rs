//! Describes TLS failures of endpoints for people.
//!
//! The upstream crate makes a [`TlsFault`] of each failed handshake, and of an alert that arrives later: in
//! TLS 1.3 an endpoint refuses the gateway's certificate only after the gateway's handshake (RFC 8446,
//! 4.4.2.4). The text goes into the log, the notices and `/upstreams`; the name of its kind goes into the
//! metrics.
//!
//! Invariant: each error of the TLS library maps to one kind, and each kind to one error type of RFC 9209.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

use super::HandshakeError;

/// Most names of a certificate that a text lists.
const NAMES_MAX: usize = 5;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $class:ident;)+) => {
        /// The kinds of TLS failures of an endpoint.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum TlsFaultKind {
            $($(#[$doc])* $variant,)+
        }

        impl TlsFaultKind {
            /// Every kind, in order of its number.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The spelling in metrics and on the admin listener.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The error type of RFC 9209 that the kind belongs to.
            #[must_use]
            pub const fn class(self) -> TlsFaultClass {
                match self { $(Self::$variant => TlsFaultClass::$class,)+ }
            }
        }
    };
}

kinds! {
    /// The certificate has expired.
    CertificateExpired = "certificate_expired", Certificate;
    /// The certificate is not valid yet.
    CertificateNotYetValid = "certificate_not_yet_valid", Certificate;
    /// The certificate is not for the name that was expected.
    CertificateWrongName = "certificate_wrong_name", Certificate;
    /// The issuer of the certificate is not trusted.
    CertificateUnknownIssuer = "certificate_unknown_issuer", Certificate;
    /// The certificate was revoked.
    CertificateRevoked = "certificate_revoked", Certificate;
    /// The signature of the certificate is of a kind that is not supported.
    CertificateSignature = "certificate_signature", Certificate;
    /// The certificate cannot be used for another reason.
    Certificate = "certificate", Certificate;
    /// The endpoint demands a client certificate.
    ClientCertificateRequired = "client_certificate_required", Alert;
    /// The endpoint does not accept the gateway's certificate, or demands one.
    ClientCertificateRefused = "client_certificate_refused", Alert;
    /// The endpoint has no site with the name in SNI.
    NameUnknown = "name_unknown", Alert;
    /// The endpoint sent another alert.
    Alert = "alert", Alert;
    /// No version of TLS is common to both sides.
    Version = "version", Protocol;
    /// No cipher suite, group or signature scheme is common to both sides.
    Parameters = "parameters", Protocol;
    /// No application protocol is common to both sides.
    ApplicationProtocol = "application_protocol", Protocol;
    /// The endpoint does not speak TLS.
    NotTls = "not_tls", Protocol;
    /// The endpoint closed the connection in the handshake.
    Closed = "closed", Protocol;
    /// The endpoint breaks the protocol.
    Protocol = "protocol", Protocol;
}

impl TlsFaultKind {
    /// How many kinds there are.
    pub const COUNT: usize = Self::ALL.len();
}

/// The error types of RFC 9209, section 2.3, for TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFaultClass {
    /// `tls_certificate_error`
    Certificate,
    /// `tls_alert_received`
    Alert,
    /// `tls_protocol_error`
    Protocol,
}

/// A TLS failure of an endpoint, and its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFault {
    /// Selects the metric and the error type.
    pub kind: TlsFaultKind,
    text: Arc<str>,
}

impl TlsFault {
    /// Creates a fault with this description.
    #[must_use]
    pub fn new(kind: TlsFaultKind, text: impl Into<Arc<str>>) -> Self {
        Self { kind, text: text.into() }
    }

    /// The description for people.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The TLS failure in an error of a read or a write, if it has one.
    #[must_use]
    pub fn of_io(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref::<Error>().map(Self::of)
    }

    fn of(error: &Error) -> Self {
        match error {
            Error::AlertReceived(alert) => of_alert(*alert),
            Error::InvalidCertificate(error) => of_certificate(error),
            Error::NoCertificatesPresented => {
                Self::new(TlsFaultKind::Certificate, "the endpoint shows no certificate")
            }
            Error::InvalidCertRevocationList(_) | Error::UnsupportedNameType => {
                Self::new(TlsFaultKind::Certificate, error.to_string())
            }
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::MessageTooLarge) => {
                Self::new(TlsFaultKind::NotTls, "the endpoint does not speak TLS on this port")
            }
            Error::NoApplicationProtocol => no_application_protocol(),
            Error::PeerIncompatible(
                error @ (PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig),
            ) => Self::new(TlsFaultKind::Version, format!("{}: {error:?}", VERSIONS)),
            Error::PeerIncompatible(error) => Self::new(
                TlsFaultKind::Parameters,
                format!("the endpoint and the gateway have no parameters of TLS in common: {error:?}"),
            ),
            error => Self::new(TlsFaultKind::Protocol, format!("the endpoint breaks TLS: {error}")),
        }
    }
}

impl From<&HandshakeError> for TlsFault {
    fn from(error: &HandshakeError) -> Self {
        match error {
            HandshakeError::Closed => Self::new(
                TlsFaultKind::Closed,
                "the endpoint closed the connection in the TLS handshake: does it speak TLS on this port?",
            ),
            HandshakeError::Alert(alert) => of_alert(*alert),
            HandshakeError::Protocol(error) | HandshakeError::Certificate(error) => Self::of(error),
        }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const VERSIONS: &str = "the endpoint speaks neither TLS 1.2 nor 1.3";

fn no_application_protocol() -> TlsFault {
    let text = "the endpoint speaks none of the protocols that were offered (ALPN)";
    TlsFault::new(TlsFaultKind::ApplicationProtocol, text)
}

/// Describes an alert (RFC 8446, 6.2).
fn of_alert(alert: AlertDescription) -> TlsFault {
    let name = alert_name(alert);
    let (kind, text) = match alert {
        AlertDescription::CertificateRequired => (
            TlsFaultKind::ClientCertificateRequired,
            format!("the endpoint demands a client certificate, and the gateway showed none ({name})"),
        ),
        AlertDescription::NoCertificate
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => (
            TlsFaultKind::ClientCertificateRefused,
            format!("the endpoint demands a client certificate, or does not accept the gateway's ({name})"),
        ),
        AlertDescription::UnrecognisedName => (
            TlsFaultKind::NameUnknown,
            format!("the endpoint has nothing under the name that it was asked for ({name})"),
        ),
        AlertDescription::ProtocolVersion => (TlsFaultKind::Version, format!("{VERSIONS} ({name})")),
        AlertDescription::NoApplicationProtocol => return no_application_protocol(),
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => (
            TlsFaultKind::Alert,
            format!(
                "the endpoint refused the handshake ({name}): it has no cipher suite in common with the gateway, or demands \
                 a client certificate"
            ),
        ),
        _ => (TlsFaultKind::Alert, format!("the endpoint sent the TLS alert {name}")),
    };
    TlsFault::new(kind, text)
}

/// Returns the name in the spelling of RFC 8446: `certificate_required`.
fn alert_name(alert: AlertDescription) -> String {
    let mut name = String::new();
    let debug = format!("{alert:?}");
    let mut before_is_upper = true;
    for letter in debug.chars() {
        if letter.is_ascii_uppercase() && !before_is_upper {
            name.push('_');
        }
        before_is_upper = letter.is_ascii_uppercase();
        name.push(letter.to_ascii_lowercase());
    }
    name.replace("unrecognised", "unrecognized")
}

fn of_certificate(error: &CertificateError) -> TlsFault {
    let (kind, text) = match error {
        CertificateError::Expired => {
            (TlsFaultKind::CertificateExpired, "certificate expired".to_owned())
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let (ago, date) = time_between(*not_after, *time);
            (TlsFaultKind::CertificateExpired, format!("certificate expired {ago} ago ({date})"))
        }
        CertificateError::NotValidYet => {
            (TlsFaultKind::CertificateNotYetValid, "certificate is not valid yet".to_owned())
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let (left, _) = time_between(*time, *not_before);
            let date = date_of(*not_before, false);
            let text = format!("certificate is not valid for another {left} (until {date}): is the clock right?");
            (TlsFaultKind::CertificateNotYetValid, text)
        }
        CertificateError::NotValidForName => {
            (TlsFaultKind::CertificateWrongName, "certificate is for another name".to_owned())
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let text = format!("certificate is for {}; expected {expected}", names(presented));
            (TlsFaultKind::CertificateWrongName, text)
        }
        CertificateError::UnknownIssuer => (
            TlsFaultKind::CertificateUnknownIssuer,
            "certificate is from an issuer that is not trusted (`tls.ca` of the upstream, or the system's list)".to_owned(),
        ),
        CertificateError::Revoked => (TlsFaultKind::CertificateRevoked, "certificate was revoked".to_owned()),
        // For example an authority that was replaced under the same name: webpki finds the issuer by name.
        CertificateError::BadSignature => (
            TlsFaultKind::CertificateUnknownIssuer,
            "certificate is from an issuer that is not trusted: one of that name is, but has not signed it".to_owned(),
        ),
        #[expect(deprecated, reason = "the verifier may still say so")]
        CertificateError::UnsupportedSignatureAlgorithm
        | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => (
            TlsFaultKind::CertificateSignature,
            "certificate has a signature of a kind that is not supported".to_owned(),
        ),
        CertificateError::BadEncoding => {
            (TlsFaultKind::Certificate, "certificate cannot be read".to_owned())
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (
            TlsFaultKind::Certificate,
            "certificate is not for servers (its extended key usage says so)".to_owned(),
        ),
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => (
            TlsFaultKind::CertificateUnknownIssuer,
            "certificate is an authority's own, as those are that sign themselves: it cannot be an endpoint's".to_owned(),
        ),
        other => (TlsFaultKind::Certificate, format!("certificate cannot be used: {other}")),
    };
    TlsFault::new(kind, text)
}

/// Lists the names in a certificate, for a text.
fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "no name".to_owned();
    }
    // webpki writes them as `DnsName("a.example")`.
    let bare = |name: &String| {
        let inner = name.split_once('(').map_or(name.as_str(), |(_, rest)| rest.trim_end_matches(')'));
        inner.trim_matches('"').to_owned()
    };
    let mut text = presented.iter().take(NAMES_MAX).map(bare).collect::<Vec<_>>().join(", ");
    if presented.len() > NAMES_MAX {
        text.push_str(&format!(" and {} more", presented.len() - NAMES_MAX));
    }
    text
}

/// Returns the time between two moments, and the date of the first one. The date includes the time of day if
/// they are less than two days apart.
fn time_between(from: UnixTime, to: UnixTime) -> (String, String) {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    let text = match Duration::from_secs(seconds).as_secs() {
        seconds if seconds < 2 * 60 => format!("{seconds} seconds"),
        seconds if seconds < 2 * 3600 => format!("{} minutes", seconds / 60),
        seconds if seconds < 2 * 86_400 => format!("{} hours", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    };
    (text, date_of(from, seconds < 2 * 86_400))
}

/// Formats a date as `2026-11-20`, or `2026-11-20 14:05 UTC`.
fn date_of(time: UnixTime, with_time: bool) -> String {
    let seconds = time.as_secs();
    // Days to a civil date, counted from 1 March of the year 0 (Hinnant, "chrono-Compatible Low-Level Date
    // Algorithms").
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let date = format!("{year:04}-{month:02}-{day:02}");
    if !with_time {
        return date;
    }
    format!("{date} {:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn dates() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_795_000_000, "2026-11-18 11:06 UTC"),
            (4_107_542_399, "2100-02-28 23:59 UTC"),
        ] {
            assert_eq!(date_of(at(seconds), true), date);
        }
        assert_eq!(time_between(at(1_795_000_000), at(1_795_000_000 + 3 * 86_400)).0, "3 days");
    }

    #[test]
    fn words() {
        let day = 86_400;
        let now = 1_795_000_000;
        let expired = CertificateError::ExpiredContext { time: at(now), not_after: at(now - 3 * day) };
        assert_eq!(of_certificate(&expired).text(), "certificate expired 3 days ago (2026-11-15)");
        let name = CertificateError::NotValidForNameContext {
            expected: rustls::pki_types::ServerName::try_from("x.example").expect("a name"),
            presented: vec!["DnsName(\"a.example\")".to_owned(), "IpAddress(127.0.0.1)".to_owned()],
        };
        assert_eq!(
            of_certificate(&name).text(),
            "certificate is for a.example, 127.0.0.1; expected x.example"
        );
        assert_eq!(alert_name(AlertDescription::CertificateRequired), "certificate_required");
        assert_eq!(alert_name(AlertDescription::UnknownCA), "unknown_ca");
        assert_eq!(alert_name(AlertDescription::UnrecognisedName), "unrecognized_name");
    }
}
