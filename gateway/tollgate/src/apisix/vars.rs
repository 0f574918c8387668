//! Converts `vars`, the conditions of a route, to conditions of the router.

use serde_json::{Map, Value, json};

/// The most alternatives to which the conditions of an object may expand.
const CONDITIONS_MAX: usize = 64;

/// Conditions that a request must meet, all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VarCondition {
    pub methods: Option<Vec<String>>,
    /// A path match that replaces the object's own.
    pub path: Option<Value>,
    pub host: Option<String>,
    pub headers: Map<String, Value>,
    pub query: Map<String, Value>,
}

/// Returns the alternatives of a list of conditions. A request must meet one of them.
///
/// # Errors
/// Names a condition that has no counterpart here.
pub fn conditions(vars: &Value, place: &str) -> Result<Vec<VarCondition>, String> {
    let Some(items) = vars.as_array() else { return Err(format!("`{place}` must be a list")) };
    let (any, items) = match items.first().and_then(Value::as_str) {
        Some("OR") => (true, &items[1..]),
        Some("AND") => (false, &items[1..]),
        Some("!OR" | "!AND") => return Err(format!("`{place}`: `!OR` and `!AND` have no counterpart here")),
        _ => (false, items.as_slice()),
    };
    let mut all: Vec<VarCondition> = if any { Vec::new() } else { vec![VarCondition::default()] };
    for (index, item) in items.iter().enumerate() {
        let place = format!("{place}/{index}");
        let nested = item.as_array().and_then(|item| item.first()).and_then(Value::as_str);
        let own = match nested {
            Some("OR" | "AND" | "!OR" | "!AND") => conditions(item, &place)?,
            _ => parse_condition(item, &place)?,
        };
        if any {
            all.extend(own);
        } else {
            let mut both = Vec::new();
            for before in &all {
                for own in &own {
                    both.push(combine(before, own, &place)?);
                }
            }
            all = both;
        }
        if all.len() > CONDITIONS_MAX {
            return Err(format!("`{place}`: these conditions have more than {CONDITIONS_MAX} alternatives"));
        }
    }
    Ok(all)
}

/// Combines two conditions that a request must both meet.
///
/// # Errors
/// Both test the same thing, in a way that the router cannot combine.
pub fn combine(one: &VarCondition, other: &VarCondition, place: &str) -> Result<VarCondition, String> {
    let twice = |what: &str| Err(format!("`{place}`: a second condition on {what} has no counterpart here"));
    let mut out = one.clone();
    for (into, from, what) in
        [(&mut out.headers, &other.headers, "a header"), (&mut out.query, &other.query, "a parameter")]
    {
        for (name, value) in from {
            if into.insert(name.clone(), value.clone()).is_some_and(|before| before != *value) {
                return twice(what);
            }
        }
    }
    if let Some(methods) = &other.methods {
        out.methods = Some(match out.methods {
            None => methods.clone(),
            Some(before) => before.into_iter().filter(|method| methods.contains(method)).collect(),
        });
    }
    if other.path.is_some() && out.path.is_some() {
        return twice("the path");
    }
    if other.host.is_some() && out.host.is_some() {
        return twice("the host");
    }
    out.path = out.path.or_else(|| other.path.clone());
    out.host = out.host.or_else(|| other.host.clone());
    Ok(out)
}

/// Returns the alternatives of one condition.
fn parse_condition(item: &Value, place: &str) -> Result<Vec<VarCondition>, String> {
    let Some([variable, operator, value]) = item.as_array().map(Vec::as_slice) else {
        return Err(match item.as_array().and_then(|item| item.get(1)).and_then(Value::as_str) {
            Some("!") => format!("`{place}`: `!` has no counterpart here, but for `~=`"),
            _ => format!("`{place}` must be a list of a variable, an operator and a value"),
        });
    };
    let (Some(variable), Some(operator)) = (variable.as_str(), operator.as_str()) else {
        return Err(format!("`{place}` must be a list of a variable, an operator and a value"));
    };
    let test = VarTest::of(operator, value, place)?;
    let named = |prefix: &str| variable.strip_prefix(prefix).filter(|name| !name.is_empty());
    let is = |condition: VarCondition| Ok(vec![condition]);
    match variable {
        "request_method" => match test {
            VarTest::Is(methods) => is(VarCondition { methods: Some(methods), ..VarCondition::default() }),
            _ => Err(format!("`{place}`: `request_method` is compared by `==` and `in` here")),
        },
        "uri" => match test {
            VarTest::Is(paths) => Ok(paths
                .into_iter()
                .map(|path| VarCondition { path: Some(json!({ "exact": path })), ..VarCondition::default() })
                .collect()),
            VarTest::Found(regex) => {
                is(VarCondition { path: Some(json!({ "regex": regex })), ..VarCondition::default() })
            }
            VarTest::IsNot(_) => Err(format!("`{place}`: `uri` is compared by `==`, `in` and `~~` here")),
        },
        "host" | "http_host" => match test {
            VarTest::Is(hosts) => Ok(hosts
                .into_iter()
                .map(|host| VarCondition { host: Some(host), ..VarCondition::default() })
                .collect()),
            _ => Err(format!("`{place}`: `host` is compared by `==` and `in` here")),
        },
        _ => {
            if let Some(name) = named("arg_") {
                return Ok(test
                    .values()
                    .into_iter()
                    .map(|value| field_condition(name, value, true))
                    .collect());
            }
            if let Some(name) = named("http_") {
                let name = name.replace('_', "-");
                return Ok(test
                    .values()
                    .into_iter()
                    .map(|value| field_condition(&name, value, false))
                    .collect());
            }
            if let Some(name) = named("cookie_") {
                let value = match test {
                    VarTest::Is(values) => {
                        values.iter().map(|value| escape_regex(value)).collect::<Vec<_>>().join("|")
                    }
                    _ => return Err(format!("`{place}`: a cookie is compared by `==` and `in` here")),
                };
                let regex = format!("(?:(?s:.*); *)?{}=(?:{value})(?: *;(?s:.*))?", escape_regex(name));
                return is(field_condition("cookie", json!({ "regex": regex }), false));
            }
            Err(format!(
                "`{place}`: the variable `{variable}` has no counterpart here: there are `arg_NAME`, `http_NAME`, `cookie_NAME`, \
                 `request_method`, `uri` and `host`"
            ))
        }
    }
}

