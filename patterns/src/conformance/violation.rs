//! [`Rule`] and [`Violation`]: the broken rule, and the position in a scenario.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use loopwright_core::testing::CheckError;

/// A rule of the contract of behaviour patterns. `Display` writes its name, which is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// `sessions`: a session ends without any error that no model caused, its log and its
    /// conversation keep the rules of every session, and no malformed request is sent.
    Sessions,
    /// `events`: events nest and are numbered without gaps, both live and read from the log.
    Events,
    /// `calls`: a run with pending calls ends with `awaiting_action`. Each call of a reply runs, or
    /// gets the decision that was made. The model sees the results, unless all of them ask for the
    /// end of the run.
    Calls,
    /// `messages`: a steer of each urgency and a follow-up are answered once before the end of the
    /// run, regardless of their time of arrival.
    Messages,
    /// `crashes`: after a crash after any append, a new value of the pattern continues with the
    /// same result: conversation, outcome, custom events and state. It makes no request that the
    /// session without a crash did not make, and no second side effect.
    Crashes,
    /// `aborts`: after an abort at any append, the next request runs as if it were alone.
    Aborts,
    /// `model-errors`: an error of the model ends the run, and `Continue` resumes it; or the run
    /// continues without the reply, if the scenario
    /// [says so](super::Scenario::tolerates_model_errors).
    ModelErrors,
    /// `limits`: a limit of turns, tokens, cost or time ends the run with `limit`, or within it if
    /// the scenario [says so](super::Scenario::answers_at_limit).
    Limits,
    /// `shared-value`: two sessions interleaved on one value run as if each were alone.
    SharedValue,
}

impl Rule {
    /// All rules, in the order in which they are checked.
    pub const ALL: [Rule; 9] = [
        Rule::Sessions,
        Rule::Events,
        Rule::Calls,
        Rule::Messages,
        Rule::Crashes,
        Rule::Aborts,
        Rule::ModelErrors,
        Rule::Limits,
        Rule::SharedValue,
    ];

    /// Returns the name of the rule.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Sessions => "sessions",
            Rule::Events => "events",
            Rule::Calls => "calls",
            Rule::Messages => "messages",
            Rule::Crashes => "crashes",
            Rule::Aborts => "aborts",
            Rule::ModelErrors => "model-errors",
            Rule::Limits => "limits",
            Rule::SharedValue => "shared-value",
        }
    }

    /// Returns the rule as a sentence.
    fn sentence(self) -> &'static str {
        match self {
            Rule::Sessions => {
                "A session ends, without an error that no model caused, and keeps the rules of \
                 every session."
            }
            Rule::Events => "Events nest, and those that are emitted are those of the log.",
            Rule::Calls => {
                "Each call of a reply runs or gets its decision, and the model sees the results, \
                 unless all of them ask for the end of the run."
            }
            Rule::Messages => {
                "A message of the user that arrives during a run is answered once before its end."
            }
            Rule::Crashes => {
                "After a crash, a new value of the pattern continues with the same result, and \
                 pays for nothing twice."
            }
            Rule::Aborts => "After an abort, the next request runs as if it were alone.",
            Rule::ModelErrors => {
                "An error of the model ends the run, and `Continue` resumes it; or the run \
                 continues without the reply, if the scenario says so."
            }
            Rule::Limits => {
                "A limit ends the run, or the run ends within it, if the scenario says so."
            }
            Rule::SharedValue => "Two sessions on one value run as if each were alone.",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The violation of a rule: the rule, the scenario, what happened in it and when, and the part of
/// the log that shows it.
///
/// `Display` writes one sentence with all of this, then data, the rule and the log. `Debug`
/// writes the same, so that a test which unwraps or returns the violation is readable.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation {
    rule: Rule,
    scenario: Arc<str>,
    error: CheckError,
}

impl Violation {
    pub(super) fn new(rule: Rule, scenario: Arc<str>, error: CheckError) -> Self {
        Violation { rule, scenario, error }
    }

    /// Returns the broken rule.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Returns the name of the scenario.
    pub fn scenario(&self) -> &str {
        &self.scenario
    }

    /// Returns what happened, in one sentence, and when.
    pub fn observed(&self) -> &str {
        self.error.sentence()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { rule, scenario, error } = self;
        let error = error.clone().note(format!("The rule: {}", rule.sentence()));
        write!(f, "the pattern breaks the rule `{rule}` in the scenario `{scenario}`: {error}")
    }
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Violation {}
