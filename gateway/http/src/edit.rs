//! Edits a request's head in place. Translations and policies use it; other requests never do.

use crate::chars::is_value;
use crate::{Field, FieldLine, Name, Range, RequestHead, is_field};

impl RequestHead {
    /// Replaces the value of the first field with this name, in any case. Returns whether the field exists.
    pub fn set_value(&mut self, name: &[u8], value: &[u8]) -> bool {
        let Some(field) = self.head.position(name) else { return false };
        let Field { value: old, .. } = self.head.fields[field];
        self.replace(old, value);
        self.head.fields[field].value = Range { start: old.start, end: old.start + value.len() as u32 };
        true
    }

    /// Changes the host that the request is for. Returns false if the request has no `Host`, or the new one
    /// is no valid value.
    pub fn set_host(&mut self, host: &[u8]) -> bool {
        if !is_value(host) || !self.set_value(b"host", host) {
            return false;
        }
        if let Some(at) = self.head.position(b"host") {
            self.authority = self.head.fields[at].value;
            self.host = self.authority;
        }
        true
    }

    /// Removes the first field with this name, in any case.
    pub fn remove(&mut self, name: &[u8]) {
        if let Some(at) = self.head.position(name) {
            let field = self.head.fields.remove(at);
            self.replace(Range { start: field.name.start, end: field.line_end }, b"");
            self.head.rebuild_index();
        }
    }

    /// Removes every field with this name, in any case.
    pub fn remove_all(&mut self, name: &[u8]) {
        while self.head.position(name).is_some() {
            self.remove(name);
        }
    }

    /// Removes every field whose name `gone` accepts. A head without such a field costs one look at
    /// each name.
    pub fn remove_where(&mut self, gone: impl Fn(&[u8]) -> bool) {
        while let Some(at) = self.head.fields.iter().position(|field| gone(self.head.slice(field.name))) {
            let field = self.head.fields.remove(at);
            self.replace(Range { start: field.name.start, end: field.line_end }, b"");
            self.head.rebuild_index();
        }
    }

    /// Removes every field for which `keep` returns false, in one pass over the head.
    pub fn retain(&mut self, keep: impl Fn(Name, &[u8]) -> bool) {
        let head = &mut self.head;
        let mut parts = [self.authority, self.host, self.upgrade.unwrap_or_default()];
        let (mut gone, mut end) = (0, head.fields_start);
        let fields = std::mem::take(&mut head.fields);
        for field in fields {
            let (start, line_end) = (field.name.start, field.line_end);
            end = line_end;
            if !keep(field.id, head.slice(field.name)) {
                gone += line_end - start;
                continue;
            }
            head.bytes.copy_within(start as usize..line_end as usize, (start - gone) as usize);
            let back = |range: Range| Range { start: range.start - gone, end: range.end - gone };
            for part in &mut parts {
                if start <= part.start && part.end <= line_end && !part.is_empty() {
                    *part = back(*part);
                }
            }
            let (name, value) = (back(field.name), back(field.value));
            head.fields.push(Field { name, value, line_end: line_end - gone, ..field });
        }
        let length = head.bytes.len();
        head.bytes.copy_within(end as usize..length, (end - gone) as usize);
        head.bytes.truncate(length - gone as usize);
        head.rebuild_index();
        (self.authority, self.host) = (parts[0], parts[1]);
        self.upgrade = self.upgrade.map(|_| parts[2]);
    }

    /// Appends a field, which the client's `Connection` cannot nominate. Returns false for an invalid name,
    /// or a value that would end the line.
    pub fn append(&mut self, name: &[u8], value: &[u8]) -> bool {
        let value = value.trim_ascii();
        is_field(name, value) && self.push_line(&[name, b": ", value, b"\r\n"], name.len(), Name::of(name))
    }

    /// The same with a prepared line.
    pub fn append_line(&mut self, line: &FieldLine) -> bool {
        self.push_line(&[line.bytes()], line.name().len(), line.id())
    }

    /// Appends a line in pieces; its name has `name` bytes.
    #[inline(always)]
    fn push_line(&mut self, line: &[&[u8]], name: usize, id: Name) -> bool {
        let bytes = &mut self.head.bytes;
        if !bytes.ends_with(b"\r\n") {
            return false;
        }
        let start = bytes.len() - 2;
        bytes.truncate(start);
        line.iter().for_each(|piece| bytes.extend_from_slice(piece));
        let end = bytes.len();
        bytes.extend_from_slice(b"\r\n");
        self.head.push(Field {
            id,
            nominated: false,
            name: Range::new(start, start + name),
            value: Range::new(start + name + 2, end - 2),
            line_end: end as u32,
        });
        true
    }

