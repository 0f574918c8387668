//! The `Content-Type` of a file, from the end of its name.

/// Returns the `Content-Type` of a file. Texts are declared as UTF-8, as nearly all are.
pub(crate) fn media_type(path: &[u8]) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let extension = name.iter().rposition(|byte| *byte == b'.').map(|dot| &name[dot + 1..]);
    let known = extension.and_then(|extension| std::str::from_utf8(extension).ok());
    let known = known.and_then(|extension| mime_guess::from_ext(extension).first_raw());
    match known {
        // RFC 9239, 6.
        Some("application/javascript") => "text/javascript; charset=utf-8".to_owned(),
        Some(text) if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        Some(other) => other.to_owned(),
        None => "application/octet-stream".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::media_type;

    #[test]
    fn types_of_a_web_site() {
        for (path, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.CSS", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("data.json", "application/json"),
            ("a.svg", "image/svg+xml"),
            ("a.woff2", "font/woff2"),
            ("a.wasm", "application/wasm"),
            ("a.webp", "image/webp"),
            ("a.avif", "image/avif"),
            ("x.tar.gz", "application/gzip"),
            ("README", "application/octet-stream"),
            ("a.b/README", "application/octet-stream"),
            ("x.unknown-type", "application/octet-stream"),
        ] {
            assert_eq!(media_type(path.as_bytes()), expected, "{path}");
        }
    }
}
