//! Builds the signature base of a request (RFC 9421, 2.5), which is the signed text.

use tollgate_http::Field;

use crate::Request;

/// The cause for which a component has no value.
type MissingValue = &'static str;

/// Returns the base of these components in their order, followed by the line with the signature's parameters.
///
/// # Errors
/// When a component is repeated, unknown, or absent from the request.
pub(super) fn base(
    request: &Request<'_>,
    covered: &[&str],
    parameters: &str,
) -> Result<Vec<u8>, MissingValue> {
    let mut out = Vec::with_capacity(512);
    for (number, name) in covered.iter().enumerate() {
        if covered[..number].contains(name) {
            return Err("a component is covered twice");
        }
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\": ");
        component(request, name, &mut out)?;
        out.push(b'\n');
    }
    out.extend_from_slice(b"\"@signature-params\": ");
    out.extend_from_slice(parameters.as_bytes());
    Ok(out)
}

/// Appends the value of a component (2.1 and 2.2).
fn component(request: &Request<'_>, name: &str, out: &mut Vec<u8>) -> Result<(), MissingValue> {
    let head = &*request.head;
    // The path as sent: the client did not sign the gateway's normal form.
    let path = Some(head.slice(head.path)).filter(|path| !path.is_empty()).unwrap_or(b"/");
    match name {
        "@method" => out.extend_from_slice(request.method()),
        "@scheme" => out.extend_from_slice(scheme(request)),
        "@authority" => authority(request, out),
        "@path" => out.extend_from_slice(path),
        "@query" => query(request, out),
        "@request-target" => out.extend_from_slice(head.slice(head.target)),
        "@target-uri" => {
            out.extend_from_slice(scheme(request));
            out.extend_from_slice(b"://");
            authority(request, out);
            out.extend_from_slice(path);
            if request.query().is_some() {
                query(request, out);
            }
        }
        name if name.starts_with('@') => return Err("a component is covered that is not known"),
        name if name.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            return Err("the name of a covered field is not in lower case");
        }
        name => {
            // A nominated field ends at the gateway (RFC 9110, 7.6.1), so the upstream would receive less
            // than was signed.
            let named = |field: &&Field| head.head.slice(field.name).eq_ignore_ascii_case(name.as_bytes());
            if head.head.fields().iter().filter(named).any(|field| field.nominated) {
                return Err("`Connection` names a covered field");
            }
            let mut values = head.head.all_by_text(name.as_bytes());
            let first = values.next().ok_or("a covered field is not there")?;
            out.extend_from_slice(first.trim_ascii());
            for value in values {
                out.extend_from_slice(b", ");
                out.extend_from_slice(value.trim_ascii());
            }
        }
    }
    Ok(())
}

fn scheme(request: &Request<'_>) -> &'static [u8] {
    if request.origin.secure { b"https" } else { b"http" }
}

/// Appends the authority in lower case, without the default port of the scheme (2.2.3).
fn authority(request: &Request<'_>, out: &mut Vec<u8>) {
    let authority = request.authority().to_ascii_lowercase();
    let port: &[u8] = if request.origin.secure { b":443" } else { b":80" };
    out.extend_from_slice(authority.strip_suffix(port).unwrap_or(&authority));
}

/// Appends the query with its question mark, which is present even if there is no query (2.2.7).
fn query(request: &Request<'_>, out: &mut Vec<u8>) {
    out.push(b'?');
    out.extend_from_slice(request.query().unwrap_or_default());
}