    /// Replaces the target's query; `None` removes it. Does nothing if the query is invalid, or if the target
    /// has neither a path nor a query.
    pub fn set_query(&mut self, query: Option<&[u8]>) {
        let target_byte = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
        if !query.is_none_or(|query| query.iter().all(target_byte)) {
            return;
        }
        match (self.query, query) {
            (Some(old), Some(new)) => {
                self.replace(old, new);
                self.query = Some(Range { start: old.start, end: old.start + new.len() as u32 });
            }
            (Some(old), None) => {
                self.query = None;
                self.replace(Range { start: old.start - 1, end: old.end }, b"");
            }
            (None, Some(new)) if self.path.start < self.path.end => {
                let path = self.path;
                self.replace(Range { start: path.end, end: path.end }, &[b"?", new].concat());
                self.path = path;
                self.query = Some(Range { start: path.end + 1, end: path.end + 1 + new.len() as u32 });
            }
            (None, _) => {}
        }
    }

    /// Replaces a part of the head, and adjusts the ranges after it.
    fn replace(&mut self, part: Range, bytes: &[u8]) {
        self.head.bytes.splice(part.start as usize..part.end as usize, bytes.iter().copied());
        let (end, grown) = (part.end, bytes.len() as u32);
        let moved = |at: &mut u32| {
            if *at >= end {
                *at = *at - (end - part.start) + grown;
            }
        };
        let both = |range: &mut Range| {
            moved(&mut range.start);
            moved(&mut range.end);
        };
        moved(&mut self.head.fields_start);
        for field in &mut self.head.fields {
            both(&mut field.name);
            both(&mut field.value);
            moved(&mut field.line_end);
        }
        for range in
            [&mut self.method_text, &mut self.target, &mut self.path, &mut self.authority, &mut self.host]
        {
            both(range);
        }
        self.query.iter_mut().chain(&mut self.upgrade).for_each(both);
    }
}

#[cfg(test)]
mod tests {
    use crate::h2::{Pseudo, decode_request};
    use crate::{HeadLimits, Name, RequestHead};

    fn head() -> RequestHead {
        let mut request = RequestHead::default();
        let pseudo = Pseudo {
            method: b"POST",
            authority: Some(b"a.example:80"),
            scheme: Some(b"http"),
            path: Some(b"/s/m?q=1"),
            protocol: None,
        };
        let fields =
            [("content-length", "7"), ("content-type", "text/plain"), ("x-empty", ""), ("x-last", "z")];
        let fields = || fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let limits = HeadLimits { line: 1000, head: 1000, fields: 10 };
        decode_request(&mut request, pseudo, fields, false, &limits).expect("a head");
        request
    }

    /// Everything that the ranges select, as text.
    fn shown(request: &RequestHead) -> (Vec<String>, Vec<String>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = request.head.fields().iter();
        let lines = fields.map(|field| {
            let line = &request.head.bytes()[field.name.start as usize..field.line_end as usize];
            format!("{}|{}|{}", text(request.slice(field.name)), text(request.slice(field.value)), text(line))
        });
        let parts = [
            request.method_text,
            request.path,
            request.authority,
            request.host,
            request.query.expect("a query"),
        ];
        (lines.collect(), parts.iter().map(|part| text(request.slice(*part))).collect())
    }

    #[test]
    fn a_value_is_replaced() {
        for value in ["application/grpc-web-text+proto", "x", ""] {
            let (mut request, before) = (head(), shown(&head()));
            assert!(request.set_value(b"Content-Type", value.as_bytes()));
            let (lines, parts) = shown(&request);
            assert_eq!(parts, before.1);
            assert_eq!(lines[2], format!("content-type|{value}|content-type: {value}\r\n"));
            assert_eq!((&lines[..2], &lines[3..]), (&before.0[..2], &before.0[3..]));
            assert_eq!(request.head.get(Name::ContentType), Some(value.as_bytes()));
            assert!(request.head.bytes().ends_with(b"x-last: z\r\n\r\n"));
        }
        assert!(head().set_value(b"x-empty", b"now"));
        assert!(!head().set_value(b"x-other", b"now"));
    }

    #[test]
    fn a_field_is_taken_out() {
        let (mut request, before) = (head(), shown(&head()));
        request.remove(b"content-length");
        request.remove(b"x-other");
        let (lines, parts) = shown(&request);
        assert_eq!(parts, before.1);
        assert_eq!(lines, [&before.0[..1], &before.0[2..]].concat());
        assert!(!request.head.has(Name::ContentLength) && request.head.has(Name::ContentType));
    }

