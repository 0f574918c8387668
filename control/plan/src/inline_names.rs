//! Names of upstreams that have none in the configuration, because routes list their endpoints directly.
//!
//! Logs, metrics and errors use the name, and state that survives a reload is found by it. So it is short, unique,
//! and independent of the order of the file: `10.0.0.1:8080+2` stands for that endpoint and two others. The
//! endpoints' weights are not part of it, so that a changed weight keeps the series. Only if several upstreams
//! would get the same name, each of them has a hash of its endpoints and weights: `10.0.0.1:8080+2~3fa9c1`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::plan::Upstream;

/// Gives a short name to each of these upstreams. So far their names are the texts of their endpoints, joined by
/// commas.
pub(crate) fn shorten(upstreams: &mut [Arc<Upstream>]) {
    let short: Vec<String> = upstreams.iter().map(|upstream| short_name(&upstream.name)).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in &short {
        *uses.entry(name).or_default() += 1;
    }
    for (upstream, name) in upstreams.iter_mut().zip(&short) {
        let upstream = Arc::make_mut(upstream);
        upstream.name = match uses[name.as_str()] {
            1 => name.clone(),
            _ => format!("{name}~{:06x}", hash(&upstream.name)),
        };
    }
}

fn short_name(endpoints: &str) -> String {
    match endpoints.split_once(',') {
        None => endpoints.to_owned(),
        Some((first, rest)) => {
            let address = first.rsplit_once('*').map_or(first, |(address, _)| address);
            format!("{address}+{}", 1 + rest.matches(',').count())
        }
    }
}

/// Returns 24 bits of the FNV-1a hash, which is the same in every version of the program.
fn hash(text: &str) -> u32 {
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 24 ^ hash) & 0x00ff_ffff
}

#[cfg(test)]
mod tests {
    use crate::compile;

    fn names(routes: &str) -> Vec<String> {
        let text = format!("listen: 127.0.0.1:0\nupstreams: {{u: \"z:1\"}}\nroutes:\n{routes}");
        let config = tollgate_config::from_text("", &text, &|_| None).config.expect("a good config");
        let plan = compile(&config).expect("it compiles").plan;
        plan.upstreams.iter().map(|upstream| upstream.name.clone()).collect()
    }

    #[test]
    fn a_name_is_the_first_endpoint_and_the_number_of_the_others() {
        let routes = "
            - {match: /a, to: ['a:1', 'b:1', 'c:1']}
            - {match: /b, to: 'a:1'}
            - {match: /c, to: ['https://a:1 90%', 'https://b:1 10%']}
            - {match: /d, to: ['a:1', 'b:1', 'c:1']}
            - {match: /e, to: u}";
        let all = names(&routes.replace(" 90%", "").replace(" 10%", ""));
        assert_eq!(all, ["u", "a:1+2", "a:1", "https://a:1+1"]);
    }

    #[test]
    fn upstreams_that_differ_have_different_names_in_any_order() {
        let one = "- {match: /a, to: ['a:1', 'b:1']}";
        let other = "- {match: /b, to: ['a:1', 'c:1']}";
        let mut there = names(&format!("  {one}\n  {other}"));
        let mut back = names(&format!("  {other}\n  {one}"));
        there.sort();
        back.sort();
        assert_eq!(there, back);
        assert!(there[0].starts_with("a:1+1~") && there[1].starts_with("a:1+1~"), "{there:?}");
        assert_ne!(there[0], there[1]);
        assert_eq!(names(&format!("  {one}"))[1], "a:1+1");
    }
}
