//! What changes in requests and responses.

use serde_json::{Value, json};

use super::super::fields::Fields;
use super::Effect;

/// `proxy-rewrite`: `rewrite`, and fields of the request.
pub fn request(effect: &mut Effect, fields: &mut Fields) -> Result<(), String> {
    if let Some(uri) = fields.text("uri")? {
        if uri.contains('$') {
            return Err(format!("{}: a `$` has no meaning here; write `regex_uri`", fields.place("uri")));
        }
        effect.rewrite.insert("path".to_owned(), json!(uri));
    }
    if let Some(regex) = fields.texts("regex_uri")? {
        let [regex, replace] = regex.as_slice() else {
            return Err(fields.wrong("regex_uri", "an expression and what replaces it, once"));
        };
        // A path that is written wins over an expression.
        if !effect.rewrite.contains_key("path") {
            effect.rewrite.insert("regex".to_owned(), json!(regex));
            effect.rewrite.insert("replace".to_owned(), json!(replace));
        }
    }
    if let Some(host) = fields.text("host")? {
        effect.rewrite.insert("host".to_owned(), json!(host));
    }
    if fields.take("method").is_some() {
        return Err(format!("{}: the method of a request stays what it is here", fields.place("method")));
    }
    fields.only("use_real_request_uri_unsafe", &[json!(false)])?;
    headers(effect, fields, "request")
}

/// `response-rewrite`: fields of the response.
pub fn response(effect: &mut Effect, fields: &mut Fields) -> Result<(), String> {
    for (key, instead) in [
        (
            "status_code",
            "the status of a response stays what it is here; a route with `respond` has one of its own",
        ),
        ("body", "the body of a response stays what it is here; a route with `respond` has one of its own"),
        (
            "filters",
            "the body of a response stays what it is here; a plugin of your own can change it (docs/plugins.md)",
        ),
        ("vars", "what changes does so in every response of the route"),
    ] {
        if fields.take(key).is_some() {
            return Err(format!("{}: {instead}", fields.place(key)));
        }
    }
    fields.only("body_base64", &[json!(false)])?;
    headers(effect, fields, "response")
}

/// `headers`, in both of its forms.
fn headers(effect: &mut Effect, fields: &mut Fields, direction: &str) -> Result<(), String> {
    let Some(value) = fields.take("headers") else { return Ok(()) };
    let mut headers = Fields::of(value, &fields.bare("headers"))?;
    let has_parts = headers.keys().any(|key| matches!(key, "set" | "add" | "remove"));
    if !has_parts {
        for name in headers.keys().map(str::to_owned).collect::<Vec<_>>() {
            let text = headers.value(&name)?;
            match text.as_str() {
                // An empty value takes the field away.
                "" => effect.edit(direction, "remove", &name, Value::Null),
                text => effect.edit(direction, "set", &name, json!(template(text, &headers.place(&name))?)),
            }
        }
        return headers.end();
    }
    for how in ["set", "add"] {
        match headers.take(how) {
            None => {}
            Some(Value::Array(lines)) if how == "add" => {
                for line in lines {
                    let line = line.as_str().and_then(|line| line.split_once(':'));
                    let (name, value) = line.ok_or_else(|| headers.wrong(how, "a list of `name: value`"))?;
                    let value = template(value.trim(), &headers.place(how))?;
                    effect.edit(direction, how, name.trim(), json!(value));
                }
            }
            Some(value) => {
                let mut entries = Fields::of(value, &headers.bare(how))?;
                for name in entries.keys().map(str::to_owned).collect::<Vec<_>>() {
                    let text = entries.value(&name)?;
                    effect.edit(direction, how, &name, json!(template(&text, &entries.place(&name))?));
                }
            }
        }
    }
    for name in headers.texts("remove")?.unwrap_or_default() {
        effect.edit(direction, "remove", &name, Value::Null);
    }
    headers.end()
}

/// A text with variables, as the gateway's templates have them.
fn template(text: &str, place: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&braced(&rest[..at]));
        rest = &rest[at + 1..];
        let (name, after) = match rest.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            Some(both) => both,
            None => rest
                .split_at(rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())),
        };
        rest = after;
        let named = |prefix: &str| name.strip_prefix(prefix).filter(|name| !name.is_empty());
        out += &match name {
            "remote_addr" => "{client}".to_owned(),
            "host" => "{host}".to_owned(),
            "request_method" => "{method}".to_owned(),
            "uri" => "{path}".to_owned(),
            "args" | "query_string" => "{query}".to_owned(),
            "scheme" => "{scheme}".to_owned(),
            "request_id" => "{request_id}".to_owned(),
            "consumer_name" => "{consumer}".to_owned(),
            "route_id" | "route_name" => "{route}".to_owned(),
            _ => match (named("http_"), named("cookie_")) {
                (Some(name), _) => format!("{{header.{}}}", name.replace('_', "-")),
                (_, Some(name)) => format!("{{cookie.{name}}}"),
                _ => return Err(format!("{place}: the variable `${name}` has no counterpart here")),
            },
        };
    }
    Ok(out + &braced(rest))
}

/// A brace itself is written twice.
fn braced(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// `redirect`.
pub fn redirect(effect: &mut Effect, fields: &mut Fields) -> Result<(), String> {
    let https = fields.flag("http_to_https")?.unwrap_or(false);
    let (uri, regex) = (fields.text("uri")?, fields.take("regex_uri"));
    let status = fields.number("ret_code")?;
    fields.only("encode_uri", &[json!(false)])?;
    fields.only("append_query_string", &[json!(false)])?;
    if https {
        return Err(format!(
            "{}: a listener sends plain requests to `https`: `redirect_to_https` of an entry of `listen` in the file",
            fields.place("http_to_https")
        ));
    }
    if regex.is_some() {
        return Err(format!("{}: write a route with `redirect` over /api/v1", fields.place("regex_uri")));
    }
    let uri = uri.ok_or_else(|| fields.wrong("uri", "where to go"))?;
    let status = status.unwrap_or(302);
    // Parts of the request that stay are those that are not named.
    let parts = [("https://$host$request_uri", "https"), ("http://$host$request_uri", "http")];
    let value = match parts
        .iter()
        .find(|(text, _)| *text == uri.replace("${host}", "$host").replace("${request_uri}", "$request_uri"))
    {
        Some((_, scheme)) => json!({ "scheme": scheme, "status": status }),
        None if uri.contains('$') => {
            return Err(format!(
                "{}: variables have no counterpart here, but for `https://$host$request_uri`",
                fields.place("uri")
            ));
        }
        None => json!({ "to": uri, "status": status }),
    };
    match effect.redirect.replace(value) {
        None => Ok(()),
        Some(_) => {
            Err("`plugins/redirect` is there twice, here and in a global rule: write one of them".to_owned())
        }
    }
}

/// `request-id`: the gateway gives every request an id; this puts it into fields.
pub fn request_id(effect: &mut Effect, fields: &mut Fields) -> Result<(), String> {
    let name = fields.text("header_name")?.unwrap_or_else(|| "X-Request-Id".to_owned());
    let responds = fields.flag("include_in_response")?.unwrap_or(true);
    for key in ["algorithm", "range_id", "nanoid"] {
        if fields.take(key).is_some() {
            return Err(format!("{}: the gateway makes ids of its own kind", fields.place(key)));
        }
    }
    if !name.eq_ignore_ascii_case("x-request-id") {
        effect.edit("request", "set", &name, json!("{request_id}"));
    }
    if responds {
        effect.edit("response", "set", &name, json!("{request_id}"));
    }
    Ok(())
}
