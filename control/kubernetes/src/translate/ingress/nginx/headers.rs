//! Fields of requests and responses.

use serde_json::{Map, Value, json};

use super::super::super::plain_field;
use super::forms::{is_field_value, is_free_field};
use super::reader::Reader;
use super::wanted::Wanted;
use crate::object::Kind;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    if let Some(prefix) = reader.text("x-forwarded-prefix") {
        // It goes with a rewritten path only.
        if !is_field_value(prefix) {
            reader.invalid("x-forwarded-prefix", format!("{prefix:?} cannot be the value of a field"));
        } else if reader.text("rewrite-target").is_some() {
            let set = json!({ "set": { "X-Forwarded-Prefix": plain_field(prefix) } });
            wanted.set_policy("headers", "request", set);
        }
    }
    match custom_headers(reader) {
        Ok(fields) if fields.is_empty() => {}
        Ok(fields) => wanted.set_policy("headers", "response", json!({ "set": fields })),
        Err(why) => reader.invalid("custom-headers", why),
    }
}

/// Reads the fields of responses from a ConfigMap.
fn custom_headers(reader: &mut Reader<'_>) -> Result<Map<String, Value>, String> {
    let Some(name) = reader.reference("custom-headers", Kind::ConfigMap)? else { return Ok(Map::new()) };
    let map = reader.objects.config_maps.get(&name).and_then(|map| map.spec.as_ref().ok());
    let map = map.ok_or_else(|| format!("there is no ConfigMap {name}"))?;
    let (good, bad): (Vec<_>, Vec<_>) =
        map.data.iter().partition(|(field, value)| is_free_field(field) && is_field_value(value));
    if let Some((field, _)) = bad.first() {
        reader.invalid("custom-headers", format!("the field {field} cannot be set; it is left out"));
    }
    Ok(good.into_iter().map(|(field, value)| (field.clone(), plain_field(value).into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn the_prefix_goes_with_a_rewritten_path() {
        let policies = |annotations: &[(&str, &str)]| read_all(annotations).wanted.policies;
        let both = policies(&[("x-forwarded-prefix", "/{a}"), ("rewrite-target", "/")]);
        assert_eq!(both["headers"]["request"]["set"], json!({"X-Forwarded-Prefix": "/{{a}}"}));
        assert!(policies(&[("x-forwarded-prefix", "/a")]).is_empty());
        assert!(!read_all(&[("custom-headers", "absent")]).findings[0].is_same());
    }
}
