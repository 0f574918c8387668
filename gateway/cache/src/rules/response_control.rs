//! The directives of a response (RFC 9111, 5.2.2; RFC 9213).

use super::directives::{Directive, SECONDS_MAX, directives};
use super::structured::{Value, dictionary};

/// The directives of a response. The first targeted field that is valid and has members gives them, or else
/// `Cache-Control`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseControl {
    /// 5.2.2.5.
    pub no_store: bool,
    /// 5.2.2.4, without field names.
    pub no_cache: bool,
    /// 5.2.2.7, without field names.
    pub private: bool,
    /// 5.2.2.9.
    pub public: bool,
    /// 5.2.2.2.
    pub must_revalidate: bool,
    /// 5.2.2.8.
    pub proxy_revalidate: bool,
    /// 5.2.2.3.
    pub must_understand: bool,
    /// RFC 8246: the content does not change during the lifetime.
    pub immutable: bool,
    /// 5.2.2.1, in seconds. A value that is no number counts as 0.
    pub max_age: Option<u32>,
    /// 5.2.2.10, in seconds. A value that is no number counts as 0.
    pub s_maxage: Option<u32>,
    /// RFC 5861, 3, in seconds.
    pub stale_while_revalidate: Option<u32>,
    /// RFC 5861, 4, in seconds.
    pub stale_if_error: Option<u32>,
    /// The fields that `no-cache` or `private` name. They must not be in a stored response.
    pub withheld_fields: Vec<Box<[u8]>>,
    /// Whether a targeted field was read, so that `Expires` does not count either.
    pub is_targeted: bool,
}

