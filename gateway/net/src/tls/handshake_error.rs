//! Errors of TLS handshakes. The proxy reports failed handshakes of clients by [`HandshakeError::as_str`]; a
//! [`TlsFault`](super::TlsFault) describes failures of endpoints.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// The text by which rustls reports that the certificate resolver has no certificate for the client.
const UNRESOLVED: &str = "no server certificate chain resolved";

/// The reason why a handshake failed.
#[derive(Debug)]
pub enum HandshakeError {
    /// The peer closed or reset the connection, or sent nothing.
    Closed,
    /// The peer's bytes are not TLS or violate it, or the sides have no parameters in common.
    Protocol(Error),
    /// The peer's certificate was missing or not acceptable.
    Certificate(Error),
    /// The peer refused with an alert.
    Alert(AlertDescription),
}

impl HandshakeError {
    /// Returns one of a fixed set of words, for metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Alert(_) => "alert",
            Self::Certificate(Error::NoCertificatesPresented) => "certificate_missing",
            Self::Certificate(Error::InvalidCertificate(error)) => match error {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate_expired",
                CertificateError::UnknownIssuer => "certificate_unknown_issuer",
                _ => "certificate",
            },
            Self::Certificate(_) => "certificate",
            Self::Protocol(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => "not_tls",
            Self::Protocol(Error::NoApplicationProtocol) => "application_protocol",
            // The certificate resolver knows the names.
            Self::Protocol(Error::General(text)) if text == UNRESOLVED => "server_name",
            Self::Protocol(Error::PeerIncompatible(error)) => match error {
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::SupportedVersionsExtensionRequired => "version",
                _ => "parameters",
            },
            Self::Protocol(_) => "protocol",
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl From<Error> for HandshakeError {
    fn from(error: Error) -> Self {
        match error {
            Error::AlertReceived(alert) => Self::Alert(alert),
            Error::InvalidCertificate(_)
            | Error::NoCertificatesPresented
            | Error::UnsupportedNameType
            | Error::InvalidCertRevocationList(_) => Self::Certificate(error),
            error => Self::Protocol(error),
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::Certificate(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                f.write_str("the peer's certificate is from nobody who is trusted")
            }
            Self::Protocol(Error::General(text)) if text == UNRESOLVED => {
                f.write_str("no listener of this address has the server name (SNI)")
            }
            Self::Protocol(error) | Self::Certificate(error) => error.fmt(f),
            Self::Alert(alert) => write!(f, "the peer refused: {alert:?}"),
        }
    }
}

/// Wraps the error for a read or write. The connection can no longer be used.
pub(super) fn broken_connection(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
