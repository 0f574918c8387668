//! Plugins that change requests and responses.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::fields::ObjectFields;
use super::PluginEffect;

/// Converts `proxy-rewrite` to `rewrite` and edits of request fields.
pub fn request(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    if let Some(uri) = fields.text("uri")? {
        if uri.contains('$') {
            return Err(format!(
                "{}: a path cannot contain variables here; write `regex_uri` and refer to its groups",
                fields.place("uri")
            ));
        }
        let (path, query) =
            uri.split_once('?').map_or((uri.as_str(), None), |(path, query)| (path, Some(query)));
        effect.rewrite.insert("path".to_owned(), json!(path));
        for pair in query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let policy = effect.policies.entry("query".to_owned()).or_insert_with(|| json!({ "add": {} }));
            if policy["add"].get(name).is_some() {
                return Err(format!("{}: the parameter `{name}` is set twice", fields.place("uri")));
            }
            policy["add"][name] = json!(escape_braces(value));
        }
    }
    if let Some(regex) = fields.texts("regex_uri")? {
        let [regex, replace] = regex.as_slice() else {
            return Err(fields.wrong(
                "regex_uri",
                "one expression and its replacement; for another pair write another route with that path",
            ));
        };
        // In APISIX, a fixed path takes precedence over an expression.
        if !effect.rewrite.contains_key("path") {
            effect.rewrite.insert("regex".to_owned(), json!(regex));
            effect.rewrite.insert("replace".to_owned(), json!(capture_groups(replace)));
        }
    }
    if let Some(host) = fields.text("host")? {
        effect.rewrite.insert("host".to_owned(), json!(host));
    }
    if fields.take("method").is_some() {
        return Err(format!(
            "{}: the method of a request stays what it is here; a plugin of your own can change what the upstream is asked \
             (docs/plugins.md)",
            fields.place("method")
        ));
    }
    fields.only("use_real_request_uri_unsafe", &[json!(false)])?;
    headers(effect, fields, "request")
}

/// Converts `response-rewrite` to edits of response fields.
pub fn response(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    for (key, instead) in [
        (
            "status_code",
            "this gateway does not change the status of an upstream's response; a route with `respond` sets its own",
        ),
        (
            "body",
            "this gateway does not replace the body of an upstream's response; a route with `respond` sets its own",
        ),
        (
            "filters",
            "this gateway does not edit the body of a response; a plugin of your own can (docs/plugins.md)",
        ),
        ("vars", "changes apply to every response of the route"),
    ] {
        if fields.take(key).is_some() {
            return Err(format!("{}: {instead}", fields.place(key)));
        }
    }
    fields.only("body_base64", &[json!(false)])?;
    headers(effect, fields, "response")
}

/// Converts `headers` in both of its forms.
fn headers(effect: &mut PluginEffect, fields: &mut ObjectFields, direction: &str) -> Result<(), String> {
    let Some(value) = fields.take("headers") else { return Ok(()) };
    let mut headers = ObjectFields::of(value, &fields.bare("headers"))?;
    let has_parts = headers.keys().any(|key| matches!(key, "set" | "add" | "remove"));
    if !has_parts {
        for name in headers.keys().map(str::to_owned).collect::<Vec<_>>() {
            let text = headers.value(&name)?;
            match text.as_str() {
                // An empty value removes the field.
                "" => effect.edit(direction, "remove", &name, Value::Null),
                text => {
                    let place = headers.place(&name);
                    effect.header(direction, "set", &name, &template(text, &place)?, &place)?;
                }
            }
        }
        return headers.end();
    }
    let removed = headers.texts("remove")?.unwrap_or_default();
    // In APISIX, a later removal or `set` overrides what `add` adds.
    let set = headers.peek("set").and_then(Value::as_object).into_iter().flat_map(|set| set.keys());
    let goes: Vec<_> = set.chain(&removed).map(|name| name.to_ascii_lowercase()).collect();
    for how in ["set", "add"] {
        match headers.take(how) {
            None => {}
            Some(Value::Array(lines)) if how == "add" => {
                for line in lines {
                    let line = line.as_str().and_then(|line| line.split_once(':'));
                    let (name, value) = line.ok_or_else(|| headers.wrong(how, "a list of `name: value`"))?;
                    let value = template(value.trim(), &headers.place(how))?;
                    if !goes.contains(&name.trim().to_ascii_lowercase()) {
                        effect.header(direction, how, name.trim(), &value, &headers.place(how))?;
                    }
                }
            }
            Some(value) => {
                let mut entries = ObjectFields::of(value, &headers.bare(how))?;
                for name in entries.keys().map(str::to_owned).collect::<Vec<_>>() {
                    let place = entries.place(&name);
                    // A list of values becomes one field.
                    let texts = match entries.take(&name) {
                        Some(Value::Array(values)) => values,
                        Some(value) => vec![value],
                        None => Vec::new(),
                    };
                    let mut values = Vec::new();
                    for text in texts {
                        values.push(match text {
                            Value::String(text) => template(&text, &place)?,
                            Value::Number(number) => number.to_string(),
                            _ => return Err(format!("{place} must be a text")),
                        });
                    }
                    if values.len() > 1 && name.eq_ignore_ascii_case("set-cookie") {
                        return Err(format!(
                            "{place}: the gateway can set one cookie; let the upstream set further ones"
                        ));
                    }
                    // One field with a list is equivalent to several fields (RFC 9110, section 5.3).
                    let value = values.join(", ");
                    if how == "set" || !goes.contains(&name.to_ascii_lowercase()) {
                        effect.header(direction, how, &name, &value, &place)?;
                    }
                }
            }
        }
    }
    for name in removed {
        effect.edit(direction, "remove", &name, Value::Null);
    }
    headers.end()
}