impl ResponseControl {
    /// Reads the lines of `Cache-Control`.
    #[must_use]
    pub fn of_cache_control<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut control = Self::default();
        lines.flat_map(directives).for_each(|directive| control.apply(&directive));
        control
    }

    /// Reads the lines of a targeted field. `None`: it is invalid or empty, so the next one decides (RFC 9213, 2.2).
    #[must_use]
    pub fn of_targeted(lines: &[&[u8]]) -> Option<Self> {
        let text = lines.join(&b", "[..]);
        let members = dictionary(&text).filter(|members| !members.is_empty())?;
        let mut control = Self { is_targeted: true, ..Self::default() };
        for member in members {
            let digits;
            let value = match member.value {
                Value::Boolean(true) => None,
                Value::Integer(number) => {
                    digits = number.to_string();
                    Some(digits.as_bytes().into())
                }
                // The fields that these directives name.
                Value::Text(names) if matches!(member.key, b"private" | b"no-cache") => Some(names.into()),
                // RFC 9213, 2.1: a value of another type than the directive has is ignored.
                Value::Boolean(false) | Value::Text(_) | Value::Other => continue,
            };
            control.apply(&Directive { name: member.key, value });
        }
        Some(control)
    }

    /// Adds a directive.
    pub(super) fn apply(&mut self, directive: &Directive<'_>) {
        // RFC 9111, 4.2.1: of several values the first one counts, and an invalid one makes the response stale.
        let first = |old: &mut Option<u32>| *old = old.or(Some(directive.seconds().unwrap_or(0)));
        // A directive with field names restricts these alone.
        let names = || directive.field_names().map(Box::from).collect::<Vec<Box<[u8]>>>();
        match directive.name.len() {
            6 if directive.is("public") => self.public = true,
            7 if directive.is("max-age") => first(&mut self.max_age),
            7 if directive.is("private") => match names() {
                names if names.is_empty() => self.private = true,
                names => self.withheld_fields.extend(names),
            },
            8 if directive.is("s-maxage") => first(&mut self.s_maxage),
            8 if directive.is("no-store") => self.no_store = true,
            8 if directive.is("no-cache") => match names() {
                names if names.is_empty() => self.no_cache = true,
                names => self.withheld_fields.extend(names),
            },
            9 if directive.is("immutable") => self.immutable = true,
            14 if directive.is("stale-if-error") => first(&mut self.stale_if_error),
            15 if directive.is("must-revalidate") => self.must_revalidate = true,
            15 if directive.is("must-understand") => self.must_understand = true,
            16 if directive.is("proxy-revalidate") => self.proxy_revalidate = true,
            22 if directive.is("stale-while-revalidate") => first(&mut self.stale_while_revalidate),
            _ => {}
        }
    }

    /// Whether a directive says how long the response is fresh.
    #[must_use]
    pub const fn has_lifetime(&self) -> bool {
        self.max_age.is_some() || self.s_maxage.is_some()
    }

    /// Whether a shared cache may store the response to a request with credentials (RFC 9111, 3.5).
    #[must_use]
    pub const fn allows_credentials(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }

    /// The lifetime that it gives a shared cache, in seconds (RFC 9111, 4.2.1).
    #[must_use]
    pub fn lifetime(&self) -> Option<u32> {
        self.s_maxage.or(self.max_age).map(|seconds| seconds.min(SECONDS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> ResponseControl {
        ResponseControl::of_cache_control(lines.iter().map(|line| line.as_bytes()))
    }

    fn none() -> ResponseControl {
        ResponseControl::default()
    }

    #[test]
    fn directives_of_rfc_9111_5_2_2() {
        let fields = |names: &[&str]| names.iter().map(|name| Box::from(name.as_bytes())).collect();
        for (lines, expected) in [
            (&[][..], none()),
            (
                &["max-age=60, s-maxage=30"],
                ResponseControl { max_age: Some(60), s_maxage: Some(30), ..none() },
            ),
            (&["MAX-AGE=60", "max-age=30"], ResponseControl { max_age: Some(60), ..none() }),
            (&["max-age=60s"], ResponseControl { max_age: Some(0), ..none() }),
            (&["max-age"], ResponseControl { max_age: Some(0), ..none() }),
            (&["max-age=4294967296"], ResponseControl { max_age: Some(SECONDS_MAX), ..none() }),
            (
                &["no-store", "no-cache,private"],
                ResponseControl { no_store: true, no_cache: true, private: true, ..none() },
            ),
            (
                &["private=\"x-a, X-B\""],
                ResponseControl { withheld_fields: fields(&["x-a", "X-B"]), ..none() },
            ),
            (
                &["no-cache=\"set-cookie\""],
                ResponseControl { withheld_fields: fields(&["set-cookie"]), ..none() },
            ),
            (
                &["no-cache=set-cookie"],
                ResponseControl { withheld_fields: fields(&["set-cookie"]), ..none() },
            ),
            (&["no-cache=\"\""], ResponseControl { no_cache: true, ..none() }),
            (
                &["no-cache=\"x\", no-cache"],
                ResponseControl { no_cache: true, withheld_fields: fields(&["x"]), ..none() },
            ),
            (
                &["public, must-revalidate, proxy-revalidate, must-understand, immutable"],
                ResponseControl {
                    public: true,
                    must_revalidate: true,
                    proxy_revalidate: true,
                    must_understand: true,
                    immutable: true,
                    ..none()
                },
            ),
            (
                &["stale-while-revalidate=1, stale-if-error=2"],
                ResponseControl { stale_while_revalidate: Some(1), stale_if_error: Some(2), ..none() },
            ),
        ] {
            assert_eq!(read(lines), expected, "{lines:?}");
        }
        assert_eq!(read(&["max-age=9, s-maxage=3"]).lifetime(), Some(3));
    }

    #[test]
    fn targeted_fields_of_rfc_9213() {
        let targeted = || ResponseControl { is_targeted: true, ..none() };
        let fields = |names: &[&str]| names.iter().map(|name| Box::from(name.as_bytes())).collect();
        for (lines, expected) in [
            (&["max-age=60"][..], Some(ResponseControl { max_age: Some(60), ..targeted() })),
            (
                &["max-age=60", "no-store"],
                Some(ResponseControl { max_age: Some(60), no_store: true, ..targeted() }),
            ),
            // Structured Fields: the last one counts.
            (&["max-age=60, max-age=30"], Some(ResponseControl { max_age: Some(30), ..targeted() })),
            (&["max-age=-1"], Some(ResponseControl { max_age: Some(0), ..targeted() })),
            (&["max-age=\"60\", no-store=?0"], Some(targeted())),
            (
                &["max-age=1;x, private"],
                Some(ResponseControl { max_age: Some(1), private: true, ..targeted() }),
            ),
            (
                &["private=\"X-A, x-b\", no-cache=x-c"],
                Some(ResponseControl { withheld_fields: fields(&["X-A", "x-b", "x-c"]), ..targeted() }),
            ),
            (
                &["max-age=1, private=?0, no-cache=1.5"],
                Some(ResponseControl { max_age: Some(1), ..targeted() }),
            ),
            (&[""], None),
            (&["max-age=60,"], None),
            (&["Max-Age=60"], None),
            (&["max-age=60, &"], None),
        ] {
            let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
            assert_eq!(ResponseControl::of_targeted(&lines), expected, "{lines:?}");
        }
    }
}
