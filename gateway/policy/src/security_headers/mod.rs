//! `security_headers`: adds response fields that enable protections of browsers.
//!
//! The lines are built once per plan. A response gets the missing ones, or all of them with `overwrite`.

mod config;

use std::sync::Arc;

use tollgate_http::{FieldFinder, FieldLine};

use crate::{HeadEdit, Planned, Policy, PolicyStates, Request, Response, Verdict};

pub(crate) use config::SecurityHeaderSettings;

/// Response fields that enable protections of browsers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecurityHeaderRules {
    /// The fields with their values.
    fields: Vec<(&'static str, String)>,
    /// Whether they replace the fields of an upstream; otherwise an upstream's field takes precedence.
    overwrite: bool,
}

impl Planned for SecurityHeaderRules {
    fn kind(&self) -> &'static str {
        "security_headers"
    }

    fn summary(&self) -> String {
        let names: Vec<_> = self.fields.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let lines =
            self.fields.iter().filter_map(|(name, value)| FieldLine::new(name.as_bytes(), value.as_bytes()));
        let lines: Vec<FieldLine> = lines.collect();
        let names = FieldFinder::new(lines.iter().map(FieldLine::name));
        Arc::new(SecurityHeaderLines(Arc::new(SecurityLines { names, lines, overwrite: self.overwrite })))
    }
}

#[derive(Debug)]
struct SecurityHeaderLines(Arc<SecurityLines>);

#[derive(Debug)]
struct SecurityLines {
    /// The names of the lines; at most 64, because [`Response::present_mask`] reports no more.
    names: FieldFinder,
    lines: Vec<FieldLine>,
    overwrite: bool,
}

impl Policy for SecurityHeaderLines {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.skipped(request);
        Verdict::Continue
    }

    fn skipped(&self, request: &mut Request<'_>) {
        request.context.edit(self.0.clone());
    }
}

impl HeadEdit for SecurityLines {
    fn edit(&self, response: &mut Response<'_>) {
        let present = if self.overwrite { 0 } else { response.present_mask(&self.names) };
        if self.overwrite {
            response.remove_all(&self.names);
        }
        let missing = self.lines.iter().enumerate().filter(|(at, _)| present >> at & 1 == 0);
        missing.for_each(|(_, line)| response.push(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sent;
    use crate::{BodyKind, Context};

    #[test]
    fn fields_of_the_upstream_win_unless_overwritten() {
        let head = b"HTTP/1.1 200 OK\r\nx-frame-options: SAMEORIGIN\r\n\r\n";
        for (overwrite, frame) in [(false, "SAMEORIGIN"), (true, "DENY")] {
            let fields =
                vec![("X-Frame-Options", "DENY".to_owned()), ("Referrer-Policy", "no-referrer".to_owned())];
            let mut bytes = head.to_vec();
            let (mut sent, mut context) = (Sent::new(""), Context::default());
            let state = Arc::new(SecurityHeaderRules { fields, overwrite }).activate("k", &Arc::default());
            state.request(&mut sent.request(&mut context));
            context.respond(&mut bytes, BodyKind::Fixed, false);
            let response = Response::new(&mut bytes, BodyKind::Fixed);
            assert_eq!(response.all("X-Frame-Options").collect::<Vec<_>>(), [frame.as_bytes()]);
            assert_eq!(response.get("Referrer-Policy"), Some(&b"no-referrer"[..]));
        }
    }
}