fn field_condition(name: &str, value: Value, in_query: bool) -> VarCondition {
    let one = Map::from_iter([(name.to_owned(), value)]);
    match in_query {
        true => VarCondition { query: one, ..VarCondition::default() },
        false => VarCondition { headers: one, ..VarCondition::default() },
    }
}

/// The comparison of a condition.
enum VarTest {
    /// The value equals one of these.
    Is(Vec<String>),
    /// The value differs from this one, or is missing.
    IsNot(String),
    /// The whole value matches this expression.
    Found(String),
}

impl VarTest {
    fn of(operator: &str, value: &Value, place: &str) -> Result<Self, String> {
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(format!("`{place}`: {value} is no text")),
        };
        match operator {
            "==" => Ok(Self::Is(vec![text(value)?])),
            "~=" | "!=" => Ok(Self::IsNot(text(value)?)),
            "~~" => Ok(Self::Found(format!("(?s:.*)(?:{})(?s:.*)", text(value)?))),
            "~*" => Ok(Self::Found(format!("(?s:.*)(?i:{})(?s:.*)", text(value)?))),
            "in" => match value {
                Value::Array(values) if !values.is_empty() => {
                    Ok(Self::Is(values.iter().map(text).collect::<Result<_, _>>()?))
                }
                _ => Err(format!("`{place}`: `in` wants a list")),
            },
            _ => Err(format!(
                "`{place}`: the operator `{operator}` has no counterpart here: write `==`, `~=`, `in`, `~~` or `~*`"
            )),
        }
    }

    /// Returns the alternative conditions on the value. A request must meet one of them.
    fn values(self) -> Vec<Value> {
        match self {
            Self::Is(mut values) if values.len() == 1 => vec![json!({ "exact": values.swap_remove(0) })],
            Self::Is(values) => {
                let all: Vec<_> = values.iter().map(|value| escape_regex(value)).collect();
                vec![json!({ "regex": format!("(?:{})", all.join("|")) })]
            }
            Self::IsNot(value) => {
                vec![json!({ "present": false }), json!({ "regex": regex_for_any_but(&value) })]
            }
            Self::Found(regex) => vec![json!({ "regex": regex })],
        }
    }
}

/// Returns an expression for all texts except this one. The regex engine has no look-ahead, which would be
/// shorter.
fn regex_for_any_but(text: &str) -> String {
    let mut out = String::from("(?s:");
    let mut before = String::new();
    for letter in text.chars() {
        // The text ends here or continues with another character.
        out += &format!("{before}(?:[^{}].*)?|", letter_class(letter));
        before += &escape_regex(&letter.to_string());
    }
    out += &format!("{before}.+)");
    out
}

fn letter_class(letter: char) -> String {
    if letter.is_ascii_alphanumeric() || !letter.is_ascii() {
        letter.to_string()
    } else {
        format!("\\{letter}")
    }
}

/// Returns an expression that matches exactly this text.
pub fn escape_regex(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if letter.is_ascii() && !letter.is_ascii_alphanumeric() && letter != '_' && letter != ' ' {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_map_to_those_of_the_router() {
        let of = |vars: Value| conditions(&vars, "vars");
        let all = of(json!([
            ["arg_a", "==", "1"],
            ["http_x_user", "~~", "^a"],
            ["request_method", "in", ["GET", "PUT"]]
        ]));
        let all = all.expect("good");
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].methods, Some(vec!["GET".to_owned(), "PUT".to_owned()]));
        assert_eq!(all[0].query["a"], json!({"exact": "1"}));
        assert_eq!(all[0].headers["x-user"], json!({"regex": "(?s:.*)(?:^a)(?s:.*)"}));
        let all = of(json!([["arg_a", "~=", "1"], ["arg_b", "==", 2]])).expect("good");
        assert_eq!(all.len(), 2, "not there, or another one");
        assert_eq!(all[0].query["a"], json!({"present": false}));
        assert_eq!(of(json!(["OR", ["arg_a", "==", "1"], ["arg_b", "==", "1"]])).expect("good").len(), 2);
        for (vars, name) in [
            (json!([["remote_addr", "==", "1"]]), "remote_addr"),
            (json!([["arg_a", ">", 1]]), "`>`"),
            (json!([["arg_a", "!", "==", "1"]]), "`!`"),
            (json!([["arg_a", "==", "1"], ["arg_a", "~~", "2"]]), "second"),
            (json!(["!OR", ["arg_a", "==", "1"]]), "`!OR`"),
            (json!({}), "list"),
        ] {
            let error = of(vars).expect_err("refused");
            assert!(error.contains(name) && error.contains("`vars"), "{error}");
        }
    }

    #[test]
    fn any_text_but_one() {
        let regex = regex::Regex::new(&format!("^(?:{})$", regex_for_any_but("a.b"))).expect("an expression");
        for other in ["", "a", "a.", "a.c", "axb", "a.bc", "b", "a.b.b"] {
            assert!(regex.is_match(other), "{other:?}");
        }
        assert!(!regex.is_match("a.b"));
    }
}
