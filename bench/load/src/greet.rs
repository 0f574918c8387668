//! One connection before the run, for people: it tells in a sentence why a server cannot be loaded at all,
//! such as a certificate that no known authority has signed. The run itself would count the same fault once
//! for each request.

use crate::failure::Failure;
use crate::plan::Plan;
use crate::tls::Client;
use rustls::{AlertDescription, CertificateError, ClientConnection, Error};
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long an alert is awaited after a handshake. A server with TLS 1.3 says only then that it wants a certificate.
const ALERT_WITHIN: Duration = Duration::from_millis(50);

/// Connects once and, if the plan uses TLS, completes a handshake. Returns the TLS version and cipher.
///
/// # Errors
/// [`Failure::Unreachable`], or [`Failure::Greeting`] with what to do about a failed handshake.
pub fn greet(plan: &Plan) -> Result<Option<String>, Failure> {
    plan.check()?;
    let limit = Duration::from_secs_f64(plan.time_limit);
    let unreachable = |error| Failure::Unreachable(plan.target, error);
    let mut stream = TcpStream::connect_timeout(&plan.target, limit).map_err(unreachable)?;
    let Some(client) = Client::of(plan)? else { return Ok(None) };
    let ended = |error: io::Error| Failure::Greeting(refusal(plan, &error));
    stream.set_read_timeout(Some(limit)).map_err(ended)?;
    stream.set_write_timeout(Some(limit)).map_err(ended)?;
    let mut tls = ClientConnection::new(client.config, client.name)
        .map_err(|error| Failure::Greeting(format!("TLS to {}: {error}", plan.target)))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut stream).map_err(ended)?;
    }
    await_alert(&mut tls, &mut stream).map_err(ended)?;
    if plan.protocol.is_over_http2() && tls.alpn_protocol() != Some(b"h2") {
        return Err(Failure::Greeting(format!(
            "{} does not speak HTTP/2 over TLS: it did not choose `h2` (ALPN)",
            plan.target
        )));
    }
    let version = match tls.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
        _ => "TLS 1.2",
    };
    let cipher = tls.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
    // The server learns that this connection ends on purpose.
    tls.send_close_notify();
    let _ = tls.complete_io(&mut stream);
    Ok(Some(format!("{version}, {}", cipher.unwrap_or_default().replace("TLS13_", "TLS_"))))
}

fn reported(cause: Option<&Error>) -> String {
    cause.map(ToString::to_string).unwrap_or_default()
}

/// Reads what the server sends right after the handshake, such as tickets, and returns an error if it is an alert.
fn await_alert(tls: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(ALERT_WITHIN))?;
    let begun = Instant::now();
    while begun.elapsed() < ALERT_WITHIN {
        // A server that sends nothing, or ends the connection without an alert, is judged by its answers.
        match tls.read_tls(stream) {
            Ok(0) | Err(_) => break,
            Ok(_) => tls.process_new_packets().map_err(io::Error::other)?,
        };
    }
    Ok(())
}

/// Says why a handshake failed and what to do.
fn refusal(plan: &Plan, error: &io::Error) -> String {
    let name = plan.https.as_ref().map_or("", |https| https.name.as_str());
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match cause {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => format!(
            "the certificate of {name} is not signed by a known authority: name its authority with `--cacert FILE`, or \
             accept any with `--insecure`"
        ),
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => {
            format!("the certificate is not valid for the name {name}; `--insecure` accepts it all the same")
        }
        Some(Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => format!("the certificate of {name} has expired; `--insecure` accepts it all the same"),
        Some(Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => format!("the certificate of {name} is not valid yet; `--insecure` accepts it all the same"),
        // The library has no variant for this alert.
        Some(Error::InvalidCertificate(CertificateError::Other(other)))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            format!(
                "the certificate of {name} belongs to an authority (CA:TRUE), not to a server; `--insecure` accepts it all the \
                 same"
            )
        }
        Some(Error::AlertReceived(AlertDescription::ProtocolVersion) | Error::PeerIncompatible(_)) => {
            format!("{} speaks neither TLS 1.2 nor TLS 1.3 with what this program offers", plan.target)
        }
        Some(Error::AlertReceived(AlertDescription::CertificateRequired)) => {
            format!(
                "{} wants a certificate of the client: name it with `--cert FILE --key FILE`",
                plan.target
            )
        }
        Some(Error::AlertReceived(AlertDescription::HandshakeFailure)) => format!(
            "{} refused the handshake: it wants a certificate of the client (`--cert FILE --key FILE`), or offers no \
             cipher of this program",
            plan.target
        ),
        Some(Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::CertificateExpired
            | AlertDescription::UnsupportedCertificate,
        )) => format!("{} does not accept the client's certificate: {}", plan.target, reported(cause)),
        Some(Error::InvalidMessage(_)) => {
            format!("{} does not speak TLS; did you mean http:// instead of https://?", plan.target)
        }
        Some(error) => format!("TLS to {}: {error}", plan.target),
        None => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("TLS to {}: no handshake within {} s", plan.target, plan.time_limit)
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => format!(
                "{} ended the connection within the handshake, as a server without TLS may; did you mean http:// instead \
                 of https://?",
                plan.target
            ),
            _ => format!("TLS to {}: {error}", plan.target),
        },
    }
}
