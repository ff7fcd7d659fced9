//! Every example, except one that needs a server, runs without a key and without input, ends, and
//! prints what it demonstrates.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use loopwright_core::BehaviorPattern;
use loopwright_core::event::{Decision, ExternalAction, Provided};
use loopwright_core::testing::{Script, default_decision};
use loopwright_patterns::PiPattern;
use loopwright_patterns::conformance::{self, Scenario};

#[allow(dead_code, reason = "the test needs only its pattern")]
#[path = "../../examples/custom_pattern.rs"]
mod custom_pattern;

#[allow(dead_code, reason = "the test needs only its patterns")]
#[path = "../../examples/patterns/graph.rs"]
mod graph;

/// The examples, and phrases that each one prints.
const EXAMPLES: [(&str, &[&str]); 8] = [
    ("hello", &["(Done, "]),
    (
        "custom_tool",
        &["a: Ok, 30 °C in Rome", "b: Error, no station in `Atlantis`", "3 requests for 4 calls"],
    ),
    (
        "custom_pattern",
        &["User: Revise it. A critic says: Which colour?", "Assistant: Grey, the sea goes on."],
    ),
    (
        "steering",
        &["User: Its history, please.", "(Interrupted)", "User: And how is it drunk?", "Done"],
    ),
    (
        "confirm",
        &[
            "AwaitingAction, 2 calls wait",
            "a: 20 € are on their way to Ann",
            "b: Denied by the user: that is too much",
        ],
    ),
    (
        "sub_agents",
        &[
            "AwaitingAction",
            "hotels: book {\"what\":\"a room\"}",
            "trains: Booked: the night train.",
            "Train and hotel are booked.",
            "sessions: trip, trip/m2.1, trip/m2.2",
        ],
    ),
    (
        "cassette",
        &[
            "recording\nthe tool runs\nTake an umbrella.\nreplaying\nTake an umbrella.\n",
            "-   You answer briefly.\n+   You answer at length.\n",
        ],
    ),
    (
        "patterns",
        &[
            "User: On Sunday, please.\nUser: And what does a ticket cost?",
            "User: On Sunday, please.\nAssistant: On Sunday at 22:10.",
            "tool choices: [Tool(\"search_manual\"), Auto]",
            "User: Observation: heavy rain",
            "User: Now do this step: Check the train.",
            "Assistant: film.iso is deleted.",
            "leave.md#transfer: Five days of holiday can be moved to the next year.",
            "The answer is not good enough yet: It does not say how to upgrade.",
            "Assistant: 5 cents",
            "the vote: spam",
            "large: You know the invoices.",
            "ToolResult: technician",
            "hotels needs an approval: book {\"room\":\"Room 7\"}",
            "Thunder or Pebble? others\nAnchor or Harbour? these",
            "For how many people? two",
            "Invoice { number: \"R-17\", cents: 4990, due: \"2026-12-01\" }",
        ],
    ),
];

/// The example that needs Redis, which `tests/redis.rs` runs.
const RUN_BY_OTHER_TEST: &str = "custom_memory";

/// The examples that are packages, with tests of their own.
const PACKAGES: [&str; 2] = ["payments", "your_app"];

/// Cargo builds the examples together with the tests, into a folder beside them.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples")
}

fn run(name: &str, arguments: &[&str]) -> Output {
    let program = folder().join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let run = Command::new(&program).args(arguments).stdin(Stdio::null()).env_clear().output();
    run.unwrap_or_else(|why| {
        panic!("{}: {why}; `cargo build --examples` makes it", program.display())
    })
}

/// Returns the names of the files in a directory of the repository, without their extensions.
fn names(directory: &str) -> BTreeSet<String> {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory).read_dir().unwrap();
    files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().into()).collect()
}

