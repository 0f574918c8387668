//! Filters and pages of lists.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::objects::id_text;

/// The query parameters of a request.
pub type QueryArgs = BTreeMap<String, String>;

/// An object with its key and the version that changed it last.
pub type ListedObject = (String, Map<String, Value>, Option<u64>);

/// Returns the objects that match, cut to the requested page, and how many match on all pages.
///
/// # Errors
/// A filter or page parameter is invalid.
pub fn filter_and_page(
    mut items: Vec<ListedObject>,
    args: &QueryArgs,
) -> Result<(Vec<ListedObject>, usize), String> {
    let wanted = args.get("filter").map(|filter| pairs(filter)).unwrap_or_default();
    if let Some((key, _)) =
        wanted.iter().find(|(key, _)| !matches!(key.as_str(), "service_id" | "upstream_id"))
    {
        return Err(format!(
            "`filter`: objects can be filtered by `service_id` and `upstream_id`, not by `{key}`"
        ));
    }
    let text = |key: &str| args.get(key).filter(|text| !text.is_empty());
    let (name, label, uri) = (text("name"), text("label"), text("uri"));
    items.retain(|(_, value, _)| {
        let own = |key: &str| value.get(key).and_then(Value::as_str);
        let uris =
            value.get("uris").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        name.is_none_or(|name| own("name").is_some_and(|own| own.contains(name.as_str())))
            && label.is_none_or(|label| value.get("labels").and_then(|labels| labels.get(label)).is_some())
            && uri.is_none_or(|uri| own("uri").into_iter().chain(uris).any(|own| own.contains(uri.as_str())))
            && wanted.iter().all(|(key, wanted)| value.get(key).and_then(id_text).as_ref() == Some(wanted))
    });
    let total = items.len();
    let number = |key: &str| match args.get(key) {
        None => Ok(None),
        Some(text) => text.parse::<usize>().map(Some).map_err(|_| format!("`{key}` must be a number")),
    };
    let (page, size) = (number("page")?.unwrap_or(1).max(1), number("page_size")?);
    if let Some(size) = size {
        if !(10..=500).contains(&size) {
            return Err("`page_size` must be a number from 10 to 500".to_owned());
        }
        items = items.into_iter().skip((page - 1).saturating_mul(size)).take(size).collect();
    }
    Ok((items, total))
}

/// Splits a filter such as `service_id=1&upstream_id=2`.
fn pairs(filter: &str) -> Vec<(String, String)> {
    let pairs = filter.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_chosen_by_all_that_is_asked_and_paged() {
        let item = |number: u64| {
            let value = json!({
                "name": format!("route-{number}"), "uri": "/a", "uris": [format!("/b/{number}")], "service_id": number % 2,
                "labels": {"team": "x"},
            });
            (number.to_string(), value.as_object().expect("an object").clone(), None)
        };
        let items: Vec<ListedObject> = (0..25).map(item).collect();
        let of = |query: &[(&str, &str)]| {
            let args = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            filter_and_page(items.clone(), &args).map(|(items, total)| (items.len(), total))
        };
        for (query, expected) in [
            (&[][..], (25, 25)),
            (&[("page", "1"), ("page_size", "10")], (10, 25)),
            (&[("page", "3"), ("page_size", "10")], (5, 25)),
            (&[("page", "9"), ("page_size", "10")], (0, 25)),
            (&[("name", "route-1"), ("label", "")], (11, 11)),
            (&[("label", "team"), ("uri", "/b/24")], (1, 1)),
            (&[("label", "other")], (0, 0)),
            (&[("filter", "service_id=1")], (12, 12)),
        ] {
            assert_eq!(of(query), Ok(expected), "{query:?}");
        }
        for query in [("page_size", "5"), ("page", "x"), ("filter", "name=a")] {
            assert!(of(&[query]).is_err(), "{query:?}");
        }
    }
}