    #[test]
    fn the_query_changes() {
        let mut request = head();
        let lines = |request: &RequestHead| -> Vec<Vec<u8>> {
            let fields = request.head.fields().iter();
            let parts =
                |field: &crate::Field| [request.slice(field.name), request.slice(field.value)].concat();
            fields.map(parts).collect()
        };
        let before = lines(&request);
        for (query, target, start) in [
            ("long=er&x=1", "/s/m?long=er&x=1", "POST /s/m?long=er&x=1 HTTP/1.1\r\n"),
            ("", "/s/m", "POST /s/m HTTP/1.1\r\n"),
        ] {
            request.set_query(Some(query.as_bytes()).filter(|query| !query.is_empty()));
            assert_eq!(request.slice(request.target), target.as_bytes());
            assert_eq!(request.query.map(|query| request.slice(query)).unwrap_or_default(), query.as_bytes());
            assert_eq!(lines(&request), before);
            let mut out = Vec::new();
            request.head.copy_lines(&mut out, true, |_| false);
            assert!(out.starts_with(start.as_bytes()), "{}", String::from_utf8_lossy(&out));
            assert_eq!(out, start.as_bytes());
        }
        request.set_query(Some(b"a=b"));
        assert_eq!(request.slice(request.target), b"/s/m?a=b", "one comes where there was none");
        assert_eq!(lines(&request), before);
        request.set_query(Some(b"a b"));
        assert_eq!(request.slice(request.target), b"/s/m?a=b", "what would end the target stays away");
    }

    #[test]
    fn many_fields_go_in_one_pass() {
        let text = "GET /a?b HTTP/1.1\r\nX-Client-IP: 1\r\nX-A: 1\r\nX-Forwarded-Prefix: 2\r\nHost: a.example:8\r\nremote-user: r\r\n\
                    Connection: upgrade\r\nUpgrade: b\r\nX-Scheme: 3\r\n\r\n";
        let mut request = RequestHead::default();
        let limits = HeadLimits { line: 1000, head: 1000, fields: 10 };
        let parsed = crate::h1::RequestParser::default().advance(text.as_bytes(), &mut request, &limits);
        assert_eq!(parsed, Ok(crate::h1::Progress::Complete(text.len())));
        request.retain(|id, _| !matches!(id, Name::ProxyClaim | Name::XForwardedOther));
        assert_eq!(
            String::from_utf8_lossy(request.head.bytes()),
            "GET /a?b HTTP/1.1\r\nX-A: 1\r\nHost: a.example:8\r\nConnection: upgrade\r\nUpgrade: b\r\n\r\n"
        );
        let (lines, parts) = shown(&request);
        assert_eq!(lines[0], "X-A|1|X-A: 1\r\n");
        assert_eq!(lines[3], "Upgrade|b|Upgrade: b\r\n");
        assert_eq!(parts, ["GET", "/a", "a.example:8", "a.example", "b"]);
        assert_eq!(request.upgrade.map(|upgrade| request.slice(upgrade)), Some(&b"b"[..]));
        assert!(!request.head.has(Name::ProxyClaim) && request.head.has(Name::Host));
        request.retain(|_, _| false);
        assert_eq!(request.head.bytes(), b"GET /a?b HTTP/1.1\r\n\r\n");
    }

    #[test]
    fn fields_are_taken_out_by_their_names() {
        let mut request = head();
        request.remove_where(|name| name.starts_with(b"x-"));
        assert!(
            request.head.get_by_text(b"x-empty").is_none() && request.head.get_by_text(b"x-last").is_none()
        );
        assert!(request.head.has(Name::ContentType));
    }

    #[test]
    fn a_field_is_added() {
        let (mut request, before) = (head(), shown(&head()));
        assert!(request.append(b"X-New", b" v 1 ") && request.append(b"x-new", b""));
        let (lines, parts) = shown(&request);
        assert_eq!(parts, before.1);
        let new = ["X-New|v 1|X-New: v 1\r\n".to_owned(), "x-new||x-new: \r\n".to_owned()];
        assert_eq!(lines, [&before.0[..], &new].concat());
        assert!(request.head.bytes().ends_with(b"x-new: \r\n\r\n"));
        for (name, value) in [("x", "a\r\nb: c"), ("x", "a\0"), ("x y", "a"), ("", "a"), ("x:", "a")] {
            assert!(!request.append(name.as_bytes(), value.as_bytes()), "{name}: {value}");
        }
        request.remove_all(b"X-NEW");
        assert_eq!(shown(&request), before);
    }

    #[test]
    fn an_empty_value_gets_one() {
        let (mut request, before) = (head(), shown(&head()));
        assert!(request.set_value(b"x-empty", b"now"));
        let (lines, _) = shown(&request);
        assert_eq!(lines[3], "x-empty|now|x-empty: now\r\n");
        assert_eq!(lines[4], before.0[4]);
    }
}
