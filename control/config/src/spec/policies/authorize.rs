//! The keys of `authorize`.

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text};

static WORD: Text = Text { expected: "a name", pattern: Some("."), loose: true };
static METHOD: Text = Text { expected: "a method such as `GET`", pattern: Some("^[!-~]+$"), loose: false };
static WORD_SHAPE: Shape = Shape::Text(&WORD);
static METHOD_SHAPE: Shape = Shape::Text(&METHOD);
static CLAIM_SHAPE: Shape = Shape::OneOrMany(&WORD_SHAPE);
static RULE_SHAPE: Shape = Shape::Section(&AUTHORIZE_RULE);

pub(crate) static AUTHORIZE_POLICY: SectionSpec = SectionSpec {
    name: "authorize_policy",
    noun: "`authorize`",
    doc: "Restricts which authenticated consumers may proceed.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "allow",
            "Consumers that are admitted: they match one of the rules. Default: every authenticated \
            consumer.",
            Shape::OneOrMany(&RULE_SHAPE),
        ),
        KeySpec::new(
            "deny",
            "Consumers that are rejected even if `allow` admits them: they match one of the rules.",
            Shape::OneOrMany(&RULE_SHAPE),
        ),
    ],
};

pub(crate) static AUTHORIZE_RULE: SectionSpec = SectionSpec {
    name: "authorize_rule",
    noun: "a rule",
    doc: "A rule. A consumer matches it if every condition holds.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("consumers", "The consumer is one of these.", Shape::OneOrMany(&WORD_SHAPE))
            .aliases(&["consumer", "users", "user"]),
        KeySpec::new("groups", "The consumer is in one of these groups.", Shape::OneOrMany(&WORD_SHAPE))
            .aliases(&["group", "roles", "role"]),
        KeySpec::new(
            "claims",
            "Claims of its token, each with its accepted values. `a.b` is `b` in `a`.",
            Shape::MapOf(&CLAIM_SHAPE),
        )
        .aliases(&["claim"]),
        KeySpec::new("methods", "The request has one of these methods.", Shape::OneOrMany(&METHOD_SHAPE))
            .aliases(&["method"]),
    ],
};
