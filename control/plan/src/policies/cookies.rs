//! Compiles `cookies`. Attributes that are not mentioned stay as the endpoint sends them.

use tollgate_config as config;
use tollgate_policy::CookieRules;

pub(super) fn cookies(cookies: &config::Cookies) -> CookieRules {
    let config::Cookies { names, remove, secure, http_only, same_site, domain, path } = cookies;
    let flags = [("Secure", *secure), ("HttpOnly", *http_only)];
    let attributes = [("SameSite", same_site), ("Domain", domain), ("Path", path)];
    CookieRules {
        names: names.clone(),
        remove: remove.clone(),
        flags: flags.into_iter().filter_map(|(name, on)| Some((name, on?))).collect(),
        attributes: attributes.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect(),
    }
}
