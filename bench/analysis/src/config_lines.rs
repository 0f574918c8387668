//! Counts how many lines of configuration a system needs. (Study `apisix-envoy` criticises Envoy's.)

use crate::number::NONE;
use crate::outcome::{cells, gateways, title};
use crate::{note, table};
use tollgate_lab_record::{Line, RenderedFile, Results};
use tollgate_lab_study::Study;

/// The last line of a file that was too long to be recorded in full.
const CUT: &str = "... cut here";

pub(crate) fn lines(study: &Study, results: &Results, section: &str) -> Vec<Line> {
    let rows = gateways(study, &cells(results, section))
        .into_iter()
        .map(|name| {
            let title = title(study, results, name);
            let used = results.systems.iter().find(|used| used.name == name);
            match used {
                None => [title, NONE.to_owned(), "the run ended before it was started".to_owned()],
                Some(used) => match &used.missing {
                    Some(missing) => [title, NONE.to_owned(), format!("missing: {}", missing.reason)],
                    None => counted(title, &used.files),
                },
            }
        })
        .collect();
    let head = ["System", "Lines of configuration", "Files"].map(str::to_owned);
    vec![
        table(section, head, rows),
        note(
            section,
            "Lines of configuration are those of the files that each system was last started with in this run, without blank \
             lines and comments. They are listed whole among the systems."
                .to_owned(),
        ),
    ]
}

fn counted(title: String, files: &[RenderedFile]) -> [String; 3] {
    if files.is_empty() {
        return [title, "0".to_owned(), "its command line alone".to_owned()];
    }
    let cut = files.iter().any(|file| file.text.trim_end().ends_with(CUT));
    let each: Vec<(&str, usize)> = files.iter().map(|file| (file.name.as_str(), count(file))).collect();
    let all: usize = each.iter().map(|(_, count)| count).sum();
    let names: Vec<String> = each.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let mut reported = names.join(", ");
    if cut {
        reported.push_str(" (written down in part: there are more)");
    }
    [title, all.to_string(), reported]
}

/// Counts the lines that are neither blank nor comments.
fn count(file: &RenderedFile) -> usize {
    let mut in_comment = false;
    file.text
        .lines()
        .map(str::trim)
        .filter(|line| {
            if *line == CUT {
                return false;
            }
            match file.name.rsplit_once('.').map_or("", |(_, ending)| ending) {
                "xml" => {
                    in_comment |= line.starts_with("<!--");
                    let comment = in_comment;
                    in_comment &= !line.contains("-->");
                    !line.is_empty() && !comment
                }
                "lua" => !line.is_empty() && !line.starts_with("--"),
                "properties" => !line.is_empty() && !line.starts_with(['#', '!']),
                _ => !line.is_empty() && !line.starts_with('#') && !line.starts_with("//"),
            }
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyse, made};
    use tollgate_lab_record::Missing;

    const STUDY: &str = "
title: T
about: A
analyses: [{kind: config-lines, section: One}]
sections: [{title: One, systems: [direct, nginx, kong, hyper], points: [{}]}]
";

    fn file(name: &str, text: &str) -> RenderedFile {
        RenderedFile { name: name.into(), text: text.into() }
    }

    #[test]
    fn comments_are_those_of_the_file_s_own_language() {
        for (name, text, expected) in [
            ("nginx.conf", "# one\n\n  // two\n  listen 80; # three\n}\n", 2),
            ("gateway.lua", "-- find\n# length\nreturn 1\n", 2),
            ("a.properties", "! old\n# new\na=1\n", 1),
            ("logback.xml", "<!-- one -->\n<!-- two\n lines -->\n<a>\n</a>\n", 2),
            ("routes.map", "/a b\n... cut here\n", 1),
            ("empty", "", 0),
        ] {
            assert_eq!(count(&file(name, text)), expected, "{name}");
        }
    }

    #[test]
    fn every_gateway_has_a_row() {
        let systems = ["direct", "nginx", "kong", "hyper", "late"];
        let mut results = made::results(&systems[..4], vec![made::cell("1-1", "One", &[], &systems)]);
        results.systems[1].files =
            vec![file("nginx.conf", "a\nb\n# c\n"), file("routes.map", "x\n... cut here\n")];
        results.systems[2].missing = Some(Missing { reason: "not installed".into(), get: String::new() });
        let tables = made::tables(&analyse(&made::study(STUDY), &results));
        assert_eq!(
            tables[0][1..],
            [
                ["The nginx", "3", "nginx.conf 2, routes.map 1 (written down in part: there are more)"],
                ["The kong", "-", "missing: not installed"],
                ["The hyper", "0", "its command line alone"],
                ["late", "-", "the run ended before it was started"],
            ]
        );
    }
}
