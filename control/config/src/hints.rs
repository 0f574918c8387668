//! Hints about a good configuration, which `check` shows and nothing else.
//!
//! A hint explains a rule that users of other gateways may not expect. It must not trouble users who meant what they
//! wrote, so each rule leaves out the cases that look intended.

use std::collections::HashSet;

use crate::model::{Action, At, Config, ListenAddress, PathMatch, Route};
use crate::problem::Problem;

/// Returns a hint for each route that forwards an exact path in the short form, such as `match: /api`, for which
/// nginx, Traefik and Kong would forward everything below it too.
///
/// There is none for a path that looks intended: with a method or another condition, with a dot in its last segment,
/// written as `{exact: /api}`, or if another route takes a path below it.
#[must_use]
pub fn exact_path_hints(config: &Config) -> Vec<Problem> {
    let taken: HashSet<_> = config.routes.iter().flat_map(taken_below).collect();
    let mut hinted: Option<At> = None;
    let mut hints = Vec::new();
    for route in &config.routes {
        let Some((path, at)) = prefix_like(route) else { continue };
        // A list of matches becomes several routes.
        if hinted == Some(route.at) || taken.contains(&(host(route), path)) {
            continue;
        }
        hinted = Some(route.at);
        let problem = Problem::hint(at, format!("`{path}` matches only this path, and nothing below it"));
        hints.push(problem.help(format!(
            "write `{path}/*` for everything below it too, or `match: {{path: {{exact: {path}}}}}` for only this path"
        )));
    }
    hints
}

/// Returns a hint for each listener that is written as a port alone, since other programs differ in which addresses
/// they mean by it. It is no warning: most gateways accept from everywhere.
#[must_use]
pub fn open_listener_hints(config: &Config) -> Vec<Problem> {
    let open = config.listen.iter().filter_map(|listener| match listener.bind.value {
        ListenAddress::Tcp(address) | ListenAddress::Udp(address) if listener.is_port_alone => {
            Some((listener.bind.at, address.port()))
        }
        _ => None,
    });
    let hint = |(at, port)| {
        let message = format!("`{port}` accepts connections on all addresses of this machine");
        Problem::hint(at, message).help(format!(
            "write `127.0.0.1:{port}` for this machine only, or `\"[::]:{port}\"` if that is intended"
        ))
    };
    open.map(hint).collect()
}

fn host(route: &Route) -> &str {
    route.matches.host.as_ref().map_or("", |host| &host.value)
}

/// Returns the path of a route that may be meant as a prefix.
fn prefix_like(route: &Route) -> Option<(&str, At)> {
    let matches = &route.matches;
    let has_conditions =
        !matches.methods.is_empty() || !matches.headers.is_empty() || !matches.query.is_empty();
    if !matches.is_short_exact || has_conditions || !matches!(route.action, Action::Forward(_)) {
        return None;
    }
    let path = matches.path.as_ref()?;
    let PathMatch::Exact(text) = &path.value else { return None };
    let last = text.rsplit('/').next().unwrap_or_default();
    // A path that ends in `/` has a warning.
    (!last.is_empty() && !last.contains('.')).then_some((text, path.at))
}

/// Returns the host of a route with each path that has paths of the route below it.
fn taken_below(route: &Route) -> Vec<(&str, &str)> {
    let (text, is_prefix) = match route.matches.path.as_ref().map(|path| &path.value) {
        Some(PathMatch::Exact(text)) => (text.as_str(), false),
        Some(PathMatch::Prefix(text)) => (text.as_str(), true),
        Some(PathMatch::Regex(_) | PathMatch::RawPrefix(_) | PathMatch::Suffix(_)) | None => {
            return Vec::new();
        }
    };
    let parents = text.match_indices('/').map(|(slash, _)| &text[..slash]);
    parents.chain(is_prefix.then_some(text)).map(|path| (host(route), path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_text;

    fn hints(routes: &str) -> Vec<String> {
        let loaded = from_text("t", &format!("listen: :80\nroutes:\n{routes}"), &|_| None);
        let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
        exact_path_hints(&config).into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn an_exact_path_that_is_forwarded_is_pointed_out_once() {
        let message = "`/api` matches only this path, and nothing below it";
        assert_eq!(hints("- {match: /api, to: 'a:80'}\n"), [message]);
        assert_eq!(hints("- {match: [a.b/api, c.d/v1], to: 'a:80'}\n"), [message]);
        assert_eq!(hints("- {match: {path: /api}, to: 'a:80'}\n- {match: /*, to: 'b:80'}\n"), [message]);
    }

    #[test]
    fn a_port_alone_is_pointed_out_where_it_is_written() {
        let hints = |listen: &str| -> Vec<_> {
            let text = format!("listen: {listen}\nroutes: []\n");
            let variable = |name: &str| (name == "PORT").then(|| "8080".to_owned());
            let loaded = from_text("t", &text, &variable);
            let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
            open_listener_hints(&config).iter().map(|hint| (hint.at.line, hint.at.column)).collect()
        };
        assert_eq!(hints("8080"), [(1, 9)]);
        assert_eq!(hints("':8080'"), [(1, 9)]);
        assert_eq!(hints("[127.0.0.1:80, {bind: 8443}]"), [(1, 31)]);
        for other in ["127.0.0.1:8080", "'[::]:8080'", "'[2001:db8::1]:80'", "unix:/run/x", "${PORT}"] {
            assert_eq!(hints(other), [], "{other}");
        }
    }

    #[test]
    fn intended_settings_get_no_hint() {
        for routes in [
            "- {match: /api, respond: 200}\n",
            "- {match: /favicon.ico, to: 'a:80'}\n",
            "- {match: {path: {exact: /api}}, to: 'a:80'}\n",
            "- {match: {path: /api, method: GET}, to: 'a:80'}\n",
            "- {match: /api, to: 'a:80'}\n- {match: /api/*, to: 'b:80'}\n",
            "- {match: /api, to: 'a:80'}\n- {match: /api/x.json, to: 'b:80'}\n",
            "- {match: /api/*, to: 'a:80'}\n",
            "- {match: a.example, to: 'a:80'}\n",
        ] {
            assert!(hints(routes).is_empty(), "{routes}");
        }
    }
}