/// Converts a text with APISIX variables to a template of the gateway.
fn template(text: &str, place: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&escape_braces(&rest[..at]));
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
            _ => match (named("http_"), named("cookie_"), named("arg_")) {
                (Some(name), ..) => format!("{{header.{}}}", name.replace('_', "-")),
                (_, Some(name), _) => format!("{{cookie.{name}}}"),
                (.., Some(name)) => format!("{{query.{name}}}"),
                _ => return Err(format!("{place}: the variable `${name}` has no counterpart here")),
            },
        };
    }
    Ok(out + &escape_braces(rest))
}

/// Escapes braces, which are doubled in templates.
fn escape_braces(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// Converts `redirect` to `redirect` of the route, or to `intercept` if some requests are not redirected.
pub fn redirect(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    let https = fields.flag("http_to_https")?.unwrap_or(false);
    let (uri, regex) = (fields.text("uri")?, fields.texts("regex_uri")?);
    let status = fields.number("ret_code")?.unwrap_or(302);
    if !(200..=599).contains(&status) {
        return Err(fields.wrong("ret_code", "a status from 200 to 599"));
    }
    // The gateway always sends the path percent-encoded, since its normal form is.
    fields.flag("encode_uri")?;
    let keeps = fields.flag("append_query_string")?.unwrap_or(false);
    match (https, uri, regex) {
        (true, None, None) if !keeps => {
            let location = "https://{host}{path}";
            effect.intercept(json!({
                "scheme": "http", "methods": ["GET", "HEAD"], "status": 301, "location": location, "keep_query": true,
            }));
            effect.intercept(
                json!({ "scheme": "http", "status": 308, "location": location, "keep_query": true }),
            );
            Ok(())
        }
        (true, None, None) => Err(format!(
            "{}: `http_to_https` excludes it, because it keeps the query",
            fields.place("append_query_string")
        )),
        (false, Some(uri), None) => redirect_to(effect, &uri, status, keeps, fields),
        (false, None, Some(regex)) => {
            let [path, replace] = regex.as_slice() else {
                return Err(fields.wrong("regex_uri", "an expression and its replacement"));
            };
            let replace = percent_encode(&capture_groups(replace));
            let mut rule = json!({ "path": path, "status": status, "replace": replace });
            if keeps {
                rule["keep_query"] = json!(true);
            }
            effect.intercept(rule);
            Ok(())
        }
        _ => Err(fields.wrong("uri", "the destination: one of `uri`, `regex_uri` and `http_to_https`")),
    }
}

/// Redirects to one location.
fn redirect_to(
    effect: &mut PluginEffect,
    uri: &str,
    status: u64,
    keeps: bool,
    fields: &ObjectFields,
) -> Result<(), String> {
    const STATUSES: [u64; 5] = [301, 302, 303, 307, 308];
    let place = fields.place("uri");
    let plain = uri.replace("${", "$").replace('}', "");
    // `$request_uri` at the end means the path followed by the query.
    let (text, query) = match (plain.strip_suffix("$request_uri"), plain.strip_suffix("$uri$is_args$args")) {
        (Some(begin), _) | (None, Some(begin)) => (format!("{begin}$uri"), true),
        (None, None) => (uri.to_owned(), keeps),
    };
    if !text.contains('$') && STATUSES.contains(&status) && !query {
        // The text contains no `$`, so nothing in it can be taken for a group.
        let value = json!({ "to": percent_encode(&text), "status": status });
        return match effect.redirect.replace(value) {
            None => Ok(()),
            Some(_) => {
                Err("`plugins/redirect` is set twice, here and in a global rule: keep one of them".to_owned())
            }
        };
    }
    let mut rule = json!({ "location": percent_encode(&template(&text, &place)?), "status": status });
    if query {
        rule["keep_query"] = json!(true);
    }
    effect.intercept(rule);
    Ok(())
}

/// Puts braces around the number of each group, because `$1a` would be the group `1a`. Doubles every other
/// `$`.
fn capture_groups(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        let digits = after[1..].bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(before);
        rest = &after[1 + digits..];
        match &after[1..=digits] {
            // The whole match is `$0` in both languages; `${1}` already has braces.
            "" if rest.starts_with('{') => out.push('$'),
            "" => out.push_str("$$"),
            number => {
                out.push_str("${");
                out.push_str(number);
                out.push('}');
            }
        }
    }
    out + rest
}

/// Percent-encodes the bytes that a URL cannot contain.
fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Converts `request-id`. The gateway gives every request an id; this writes it to header fields.
pub fn request_id(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    let name = fields.text("header_name")?.unwrap_or_else(|| "X-Request-Id".to_owned());
    let responds = fields.flag("include_in_response")?.unwrap_or(true);
    for key in ["algorithm", "range_id"] {
        if fields.take(key).is_some() {
            return Err(format!(
                "{}: the gateway makes ids of its own kind: leave it away, or have the client send ids, which the gateway keeps",
                fields.place(key)
            ));
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
