//! The tools by name. [`Tool`] is the only entry of this crate to a tool; each variant has an [`Adapter`] in
//! `tools`. The macro generates the enum, its names and the mapping to adapters from one table.

use crate::abilities::{Abilities, Refused};
use crate::find::{self, Found, Program, ToolPaths};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::Request;
use crate::tools;
use std::fmt;
use tollgate_lab_record::LoadResult;

/// The adapter of a tool.
pub(crate) trait Adapter: Sync {
    /// Returns the tool's abilities.
    fn abilities(&self) -> Abilities;
    /// Returns the arguments with which it prints its version; none if it cannot.
    fn version_args(&self) -> &'static [&'static str] {
        &["--version"]
    }
    /// Returns the starts of the lines that the tool prints when its measurement begins and when it ends;
    /// `None` if it prints none. A tool with such lines warms up within its run ([`Request::warm_up`]).
    fn phases(&self) -> Option<(&'static str, &'static str)> {
        None
    }
    /// Returns the command line of a request that the abilities permit.
    fn command(&self, request: &Request) -> Result<Invocation, Refused>;
    /// Parses the tool's output.
    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood>;
}

macro_rules! tools {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// A load tool.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Tool {
            $(#[doc = $doc] $variant,)*
        }

        impl Tool {
            /// All tools.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name in studies, results and command lines.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            fn adapter(self) -> &'static dyn Adapter {
                match self { $(Self::$variant => &tools::$variant),* }
            }
        }
    };
}

tools! {
    Wrk "wrk" "wrk: closed loop, event loops in threads.",
    Wrk2 "wrk2" "wrk2: wrk with a constant rate and corrected times.",
    Ab "ab" "ApacheBench: closed loop, HTTP/1.0, one thread.",
    Siege "siege" "siege: closed loop, a thread a connection, times in steps of 10 ms.",
    H2load "h2load" "h2load over HTTP/1.1 and HTTP/2: closed loop, or a limit a connection.",
    Hey "hey" "hey: closed loop, or a limit a connection; times in steps of 0.1 ms.",
    Vegeta "vegeta" "vegeta: open loop; or a closed one with all its workers busy.",
    Oha "oha" "oha: closed loop, or a constant rate with corrected times.",
    Fortio "fortio" "fortio: closed loop, or a rate shared over its connections.",
    Bombardier "bombardier" "bombardier: closed loop, or a limit over all connections.",
    K6 "k6" "k6: scripted; closed loop, or a constant arrival rate.",
    Gatling "gatling" "Gatling: scripted on the JVM; closed loop, or a constant arrival rate.",
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Tool {
    /// Returns the tool with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tool| tool.name() == name)
    }

    /// Returns its abilities.
    pub fn abilities(self) -> Abilities {
        self.adapter().abilities()
    }

    /// Returns the starts of the lines that it prints when its measurement begins and when it ends. `None` if
    /// it prints none; it then cannot warm up within its run.
    pub fn phases(self) -> Option<(&'static str, &'static str)> {
        self.adapter().phases()
    }

    /// Finds the tool, or returns how to get it. Runs the program to read its version.
    pub fn find(self, paths: &ToolPaths) -> Found {
        let name = self.name();
        match find::find(paths, name) {
            Some(path) => {
                let version = find::version(paths, &path, name, self.adapter().version_args());
                Found::Here(Program { path, version })
            }
            None => Found::Missing { how_to_get: self.how_to_get() },
        }
    }

    fn how_to_get(self) -> String {
        match self.install_script() {
            Some(script) => format!("run {script}, or put {self} on the PATH"),
            None => {
                "no package has wrk2: build it from its source and put it on the PATH under the name wrk2; \
                     the built-in generator's constant rate takes its place"
                    .into()
            }
        }
    }

    /// Returns the path of its install script, relative to the project's root; `None` if no package contains
    /// the tool.
    pub fn install_script(self) -> Option<String> {
        (self != Self::Wrk2).then(|| format!("bench/tools/install/{self}.sh"))
    }

    /// Returns the command line for a request.
    ///
    /// # Errors
    /// If the tool cannot do what the request asks for.
    pub fn command(self, request: &Request) -> Result<Invocation, Refused> {
        self.abilities().check(self.name(), request)?;
        self.adapter().command(request)
    }

    /// Parses the tool's output for that request.
    ///
    /// # Errors
    /// If the output is not as expected.
    pub fn parse(self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        self.adapter().parse(request, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    #[test]
    fn names_lead_back_to_their_tool() {
        for tool in Tool::ALL.iter().copied() {
            assert_eq!(Tool::from_name(tool.name()), Some(tool));
        }
        assert_eq!(Tool::from_name("Wrk"), None);
    }

    #[test]
    fn what_is_missing_says_how_to_get_it_and_the_script_is_there() {
        let nowhere = ToolPaths { home: PathBuf::from("/nowhere"), path: Vec::new() };
        for tool in Tool::ALL.iter().copied() {
            let Found::Missing { how_to_get } = tool.find(&nowhere) else {
                panic!("{tool} was found nowhere")
            };
            match tool.install_script() {
                Some(script) => {
                    assert!(how_to_get.contains(&script), "{how_to_get}");
                    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&script);
                    assert!(find::is_runnable(&file), "{script} does not run");
                }
                None => assert_eq!(tool, Tool::Wrk2),
            }
        }
    }
}