#[test]
fn every_example_runs_and_prints_what_it_demonstrates() {
    for (name, says) in EXAMPLES {
        let run = run(name, &[]);
        let out = String::from_utf8_lossy(&run.stdout);
        assert!(
            run.status.success(),
            "{name}: {}\n{out}\n{}",
            run.status,
            String::from_utf8_lossy(&run.stderr)
        );
        for phrase in says {
            assert!(out.contains(phrase), "{name} does not print {phrase:?}:\n{out}");
        }
    }
}

/// The list of examples is complete.
#[test]
fn every_example_is_run() {
    let run = EXAMPLES.iter().map(|(name, _)| *name).chain([RUN_BY_OTHER_TEST]).chain(PACKAGES);
    assert_eq!(names("examples"), run.map(String::from).collect());
}

/// Returns the names that the example of the patterns lists for one that it does not know.
fn listed_patterns() -> BTreeSet<String> {
    let unknown = run("patterns", &["rag", "unknown"]);
    assert_eq!((unknown.status.code(), &*unknown.stdout), (Some(2), &b""[..]));
    let error = String::from_utf8(unknown.stderr).unwrap();
    let (error, listed) = error.trim_end().split_once("; the examples are: ").unwrap();
    assert_eq!(error, "there is no example `unknown`");
    listed.split(", ").map(String::from).collect()
}

#[test]
fn each_pattern_of_the_library_has_an_example_which_can_be_run_alone() {
    let mut patterns = names("patterns/src");
    for other in ["conformance", "done", "lib", "vote"] {
        assert!(patterns.remove(other), "there is no `{other}`");
    }
    let mut files = names("examples/patterns");
    assert!(files.remove("main"));
    assert_eq!(files, patterns);
    assert_eq!(listed_patterns(), patterns);
    for name in patterns {
        let run = run("patterns", &[&name]);
        let out = String::from_utf8_lossy(&run.stdout);
        let headings: Vec<_> = out.lines().filter(|line| line.starts_with("== ")).collect();
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(headings, [format!("== {name}")]);
    }
}

/// Answers that the first proposals are not wanted, and those after them are.
fn decide(action: &ExternalAction) -> Decision {
    let answer = match action.question() {
        Some(question) if question.question.starts_with("Thunder") => "others",
        Some(_) => "these",
        None => return default_decision(action),
    };
    Decision::Provide(Provided::Input(answer.into()))
}

/// C153: the first graph of the example is correct.
#[tokio::test(start_paused = true)]
async fn the_graph_of_an_agent_conforms() {
    assert_conforms(graph::agent, conformance::scenarios()).await;
}

/// C153: the second graph of the example is correct.
#[tokio::test(start_paused = true)]
async fn the_graph_that_asks_and_returns_conforms() {
    let replies = ["Thunder", "Pebble", "Anchor", "Harbour", "Harbour."].map(Script::text);
    let rejected = Scenario::new("rejected proposals", replies).request("A name?");
    let scenarios = conformance::scenarios().into_iter().chain([rejected]).map(|scenario| {
        let with_models = scenario.agent(|agent, model| {
            agent.model_named("bold", model.clone()).model_named("calm", model.clone())
        });
        with_models.decisions(decide)
    });
    assert_conforms(graph::naming, scenarios.collect()).await;
}

async fn assert_conforms<P: BehaviorPattern + 'static>(
    pattern: impl Fn() -> P,
    scenarios: Vec<Scenario>,
) {
    let report = conformance::check(pattern, scenarios).await;
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.sessions > 20 * report.scenarios, "{report:?}");
}

/// C153: the pattern of the example is correct.
#[tokio::test(start_paused = true)]
async fn the_custom_pattern_conforms() {
    let with_critic = conformance::scenarios()
        .into_iter()
        .map(|scenario| scenario.agent(|agent, model| agent.model_named("critic", model.clone())));
    let revise = || custom_pattern::Revise { rounds: 2, writer: PiPattern };
    let report = conformance::check(revise, with_critic).await;
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.sessions > 1000, "{report:?}");
}
