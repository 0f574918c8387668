//! A line-by-line difference of two texts.

/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 2;

/// Returns the lines of both texts, removed ones with `-` and added ones with `+`. Long unchanged stretches
/// are left out. It builds a table with an entry for each pair of lines, which is small for single resources.
pub fn line_diff(before: &str, after: &str) -> String {
    let (a, b): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let lines = merge_lines(&a, &b);
    let mut out = String::new();
    let mut skipped = false;
    for (index, (sign, line)) in lines.iter().enumerate() {
        let from = index.saturating_sub(CONTEXT);
        let near = &lines[from..lines.len().min(index + CONTEXT + 1)];
        if near.iter().all(|(sign, _)| *sign == ' ') {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            out.push_str("    ...\n");
        }
        out.push_str(&format!("  {sign} {line}\n"));
    }
    out
}

/// Merges both by their longest common subsequence.
fn merge_lines<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<(char, &'a str)> {
    // Entry `[i][j]` is the length of the longest common subsequence of `a[i..]` and `b[j..]`.
    let mut common = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = match a[i] == b[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            out.push((' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < a.len() && (j == b.len() || common[i + 1][j] >= common[i][j + 1]) {
            out.push(('-', a[i]));
            i += 1;
        } else {
            out.push(('+', b[j]));
            j += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_left_out() {
        let before = "a\nb\nc\nd\ne\nf\ng\n";
        let after = "a\nb\nc\nd\nE\nf\ng\nh\n";
        assert_eq!(line_diff(before, after), "    ...\n    c\n    d\n  - e\n  + E\n    f\n    g\n  + h\n");
        assert_eq!(line_diff(before, before), "");
        assert_eq!(line_diff("", "x\n"), "  + x\n");
        assert_eq!(line_diff("x\n", ""), "  - x\n");
    }
}
