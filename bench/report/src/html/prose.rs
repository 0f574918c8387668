//! Converts the Markdown of studies and notes to HTML. Links are spelled out and pictures are replaced by
//! their names, since the page refers to nothing external. Raw HTML becomes text.

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

/// Converts a Markdown text to blocks of HTML.
pub(super) fn blocks(markdown: &str) -> Markup {
    let mut targets = Vec::new();
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).filter_map(move |event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Link { dest_url, .. }) => {
            targets.push(dest_url);
            None
        }
        Event::End(TagEnd::Link) => {
            let target = targets.pop().filter(|target| !target.is_empty())?;
            Some(Event::Text(CowStr::from(format!(" ({target})"))))
        }
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        // The page has its own first and second levels.
        Event::Start(Tag::Heading { .. }) => Some(Event::Start(Tag::Paragraph)),
        Event::End(TagEnd::Heading(_)) => Some(Event::End(TagEnd::Paragraph)),
        other => Some(other),
    });
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, events);
    PreEscaped(out)
}

/// Converts one line of plain text in which backticks mark code.
pub(super) fn line(text: &str) -> Markup {
    // With an odd number of backticks, none marks code.
    if text.matches('`').count() % 2 == 1 {
        return html! { (text) };
    }
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_mark_code_on_a_line() {
        assert_eq!(line("thread `a<b` ran").0, "thread <code>a&lt;b</code> ran");
        assert_eq!(line("no").0, "no");
        assert_eq!(line("one ` only").0, "one ` only");
    }

    #[test]
    fn nothing_outside_is_referred_to() {
        let out = blocks("# Title\n\nA [link](https://example.com/x) and ![picture](https://example.com/y.png) <img src=z>").0;
        assert!(out.contains("link (https://example.com/x)"), "{out}");
        assert!(out.contains("picture"), "{out}");
        assert!(!out.contains("<a") && !out.contains("<img") && !out.contains("<h1"), "{out}");
    }

    #[test]
    fn emphasis_and_code_stay() {
        let out = blocks("*a* **b** `c`").0;
        assert_eq!(out.trim(), "<p><em>a</em> <strong>b</strong> <code>c</code></p>");
    }
}
