//! The list of a directory as an HTML page.

use std::fmt::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

/// More entries than this are not listed.
const ENTRIES_MAX: usize = 10_000;

struct Entry {
    is_directory: bool,
    name: Vec<u8>,
    length: u64,
    modified: u64,
}

/// Returns the list of a directory, without hidden files: directories first, each group by name. Links are listed
/// with their own dates, not with the dates of their targets.
pub(crate) fn list(directory: &OwnedFd, path: &[u8]) -> Result<String, Errno> {
    let mut entries = Vec::new();
    let mut is_cut = false;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        if entries.len() == ENTRIES_MAX {
            is_cut = true;
            break;
        }
        // The entry may have been removed in the meantime.
        let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink) {
            continue;
        }
        entries.push(Entry {
            is_directory: kind == FileType::Directory,
            name: name.to_bytes().to_vec(),
            length: if kind == FileType::RegularFile { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 },
            modified: u64::try_from(stat.st_mtime).unwrap_or(0),
        });
    }
    entries.sort_by(|a, b| (!a.is_directory, &a.name).cmp(&(!b.is_directory, &b.name)));
    Ok(page(&entries, path, is_cut))
}

fn page(entries: &[Entry], path: &[u8], is_cut: bool) -> String {
    let title = format!("/{}", escape(path));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
         <style>body{{font:1rem system-ui;margin:2rem}}td,th{{padding:.2rem 1rem .2rem 0;text-align:left}}\
         td:nth-child(2),th:nth-child(2){{text-align:right}}</style></head>\n\
         <body><h1>{title}</h1>\n<table><thead><tr><th>Name</th><th>Bytes</th><th>Modified</th></tr></thead><tbody>\n"
    );
    if !path.is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for Entry { is_directory, name, length, modified } in entries {
        let slash = if *is_directory { "/" } else { "" };
        let length = if *is_directory { String::new() } else { length.to_string() };
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{}{slash}\">{}{slash}</a></td><td>{length}</td><td>{}</td></tr>",
            encode(name),
            escape(name),
            date(*modified),
        );
    }
    page.push_str("</tbody></table>\n");
    if is_cut {
        let _ = writeln!(page, "<p>More than {ENTRIES_MAX} entries: the others are not listed.</p>");
    }
    page.push_str("</body></html>\n");
    page
}

/// Returns a time as `2026-11-26 21:04:05`, in UTC.
fn date(seconds: u64) -> String {
    let text = tollgate_http::format_date(seconds);
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts: Vec<&str> = text.split(' ').collect();
    match parts.as_slice() {
        [_, day, month, year, time, _] => {
            let month = MONTHS.iter().position(|name| name == month).unwrap_or(0) + 1;
            format!("{year}-{month:02}-{day} {time}")
        }
        _ => text,
    }
}

/// Encodes a name for a path.
fn encode(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(*byte));
            }
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Escapes a text for HTML.
fn escape(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for char in String::from_utf8_lossy(text).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let name = b"<b>\"x' &%/\xff".to_vec();
        let entry = Entry { is_directory: false, name, length: 7, modified: 784_111_777 };
        let page = page(&[entry], b"<i>/", false);
        assert!(page.contains("<title>/&lt;i&gt;/</title>"), "{page}");
        assert!(
            page.contains(
                "<a href=\"./%3Cb%3E%22x%27%20%26%25%2F%FF\">&lt;b&gt;&quot;x&#39; &amp;%/\u{fffd}</a></td><td>7</td>\
                 <td>1994-11-06 08:49:37</td>"
            ),
            "{page}"
        );
    }
}
